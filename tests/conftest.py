"""Session-wide fixtures: the real model and the real tokenizers, where they are there.

Tests never fetch anything: `make assets` does. What is absent skips the test with the reason, or fails it where
CI=true or CTRLGEN_REQUIRE_ASSETS=1, so that continuous integration cannot pass by skipping.
"""

import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, NoReturn

import pytest

from ctrlgen import models
from ctrlgen.errors import ModelError

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_OFFLINE"] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests marked ``gpu`` are skipped where there is none."""
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if not marked:
        return
    import torch

    if not torch.cuda.is_available():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="no CUDA device"))


class Loaded(NamedTuple):
    """A model and its tokenizer."""

    model: Any
    tokenizer: Any


@pytest.fixture(scope="session")
def smollm2_folder() -> Path:
    """The default model's folder; loading only its tokenizer takes a second less than `smollm2`."""
    try:
        return models.default_model(fetch=False)
    except ModelError as error:
        absent(error)


@pytest.fixture(scope="session")
def smollm2(smollm2_folder: Path) -> Loaded:
    """The default model in float32, in which the order of sums does not change the choice of a token."""
    return Loaded(*models.load(smollm2_folder, dtype="float32"))


@pytest.fixture(scope="session")
def tokenizer_folder() -> Callable[[str], Path]:
    """tokenizer_folder("qwen3"): the folder of a real tokenizer."""

    def find(name: str) -> Path:
        try:
            return models.tokenizer(name, fetch=False)
        except ModelError as error:
            absent(error)

    return find


@pytest.fixture(scope="session")
def load_example() -> Callable[[str], ModuleType]:
    """examples/<name>.py as a module."""

    def load(name: str) -> ModuleType:
        path = Path(__file__).resolve().parent.parent / "examples" / f"{name}.py"
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # dataclasses and pydantic look annotations up there
        spec.loader.exec_module(module)
        return module

    return load


def absent(error: ModelError) -> NoReturn:
    """Skip, or fail where assets are required."""
    required = os.environ.get("CI") == "true" or os.environ.get("CTRLGEN_REQUIRE_ASSETS") == "1"
    (pytest.fail if required else pytest.skip)(str(error))
