"""Every example in the documentation runs and prints what it says."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted(page for page in (ROOT / "docs").glob("*.md") if ">>> " in page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page(page: Path) -> None:
    failed, run = doctest.testfile(str(page), module_relative=False)
    assert run > 0
    assert failed == 0


@pytest.mark.parametrize(
    "module",
    [
        "ctrlgen",
        "ctrlgen.errors",
        "ctrlgen.constraints.choice",
        "ctrlgen.constraints.regex",
        "ctrlgen.constraints.json_schema",
    ],
)
def test_docstrings(module: str) -> None:
    import importlib

    failed, _ = doctest.testmod(importlib.import_module(module))
    assert failed == 0


def test_pages_that_are_linked_exist() -> None:
    import re

    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.name} links to {link}"
