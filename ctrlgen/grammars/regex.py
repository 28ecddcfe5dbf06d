"""Regular expressions -> byte automata."""

from __future__ import annotations

from ctrlgen.automaton import Automaton
from ctrlgen.grammars.lowering import Escapes, coding_of, lower
from ctrlgen.grammars.regex_escapes import Dialect
from ctrlgen.grammars.regex_positions import Positions
from ctrlgen.grammars.regex_subsets import character_automaton
from ctrlgen.grammars.regex_syntax import parse_regex


def compile_regex(
    pattern: str,
    *,
    dialect: Dialect = "python",
    search: bool = False,
    json: bool = False,
    escapes: Escapes = "all",
    ascii: bool = False,
    max_states: int = 20_000,
) -> Automaton:
    r"""The automaton of the texts, in bytes, that match a regular expression.

    Args:
        pattern: the expression.
        dialect: "python" means what ``re`` means for str; "ecma" what JSON Schema's ``pattern`` means: ASCII \d and \w,
            and $ only at the very end.
        search: whether a match anywhere suffices, as for ``re.search`` and JSON Schema; by default the whole text must
            match, as for ``re.fullmatch``.
        json: whether the texts are JSON strings, without the quotes, whose value matches.
        escapes: in JSON "all" spellings of a character, or one "canonical" one: raw where JSON allows, else a short
            escape, else lower-case \u00xx.
        ascii: with the python dialect, what ``re.ASCII`` does.
        max_states: limit on the states of the result and of each step on the way.

    Raises:
        RegexError: the expression is wrong or asks for something that is not supported; says where.
        ComplexityError: more than ``max_states`` states, or too much work.

    >>> compile_regex("[ab]+c?").matches(b"abc")
    True
    """
    instructions, rules = parse_regex(pattern, dialect, search=search, ascii=ascii)
    positions = Positions(max_states)
    positions.evaluate(instructions, search=search)
    return lower(character_automaton(positions, rules, max_states), coding_of(json=json, escapes=escapes), max_states)
