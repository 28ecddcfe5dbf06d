"""Plans read by definition: whether a JSON value is one of the values that a goal allows, keys in any order.

Slow, and right by inspection; nothing of the engine is used.
"""

from __future__ import annotations

import json
from typing import Any

from ctrlgen.automaton import Automaton
from ctrlgen.constraints.schema.facts import Goal
from ctrlgen.constraints.schema.plans import ArrayPlan, Language, Lexeme, ObjectPlan, Other, Plan, Slot, Texts


class Numeral(str):
    """A number as it is written."""


def parsed(text: str) -> Any:
    """A JSON value with numbers as they are written.

    Raises:
        ValueError: it is no JSON, or a key is given twice.
    """

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise ValueError("a key is given twice")
        return dict(pairs)

    return json.loads(text, parse_int=Numeral, parse_float=Numeral, object_pairs_hook=members)


def matches(language: Language, text: str) -> bool:
    """Whether a JSON text is in the language, apart from its blanks and the order of keys."""
    return meets(language, language.root, parsed(text))


def meets(language: Language, goal: Goal, value: Any) -> bool:
    """Whether a value meets a goal."""
    return any(_fits(language, plan, value) for plan in language.alternatives(goal))


def _fits(language: Language, plan: Plan, value: Any) -> bool:
    if isinstance(plan, Texts):
        return not isinstance(value, list | dict) and any(text in plan.texts for text in _written(value))
    if isinstance(plan, Lexeme):
        return _is_lexeme(plan, value)
    if isinstance(plan, ArrayPlan):
        return isinstance(value, list) and _is_array(language, plan, value)
    return isinstance(value, dict) and _is_object(language, plan, value)


def _written(value: Any) -> list[bytes]:
    if isinstance(value, Numeral):
        return [value.encode()]
    return [json.dumps(value, ensure_ascii=False).encode(), json.dumps(value).encode()]


def _is_lexeme(plan: Lexeme, value: Any) -> bool:
    if isinstance(value, Numeral):
        return not plan.text and plan.automaton.matches(value.encode())
    if not isinstance(value, str) or not plan.text:
        return False
    if len(value) < plan.least or (plan.most is not None and len(value) > plan.most):
        return False
    return any(plan.automaton.matches(text[1:]) for text in _written(value))


def _is_array(language: Language, plan: ArrayPlan, items: list[Any]) -> bool:
    if plan.states is not None:
        states = {plan.states.start}
        for item in items:
            ways = [way for state in states for way in plan.states.ways(state)]
            states = {after for goal, after in dict.fromkeys(ways) if meets(language, goal, item)}
        return any(plan.states.closes(state) for state in states)
    if len(items) < plan.least or (plan.most is not None and len(items) > plan.most):
        return False
    if plan.strings is not None:
        texts = [json.dumps(item, ensure_ascii=False).encode()[1:] for item in items if type(item) is str]
        return len(set(texts)) == len(items) and all(map(plan.strings.matches, texts))
    if plan.rest is None and len(items) > len(plan.prefix):
        return False
    goals = [plan.prefix[i] if i < len(plan.prefix) else plan.rest for i in range(len(items))]
    return all(meets(language, goal or (), item) for goal, item in zip(goals, items, strict=True))


def _is_object(language: Language, plan: ObjectPlan, members: dict[str, Any]) -> bool:
    if len(members) < plan.least or (plan.most is not None and len(members) > plan.most):
        return False
    there = {slot.name for slot in plan.slots if slot.name in members}
    for slot in plan.slots:
        if slot.required and slot.name not in members:
            return False
        if slot.name in members and not all(plan.slots[i].name in there for i in slot.implies):
            return False
    slots = {slot.name: slot for slot in plan.slots}
    fulfilled = {0}
    for name, value in members.items():
        held = _held(plan, slots, name)
        bits = {flags for goal, flags in (held.ways if held else ()) if meets(language, goal, value)}
        fulfilled = {before | new for before in fulfilled for new in bits}
    return plan.wanted in fulfilled


def _held(plan: ObjectPlan, slots: dict[str, Slot], name: str) -> Slot | Other | None:
    """What says what the member of a name may be."""
    if name in slots:
        return slots[name]
    text = json.dumps(name, ensure_ascii=False).encode()[1:]
    found = [other for other in plan.others if other.names is None or other.names.matches(text)]
    assert len(found) <= 1, "no name is in two classes"
    return found[0] if found else None


def shortest_text(language: Language, goal: Goal) -> bytes:
    """A text that the cheapest alternatives lead to, where members do not depend on each other."""
    return min((_shortest(language, plan) for plan in language.alternatives(goal)), key=len)


def _shortest(language: Language, plan: Plan) -> bytes:
    if isinstance(plan, Texts):
        return min(plan.texts, key=len)
    if isinstance(plan, Lexeme):
        if plan.text and plan.least:
            return b'"' + b"a" * plan.least + b'"'
        return b'"' * plan.text + plan.automaton.shortest()
    if isinstance(plan, ArrayPlan):
        return b"[" + b",".join(_items(language, plan)) + b"]"
    return b"{" + b",".join(_members(language, plan)) + b"}"


def _items(language: Language, plan: ArrayPlan) -> list[bytes]:
    if plan.strings is not None:
        return [b'"' + text for text in _shortest_strings(plan.strings, plan.least)]
    if plan.states is None:
        goals = [plan.prefix[i] if i < len(plan.prefix) else plan.rest or () for i in range(plan.least)]
        return [shortest_text(language, goal) for goal in goals]
    found, state, states = [], plan.states.start, plan.states
    while not (states.closes(state) and states.cost(state) == 1):
        goal, state = min(states.ways(state), key=lambda way: language.shortest(way[0]) + states.cost(way[1]))
        found.append(shortest_text(language, goal))
    return found


def _shortest_strings(strings: Automaton, count: int) -> list[bytes]:
    found: list[bytes] = []
    for length in range(64):
        texts = [t for t in _of_length(strings, 0, length) if strings.matches(t)]
        found += sorted(texts)
        if len(found) >= count:
            break
    return found[:count]


def _of_length(strings: Automaton, state: int, length: int) -> list[bytes]:
    if length == 0:
        return [b""]
    row = strings.next[state].tolist()
    return [
        bytes([byte]) + rest
        for byte, target in enumerate(row)
        if target >= 0
        for rest in _of_length(strings, target, length - 1)
    ]


def _members(language: Language, plan: ObjectPlan) -> list[bytes]:
    """Required members, then the cheapest others until nothing is missing; flags are taken as they come."""
    names = [slot.name for slot in plan.slots if slot.required]
    slots = {slot.name: slot for slot in plan.slots}
    free = (json.dumps(f"{i}") for i in range(1 << 20) if f"{i}" not in slots)
    found, fulfilled = [], 0

    def write(name: bytes, ways: tuple[tuple[Goal, int], ...]) -> None:
        nonlocal fulfilled
        goal, flags = max(ways, key=lambda way: ((way[1] & ~fulfilled).bit_count(), -language.shortest(way[0])))
        fulfilled |= flags
        found.append(name + b":" + shortest_text(language, goal))

    for name in names:
        write(json.dumps(name, ensure_ascii=False).encode(), slots[name].ways)
    spare = [slot for slot in plan.slots if not slot.required and slot.ways and not slot.implies]
    while len(found) < plan.least or fulfilled != plan.wanted:
        useful = [s for s in spare if any(flags & ~fulfilled for _, flags in s.ways)] if plan.wanted else spare
        if useful:
            slot = min(useful, key=lambda s: len(s.name) + min(language.shortest(goal) for goal, _ in s.ways))
            spare.remove(slot)
            write(json.dumps(slot.name, ensure_ascii=False).encode(), slot.ways)
        else:
            other = plan.others[0]
            name = next(free).encode() if other.names is None else b'"' + other.names.shortest()
            write(name, other.ways)
    return found
