"""Regular expressions -> the automaton of the match that ``re.match`` would choose.

A lexer asks another question than a constraint does: not whether a text matches, but where the *preferred* match from
here ends. ``a|ab`` takes "a" out of "ab", ``".*?"`` ends at the first quote. Threads of a backtracking matcher in order
of preference, cut after the first one that matches, make a deterministic automaton (Cox, "Regular expression matching
in the wild", 2010, leftmost-first): the preferred match ends at the last accepting state met before it dies.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from ctrlgen.automaton import Automaton
from ctrlgen.errors import ComplexityError, RegexError
from ctrlgen.grammars.characters import CharacterSet, partition
from ctrlgen.grammars.lowering import lower
from ctrlgen.grammars.regex_subsets import _minimal as minimal_automaton
from ctrlgen.grammars.regex_syntax import Ahead, Characters, Edge, Either, Instruction, Join, Repeat, parse_regex

_MAX_CODE = 60_000

# relative jumps: a step reads a character, a pair prefers its first target, a jump has one
_Step = CharacterSet | tuple[int, int] | int
_Code = list[_Step]


@lru_cache(maxsize=4096)
def first_match_automaton(pattern: str, *, max_states: int = 20_000) -> Automaton:
    r"""The automaton, in bytes, whose last accepting state before it dies is the end of ``re.match(pattern, text)``.

    Raises:
        RegexError: the expression is wrong, or looks around (``\b``, ``(?=...)``, ``$``), which no lexer can hold.
        ComplexityError: more than ``max_states`` states.

    >>> first_match_automaton("a|ab").matches(b"ab")
    False
    """
    instructions, _ = parse_regex(pattern, "python", search=False, ascii=False)
    code = _compile(pattern, instructions)
    sets = list(dict.fromkeys(step for step in code if isinstance(step, tuple) and _reads(step)))
    found = partition(sets)  # type: ignore[arg-type]
    bit = {members: 1 << number for number, members in enumerate(sets)}
    reads = [bit.get(step, 0) if isinstance(step, tuple) else 0 for step in code]
    start = _close(code, [0])
    number = {start: 0}
    order = [start]
    rows: list[list[int]] = []
    for threads in order:
        row = []
        for inside in found.members:
            after = _close(code, [at + 1 for at in threads if at >= 0 and reads[at] & inside])
            if after and after not in number:
                number[after] = len(order)
                order.append(after)
            row.append(number[after] if after else -1)
        rows.append(row)
        if len(order) > max_states:
            raise ComplexityError(
                f"the regular expression {pattern!r} reached {len(order)} states, the limit is "
                f"max_states={max_states}; make repeats of overlapping parts smaller"
            )
    accepting = [threads[-1] == _MATCH for threads in order]
    return lower(minimal_automaton(found.segments, rows, accepting), "utf-8", max_states)


_MATCH = -1
_END: _Step = 0


def _reads(step: tuple[object, ...]) -> bool:
    """Whether a step reads a character (a set may be empty) rather than choosing between two ways."""
    return not step or isinstance(step[0], tuple)


def _close(code: _Code, at: Sequence[int]) -> tuple[int, ...]:
    """The reading steps reached from ``at``, in order of preference, up to the first match."""
    threads: list[int] = []
    seen: set[int] = set()
    todo = list(reversed(at))
    while todo:
        here = todo.pop()
        step = code[here] if here < len(code) else _END
        if isinstance(step, int) and step < 0:
            # a loop whose body has matched nothing is left: it goes round no second time
            todo.append(here + 1 if here + step in seen else here + step)
            continue
        if here in seen:
            continue
        seen.add(here)
        if here == len(code):
            threads.append(_MATCH)
            break
        if isinstance(step, int):
            todo.append(here + step)
        elif _reads(step):
            threads.append(here)
        else:
            todo += [here + step[1], here + step[0]]  # type: ignore[operator]
    return tuple(threads)


def _compile(pattern: str, instructions: Sequence[Instruction]) -> _Code:
    stack: list[_Code] = []
    for instruction in instructions:
        if isinstance(instruction, Characters):
            stack.append([instruction.members])
        elif isinstance(instruction, Edge):
            raise RegexError(f"the condition '{instruction.kind}' looks around, which terminals cannot", pattern, 0)
        elif isinstance(instruction, Ahead):
            raise RegexError("look-ahead is not supported in terminals", pattern, instruction.position)
        elif isinstance(instruction, Repeat):
            stack.append(_repeat(stack.pop(), instruction))
        else:
            first = len(stack) - instruction.count
            parts = stack[first:]
            del stack[first:]
            stack.append(_join(parts) if isinstance(instruction, Join) else _either(parts, instruction))
        if len(stack[-1]) > _MAX_CODE:
            raise ComplexityError(f"with its repeats written out {pattern!r} is too long; make repeats smaller")
    return stack.pop()


def _join(parts: Sequence[_Code]) -> _Code:
    return [step for part in parts for step in part]


def _either(parts: Sequence[_Code], instruction: Either) -> _Code:
    code = parts[-1]
    for part in reversed(parts[:-1]):
        code = [(1, len(part) + 2), *part, len(code) + 1, *code]
    return code


def _repeat(part: _Code, repeat: Repeat) -> _Code:
    if len(part) * max(repeat.low, repeat.high or 0) > _MAX_CODE:
        raise ComplexityError(f"a repeat of {repeat.low} to {repeat.high} times is too long written out")
    code = list(part) * repeat.low
    if repeat.high is None:
        out = len(part) + 2
        return [*code, (out, 1) if repeat.lazy else (1, out), *part, -len(part) - 1]
    optional: _Code = []
    for _ in range(repeat.high - repeat.low):
        out = len(part) + len(optional) + 1
        optional = [(out, 1) if repeat.lazy else (1, out), *part, *optional]
    return code + optional
