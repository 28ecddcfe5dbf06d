"""Constraints of requests, made on a thread of their own and kept for requests to come."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

from ctrlgen.errors import ComplexityError, RequestError
from ctrlgen.phases import may_swallow
from ctrlgen.serving.specification import read_request

if TYPE_CHECKING:
    import torch

    from ctrlgen.constraint import Constraint
    from ctrlgen.serving.registry import Registry
    from ctrlgen.steering.protocol import Steerer
    from ctrlgen.vocabulary import Vocabulary


class Compiled(NamedTuple):
    """What the steps of a request need; shared by all requests that ask for the same."""

    constraint: Constraint | None
    steerers: tuple[Steerer, ...]
    in_time: bool


class Compiler:
    """A bounded cache of compiled requests, for any number of threads.

    Args:
        vocabulary: of the model, as wide as its logits.
        registry: what names mean, and limits.
        device: where the logits are.
    """

    def __init__(self, vocabulary: Vocabulary, registry: Registry, device: torch.device | str = "cpu") -> None:
        self.vocabulary, self.registry, self.device = vocabulary, registry, device
        self._kept: OrderedDict[bytes, Future[Compiled]] = OrderedDict()
        self._lock = threading.Lock()
        # one thread: compiling holds the interpreter's lock, so more of them would not be faster
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="ctrlgen-compile")

    def begin(self, value: object) -> Future[Compiled]:
        """Start what a request asks for, or find it begun; returns at once.

        Args:
            value: JSON text, or the value itself.

        Returns:
            A future; its error is a ``CtrlgenError`` where the request is at fault.
        """
        key = _key(value)
        with self._lock:
            known = self._kept.pop(key, None)
            if known is None or _is_worn(known):
                known = self._threads.submit(self._made, value)
            self._kept[key] = known
            while len(self._kept) > self.registry.limits.compiled:
                self._kept.popitem(last=False)
        return known

    def finish(self, begun: Future[Compiled], seconds: float) -> Compiled:
        """What was begun, waited for.

        Raises:
            CtrlgenError: what is wrong with the request.
            ComplexityError: it is not done in so many seconds.
        """
        try:
            return begun.result(max(seconds, 0.0))
        except TimeoutError:
            raise ComplexityError(
                f"the constraint is not compiled within {self.registry.limits.seconds:g} s, the limit of this server "
                "(limits.seconds): it is too large, or there are too many before it"
            ) from None

    def __len__(self) -> int:
        return len(self._kept)

    def close(self) -> None:
        """Let go of the thread; what was begun is finished."""
        self._threads.shutdown(wait=False)

    def _made(self, value: object) -> Compiled:
        requested = read_request(value, self.registry)
        constraint = None if requested.constraint is None else requested.constraint.compile(self.vocabulary)
        if may_swallow(constraint):
            raise RequestError("it goes on where the model would end, which no server asks about; wait for a string")
        if constraint is not None:
            constraint.mask(constraint.start)
        return Compiled(constraint, tuple(self._steerer(one.make()) for one in requested.steering), requested.in_time)

    def _steerer(self, steerer: Steerer) -> Steerer:
        """A steerer whose tables are ready."""
        import torch

        from ctrlgen.steering.protocol import Prompts

        steerer.init(Prompts(((),), torch.device(self.device), self.vocabulary))
        return steerer


def _is_worn(known: Future[Compiled]) -> bool:
    """Whether so many states were met that a new one is better."""
    if not known.done() or known.exception() is not None:
        return False
    return bool(getattr(known.result().constraint, "worn", False))


def _key(value: object) -> bytes:
    text = value if isinstance(value, str) else repr(value)
    return hashlib.blake2b(
        text.encode(errors="surrogatepass"), digest_size=16, person=type(value).__name__.encode()[:16]
    ).digest()
