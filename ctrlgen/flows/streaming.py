"""Text as it comes: whole characters only, pushed to a callable or pulled from an iterator."""

from __future__ import annotations

import codecs
import queue
import threading
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

import torch
from transformers.generation.streamers import BaseStreamer

if TYPE_CHECKING:
    from ctrlgen.vocabulary import Vocabulary


class Pieces(BaseStreamer):  # type: ignore[misc]
    """A streamer that hands on the text of one row, a character never being cut in two.

    Args:
        vocabulary: gives the bytes of the ids.
        push: called with each piece of text.
    """

    def __init__(self, vocabulary: Vocabulary, push: Callable[[str], object]) -> None:
        self._vocabulary, self._push = vocabulary, push
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._prompt_seen = False

    def put(self, value: torch.Tensor) -> None:
        """Take ids: first those of the prompt, then each time one or more new ones."""
        if not self._prompt_seen:
            self._prompt_seen = True
            return
        self._send(self._decoder.decode(self._vocabulary.decode(value.flatten().tolist())))

    def end(self) -> None:
        """Send what is left of a character that was cut off by the end."""
        self._send(self._decoder.decode(b"", final=True))

    def _send(self, piece: str) -> None:
        if piece:
            self._push(piece)


class _Closed(BaseException):
    """Ends a generation whose iterator is closed; not an Exception, so that nobody swallows it."""


def iterate(run: Callable[[Callable[[str], None]], Any]) -> Generator[str, None, Any]:
    """Turn ``run(push)`` into an iterator over what is pushed; its return value is that of ``run``.

    Raises:
        Exception: whatever ``run`` raises, after the pieces that came before.
    """
    pieces: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    closed = threading.Event()
    outcome: list[Any] = [None, None]

    def push(piece: str) -> None:
        if closed.is_set():
            raise _Closed
        pieces.put(piece)

    def work() -> None:
        try:
            outcome[0] = run(push)
        except BaseException as error:
            outcome[1] = error
        finally:
            pieces.put(None)

    thread = threading.Thread(target=work, name="ctrlgen stream", daemon=True)
    thread.start()
    try:
        while (piece := pieces.get()) is not None:
            yield piece
    finally:
        closed.set()
    if outcome[1] is not None:
        raise outcome[1]
    return outcome[0]
