"""Tool calls in the format a model was trained on, as a specification.

cg.ToolCalls(tools, format="hermes")                    text or calls, as the model likes
cg.ToolCalls(tools, format="llama", choice="required")  at least one call
cg.ToolCalls([search, weather], format="json", choice="weather", parallel=False)
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from ctrlgen.constraint import DEAD
from ctrlgen.constraints.combined import MAX_TIMES, Part, Text, _Compiled
from ctrlgen.constraints.combined import Sequence as InOrder
from ctrlgen.constraints.free import Token, Ways
from ctrlgen.constraints.json_schema import JsonSchema
from ctrlgen.constraints.marked import Marked
from ctrlgen.constraints.tools.formats import ToolFormat, tool_format
from ctrlgen.constraints.tools.tool import Tool, tools_of
from ctrlgen.errors import InputError, SchemaError, UnsatisfiableError

if TYPE_CHECKING:
    from ctrlgen.constraints.schema.network import KeyOrder, Whitespace
    from ctrlgen.engine.network import Network

CHOICES = ("auto", "required", "none")


class Call(NamedTuple):
    """One call."""

    name: str
    arguments: dict[str, Any]
    """Of a Python function or Pydantic model the values of its types; else JSON values."""


class Calls(list[Call]):
    """The calls of a text, in order.

    Args:
        calls: the calls.
        text: the free text before them; all of the text if there are none.
    """

    def __init__(self, calls: Sequence[Call] = (), text: str = "") -> None:
        super().__init__(calls)
        self.text = text


@dataclass(frozen=True, init=False)
class ToolCalls(_Compiled):
    """Calls of tools, the arguments of each as its schema says.

    Args:
        tools: dictionaries in the manner of OpenAI (with or without the outer ``function``), Python functions with
            annotated parameters, Pydantic models; one or a list.
        format: how the model writes calls: the name of a ready format, a path of a .toml file or a mapping.
        choice: "auto" for text or calls, the text free up to the first mark of the format; "required" for a call at
            least; "none" for text without calls; or the name of the tool that must be called.
        parallel: whether there may be several calls, or how many at most.
        python_types: whether ``dict``, ``float``, ``tuple``, ``any`` ... are names of types in the schemas.
        whitespace, strict, key_order, ensure_ascii: as for ``JsonSchema``, for the arguments.

    The value of a text is a ``Calls``: a list of ``Call(name, arguments)``, with the free text as ``text``.

    Raises:
        InputError: tools of the same name, a tool or format that is none; names that the format cannot carry.
        SchemaError: the schema of a tool cannot be enforced; says of which.
    """

    tools: tuple[Tool, ...]
    format: ToolFormat
    choice: str
    most: int | None
    whitespace: Whitespace
    strict: bool
    key_order: KeyOrder
    ensure_ascii: bool
    reads_marks: ClassVar[bool] = True
    """Control tokens may stand within."""

    def __init__(
        self,
        tools: object,
        format: str | Path | Mapping[str, object] | ToolFormat = "hermes",
        choice: str = "auto",
        parallel: bool | int = True,
        *,
        python_types: bool = False,
        whitespace: Whitespace = "line",
        strict: bool = True,
        key_order: KeyOrder = "declared",
        ensure_ascii: bool = False,
    ) -> None:
        most = None if parallel is True else 1 if parallel is False else parallel
        if most is not None and (not isinstance(most, int) or not 1 <= most <= MAX_TIMES):
            raise InputError(f"parallel is {parallel!r}; expected True, False or the number of calls at most")
        for name, value in (
            ("tools", tools_of(tools, python_types=python_types)),
            ("format", tool_format(format)),
            ("choice", choice),
            ("most", most),
            ("whitespace", whitespace),
            ("strict", strict),
            ("key_order", key_order),
            ("ensure_ascii", ensure_ascii),
        ):
            object.__setattr__(self, name, value)
        self._check_choice()
        for tool in self.tools:
            self._check_name(tool.name)
            self._arguments(tool)

    def __repr__(self) -> str:
        shown = ", ".join(tool.name for tool in self.tools[:6]) + (", ..." if len(self.tools) > 6 else "")
        return f"ToolCalls([{shown}], choice={self.choice!r})"

    @property
    def open_end(self) -> bool:
        """Whether nothing can follow."""
        return self.choice in ("auto", "none")

    @property
    def callable_tools(self) -> tuple[Tool, ...]:
        """The tools that may be called."""
        if self.choice in CHOICES:
            return () if self.choice == "none" else self.tools
        return tuple(tool for tool in self.tools if tool.name == self.choice)

    @property
    def definitions(self) -> list[dict[str, Any]]:
        """The tools in the manner of OpenAI, for ``tokenizer.apply_chat_template(..., tools=spec.definitions)``."""
        return [tool.definition for tool in self.tools]

    def build(self, network: Network) -> int:
        """The start node in ``network``."""
        from ctrlgen.engine.network import END

        mark, *rest = self.format.head
        trigger = mark.text if isinstance(mark, Text) else mark
        ways = Ways(network, (), (), None)
        if self.choice == "none":
            return ways.node([], others=(trigger,), open_end=True)
        calls = self._in_order(rest, network, self._calls(network))
        if self.choice == "auto":
            return ways.node([(trigger, calls)], open_end=True)
        return network.call(mark.build(network), calls) if calls != END else mark.build(network)

    def parse(self, text: str) -> Calls:
        """The calls of a text, checked against the schemas.

        Raises:
            InputError: it is no text of this.
        """
        marked = Marked(text)
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InputError(f"there is a lone surrogate at character {error.start}, no valid text has one") from None
        return self._read(marked, check=True)

    def parse_marked(self, marked: Marked) -> Calls:
        """The same for a text within the constraint, with control tokens."""
        return self._read(marked, check=False)

    def write(self, calls: Sequence[Call | tuple[str, Mapping[str, Any]]]) -> str:
        """Calls as text, arguments given as JSON values; whether their schemas allow them is not looked at.

        Raises:
            InputError: there is no tool of that name, or arguments are no JSON.
        """
        texts = [self._one(self._tool(name).name, self._json(name, arguments)) for name, arguments in calls]
        return self.format.opening + self.format.between.join(texts) + self.format.closing if texts else ""

    def write_call(self, name: str, arguments: str) -> str:
        """One call as text, its arguments given as JSON text."""
        return self.format.opening + self._one(name, arguments) + self.format.closing

    def written_name(self, name: str) -> str:
        """A name as the format writes it."""
        return json.dumps(name, ensure_ascii=False) if self.format.names == "json" else name

    def _one(self, name: str, arguments: str) -> str:
        before, rest = self.format.call.split("$name")
        middle, after = rest.split("$arguments")
        return before + self.written_name(name) + middle + arguments + after

    def arguments(self, name: str) -> JsonSchema:
        """The specification of a tool's arguments.

        Raises:
            InputError: there is no tool of that name.
        """
        return self._arguments(self._tool(name))

    def _tool(self, name: object) -> Tool:
        found = next((tool for tool in self.tools if tool.name == name), None)
        if found is None:
            raise InputError(f"there is no tool called {name!r}; {self._hint(name, [one.name for one in self.tools])}")
        return found

    def _json(self, name: str, arguments: object) -> str:
        separators = (",", ":") if self.whitespace == "compact" else (", ", ": ")
        try:
            return json.dumps(arguments, ensure_ascii=self.ensure_ascii, separators=separators, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise InputError(f"the arguments of {name!r} are no JSON: {error}") from None

    @staticmethod
    def _hint(name: object, names: Sequence[str]) -> str:
        close = get_close_matches(str(name), names, 3)
        return f"did you mean {' or '.join(map(repr, close))}?" if close else f"there are {', '.join(names[:20])}"

    def _arguments(self, tool: Tool) -> JsonSchema:
        try:
            return _schema(tool.text, self.whitespace, self.strict, self.key_order, self.ensure_ascii)
        except (SchemaError, UnsatisfiableError) as error:
            error.add_note(f"in the parameters of tool {tool.name!r}")
            raise

    def _check_choice(self) -> None:
        names = [tool.name for tool in self.tools]
        if self.choice in CHOICES and self.choice in names:
            raise InputError(f"choice={self.choice!r} could mean the tool of that name too; give the tool another name")
        if self.choice in CHOICES or self.choice in names:
            return
        hint = self._hint(self.choice, names if self.choice is None else [*names, *CHOICES])
        raise InputError(
            f'choice is {self.choice!r}; expected "auto", "required", "none" or the name of a tool; {hint}'
        )

    def _check_name(self, name: str) -> None:
        form = self.format
        if form.names == "plain":
            marks = (*form.control, *(one.text for one in form.middle if isinstance(one, Text)))
            found = next((mark for mark in marks if mark in name or name.endswith(mark[:1])), None)
            if found is not None or not name.isprintable():
                raise InputError(
                    f"a tool is called {name!r}, which this format cannot carry, since it writes names as they are; "
                    "give it another name, of letters, digits, _ and -"
                )

    def _calls(self, network: Network) -> int:
        """From the first name on, to the end of the last call and what closes."""
        from ctrlgen.engine.containers import Between
        from ctrlgen.engine.network import END, ITEM, RETURN

        end = self._in_order(self.format.end, network, END)
        call = self._named(network)
        if self.most == 1:
            return network.call(call, end)
        more = self._in_order(self.format.next, network, call)
        turn = (RETURN, ITEM, network.fork([RETURN, ITEM]))
        most = None if self.most is None else self.most - 1
        return network.call(call, network.call(network.items((), more, 0, most, Between(turn, turn), 0), end))

    def _named(self, network: Network) -> int:
        """One call, from its name on."""
        from ctrlgen.engine.network import END

        tail = self._in_order(self.format.tail, network, END)
        ways = []
        for tool in self.callable_tools:
            arguments = network.call(self._arguments(tool).build(network), tail)
            ways.append((self.written_name(tool.name).encode(), self._in_order(self.format.middle, network, arguments)))
        return network.branches(ways)

    def _in_order(self, parts: Sequence[Part], network: Network, then: int) -> int:
        """The parts, then a node."""
        return network.call(InOrder(tuple(parts)).build(network), then) if parts else then

    def _read(self, marked: Marked, *, check: bool) -> Calls:
        mark = self.format.head[0]
        trigger = mark.text if isinstance(mark, Text) else mark
        begin = marked.find(trigger, 0)[0] if self.choice != "none" else -1
        if begin < 0 or (begin > 0 and not self.open_end):
            if self.open_end and not (self.choice == "none" and marked.find(trigger, 0)[0] >= 0):
                return Calls((), marked.shown(0, len(marked.text)))
            raise InputError(f"{marked.shown(0, 80)!r} does not begin with a call, as choice={self.choice!r} asks for")
        calls = list(self._read_calls(marked, begin, check))
        return Calls(calls, marked.shown(0, begin))

    def _read_calls(self, marked: Marked, at: int, check: bool) -> Iterator[Call]:
        form, count = self.format, 0
        at = _after(marked, at, form.head)
        while True:
            name, at = self._read_name(marked, at)
            tool = next(one for one in self.tools if one.name == name)
            start = at
            try:
                arguments, at = json.JSONDecoder().raw_decode(marked.text, at)
            except (ValueError, RecursionError) as error:
                raise InputError(f"the arguments of {name!r} are no JSON: {error}") from None
            if check and (wrong := _refused_at(self._arguments(tool), marked.text[start:at])) is not None:
                raise InputError(
                    f"{marked.text[start:at][:200]!r} are no arguments of {name!r}: its schema does not allow what "
                    f"stands at character {wrong}, {marked.text[start + wrong : at][:20]!r}"
                    + ' (members are read in declared order; key_order="any" takes any)'
                    * (self.key_order != "any")
                )
            at = _after(marked, at, form.tail)
            count += 1
            yield Call(name, _validated(tool, arguments))
            if _begins(marked, at, form.end) == len(marked.text):
                break
            at = _after(marked, at, form.next)
        if self.most is not None and count > self.most:
            raise InputError(f"there are {count} calls, and at most {self.most} may be")

    def _read_name(self, marked: Marked, at: int) -> tuple[str, int]:
        """The name at a place, and where its arguments begin."""
        for tool in sorted(self.callable_tools, key=lambda tool: -len(tool.name)):
            written = self.written_name(tool.name)
            if marked.text.startswith(written, at):
                after = _begins(marked, at + len(written), self.format.middle)
                if after >= 0:
                    return tool.name, after
        raise InputError(f"{marked.shown(at, at + 60)!r} does not begin with the name of a tool that may be called")


def _validated(tool: Tool, arguments: Any) -> dict[str, Any]:
    try:
        return tool.validated(arguments)
    except ValueError as error:
        raise InputError(f"the arguments of {tool.name!r} are refused by its own validation: {error}") from error


def _begins(marked: Marked, at: int, parts: Sequence[Text | Token]) -> int:
    """Where parts end that stand at a place; -1 if they do not."""
    for part in parts:
        wanted = part.text if isinstance(part, Text) else marked.written(part)
        if not wanted or not marked.text.startswith(wanted, at):
            return -1
        at += len(wanted)
    return at


def _after(marked: Marked, at: int, parts: Sequence[Text | Token]) -> int:
    end = _begins(marked, at, parts)
    if end < 0:
        wanted = "".join(str(part.text if isinstance(part, Text) else part.name) for part in parts)
        raise InputError(f"expected {wanted!r}, not {marked.shown(at, at + 60)!r}")
    return end


def _refused_at(spec: JsonSchema, text: str) -> int | None:
    """The character from which a text is none of a specification; None if it is one."""
    from ctrlgen.constraints.parts import byte_vocabulary

    constraint, data = spec.compile(byte_vocabulary()), text.encode()
    state = constraint.start
    for place, byte in enumerate(data):
        if (state := constraint.advance(state, byte)) == DEAD:
            return len(data[:place].decode(errors="ignore"))
    return None if constraint.accepts(state) else len(text)


@lru_cache(1024)
def _schema(text: str, whitespace: Whitespace, strict: bool, key_order: KeyOrder, ensure_ascii: bool) -> JsonSchema:
    return JsonSchema(text, whitespace=whitespace, strict=strict, key_order=key_order, ensure_ascii=ensure_ascii)
