"""Drafts as text, fit to be shown to a model again, and the prompts that hold them.

A draft is written freely, so it may hold anything: half a thought, or the name of a control token spelled out in
letters, which the tokenizer would turn into that control token (and a line of a draft into an order of the system).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ctrlgen.vocabulary import Vocabulary

THINKING = ("<think>", "</think>")
"""What opens and closes a block of thoughts with most models that have one."""

ANSWER = "Give only the final answer of the text above, in the format asked for."
"""What the default prompt of the second pass ends with."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A text written without the constraint."""

    text: str
    """As it stands in the prompt of the second pass."""
    token_ids: tuple[int, ...] = ()
    """The ids of the drafting model, with the end token; empty for a draft that was handed in."""
    finished: bool = True
    """The draft ended by itself; False if ``max_draft_tokens`` cut it off."""
    closed: bool = False
    """A block of thoughts was still open and has been closed."""
    disarmed: int = 0
    """Number of control tokens that the draft spelled out, each of which got a blank after its first character."""


EMPTY = Draft("")


def spelled(vocabulary: Vocabulary, ids: Iterable[int], shown: Sequence[str]) -> str:
    """The text of ids, without halves of characters; control tokens named in ``shown`` appear by name."""
    names = {vocabulary.special[name]: name.encode() for name in shown if name in vocabulary.special}
    return b"".join(names.get(token) or vocabulary.decode([token]) for token in ids).decode(errors="ignore")


def prepared(
    text: str,
    controls: Iterable[str],
    *,
    thinking: tuple[str, str] | None = THINKING,
    thinks: bool = False,
    token_ids: tuple[int, ...] = (),
    finished: bool = True,
) -> Draft:
    """The draft that can be put into a prompt.

    Args:
        text: what was written.
        controls: names of the control tokens of the model that is to read it.
        thinking: opens and closes a block of thoughts; None if there is no such thing.
        thinks: the prompt had opened such a block already.
        token_ids: ids of the draft.
        finished: it was not cut off.
    """
    closed = thinking is not None and _open(text, thinking, thinks)
    if closed and thinking is not None:
        text = f"{text.rstrip()}\n{thinking[1]}\n"
    text, disarmed = disarm(text, set(controls) - set(thinking or ()))
    return Draft(text, token_ids, finished, closed, disarmed)


def _open(text: str, thinking: tuple[str, str], thinks: bool) -> bool:
    """Whether the last block of thoughts is still open."""
    begun, ended = text.rfind(thinking[0]), text.rfind(thinking[1])
    return ended < begun or (thinks and begun < 0 and ended < 0)


def disarm(text: str, controls: Iterable[str]) -> tuple[str, int]:
    """The text with a blank after the first character of each control token it spells, and how many there were.

    Names of one character are taken out.
    """
    names = sorted({name for name in controls if name}, key=lambda name: (-len(name), name))
    count, found = 0, True
    while found:  # taking one apart may leave another
        found = False
        for name in names:
            if times := text.count(name):
                text = text.replace(name, f"{name[0]} {name[1:]}" if len(name) > 1 else "")
                count, found = count + times, True
    return text, count


def controls_of(tokenizer: Any, vocabulary: Vocabulary) -> set[str]:
    """Names that the tokenizer reads as one control token wherever they stand in a text."""
    return set(vocabulary.special) | set(getattr(tokenizer, "all_special_tokens", ()))


def second_prompt(prompt: Any, draft: str) -> Any:
    """The default prompt of the second pass: what was asked, the draft, and the wish for the answer alone.

    An empty draft leaves the prompt as it is.
    """
    if not draft:
        return prompt
    if isinstance(prompt, str):
        return f"{prompt}{draft}\n\n{ANSWER}\n"
    return [*prompt, {"role": "assistant", "content": draft}, {"role": "user", "content": ANSWER}]
