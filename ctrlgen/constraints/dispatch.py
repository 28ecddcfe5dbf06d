"""Free text in which some strings or control tokens call for something: tool calls, code blocks, answers.

cg.Dispatch({"<tool_call>": cg.JsonSchema(call) >> "</tool_call>"})
cg.Dispatch({cg.Token("<|python|>"): python, "```json\\n": cg.JsonSchema(schema) >> "\\n```"}, stop="</answer>")
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ctrlgen.constraints.combined import MAX_TIMES, Part, _Compiled, _part
from ctrlgen.constraints.free import Ending, EndOfText, Token, Ways, check_limit, check_tokens, several, strings_of
from ctrlgen.constraints.free_text import check_strings
from ctrlgen.errors import InputError

if TYPE_CHECKING:
    from ctrlgen.engine.network import Network

Trigger = str | Token


@dataclass(frozen=True, init=False)
class Dispatch(_Compiled):
    """Free text; after a trigger what it calls for, then free text again, any number of times.

    Args:
        calls: for each trigger, a string or a Token, what follows it: a specification, or a string that stands for
            itself; None for nothing.
        stop: what ends it: a string, a Token, EOS, or several of these; None: the text as a whole, with its end token.
        least: fewest calls.
        most: most calls, None for no limit; after them no trigger may come.
        max_tokens: the most tokens of each stretch of free text, as in ``Free``.
        without: strings that may not come in free text.
        allow: control tokens that may.

    Raises:
        InputError: a string is empty or found within another; what does not fit together.
    """

    calls: tuple[tuple[Trigger, Part], ...]
    stop: tuple[Ending, ...]
    least: int
    most: int | None
    max_tokens: int | None
    without: tuple[str, ...]
    allow: tuple[Token, ...]

    def __init__(
        self,
        calls: Mapping[Trigger, object],
        *,
        stop: Ending | Iterable[Ending] | None = None,
        least: int = 0,
        most: int | None = None,
        max_tokens: int | None = None,
        without: str | Iterable[str] = (),
        allow: Token | Iterable[Token] = (),
    ) -> None:
        if not isinstance(calls, Mapping) or not calls:
            raise InputError('calls must be a dictionary such as {"<tool>": JsonSchema(...)}, with a trigger at least')
        several(tuple(calls), (str, Token), "triggers are strings or Token(...)")
        _check_numbers(least, most)
        check_limit(max_tokens)
        ends = several(() if stop is None else stop, (str, Token, EndOfText), "stop takes strings, Token(...) or EOS")
        values = {
            "calls": tuple((trigger, _called(trigger, what)) for trigger, what in calls.items()),
            "stop": ends,
            "least": least,
            "most": most,
            "max_tokens": max_tokens,
            "without": several(without, (str,), "without takes strings"),
            "allow": several(allow, (Token,), "allow takes Token(...)"),
        }
        if stop is not None and not ends:
            raise InputError("stop is empty; leave it out for text that goes on to the end")
        for name, value in values.items():
            object.__setattr__(self, name, value)
        check_strings(strings_of((*calls, *self.stop, *self.without)))
        check_tokens((*calls, *self.stop, *self.allow))

    @property
    def open_end(self) -> bool:
        """Whether nothing can follow."""
        return not self.stop

    @property
    def pieces(self) -> tuple[Part, ...]:
        """What the triggers call for."""
        return tuple(what for _, what in self.calls)

    def build(self, network: Network) -> int:
        """The start node of the text in ``network``."""
        from ctrlgen.engine.containers import Between
        from ctrlgen.engine.network import END, ITEM, RETURN

        ways = Ways(network, self.without, self.allow, self.max_tokens)
        triggers = tuple(trigger for trigger, _ in self.calls)
        calls = [(trigger, what.build(network)) for trigger, what in self.calls]
        call = ways.node(calls, others=self.stop)
        turn = (RETURN, ITEM, network.fork([RETURN, ITEM]))
        rest = ways.node([(end, END) for end in self.stop], others=triggers, open_end=self.open_end)
        every = network.items((), call, self.least, self.most, Between(turn, turn), self.least * network.cost[call])
        return network.call(every, rest)


def _called(trigger: object, what: object) -> Part:
    part = _part("" if what is None else what)
    if getattr(part, "open_end", False):
        raise InputError(
            f"what {trigger!r} calls for goes on to the end of the text, so that free text cannot follow; "
            "say in it where it ends (until=..., stop=...)"
        )
    return part


def _check_numbers(least: object, most: object) -> None:
    numbers = [least] if most is None else [least, most]
    if any(isinstance(n, bool) or not isinstance(n, int) or not 0 <= n <= MAX_TIMES for n in numbers):
        raise InputError(f"least and most are whole numbers from 0 to {MAX_TIMES}, not {least!r} and {most!r}")
    if numbers != sorted(numbers):  # type: ignore[type-var]
        raise InputError(f"least={least!r} must not be above most={most!r}")
