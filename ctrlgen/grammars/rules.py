"""A grammar in plain rules: what the readers of Lark and GBNF hand to the engine.

Everything a grammar language adds is gone here: repeats, groups, templates, imports and aliases are rules with names of
their own, and a rule is one left side with one sequence of names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Lexer = Literal["contextual", "basic", "dynamic", "characters"]
"""How a text is cut into terminals; see ``docs/grammars.md``."""


@dataclass(frozen=True)
class Terminal:
    """A piece of text without structure.

    Args:
        name: what rules call it; no rule has the same name.
        pattern: a regular expression over text in the syntax of ``re``, leftmost-first, never empty. Flags stand in
            it: ``(?i:...)``. A literal is ``re.escape`` of its text, within a group of flags where it has some.
        literal: whether the grammar gave a string rather than a regular expression.
        priority: the terminal with the highest one is tried first.
    """

    name: str
    pattern: str
    literal: bool
    priority: int = 0


@dataclass(frozen=True)
class Rule:
    """One way to write ``name``.

    Args:
        name: the left side.
        body: names of rules and terminals; () is the empty string.
        priority: of ambiguous readings; it never changes which texts are accepted.
    """

    name: str
    body: tuple[str, ...]
    priority: int = 0


@dataclass(frozen=True)
class Rules:
    """A whole grammar.

    Args:
        start: the rule that a text must match.
        rules: all rules that ``start`` can reach; several have one name where there are several ways.
        terminals: every terminal that is used in a rule or ignored, in the order in which Lark's lexer tries them.
        ignored: names of the terminals that may stand between any two others, and are dropped.
        lexer: how a text is cut into terminals: "contextual" and "basic" as in Lark's LALR parser, "dynamic" as in its
            Earley parser, "characters" for GBNF, which has no lexer: any way to cut is right.
    """

    start: str
    rules: tuple[Rule, ...]
    terminals: tuple[Terminal, ...]
    ignored: frozenset[str]
    lexer: Lexer
