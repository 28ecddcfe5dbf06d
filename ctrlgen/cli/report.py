"""``ctrlgen report``."""

from __future__ import annotations

from ctrlgen.cli import options


def report(schema: options.Schema = None) -> None:
    """What of a schema is enforced, and what it costs."""
