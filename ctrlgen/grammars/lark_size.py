"""How large a Lark grammar becomes when its groups, repeats and templates are written out, before Lark does so.

Lark turns (a|b)(c|d) into the four sequences, "a"~1..3 into three, and each use of a template with other arguments into
a rule; a short grammar can ask for more than any machine has. The estimate follows Lark's own expansion from above.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from ctrlgen.errors import ComplexityError

MAX_ALTERNATIVES = 20_000
"""Right sides of all rules together."""
MAX_SYMBOLS = 200_000
"""Names in them."""
MAX_TEMPLATES = 2_000
"""Templates with their arguments."""
MAX_PATTERN = 200_000
"""Characters of all terminals' patterns, with the terminals they refer to written out."""

_SPLIT_ABOVE = 50  # Lark splits repeats from here on into rules with at most ten parts
_PARTS = 10

Bindings = Mapping[str, str]


@dataclass(frozen=True)
class Body:
    """One definition of a rule or terminal: names of a template's parameters, and the tree of its alternatives."""

    parameters: tuple[str, ...]
    tree: Any


@dataclass(frozen=True)
class _Size:
    alternatives: int
    symbols: int
    """Of the longest alternative."""


def check_rules(rules: Mapping[str, Body]) -> None:
    """Raise ComplexityError if the rules become too many when written out."""
    total = _Total()
    todo: list[tuple[str, tuple[str, ...]]] = [(name, ()) for name, body in rules.items() if not body.parameters]
    seen = set(todo)
    for name, arguments in todo:
        body = rules[name]
        bindings = dict(zip(body.parameters, arguments, strict=True))
        total.add(_size(body.tree, total))
        for used in _templates(body.tree, bindings):
            if used not in seen and used[0] in rules:
                seen.add(used)
                todo.append(used)
            if len(seen) - len(rules) > MAX_TEMPLATES or sum(map(len, used[1])) > 10_000:
                _refuse(f"templates are used with more than {MAX_TEMPLATES} different arguments", "templates")


def check_terminals(terminals: Mapping[str, Body], lengths: Mapping[int, int], order: list[str]) -> None:
    """Raise ComplexityError if the patterns of terminals become too long.

    Args:
        terminals: the terminals of the grammar.
        lengths: for each token of a string or regular expression, by id, the length of its pattern.
        order: names of all terminals, each after those it refers to.
    """
    known: dict[str, int] = {}
    for name in order:
        known[name] = _pattern_length(terminals[name].tree, known, lengths)
        if sum(known.values()) > MAX_PATTERN:
            _refuse(f"the terminals' patterns have more than {MAX_PATTERN} characters", f"terminal {name}")


class _Total:
    def __init__(self) -> None:
        self.alternatives = self.symbols = 0

    def add(self, size: _Size) -> None:
        self.alternatives += size.alternatives
        self.symbols += size.alternatives * size.symbols
        if self.alternatives > MAX_ALTERNATIVES or self.symbols > MAX_SYMBOLS:
            _refuse(
                f"with its groups and repeats written out the grammar has more than {MAX_ALTERNATIVES} alternatives "
                f"or {MAX_SYMBOLS} symbols",
                "groups and optional parts in one rule multiply",
            )


def _refuse(what: str, where: str) -> NoReturn:
    raise ComplexityError(f"{what} ({where}; no option raises this limit); give parts of it a rule of their own")


def _size(tree: Any, total: _Total) -> _Size:
    if tree.data == "alias":
        return _size(tree.children[0], total)
    if tree.data == "expansions":
        parts = [_size(child, total) for child in tree.children]
        return _checked(sum(part.alternatives for part in parts), max((part.symbols for part in parts), default=0))
    if tree.data == "expansion":
        alternatives, symbols = 1, 0
        for child in tree.children:
            part = _size(child, total)
            alternatives, symbols = alternatives * part.alternatives, symbols + part.symbols
            _checked(alternatives, symbols)
        return _Size(alternatives, symbols)
    if tree.data == "maybe":
        inner = _size(tree.children[0], total)
        return _checked(inner.alternatives + 1, inner.symbols)
    if tree.data == "expr":
        return _repeated(tree, total)
    return _Size(1, 1)


def _repeated(tree: Any, total: _Total) -> _Size:
    inner = _size(tree.children[0], total)
    operator = str(tree.children[1])
    if operator == "?":
        return _checked(inner.alternatives + 1, inner.symbols)
    if operator in "*+":
        total.add(_checked(2 * inner.alternatives, inner.symbols + 1))
        return _Size(2 if operator == "*" else 1, 1)
    low, high = int(tree.children[2]), int(tree.children[-1])
    if high >= _SPLIT_ABOVE:
        rules = 4 * len(str(high)) * _PARTS
        for _ in range(rules):
            total.add(_checked(inner.alternatives**_PARTS, inner.symbols * _PARTS))
        return _checked(inner.alternatives, inner.symbols + 1)
    return _checked(sum(inner.alternatives**count for count in range(low, high + 1)), inner.symbols * high)


def _checked(alternatives: int, symbols: int) -> _Size:
    size = _Size(alternatives, symbols)
    _Total().add(size)
    return size


def _templates(tree: Any, bindings: Bindings) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The templates that a body uses, with their arguments as text, inner ones first."""
    for usage in tree.find_data("template_usage"):
        name, *arguments = usage.children
        yield _bound(name, bindings), tuple(_bound(argument, bindings) for argument in arguments)


def _bound(tree: Any, bindings: Bindings) -> str:
    """A value as text, with the parameters replaced by what they are bound to."""
    if tree.data == "value":
        return _bound(tree.children[0], bindings)
    if tree.data == "template_usage":
        name, *arguments = (_bound(child, bindings) for child in tree.children)
        return f"{name}{{{','.join(arguments)}}}"
    text = str(tree.children[0]) if tree.data != "range" else "..".join(map(str, tree.children))
    return bindings.get(text, text) if tree.data in ("nonterminal", "terminal") else text


def _pattern_length(tree: Any, known: Mapping[str, int], lengths: Mapping[int, int]) -> int:
    if tree.data == "terminal":
        return known.get(str(tree.children[0]), 0)
    if tree.data in ("literal", "range"):
        return sum(lengths.get(id(child), len(child)) for child in tree.children) + 4
    return 4 + sum(
        _pattern_length(child, known, lengths) for child in tree.children if hasattr(child, "data")
    )  # fmt: skip
