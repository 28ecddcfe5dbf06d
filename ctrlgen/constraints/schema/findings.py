"""What becomes of each keyword of a schema, for reports and refusals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ctrlgen.errors import SchemaError

Status = Literal["enforced", "annotation", "refused", "not enforced"]


@dataclass(frozen=True)
class Entry:
    """What becomes of one keyword.

    Args:
        pointer: the schema it stands in.
        keyword: its name.
        status: "enforced"; "annotation" (it restricts nothing); "refused"; "not enforced" (left out, on demand).
        note: why it is refused, or how it is read.
        rewrite: what to write instead of a refused one, if there is something.
    """

    pointer: str
    keyword: str
    status: Status
    note: str = ""
    rewrite: str | None = None

    def error(self) -> SchemaError:
        """The error for a refused keyword."""
        return SchemaError(self.note, pointer=self.pointer, keyword=self.keyword, rewrite=self.rewrite)
