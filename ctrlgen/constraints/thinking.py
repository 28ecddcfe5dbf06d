"""Think freely, then answer: what a thinking model says before its answer, and the answer alone constrained.

cg.Thinking(cg.JsonSchema(schema))                      thinks until </think>; the prompt has opened it
cg.Thinking(cg.JsonSchema(schema), start="<think>")     opens it too
cg.Thinking(cg.JsonSchema(schema), end=cg.EOS)          any model: writes until it would end, then answers
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ctrlgen.constraints.combined import Apart, Sequence, _Compiled, _part
from ctrlgen.constraints.free import Ending, EndOfText, Free, Token
from ctrlgen.constraints.regex import Regex
from ctrlgen.errors import InputError

if TYPE_CHECKING:
    from ctrlgen.engine.network import Network


@dataclass(frozen=True)
class Blanks(_Compiled):
    """Up to so many blanks and line breaks."""

    most: int = 4
    silent: ClassVar[bool] = True

    def build(self, network: Network) -> int:
        """The start node in ``network``."""
        return Regex(rf"[ \n]{{0,{self.most}}}").build(network)


def Thinking(
    answer: object,
    *,
    start: str | Token | None = None,
    end: Ending = "</think>",
    between: object = None,
    max_tokens: int | None = None,
    keep: float = 0.25,
) -> Sequence:
    """Free text until ``end``, then ``answer``.

    Args:
        answer: a specification, or a string that stands for itself.
        start: what opens the thinking; None where the prompt (its chat template) has opened it.
        end: what closes it. A string is the control token of this name where the tokenizer has one. EOS: the answer
            comes where the model would have ended.
        between: what stands between; by default up to four blanks and line breaks, and nothing after EOS.
        max_tokens: the most tokens of thinking.
        keep: tokens of ``max_new_tokens`` that are kept for the end mark and the answer, or the share of it, below 1.

    Returns:
        A specification; the value of a text has the thinking as ``free_text`` and the answer as ``answer``.
    """
    if not isinstance(end, (str, Token, EndOfText)):
        raise InputError(f"end is {end!r}; expected a string, Token(...) or EOS")
    if start is not None and not isinstance(start, (str, Token)):
        raise InputError(f"start is {start!r}; expected a string, Token(...) or None")
    closes = Token(end, or_text=True) if isinstance(end, str) else end
    opens = Token(start, or_text=True) if isinstance(start, str) else start
    if between is None:
        between = "" if isinstance(end, EndOfText) else Blanks()
    thought = Free(until=closes, max_tokens=max_tokens, keep=keep)
    opened = (thought,) if opens is None else (_part(opens), thought)
    if isinstance(answer, Apart):
        return Sequence((*opened, answer) if between == "" else (*opened, _part(between), answer))
    after = _part(answer) if between == "" else Sequence((_part(between), _part(answer)))
    return Sequence((*opened, after))
