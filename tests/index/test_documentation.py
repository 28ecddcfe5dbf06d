"""The page on catalogues shows what really happens."""

import doctest
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "catalogues.md"


def test_every_example_of_the_page():
    outcome = doctest.testfile(str(PAGE), module_relative=False)
    assert outcome.failed == 0
    assert outcome.attempted > 20
