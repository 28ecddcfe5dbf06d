"""What steps over an index take and give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ctrlgen.errors import InputError
from ctrlgen.index.layout import LOST, NODE

if TYPE_CHECKING:
    from numpy.typing import NDArray


INT64, FLOAT32 = np.dtype(np.int64), np.dtype(np.float32)


class Candidates(NamedTuple):
    """The best continuations of groups of rows: numpy arrays, or tensors on the device of the logits.

    Attributes:
        parents: int64[B, K], the row each continues.
        tokens: int64[B, K], -1 for a row that has ended and for a dead slot.
        scores: float32[B, K], falling; -inf for a dead slot.
        states: int64[B, K, 4], see ``ctrlgen.index.layout``.
        overflow: bool[], True if the given width was too small for a row, so that candidates may be missing; only
            with tensors and a given width.
    """

    parents: Any
    tokens: Any
    scores: Any
    states: Any
    overflow: Any = False


def lost_states(*shape: int) -> NDArray[np.int64]:
    """int64[*shape, 4], states from which nothing follows."""
    states = np.zeros((*shape, 4), np.int64)
    states[..., NODE] = LOST
    return states


def kernel_array(array: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    """``array`` as kernels take it: of this dtype, contiguous, writable; a copy only where it has to be."""
    if type(array) is np.ndarray and array.dtype is dtype and array.flags.carray:
        return array
    return np.require(array, dtype, ["C", "W"])


def check_step(states: Any, scores: Any, logs: Any, k: int, beams: int, width: int) -> None:
    """Raise unless the arguments of a step fit together.

    Raises:
        InputError: says which does not.
    """
    rows = states.shape[0]
    if states.shape != (rows, 4):
        raise InputError(f"states must have shape [R, 4], not {list(states.shape)}")
    if len(logs.shape) != 2 or logs.shape[0] != rows or scores.shape != (rows,):
        raise InputError(
            f"{rows} states need scores [{rows}] and logits [{rows}, V], not {list(scores.shape)} and "
            f"{list(logs.shape)}"
        )
    if logs.shape[1] < width:
        raise InputError(f"logits have {logs.shape[1]} columns, but ids may go up to {width - 1}")
    if beams < 1 or rows % beams or k < 1:
        raise InputError(f"{rows} rows are not groups of {beams} beams each, or k={k} is not positive")
