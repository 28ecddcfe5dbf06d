"""The demo's job in every mode: what comes out validates, judged by pydantic and by jsonschema."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import ModuleType
from typing import Any

import jsonschema
import pytest

import ctrlgen as cg


@pytest.fixture(scope="module")
def demo(load_example: Callable[[str], ModuleType]) -> ModuleType:
    return load_example("demo")


@pytest.mark.model
@pytest.mark.parametrize(
    "mode", [{}, {"temperature": 1.5, "seed": 1}, {"num_beams": 4}], ids=["greedy", "temperature 1.5", "beam 4"]
)
def test_every_record_validates(smollm2: Any, demo: ModuleType, mode: dict[str, Any]) -> None:
    prompts = [demo.ask(message) for message in demo.MESSAGES[:8]]
    results = cg.generate(
        smollm2.model, smollm2.tokenizer, prompts, constraint=cg.JsonSchema(demo.Ticket), max_new_tokens=400, **mode
    )
    assert len(results) == 8
    for result in results:
        assert result.finished
        assert result.value == demo.Ticket.model_validate_json(result.text)
        jsonschema.Draft202012Validator(demo.Ticket.model_json_schema()).validate(json.loads(result.text))
        assert 0 < result.trace.mask_share < 0.5


def test_the_demo_knows_a_broken_record(demo: ModuleType) -> None:
    assert not demo.is_valid('{"customer": ""}')
    assert not demo.is_valid("Sure! Here is the JSON:")
