"""What is wanted of a text, as a sum of products over its tokens: the form in which an HMM can look ahead exactly.

p(wanted | x_1 ... x_n) = Re sum_m coefficient_m exp(sum_i weight_m(x_i)).

A factorised attribute (TRACE, arXiv 2504.18535) is one real product. A logistic one is a sum of sines, each
the imaginary part of a complex product. Sums and products of such sums are such sums again, so AND, OR and NOT of
independent attributes stay exact.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch

from ctrlgen.errors import ComplexityError, InputError

MOST = 1024
"""Products that a composition may consist of."""

_STRETCH = 1.4  # of the period beyond the range: sines fit better when they need not meet at its ends


class Terms(NamedTuple):
    """M products over tokens."""

    coefficients: torch.Tensor
    """float64[M] or complex128[M]"""
    weights: torch.Tensor
    """float64[M, V] or complex128[M, V], finite."""

    @property
    def size(self) -> int:
        """M."""
        return self.weights.shape[0]

    def probability(self, counts: torch.Tensor) -> torch.Tensor:
        """float64[N]: of texts given as numbers of each token, float64[N, V]."""
        sums = counts.to(self.weights.dtype) @ self.weights.T
        return (self.coefficients * sums.exp()).real.sum(1)

    def __and__(self, other: Terms) -> Terms:
        """Both, if one says nothing of the other: probabilities are multiplied."""
        _check_width(self, other)
        count = self.size * other.size * (2 if self.weights.is_complex() and other.weights.is_complex() else 1)
        if count > MOST:
            raise ComplexityError(
                f"the composition has {count} products, more than {MOST}; fit logistic attributes with fewer sines"
            )
        pairs = [_product(self, other)]
        if self.weights.is_complex() and other.weights.is_complex():
            # Re x Re y = Re (x y + x conj(y)) / 2
            conjugate = Terms(other.coefficients.conj(), other.weights.conj())
            pairs = [_scaled(one, 0.5) for one in (*pairs, _product(self, conjugate))]
        return _together(*pairs)

    def __invert__(self) -> Terms:
        """The opposite: 1 - p."""
        return _together(constant(1.0, self.weights.shape[1]), _scaled(self, -1.0))

    def __or__(self, other: Terms) -> Terms:
        """Either or both: 1 - (1 - p) (1 - q)."""
        return ~(~self & ~other)


def constant(value: float, width: int) -> Terms:
    """The same for every text."""
    return Terms(torch.tensor([value], dtype=torch.float64), torch.zeros(1, width, dtype=torch.float64))


def factorised(weights: torch.Tensor) -> Terms:
    """p = exp(sum of weights): float[V], none above 0.

    Raises:
        InputError: a weight is positive or not finite.
    """
    weights = weights.double()
    if weights.dim() != 1 or not bool(((weights <= 0) & weights.isfinite()).all()):
        raise InputError("factorised weights are log-probabilities: one finite number for each token, none above 0")
    return Terms(torch.ones(1, dtype=torch.float64), weights[None])


def logistic(weights: torch.Tensor, bias: float, *, reach: float, sines: int) -> Terms:
    """p = 1 / (1 + exp(-u)) with u = bias + sum of weights, any sign, where -reach <= u <= reach.

    1 / (1 + exp(-u)) - 1/2 is fitted by c_k sin(theta_k u), theta_k = pi k / (1.4 reach), least squares. Beyond
    ``reach`` the fit is worthless; ``largest_error`` says how good it is within.

    Args:
        weights: float[V].
        bias: b.
        reach: of u.
        sines: number of terms; the error falls exponentially with sines / reach.

    Raises:
        InputError: numbers that are not finite or not positive.
    """
    weights = weights.double()
    if weights.dim() != 1 or not bool(weights.isfinite().all()) or not math.isfinite(bias):
        raise InputError("logistic weights are one finite number for each token, and a finite bias")
    frequencies, heights = _sines(reach, sines)
    phases = torch.complex(torch.zeros_like(frequencies), frequencies)
    coefficients = -1j * heights * (phases * bias).exp()
    waves = Terms(coefficients, phases[:, None] * weights)
    return _together(constant(0.5, len(weights)), waves)


def largest_error(reach: float, sines: int) -> float:
    """How far the sines are from the logistic function, at most, on [-reach, reach]."""
    frequencies, heights = _sines(reach, sines)
    u = torch.linspace(-reach, reach, 4001, dtype=torch.float64)
    return float(((u[:, None] * frequencies).sin() @ heights + 0.5 - u.sigmoid()).abs().max())


def _sines(reach: float, sines: int) -> tuple[torch.Tensor, torch.Tensor]:
    if not (math.isfinite(reach) and reach > 0 and sines >= 1):
        raise InputError(f"reach is {reach} and sines {sines}; both must be positive")
    frequencies = math.pi / (_STRETCH * reach) * torch.arange(1, sines + 1, dtype=torch.float64)
    u = torch.linspace(-reach, reach, 2000, dtype=torch.float64)
    basis = (u[:, None] * frequencies).sin()
    return frequencies, torch.linalg.lstsq(basis, (u.sigmoid() - 0.5)[:, None], driver="gelsd").solution[:, 0]


def _product(left: Terms, right: Terms) -> Terms:
    coefficients = (left.coefficients[:, None] * right.coefficients).flatten()
    weights = left.weights[:, None] + right.weights
    return Terms(coefficients, weights.flatten(0, 1))


def _scaled(terms: Terms, factor: float) -> Terms:
    return Terms(terms.coefficients * factor, terms.weights)


def _together(*several: Terms) -> Terms:
    """The sum; equal products are counted once."""
    complex_ = any(one.weights.is_complex() for one in several)
    dtype = torch.complex128 if complex_ else torch.float64
    weights = torch.cat([one.weights.to(dtype) for one in several])
    coefficients = torch.cat([one.coefficients.to(dtype) for one in several])
    rows: dict[bytes, int] = {}
    place = [rows.setdefault(row.numpy().tobytes(), len(rows)) for row in weights.resolve_conj() + 0]
    first = [place.index(i) for i in range(len(rows))]
    summed = torch.zeros(len(rows), dtype=dtype).index_add_(0, torch.tensor(place), coefficients)
    used = (summed != 0).nonzero()[:, 0] if bool((summed != 0).any()) else torch.tensor([0])
    return Terms(summed[used], weights[first][used])


def _check_width(left: Terms, right: Terms) -> None:
    if left.weights.shape[1] != right.weights.shape[1]:
        raise InputError(
            f"attributes for {left.weights.shape[1]} and {right.weights.shape[1]} tokens cannot be composed"
        )
