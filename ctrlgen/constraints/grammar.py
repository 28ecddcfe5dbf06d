"""A context-free grammar as a specification."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from ctrlgen.constraints.combined import Apart
from ctrlgen.engine.cfg.lexer import Language, Renaming
from ctrlgen.engine.cfg.productions import Production, Productions
from ctrlgen.errors import InputError, RegexError, SpecificationError

if TYPE_CHECKING:
    from ctrlgen.automaton import Automaton
    from ctrlgen.constraint import Constraint
    from ctrlgen.constraints.cost import Cost
    from ctrlgen.grammars.rules import Rules, Terminal
    from ctrlgen.vocabulary import Vocabulary


@lru_cache(maxsize=64)
def language_of(rules: Rules) -> Language:
    """The rules as ints, with an automaton for each terminal.

    Raises:
        SpecificationError: a terminal that no automaton can tell apart; says which and why.
    """
    terminals = rules.terminals
    symbol = {terminal.name: number for number, terminal in enumerate(terminals)}
    rule_names = list(dict.fromkeys([rules.start, *(rule.name for rule in rules.rules)]))
    symbol |= {name: -1 - number for number, name in enumerate(rule_names)}
    for rule in rules.rules:
        for name in rule.body:
            if name not in symbol:
                raise SpecificationError(f"rule {rule.name} uses {name}, which is not defined")
    productions = dict.fromkeys(
        Production(symbol[rule.name], tuple(symbol[name] for name in rule.body), rule.priority) for rule in rules.rules
    )
    whole = Productions(len(terminals), symbol[rules.start], tuple(productions))
    useful = whole.useful()
    parallel = rules.lexer in ("dynamic", "characters")
    return Language(
        # what a contextual lexer tries, and what conflicts, depends on rules that never end too
        useful.without_empty() if parallel else whole if useful.rules else useful,
        tuple(_automaton(terminal) for terminal in terminals),
        frozenset(symbol[name] for name in rules.ignored),
        {} if parallel else _renamings(terminals),
        "parallel" if parallel else "basic" if rules.lexer == "basic" else "contextual",
        tuple(terminal.name for terminal in terminals),
        tuple(rule_names),
        parallel and useful.start in useful.nullable(),
    )


def _automaton(terminal: Terminal) -> Automaton:
    from ctrlgen.grammars.regex_ordered import first_match_automaton

    try:
        automaton = first_match_automaton(terminal.pattern)
    except RegexError as error:
        raise SpecificationError(f"terminal {terminal.name}: {error}") from error
    if automaton.accepting[0]:
        raise SpecificationError(f"terminal {terminal.name} matches the empty string: /{terminal.pattern}/")
    return automaton


_FLAGS = re.compile(r"\(\?([a-z]+):(.*)\)\Z", re.DOTALL)


def _flags(pattern: str) -> tuple[frozenset[str], str]:
    """The flags around a pattern, and what is inside."""
    flags: frozenset[str] = frozenset()
    while (found := _FLAGS.match(pattern)) is not None:
        try:
            re.compile(found[2])
        except re.error:
            break
        flags, pattern = flags | frozenset(found[1]), found[2]
    return flags, pattern


def _renamings(terminals: tuple[Terminal, ...]) -> dict[int, tuple[Renaming, ...]]:
    """Which literals a match of each other terminal becomes: those of its priority that it matches whole."""
    literals = []
    for number, terminal in enumerate(terminals):
        if terminal.literal:
            flags, inner = _flags(terminal.pattern)
            literals.append((number, terminal.priority, flags, re.sub(r"\\(.)", r"\1", inner, flags=re.DOTALL)))
    result = {}
    for number, terminal in enumerate(terminals):
        if terminal.literal:
            continue
        flags, _ = _flags(terminal.pattern)
        match = re.compile(terminal.pattern).match
        renamed = tuple(
            Renaming(literal, inner <= flags)
            for literal, priority, inner, text in literals
            if priority == terminal.priority and (found := match(text)) is not None and found.group() == text
        )
        if renamed:
            result[number] = renamed
    return result


@dataclass(frozen=True)
class Grammar(Apart):
    """The whole text matches a context-free grammar.

    Args:
        text: the grammar.
        syntax: "lark" for Lark's language, "gbnf" for llama.cpp's.
        start: the rule that a text must match; "start" by default, "root" in GBNF.
        lexer: for Lark how a text is cut into terminals, with the meaning each has there: "contextual" and "basic" as
            in Lark's LALR parser, "dynamic" as in its Earley parser. GBNF has no lexer.

    Raises:
        GrammarError: the grammar is wrong; shows where.
        SpecificationError: it is right, but cannot be enforced.
    """

    text: str
    syntax: Literal["lark", "gbnf"] = "lark"
    start: str | None = None
    lexer: Literal["contextual", "basic", "dynamic"] = "contextual"

    def __post_init__(self) -> None:
        if self.start is None:
            object.__setattr__(self, "start", "root" if self.syntax == "gbnf" else "start")
        if not isinstance(self.text, str) or not isinstance(self.start, str):
            raise InputError("a grammar and the name of its start rule must be strings")
        if self.syntax not in ("lark", "gbnf"):
            raise InputError(f"syntax must be 'lark' or 'gbnf', not {self.syntax!r}")
        if self.lexer not in ("contextual", "basic", "dynamic"):
            raise InputError(f"lexer must be 'contextual', 'basic' or 'dynamic', not {self.lexer!r}")
        self.rules()

    def rules(self) -> Rules:
        """The grammar in plain rules."""
        return _rules(self.text, self.syntax, self.start or "start", self.lexer)

    def cost(self, vocabulary: Vocabulary) -> Cost:
        """States of the parser and of its automata, memory and the least budget, before anything is generated.

        Raises:
            CtrlgenError: as ``compile``.
        """
        from ctrlgen.constraints.cost import cost_of

        return cost_of(self, vocabulary)

    def compile(self, vocabulary: Vocabulary) -> Constraint:
        """The constraint over ``vocabulary``.

        Raises:
            SpecificationError: the grammar cannot be enforced with this lexer.
            UnsatisfiableError: no text matches it.
            ComplexityError: a limit was reached.
        """
        from ctrlgen.engine.cfg.machine import compile_language
        from ctrlgen.engine.compiled import kept

        return kept(self, vocabulary, lambda: compile_language(vocabulary, language_of(self.rules())))

    def parse(self, text: str) -> str:
        """The text itself."""
        return text


@lru_cache(maxsize=64)
def _rules(text: str, syntax: str, start: str, lexer: str) -> Rules:
    if syntax == "gbnf":
        from ctrlgen.grammars.gbnf_reader import read_gbnf

        return read_gbnf(text, start)
    from ctrlgen.grammars.lark_reader import read_lark

    return read_lark(text, start, lexer)
