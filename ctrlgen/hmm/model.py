"""A hidden Markov model over the tokens of a language model.

Notation, as everywhere in ctrlgen.hmm: H states z, V tokens v, text x_1 ... x_n.
start(z) = p(z_1), A(z, z') = p(z_{t+1} = z' | z_t = z), b(v | z) = p(x_t = v | z_t = z).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from ctrlgen.errors import ModelError
from ctrlgen.hmm.emission import Dense, Emission, product, sparse

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_TOLERANCE = {torch.bfloat16: 0.05, torch.float16: 0.01}  # of sums; 1e-4 else


@dataclass(frozen=True, eq=False)
class HMM:
    """A hidden Markov model; its values never change.

    Args:
        start: float[H].
        transition: float[H, H], rows of the state before.
        emission: Dense(float[V, H]) or Sparse.
        eos: ids that end a text; they have probabilities as any other id, and nothing follows them.
        card: how it was made; anything that JSON can hold.

    Raises:
        ModelError: shapes that do not fit, negative numbers, or rows that do not sum to 1.
    """

    start: torch.Tensor
    transition: torch.Tensor
    emission: Emission
    eos: tuple[int, ...] = ()
    card: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check(self)

    @property
    def states(self) -> int:
        """H."""
        return self.start.shape[0]

    @property
    def width(self) -> int:
        """V."""
        return self.emission.shape[0]

    @property
    def device(self) -> torch.device:
        """Where it is."""
        return self.start.device

    @property
    def dtype(self) -> torch.dtype:
        """Of the matrices, and so of the products; sums are of float32 or better."""
        return self.transition.dtype

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> HMM:
        """The same on another device, or with matrices of another dtype; itself if nothing changes."""
        device = self.device if device is None else torch.device(device)
        dtype = self.dtype if dtype is None else dtype
        if device == self.device and dtype == self.dtype:
            return self
        exact = torch.float64 if dtype == torch.float64 else torch.float32
        transition = self.transition.to(device=device, dtype=dtype)
        return HMM(
            self.start.to(device=device, dtype=exact), transition, self.emission.to(device, dtype), self.eos, self.card
        )

    def sparse(self, background: torch.Tensor | None = None, least: float = 4.0) -> HMM:
        """With emissions that are kept where they are ``least`` times a background and more; see ``emission.sparse``.

        Args:
            background: float[V]; by default what the states emit in the long run.
            least: smaller is larger and closer.
        """
        table = self.emission.dense().to(self.start.dtype)
        if background is None:
            background = table @ stationary(self).to(table)
        emission = sparse(table, background / background.sum(), least)
        return HMM(self.start, self.transition, emission.to(dtype=self.dtype), self.eos, self.card)

    def save(self, path: str | Path, *, bits: int | None = None) -> None:
        """Write to one safetensors file, whole or not at all; ``bits=8`` quantises: see ``ctrlgen.hmm.storage``."""
        from ctrlgen.hmm.storage import save

        save(self, path, bits=bits)

    @classmethod
    def load(cls, path: str | Path, *, device: str = "cpu", dtype: torch.dtype = torch.float32) -> HMM:
        """Read what ``save`` wrote.

        Raises:
            ModelError: the file is missing, not intact or not an HMM.
        """
        from ctrlgen.hmm.storage import load

        return load(path).to(device, dtype)

    @classmethod
    def named(cls, name: str, *, device: str = "cpu", dtype: torch.dtype = torch.float32) -> HMM:
        """One that comes with ctrlgen, such as "smollm2-135m": see ``ctrlgen.hmm.library``.

        Raises:
            InputError: there is none of this name.
        """
        from ctrlgen.hmm.library import ready

        return cls.load(ready(name), device=device, dtype=dtype)

    def __repr__(self) -> str:
        kind = type(self.emission).__name__.lower()
        return f"HMM(states={self.states}, width={self.width}, {kind}, {self.dtype}, eos={self.eos})"


def observe(hmm: HMM, prior: torch.Tensor, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """p(z_t | x_<t) after x_t was seen, and how likely x_t was.

    A token that the model does not know, or holds for impossible, says nothing of the state and is passed over.

    Args:
        prior: float[B, H]: p(z_t | x_<t).
        tokens: int64[B].

    Returns:
        float[B, H]: p(z_t | x_<=t), and float[B]: p(x_t | x_<t), 0 for tokens that were passed over.
    """
    known = tokens < hmm.width
    joint = prior * hmm.emission.columns(tokens.clamp(max=hmm.width - 1)).to(prior.dtype)
    total = torch.where(known, joint.sum(1), 0.0)
    seen = total > 0
    posterior = torch.where(seen[:, None], joint / torch.where(seen, total, 1.0)[:, None], prior)
    return posterior, total


def advance(hmm: HMM, posterior: torch.Tensor) -> torch.Tensor:
    """float[B, H]: p(z_{t+1} | x_<=t) from p(z_t | x_<=t), which it sums to 1 again against rounding."""
    after = product(posterior, hmm.transition)
    return after / after.sum(1, keepdim=True)


def step(hmm: HMM, prior: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """float[B, H]: p(z_{t+1} | x_<=t) from p(z_t | x_<t) and the tokens x_t, int64[B]."""
    return advance(hmm, observe(hmm, prior, tokens)[0])


def after_texts(hmm: HMM, texts: tuple[tuple[int, ...], ...], last: int = 256) -> torch.Tensor:
    """float[B, H]: p(z_{n+1} | text) for texts of any lengths.

    Args:
        hmm: the model.
        texts: ids, without padding; may be empty.
        last: no more than so many ids at the end of a text are looked at. The influence of those before falls with
            the power of the second eigenvalue of the transitions, so what is lost is below rounding.
    """
    distinct = list(dict.fromkeys(text[-last:] for text in texts))
    length = max(map(len, distinct), default=0)
    # aligned at their ends, so that all are over at the same step
    ids = torch.tensor([[0] * (length - len(text)) + list(text) for text in distinct], device=hmm.device)
    ids = ids.view(len(distinct), length).long()
    lengths = torch.tensor([len(text) for text in distinct], device=hmm.device)
    prior = hmm.start.expand(len(distinct), -1)
    for column in range(length):
        begun = (column >= length - lengths)[:, None]
        prior = torch.where(begun, step(hmm, prior, ids[:, column]), prior)
    row = {text: i for i, text in enumerate(distinct)}
    return prior[torch.tensor([row[text[-last:]] for text in texts], dtype=torch.long, device=hmm.device)]


def log_likelihood(hmm: HMM, ids: torch.Tensor, length: torch.Tensor) -> torch.Tensor:
    """float[N, L]: log p(x_t | x_<t); 0 past the end and for tokens that were passed over.

    Args:
        hmm: the model.
        ids: int64[N, L], right padded with anything below V.
        length: int64[N].
    """
    prior = hmm.start.expand(len(ids), -1)
    out = []
    for column in range(ids.shape[1]):
        posterior, likely = observe(hmm, prior, ids[:, column])
        out.append(torch.where((column < length) & (likely > 0), likely, 1.0).log())
        prior = advance(hmm, posterior)
    return torch.stack(out, 1)


def stationary(hmm: HMM, steps: int = 10_000) -> torch.Tensor:
    """float64[H]: how often each state is visited in the long run, from ``start`` on."""
    matrix = hmm.transition.double()
    matrix = matrix / matrix.sum(1, keepdim=True)
    now = hmm.start.double()
    for _ in range(steps):
        after = (now + now @ matrix) / 2  # lazy, so that cycles settle too
        if (after - now).abs().sum() < 1e-12:
            break
        now = after
    return now / now.sum()


def memory(hmm: HMM) -> float:
    """The second largest modulus among the eigenvalues of A: by what the influence of a state falls with each token."""
    values = torch.linalg.eigvals(hmm.transition.float()).abs().sort(descending=True).values
    return float(values[1]) if len(values) > 1 else 0.0


def from_tables(
    start: Any, transition: Any, emission: Any, *, eos: tuple[int, ...] = (), dtype: torch.dtype = torch.float64
) -> HMM:
    """An HMM from arrays [H], [H, H] and [H, V] (a row a state, as books print them)."""
    tables = [torch.as_tensor(one, dtype=dtype) for one in (start, transition, emission)]
    return HMM(tables[0], tables[1], Dense(tables[2].T.contiguous()), eos)


def _check(hmm: HMM) -> None:
    states, (width, columns) = hmm.start.shape[0], hmm.emission.shape
    if hmm.start.dim() != 1 or hmm.transition.shape != (states, states) or columns != states:
        raise ModelError(
            f"start has shape {list(hmm.start.shape)}, transition {list(hmm.transition.shape)}, emission [{width}, "
            f"{columns}]; expected [H], [H, H] and [V, H]"
        )
    if any(not 0 <= token < width for token in hmm.eos):
        raise ModelError(f"eos is {list(hmm.eos)}; expected ids from 0 to {width - 1}")
    sums = {
        "start": hmm.start.sum(dtype=torch.float64)[None],
        "transition": hmm.transition.sum(1, dtype=torch.float64),
        "emission": hmm.emission.totals(),
    }
    parts = (hmm.start, hmm.transition, *hmm.emission.parts())
    if any(bool((part < 0).any()) for part in parts):
        raise ModelError("an HMM has probabilities, and there is a negative number")
    for name, total in sums.items():
        off = (total - 1).abs()
        if not bool((off <= _TOLERANCE.get(hmm.dtype, 1e-4)).all()):
            row = int(off.nan_to_num(nan=torch.inf).argmax())
            raise ModelError(f"{name} of state {row} sums to {float(total[row]):.6g}, expected 1")
