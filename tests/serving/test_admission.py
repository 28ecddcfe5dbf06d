"""What is refused where requests come in; parameters as vLLM has them."""

from types import SimpleNamespace

import pytest

import ctrlgen as cg
from ctrlgen.serving.admission import ARGUMENT, Admission
from ctrlgen.serving.registry import Registry
from tests.served import END, PATIENT, VOCABULARY


def parameters(asked, **more):
    plain = {"min_tokens": 0, "ignore_eos": False, "stop": [], "stop_token_ids": [], "max_tokens": 16}
    return SimpleNamespace(extra_args=None if asked is None else {ARGUMENT: asked}, **{**plain, **more})


@pytest.fixture(params=[False, True], ids=["front end", "engine in this process"])
def admission(request):
    made = Admission(Registry(limits=PATIENT))
    if request.param:
        made.use(VOCABULARY, "cpu")
    return made


def test_good_requests_pass(admission):
    admission.check(parameters(None, stop=["x"], min_tokens=3))
    admission.check(parameters({"choices": ["ab"]}))
    admission.check(parameters('{"choices": ["ab"]}', max_tokens=None))
    admission.check(parameters({"steer": [{"fsd": {}}]}, stop=["x"], min_tokens=3))


@pytest.mark.parametrize(
    "more",
    [
        {"min_tokens": 1},
        {"ignore_eos": True},
        {"stop": ["x"]},
        {"bad_words": ["x"]},
        {"allowed_token_ids": [1]},
        {"structured_outputs": SimpleNamespace(json="{}")},
        {"thinking_token_budget": 0},
    ],
    ids=lambda more: next(iter(more)),
)
def test_parameters_that_cannot_be_kept_with_a_constraint(admission, more):
    with pytest.raises(cg.RequestError, match=next(iter(more))):
        admission.check(parameters({"choices": ["ab"]}, **more))


def test_bad_specifications(admission):
    for wrong in ({"regex": "("}, "{", {}, 3, [1], {"free": {"token": 1.5}}):
        with pytest.raises(cg.RequestError):
            admission.check(parameters(wrong))


def test_what_only_the_vocabulary_can_tell():
    made = Admission(Registry(limits=PATIENT))
    made.use(VOCABULARY, "cpu")
    with pytest.raises(cg.BudgetError, match="at least 4"):
        made.check(parameters({"regex": "[c-e]{3}"}, max_tokens=2))
    made.check(parameters({"regex": "[c-e]{3}", "in_time": False}, max_tokens=2))
    with pytest.raises(cg.VocabularyError):
        made.check(parameters({"free": {"token": "<none>"}}))
    made.check(parameters({"choices": ["ab"]}, stop_token_ids=[END]))
    with pytest.raises(cg.RequestError, match="stop_token_ids"):
        made.check(parameters({"choices": ["ab"]}, stop_token_ids=[97]))
