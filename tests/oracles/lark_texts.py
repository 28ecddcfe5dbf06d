"""Random Lark grammars over two letters and a blank, and Lark itself as the judge of texts."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

from lark import Lark
from lark.exceptions import LarkError

LETTERS = "ab "
TERMINALS = (
    '"a"', '"b"', '"ab"', '"ba"', '"aa"', '"bb"', '"a"i', "/a+/", "/b+/", "/a|ab/", "/[ab]+/", "/b+?a/", "/a*b/",
    "/ab?/", "/(ab)+/", "/a(ba)?/", "/aa|b/", "/[ab]/", "/b a/", '" "', "/a b?/", "/a+b|b/", "/(a|ab)(b|ba)?/",
    "/aab|a/",
)  # fmt: skip
IGNORED = ('" "', "/ +/", "/[ ]|b/", '"b"', "/ a?/", '"a"', "/  ?/", "/b+/")


def random_grammar(rng: random.Random) -> str:
    """Up to four rules, left and right recursive, nullable, ambiguous or never ending; up to five terminals."""
    rules = ["start", *["x", "y", "z"][: rng.randint(0, 3)]]
    chosen = rng.sample(TERMINALS, rng.randint(1, 5))
    names = [f"T{number}" for number in range(len(chosen))]

    def body() -> str:
        length = rng.choice([0, 1, 1, 2, 2, 3, 3])
        return " ".join(
            rng.choice(rules + 2 * names) + rng.choice(["", "", "", "", "?", "*", "+"]) for _ in range(length)
        )

    lines = [f"{rule}: " + " | ".join(dict.fromkeys(body() for _ in range(rng.randint(1, 3)))) for rule in rules]
    lines += [f"{name}{rng.choice(['', '', '', '.1', '.2'])}: {text}" for name, text in zip(names, chosen, strict=True)]
    lines += [f"%ignore {text}" for text in rng.sample(IGNORED, rng.choice([0, 0, 1, 1, 2]))]
    return "\n".join(lines) + "\n"


def judge(text: str, lexer: str) -> Callable[[str], bool]:
    """Whether Lark takes a text; raises LarkError for a grammar that it refuses."""
    options = {"parser": "earley"} if lexer == "dynamic" else {"parser": "lalr"}
    parser = Lark(text, lexer=lexer, **options)

    def accepts(one: str) -> bool:
        try:
            parser.parse(one)
        except LarkError:
            return False
        except RuntimeError as error:
            # of Lark's Earley parser, when it has found the text right in two ways that it cannot join
            assert "multiple start symbol items" in str(error)
        return True

    return accepts


def texts(longest: int) -> list[str]:
    """All texts of at most so many letters."""
    return ["".join(letters) for n in range(longest + 1) for letters in itertools.product(LETTERS, repeat=n)]
