"""What a request asks for, as JSON.

    {"json_schema": {"type": "object"}, "whitespace": "compact"}
    {"regex": "[0-9]{4}"}         {"choices": ["yes", "no"]}      {"grammar": "root ::= ...", "syntax": "gbnf"}
    {"catalogue": "books"}        {"constraint": "packages"}      {"guard": "pypi", "context": "pip install "}
    {"tools": [...], "format": "hermes", "choice": "required"}
    {"sequence": [...]}  {"either": [...]}  {"both": [a, b]}  {"repeat": a, "least": 1, "most": 3}  {"optional": a}
    {"free": "</think>", "max_tokens": 200}                       free text until something
    {"thinking": {"json_schema": {...}}, "start": "<think>"}      free text, then an answer
    {"dispatch": [{"on": "<tool>", "do": {...}}], "stop": "</answer>"}

One of these, with its options, is a constraint; a string stands for itself where it is a part of another. What free
text waits for is a string or {"token": "<|tool|>"}; not the end token, since no server asks what to do where a model
would end. The whole request may have two members more: "steer", a list of steerers (``ctrlgen.serving.steering``), and
"in_time", false where a text may be cut off by the budget instead of being ended within it.

Names of catalogues, constraints, guards, models and attributes are those that the operator registered. Whatever is not
known is refused, with a JSON pointer to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ctrlgen.errors import CtrlgenError, RequestError
from ctrlgen.serving.reading import Place
from ctrlgen.serving.request_text import read_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ctrlgen.constraint import Specification
    from ctrlgen.serving.registry import Registry
    from ctrlgen.serving.steering import Steering


class Requested(NamedTuple):
    """What a request asks for, checked."""

    text: str
    """Its JSON; equal texts ask for the same."""
    constraint: Specification | None
    steering: tuple[Steering, ...]
    in_time: bool
    """Whether the text is to be ended within its budget."""


def read_request(value: object, registry: Registry) -> Requested:
    """The specification that a request brings.

    Args:
        value: JSON text, or the value itself.
        registry: what names mean, and limits.

    Raises:
        RequestError: it cannot be done; says where and why.
    """
    found, text = read_json(value, most_bytes=registry.limits.bytes)
    place = Place(found, registry)
    members = dict(place.object())
    in_time = members.pop("in_time", True)
    if not isinstance(in_time, bool):
        raise place.error("expected true or false", "in_time")
    asked = members.pop("steer", [])
    if not members and not asked:
        raise place.error(f"nothing is asked for; expected one of {', '.join(KINDS)}, or steer")
    constraint = part(place.with_value(members)) if members else None
    if asked:
        from ctrlgen.serving.steering import read_steering

        return Requested(text, constraint, read_steering(place.at("steer", asked), constraint), in_time)
    return Requested(text, constraint, (), in_time)


def part(place: Place) -> Any:
    """A constraint, or a part of one."""
    place.count()
    members = place.object()
    kinds = [name for name in members if name in KINDS]
    if len(kinds) != 1:
        wrong = next((name for name in members if name not in KINDS), None)
        if not kinds and wrong is not None:
            raise place.unknown(wrong, KINDS)
        raise place.error(f"expected exactly one of {', '.join(KINDS)}; found {', '.join(kinds) or 'none'}")
    kind = kinds[0]
    read, options = KINDS[kind]
    given = {name: value for name, value in members.items() if name != kind}
    for name, value in given.items():
        if name not in options:
            raise place.unknown(name, options)
        if name == "ensure_ascii" and not isinstance(value, bool):
            raise place.error("expected true or false", name)
    try:
        return read(place.at(kind, members[kind]), given)
    except RequestError:
        raise
    except CtrlgenError as error:
        raise place.error(str(error), kind) from error


def _operand(place: Place) -> Any:
    """A part of another: a string stands for itself."""
    if isinstance(place.value, str):
        from ctrlgen.constraints.combined import Text

        place.count()
        return Text(place.value)
    return part(place)


def _json_schema(place: Place, options: Mapping[str, Any]) -> Any:
    from ctrlgen.constraints.json_schema import JsonSchema

    if not isinstance(place.value, dict | bool):
        raise place.error("a JSON Schema is an object, true or false")
    return JsonSchema(place.value, **options)


def _regex(place: Place, options: Mapping[str, Any]) -> Any:
    from ctrlgen.constraints.regex import Regex

    return Regex(place.string(), **options)


def _grammar(place: Place, options: Mapping[str, Any]) -> Any:
    from ctrlgen.constraints.grammar import Grammar

    return Grammar(place.string(), **options)


def _choices(place: Place, options: Mapping[str, Any]) -> Any:
    from ctrlgen.constraints.choice import Choice

    found = place.list()
    place.count(len(found) // 16)
    return Choice(found, **options)


def _named(table: str) -> Callable[[Place, Mapping[str, Any]], Any]:
    def read(place: Place, options: Mapping[str, Any]) -> Any:
        return place.registered(getattr(place.registry, table), table)

    return read


def _guard(place: Place, options: Mapping[str, Any]) -> Any:
    guard = place.registered(place.registry.guards, "guards")
    context = options.get("context", "")
    if not isinstance(context, str):
        raise place.beside("context", context).error("expected a string")
    return guard.following(context) if context else guard


def _tools(place: Place, options: Mapping[str, Any]) -> Any:
    from ctrlgen.constraints.tools.formats import names
    from ctrlgen.constraints.tools.tool_calls import ToolCalls

    given = dict(options)
    style = place.beside("format", given.pop("format", "hermes"))
    if style.value not in names():
        raise style.error(f"expected one of {', '.join(names())}")
    tools = place.list()
    place.count(len(tools))
    for number, tool in enumerate(tools):
        place.at(number, tool).object()
    return ToolCalls(tools, style.value, **given)


def _several(kind: str) -> Callable[[Place, Mapping[str, Any]], Any]:
    def read(place: Place, options: Mapping[str, Any]) -> Any:
        from ctrlgen.constraints import combined

        parts = tuple(_operand(place.at(number, value)) for number, value in enumerate(place.list()))
        if len(parts) < 2:
            raise place.error("expected two parts or more")
        refuse_alone(place, parts)
        return getattr(combined, kind)(parts)

    return read


def _both(place: Place, options: Mapping[str, Any]) -> Any:
    from ctrlgen.constraints.combined import Both

    parts = [_operand(place.at(number, value)) for number, value in enumerate(place.list())]
    if len(parts) != 2:
        raise place.error("expected two patterns or choices")
    refuse_alone(place, parts)
    return Both(*parts)


def _repeat(place: Place, options: Mapping[str, Any]) -> Any:
    from ctrlgen.constraints.combined import Repeat

    inner = _operand(place)
    refuse_alone(place, [inner])
    return Repeat(inner, **options)


def _optional(place: Place, options: Mapping[str, Any]) -> Any:
    from ctrlgen.constraints.combined import Either, Text

    inner = _operand(place)
    refuse_alone(place, [inner])
    return Either((Text(""), inner))


def _free(place: Place, options: Mapping[str, Any]) -> Any:
    from ctrlgen.constraints.free import Free

    return Free(endings(place, empty=True), **_free_options(place, options))


def _thinking(place: Place, options: Mapping[str, Any]) -> Any:
    from ctrlgen.constraints.thinking import Thinking

    given = dict(options)
    for name in ("start", "end"):
        if name in given:
            given[name] = ending(place.beside(name, given[name]))
    if "between" in given:
        given["between"] = _operand(place.beside("between", given["between"]))
    answer = _operand(place)
    refuse_alone(place, [answer])
    return Thinking(answer, **given)


def _dispatch(place: Place, options: Mapping[str, Any]) -> Any:
    from ctrlgen.constraints.dispatch import Dispatch

    calls = {}
    for number, value in enumerate(place.list()):
        one = place.at(number, value)
        members = one.object()
        for name in members:
            if name not in ("on", "do"):
                raise one.unknown(name, ("on", "do"))
        on = one.at("on", members.get("on"))
        trigger = ending(on)
        if trigger in calls:
            raise on.error("the same trigger is given twice")
        what = members.get("do")
        calls[trigger] = None if what is None else _operand(one.at("do", what))
        refuse_alone(one, [calls[trigger]])
    given = _free_options(place, options)
    if "stop" in given:
        given["stop"] = endings(place.beside("stop", given["stop"]), empty=False)
    return Dispatch(calls, **given)


def _free_options(place: Place, options: Mapping[str, Any]) -> dict[str, Any]:
    given = dict(options)
    if "without" in given and not isinstance(given["without"], str):
        given["without"] = tuple(place.beside("without", given["without"]).list())
    if "allow" in given:
        given["allow"] = endings(place.beside("allow", given["allow"]), empty=False)
    return given


def endings(place: Place, *, empty: bool) -> Any:
    """What free text waits for: one or several; None for nothing."""
    if place.value is None and empty:
        return None
    if not isinstance(place.value, list):
        return ending(place)
    return tuple(ending(place.at(number, value)) for number, value in enumerate(place.value))


def ending(place: Place) -> Any:
    """A string, or a control token."""
    from ctrlgen.constraints.free import Token

    if isinstance(place.value, str):
        return place.value
    if not isinstance(place.value, dict) or not {"token"} <= set(place.value) <= {"token", "or_text"}:
        raise place.error('expected a string or {"token": a name or id}')
    try:
        return Token(place.value["token"], bool(place.value.get("or_text", False)))
    except CtrlgenError as error:
        raise place.error(str(error)) from error


def refuse_alone(place: Place, parts: Any) -> None:
    """Raise if one of the parts can only stand alone."""
    for one in parts:
        if one is not None and not callable(getattr(one, "build", None)):
            raise place.error(f"{type(one).__name__} stands alone: it cannot be part of another constraint")


_WRITING = ("whitespace", "key_order", "ensure_ascii")
_FREE = ("max_tokens", "without", "allow")

KINDS: dict[str, tuple[Callable[[Place, Mapping[str, Any]], Any], tuple[str, ...]]] = {
    "json_schema": (_json_schema, (*_WRITING, "max_digits")),
    "regex": (_regex, ("dialect",)),
    "grammar": (_grammar, ("syntax", "start", "lexer")),
    "choices": (_choices, ()),
    "catalogue": (_named("catalogues"), ()),
    "constraint": (_named("constraints"), ()),
    "guard": (_guard, ("context",)),
    "tools": (_tools, ("format", "choice", "parallel", *_WRITING)),
    "sequence": (_several("Sequence"), ()),
    "either": (_several("Either"), ()),
    "both": (_both, ()),
    "repeat": (_repeat, ("least", "most")),
    "optional": (_optional, ()),
    "free": (_free, (*_FREE, "keep")),
    "thinking": (_thinking, ("start", "end", "between", "max_tokens", "keep")),
    "dispatch": (_dispatch, (*_FREE, "stop", "least", "most")),
}
"""Of each kind of constraint what reads it, and its options."""
