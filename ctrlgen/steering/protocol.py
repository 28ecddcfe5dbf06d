"""The one abstraction: a steerer is a pure function of the rows so far, which adds to the log-probabilities.

    state = steerer.init(prompts)
    delta = steerer.delta(state, moment)             # float32[B, V]
    state = steerer.update(state, tokens, alive)     # once a token, then delta again

One step is: the hard mask, log_softmax in float32, the deltas of all steerers added, log_softmax, the mask again.
So steerers see the distribution of the model among the tokens that are allowed, and nothing forbidden comes back.

What a steerer can rely on, whatever decodes (beams, n samples, drafts, padding, reuse, threads):

- States are tuples of tensors (or of such tuples) with the rows of the batch in their first dimension; whoever decodes
  gathers them when rows change places, goes back to earlier ones, or asks for the same rows from the start. So a
  steerer keeps nothing in itself, and no function of it changes a state in place.
- Prompts come without padding, tokens are ids that the model can choose.
- Rows that are over stay in the batch: their token is an end token and their delta goes unused.
- ``moment.log_p`` has a finite value in each row, and -inf only where a token is forbidden.

What it must do: return finite deltas, or -inf for what it forbids; never NaN, never +inf, and never -inf for every
token that ``log_p`` allows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from ctrlgen.errors import InputError

if TYPE_CHECKING:
    import torch

    from ctrlgen.vocabulary import Vocabulary

    State = tuple[Any, ...]


class Prompts(NamedTuple):
    """What B rows begin with."""

    rows: tuple[tuple[int, ...], ...]
    """The ids of each, without padding; beams and samples of a prompt are rows of their own."""
    device: torch.device
    """Where the logits are."""
    vocabulary: Vocabulary | None = None
    """What the ids mean, where that is known."""


class Moment(NamedTuple):
    """The next token of B rows, as the model would choose it."""

    log_p: torch.Tensor
    """float32[B, V]: normalised over the allowed tokens; -inf for all others."""
    alive: torch.Tensor
    """bool[B]: False for a row that is over. Its ``log_p`` is uniform, and its delta goes unused."""
    length: int
    """Number of tokens generated so far, in each row."""


@runtime_checkable
class Steerer(Protocol):
    """A way to change the next token's distribution, from rows alone."""

    def init(self, prompts: Prompts) -> State:
        """The state before the first token; may be empty."""
        ...

    def delta(self, state: State, moment: Moment) -> torch.Tensor:
        """float32[B, V], to be added to ``moment.log_p``; what it says of forbidden tokens goes unused."""
        ...

    def update(self, state: State, tokens: torch.Tensor, alive: torch.Tensor) -> State:
        """The state after one more token in each row.

        Args:
            state: as ``init`` or ``update`` returned it, rows gathered.
            tokens: int64[B].
            alive: bool[B], False for a row that is over, its end token included: what becomes of it does not matter.
        """
        ...


@runtime_checkable
class Rewinding(Protocol):
    """A steerer that goes back by itself, for states too large to keep one for each token."""

    def rewind(self, state: State, count: int) -> State | None:
        """The state of ``count`` tokens before, ready for ``update`` but not for ``delta``; None if it is lost.

        With ``record`` it is the state that ``record`` returned then.
        """
        ...


@runtime_checkable
class Recording(Protocol):
    """A steerer for which it matters what it did at earlier steps, such as one that spends a budget."""

    def record(self, state: State, moment: Moment, delta: torch.Tensor) -> State:
        """The state after ``delta`` was added to ``moment.log_p``; ``update`` goes on from it."""
        ...


@runtime_checkable
class PerPrompt(Protocol):
    """A steerer with parameters of its own for each prompt, so that rows of equal ids need not be equal."""

    per_prompt: int
    """Number of prompts it knows of; the rows of a batch are a multiple of it, in the order of the prompts."""


@runtime_checkable
class Final(Protocol):
    """A steerer with a guarantee, which holds for what it makes and nothing else.

    It comes last, ``moment.log_p`` being what the others have made; only plain sampling may follow.
    """

    final: bool


def is_final(steerer: Steerer) -> bool:
    """Whether nothing may come after it."""
    return isinstance(steerer, Final) and bool(steerer.final)


def name_of(steerer: Steerer) -> str:
    """What a trace calls it."""
    return str(getattr(steerer, "name", type(steerer).__name__))


def steerers_of(steer: Any) -> tuple[Steerer, ...]:
    """What a user passed as ``steer``: one steerer, several, or None.

    Raises:
        InputError: something else, or one that must be the last is not.
    """
    several = () if steer is None else tuple(steer) if isinstance(steer, (list, tuple)) else (steer,)
    for one in several:
        if isinstance(one, type) or not isinstance(one, Steerer):
            raise InputError(f"steer holds {one!r}; expected steerers, with init, delta and update")
    for one in several[:-1]:
        if is_final(one):
            raise InputError(f"{name_of(one)} guarantees something of what it makes, so it must be the last steerer")
    return several
