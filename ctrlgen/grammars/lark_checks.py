"""The parse tree of a Lark grammar, checked before Lark builds anything from it, so that every error has its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from typing import Any

from ctrlgen.errors import ComplexityError, GrammarError
from ctrlgen.grammars.lark_size import Body, check_rules, check_terminals

MAX_DEFINITIONS = 5_000
"""Rules and terminals of one grammar."""
MAX_REPEATS = 1_000_000
"""The largest number in ~n or ~n..m."""


@dataclass(frozen=True)
class Definition:
    """One definition in the text: ``a: ...``, ``%extend a: ...`` or ``%override a: ...``."""

    name: str
    token: Any
    """The name where it is defined, with line and column."""
    is_terminal: bool
    parameters: tuple[str, ...]
    tree: Any
    how: str
    """"" or "extend" or "override"."""


@dataclass
class Outline:
    """What a grammar's text defines, imports and uses.

    Args:
        text: the grammar.
        tree: Lark's parse tree of it.
        libraries: the grammars that can be imported from.
        names_in: gives the names in one of them.
    """

    text: str
    tree: Any
    libraries: tuple[str, ...] = ()
    names_in: Callable[[str], frozenset[str]] = lambda _: frozenset()
    definitions: list[Definition] = field(default_factory=list)
    imported: dict[str, Any] = field(default_factory=dict)

    def error(self, token: Any, message: str) -> GrammarError:
        """An error at a token."""
        return GrammarError(message, self.text, token.line, token.column)

    @cached_property
    def by_name(self) -> dict[str, Definition]:
        """The first definition of each name."""
        found: dict[str, Definition] = {}
        for definition in self.definitions:
            found.setdefault(definition.name, definition)
        return found

    def check(self) -> None:
        """Look at everything that Lark would trip over.

        Raises:
            GrammarError: with the place.
            ComplexityError: the grammar is too large when written out.
        """
        for statement in self.tree.children:
            self.read(statement)
        if len(self.definitions) > MAX_DEFINITIONS:
            raise ComplexityError(
                f"the grammar has {len(self.definitions)} rules and terminals, the limit is {MAX_DEFINITIONS} (no "
                "option raises it)"
            )
        self.check_names()
        for definition in self.definitions:
            self.check_body(definition)
        for statement in self.tree.children:
            if statement.data == "ignore":
                self.check_terminal_body(statement.children[0])
                self.check_numbers(statement.children[0])

    # Statements

    def read(self, statement: Any) -> None:
        """Note what a statement defines or imports."""
        if statement.data in ("rule", "term"):
            self.definitions.append(_definition(statement, ""))
        elif statement.data in ("extend", "override"):
            self.definitions.append(_definition(statement.children[0], statement.data))
        elif statement.data == "import":
            self.read_import(statement)
        elif statement.data == "declare":
            token = next(iter(_tokens(statement)))
            raise self.error(
                token,
                "%declare is not supported: the text of this terminal would come from a program; write it as a pattern",
            )

    def read_import(self, statement: Any) -> None:
        """Note the names that a ``%import`` brings, which must be there."""
        path, *names = statement.children
        parts = list(path.children)
        if path.data == "import_rel":
            raise self.error(
                parts[0],
                "imports from files are not supported: copy what is needed into this grammar, or import from "
                + ", ".join(sorted(self.libraries)),
            )
        if names and not hasattr(names[0], "data"):
            wanted, shown = [parts.pop()], [names[0]]
        elif names:
            wanted = shown = list(names[0].children)
        else:
            wanted = shown = [parts.pop()]
        if not parts:
            raise self.error(wanted[0], f"nothing is imported from {wanted[0]}: expected %import {wanted[0]}.NAME")
        if len(parts) > 1 or parts[0] not in self.libraries:
            raise self.error(
                parts[0],
                f"there is no grammar {'.'.join(parts)} to import from; there are {', '.join(sorted(self.libraries))}",
            )
        library = self.names_in(str(parts[0]))
        for name, alias in zip(wanted, shown, strict=True):
            if name not in library:
                raise self.error(name, f"{parts[0]} has no {name}{_suggestion(name, library)}")
            if name.isupper() != alias.isupper():
                raise self.error(alias, f"{name} and {alias} must both be terminals (upper case) or both rules")
            self.imported[str(alias)] = alias

    def check_names(self) -> None:
        """No name is defined twice, and what is extended or overridden is there."""
        known: dict[str, Any] = dict(self.imported)
        for definition in self.definitions:
            name, token = definition.name, definition.token
            if definition.how:
                if name not in known:
                    raise self.error(
                        token, f"%{definition.how} {name}: there is no {name} to {definition.how} before this line"
                    )
                continue
            if name.startswith("__"):
                raise self.error(token, "names that start with two underscores are kept for Lark; choose another")
            if name in known:
                other = known[name]
                raise self.error(
                    token,
                    f"{name} is defined a second time (first in line {other.line}); join the two with |, or write "
                    f"%override {name}",
                )
            known[name] = token

    # Bodies

    def check_body(self, definition: Definition) -> None:
        """All names that a definition uses are defined, and templates get their arguments."""
        self.check_numbers(definition.tree)
        if definition.is_terminal:
            self.check_terminal_body(definition.tree)
            return
        names = self.by_name
        for number, parameter in enumerate(definition.parameters):
            if parameter in names or parameter in definition.parameters[:number]:
                raise self.error(definition.token, f"the parameter {parameter} is a rule's name too, or there twice")
        for usage in definition.tree.find_data("template_usage"):
            self.check_usage(usage, definition)
        for token in _symbols(definition.tree):
            if token not in names and token not in self.imported and token not in definition.parameters:
                kind = "terminal" if token.isupper() else "rule"
                known = {*names, *self.imported, *definition.parameters}
                raise self.error(token, f"the {kind} {token} is not defined{_suggestion(token, known)}")
        for token in _symbols(definition.tree, inside_templates=False):
            if token in names and names[token].parameters:
                raise self.error(token, f"{token} is a template: expected arguments, {token}{{...}}")

    def check_usage(self, usage: Any, definition: Definition) -> None:
        """A template gets as many arguments as it has parameters."""
        (token,) = usage.children[0].children
        given = len(usage.children) - 1
        if token in definition.parameters or token not in self.by_name:
            return
        expected = len(self.by_name[token].parameters)
        if given != expected:
            raise self.error(token, f"{token} takes {expected} argument{'s' * (expected != 1)}, and is given {given}")

    def check_terminal_body(self, tree: Any) -> None:
        """A terminal uses terminals only."""
        for token in _symbols(tree):
            if not token.isupper():
                raise self.error(
                    token, f"a terminal cannot use the rule {token}: only terminals, strings and regular expressions"
                )
            if token not in self.by_name and token not in self.imported:
                known = {name for name in {*self.by_name, *self.imported} if name.isupper()}
                raise self.error(token, f"the terminal {token} is not defined{_suggestion(token, known)}")
        for alias in tree.find_data("alias"):
            token = next(iter(_tokens(alias.children[1])))
            raise self.error(token, "a terminal has no alternatives with names: remove ->, or make it a rule")

    def check_numbers(self, tree: Any) -> None:
        """Repeat counts make sense."""
        for repeat in tree.find_data("expr"):
            numbers = repeat.children[2:]
            for token in numbers:
                if len(token) > 9 or not 0 <= int(token) <= MAX_REPEATS:
                    if token.startswith("-"):
                        raise self.error(token, "a repeat count cannot be negative")
                    raise ComplexityError(f"line {token.line}: the repeat count {token:.20} is above {MAX_REPEATS}")
            if len(numbers) == 2 and int(numbers[1]) < int(numbers[0]):
                raise self.error(numbers[1], f"the upper repeat count {numbers[1]} is below the lower one {numbers[0]}")

    # Size

    def check_size(self, lengths: Mapping[int, int]) -> None:
        """Raise ComplexityError for a grammar that is too large when written out.

        Args:
            lengths: of the pattern of each string and regular expression, by the id of its token.
        """
        rules: dict[str, Body] = {}
        terminals: dict[str, Body] = {}
        for definition in self.definitions:
            bodies = terminals if definition.is_terminal else rules
            name = definition.name
            while name in bodies:  # %extend
                name += "+"
            bodies[name] = Body(definition.parameters, definition.tree)
        for number, statement in enumerate(self.tree.children):
            if statement.data == "ignore":
                terminals[f"%ignore {number}"] = Body((), statement.children[0])
        check_terminals(terminals, lengths, self.ordered(terminals))
        check_rules(rules)

    def ordered(self, terminals: Mapping[str, Body]) -> list[str]:
        """Names of terminals, each after those it refers to; GrammarError if one refers to itself."""
        order: list[str] = []
        state: dict[str, int] = {}
        for root in terminals:
            stack = [(root, False)]
            while stack:
                name, done = stack.pop()
                if done:
                    state[name] = 2
                    order.append(name)
                elif name not in state:
                    state[name] = 1
                    stack.append((name, True))
                    for token in _symbols(terminals[name].tree):
                        if state.get(token) == 1:
                            raise self.error(
                                token, f"the terminal {token} contains itself; only rules can: make it a rule"
                            )
                        if token in terminals and token not in state:
                            stack.append((str(token), False))
        return order


def _definition(statement: Any, how: str) -> Definition:
    if statement.data == "term":
        token = statement.children[0]
        return Definition(str(token), token, True, (), statement.children[-1], how)
    token, parameters = statement.children[1], statement.children[2]
    return Definition(str(token), token, False, tuple(map(str, parameters.children)), statement.children[-1], how)


def _tokens(tree: Any) -> Iterator[Any]:
    for child in tree.children:
        if hasattr(child, "data"):
            yield from _tokens(child)
        elif child is not None:
            yield child


def _symbols(tree: Any, *, inside_templates: bool = True) -> Iterator[Any]:
    """The names of rules and terminals in a body, in the order of the text."""
    if tree.data == "template_usage" and not inside_templates:
        for child in tree.children[1:]:
            yield from _symbols(child, inside_templates=False)
    elif tree.data in ("terminal", "nonterminal"):
        yield tree.children[0]
    else:
        children = tree.children[:1] if tree.data == "alias" else tree.children
        for child in children:
            if hasattr(child, "data"):
                yield from _symbols(child, inside_templates=inside_templates)


def _suggestion(name: str, known: Any) -> str:
    close = get_close_matches(str(name), [str(other) for other in known], 3)
    return f"; did you mean {' or '.join(close)}?" if close else ""
