"""Attributes from labelled texts, in seconds: convex problems in one weight a token, solved by L-BFGS-B.

logistic    sum over texts of log(1 + exp(-y u)) + ridge / 2 |w|^2, u = bias + sum of w, |w| <= largest
factorised  p = exp(u), u = sum of w, w <= 0: the likelihood of the labels and a Lasso. TRACE (arXiv 2504.18535)
            regresses logarithms of scores instead; with labels there are no scores, and this needs none
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ctrlgen.errors import InputError
from ctrlgen.hmm.attribute import Attribute

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

KINDS = ("logistic", "factorised")

_SURE = 1e-4  # -log of the probability of a text that no weight speaks against


class Examples(NamedTuple):
    """N texts as numbers of each token; shared by any number of attributes."""

    counts: Any
    """scipy.sparse.csr_matrix float64[N, V]"""

    @property
    def size(self) -> int:
        """N."""
        return int(self.counts.shape[0])


def examples(texts: Sequence[Sequence[int]], width: int) -> Examples:
    """Counts of texts given as ids.

    Raises:
        InputError: an id that is not from 0 to ``width`` - 1.
    """
    from scipy.sparse import csr_matrix

    lengths = np.array([len(text) for text in texts], np.int64)
    flat = np.fromiter((token for text in texts for token in text), np.int64, int(lengths.sum()))
    if len(flat) and not (flat.min() >= 0 and flat.max() < width):
        raise InputError(f"texts hold ids from {flat.min()} to {flat.max()}; expected 0 to {width - 1}")
    starts = np.concatenate([[0], lengths.cumsum()])
    counts = csr_matrix((np.ones(len(flat)), flat, starts), shape=(len(texts), width))
    counts.sum_duplicates()
    return Examples(counts)


def pieces(ids: Sequence[int], length: int) -> list[list[int]]:
    """A text cut into pieces of ``length`` ids; a rest that is shorter than half of that is left out, unless alone."""
    cut = [list(ids[first : first + length]) for first in range(0, len(ids), length)]
    return [piece for i, piece in enumerate(cut) if i == 0 or 2 * len(piece) >= length]


def fit_attribute(
    known: Examples,
    labels: Sequence[bool] | NDArray[np.bool_],
    *,
    kind: str = "logistic",
    penalty: float = 1.0,
    largest: float = 1.0,
    held_out: NDArray[np.bool_] | None = None,
    card: Mapping[str, Any] | None = None,
) -> Attribute:
    """The attribute that texts with a true label have.

    Args:
        known: the texts.
        labels: of each.
        kind: "logistic" or "factorised".
        penalty: of the weights: ridge of a logistic one, Lasso of a factorised one, in units of one text.
        largest: no weight of a logistic attribute goes beyond it, so that sums of weights, and with them the number of
            sines that look ahead, stay small.
        held_out: bool[N], texts to measure with only; by default each tenth.
        card: to be added to.

    Raises:
        InputError: labels that do not fit, or are all alike.
    """
    truth = np.asarray(labels, bool)
    if truth.shape != (known.size,):
        raise InputError(f"{known.size} texts and labels of shape {list(truth.shape)}: expected one for each text")
    if kind not in KINDS or not (penalty >= 0 and largest > 0):
        raise InputError(f"kind is {kind!r}, penalty {penalty}, largest {largest}; expected {' or '.join(KINDS)}")
    apart = np.arange(known.size) % 10 == 9 if held_out is None else np.asarray(held_out, bool)
    if apart.shape != truth.shape or not 0 < truth[~apart].sum() < (~apart).sum():
        raise InputError("the texts to learn from all have one label: expected both")
    problem = _logistic if kind == "logistic" else _factorised
    weights, bias = problem(known.counts[~apart], truth[~apart], penalty, largest)
    sums = known.counts[apart] @ weights
    facts = {
        "kind": kind, "texts": int((~apart).sum()), "share": float(truth[~apart].mean()), "penalty": penalty,
        "held_out_texts": int(apart.sum()), "held_out_auc": area(sums, truth[apart]),
    }  # fmt: skip
    facts |= dict(card or {})
    if kind == "logistic":
        return Attribute.logistic(weights.astype(np.float32), float(bias), card=facts)
    return Attribute.factorised(weights.astype(np.float32), card=facts)


def fit_each(
    known: Examples, marks: Sequence[str], *, least: int = 2, card: Mapping[str, Any] | None = None, **more: Any
) -> dict[str, Attribute]:
    """An attribute for each mark, against all texts of other marks: many attributes that share texts and an HMM.

    Args:
        known: the texts.
        marks: of each, such as who wrote it.
        least: marks of fewer texts to learn from, or to learn against, have no attribute.
        card: to be added to.
        more: for ``fit_attribute``.

    Raises:
        InputError: as ``fit_attribute``, or no mark has enough texts.
    """
    if len(marks) != known.size:
        raise InputError(f"{known.size} texts and {len(marks)} marks: expected one for each text")
    held_out = more.get("held_out")
    apart = np.arange(known.size) % 10 == 9 if held_out is None else np.asarray(held_out, bool)
    each = np.array(list(map(str, marks)))
    found, place, counts = np.unique(each[~apart], return_inverse=True, return_counts=True)
    enough = [str(mark) for mark, n in zip(found, counts, strict=True) if least <= n <= len(place) - least]
    if not enough:
        raise InputError(f"no mark has {least} texts to learn from, and {least} of others")
    return {mark: fit_attribute(known, each == mark, card={"mark": mark} | dict(card or {}), **more) for mark in enough}


def area(scores: NDArray[np.float64], truth: NDArray[np.bool_]) -> float | None:
    """The probability that a text with the label has the higher score than one without, ties being halves."""
    ones, zeros = int(truth.sum()), int((~truth).sum())
    if not ones or not zeros:
        return None
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (counts.cumsum() - (counts - 1) / 2)[place]
    return float((ranks[truth].sum() - ones * (ones + 1) / 2) / (ones * zeros))


def _logistic(counts: Any, truth: NDArray[np.bool_], ridge: float, largest: float) -> tuple[NDArray[np.float64], float]:
    sign = np.where(truth, 1.0, -1.0)

    def loss(point: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        weights, margin = point[:-1], sign * (counts @ point[:-1] + point[-1])
        pull = -sign * np.exp(-np.logaddexp(0, margin))
        slope = np.append(counts.T @ pull + ridge * weights, pull.sum())
        return float(np.logaddexp(0, -margin).sum() + ridge / 2 * weights @ weights), slope

    width = counts.shape[1]
    found = _minimised(loss, np.zeros(width + 1), [(-largest, largest)] * width + [(None, None)])
    return found[:-1], float(found[-1])


def _factorised(counts: Any, truth: NDArray[np.bool_], lasso: float, _: float) -> tuple[NDArray[np.float64], float]:
    def loss(weights: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        sums = counts @ weights - _SURE
        odds = np.exp(sums) / -np.expm1(sums)
        pull = np.where(truth, -1.0, odds)
        value = -sums[truth].sum() - np.log(-np.expm1(sums[~truth])).sum() - lasso * weights.sum()
        return float(value), counts.T @ pull - lasso

    begin = np.where(np.asarray(counts[~truth].sum(0)).ravel() > 0, -0.01, 0.0)
    return _minimised(loss, begin, [(None, 0.0)] * counts.shape[1]), 0.0


def _minimised(
    loss: Callable[[NDArray[np.float64]], tuple[float, NDArray[np.float64]]], begin: NDArray[np.float64], bounds: Any
) -> NDArray[np.float64]:
    from scipy.optimize import minimize

    options = {"maxiter": 300, "maxcor": 10}
    found: NDArray[np.float64] = minimize(loss, begin, jac=True, bounds=bounds, method="L-BFGS-B", options=options).x
    return found
