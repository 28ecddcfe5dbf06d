"""The laws of a constraint as functions that raise, a plain constraint by enumeration, and a toy to decode with.

    from ctrlgen.testing import Enumerated, ToyLM, ToyTokenizer, assert_same_language, check_laws, toy_vocabulary

    vocabulary = toy_vocabulary()
    check_laws(spec.compile(vocabulary), texts=[b"aab"])
    assert_same_language(spec.compile(vocabulary), Enumerated(vocabulary, [b"a", b"aab"]))

``ToyLM`` and ``ToyTokenizer`` need transformers and are loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctrlgen.testing.enumerated import TOY_TOKENS, Enumerated, toy_vocabulary
from ctrlgen.testing.laws import allowed, assert_same_language, check_laws

if TYPE_CHECKING:
    from ctrlgen.testing.toy import ToyLM as ToyLM
    from ctrlgen.testing.toy import ToyTokenizer as ToyTokenizer

__all__ = [
    "TOY_TOKENS",
    "Enumerated",
    "ToyLM",
    "ToyTokenizer",
    "allowed",
    "assert_same_language",
    "check_laws",
    "toy_vocabulary",
]


def __getattr__(name: str) -> object:
    if name not in ("ToyLM", "ToyTokenizer"):
        raise AttributeError(f"module 'ctrlgen.testing' has no attribute {name!r}")
    from ctrlgen.testing import toy

    return getattr(toy, name)
