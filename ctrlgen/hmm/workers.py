"""Several processes that fit one model: each counts a part of the texts, and the counts are added up.

``torchrun --nproc-per-node 4 -m ctrlgen.cli hmm fit ...`` starts them; every process then has the same model.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import torch
import torch.distributed as distributed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    T = TypeVar("T")


@dataclass(frozen=True)
class Workers:
    """This process among all."""

    rank: int = 0
    count: int = 1

    @property
    def leads(self) -> bool:
        """Whether this one writes files and says how far it is."""
        return self.rank == 0

    def mine(self, parts: Sequence[T]) -> Sequence[T]:
        """The parts that are this one's to count."""
        return parts[self.rank :: self.count]

    def add_up(self, tensors: Sequence[torch.Tensor]) -> None:
        """Sums over all processes, in place."""
        if self.count > 1:
            for one in tensors:
                distributed.all_reduce(one)

    def share(self, tensors: Sequence[torch.Tensor]) -> None:
        """What the first process has, in place."""
        if self.count > 1:
            for one in tensors:
                distributed.broadcast(one, 0)


def workers() -> Workers:
    """Those of the process group there is, or this process alone."""
    if distributed.is_available() and distributed.is_initialized():
        return Workers(distributed.get_rank(), distributed.get_world_size())
    return Workers()


@contextlib.contextmanager
def joined(device: torch.device) -> Iterator[Workers]:
    """The processes that torchrun started, for the time being; this one alone if it did not."""
    if "WORLD_SIZE" not in os.environ or distributed.is_initialized():
        yield workers()
        return
    distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield workers()
    finally:
        distributed.destroy_process_group()
