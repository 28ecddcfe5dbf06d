"""The loops of the kernel modules, compiled when they are first called.

The loops are plain functions, so that importing the package does not import numba, and a loop can be followed in a
debugger as it stands.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from ctrlgen.index import build_kernels, name_kernels, step_kernels, walk_kernels

if TYPE_CHECKING:
    from collections.abc import Callable


@cache
def compiled(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """``kernel`` as machine code, kept on disk from one process to the next."""
    from numba import njit

    _register_parts()
    function: Callable[..., Any] = njit(cache=True, nogil=True)(kernel)
    return function


@cache
def _register_parts() -> None:
    """Make known to numba the functions that kernels call."""
    from numba.extending import register_jitable

    for part in (*build_kernels.PARTS, *step_kernels.PARTS, *walk_kernels.PARTS, *name_kernels.PARTS):
        register_jitable(part)
