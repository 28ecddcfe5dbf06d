"""vLLM for real, its V1 runner on the CPU, in an environment of its own (`make vllm`)."""

import os
import random

import pytest

pytestmark = [pytest.mark.vllm, pytest.mark.model, pytest.mark.slow, pytest.mark.timeout(1500)]
vllm = pytest.importorskip("vllm", reason="needs vLLM: make vllm", exc_type=ImportError)

OBJECT = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
TOOL = {"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}}
VALUES = [
    {"json_schema": OBJECT},
    {"regex": "[0-9]{4}-[0-9]{2}"},
    {"choices": ["yes", "no", "maybe"]},
    None,
    {"grammar": 'root ::= "a" root | "b"', "syntax": "gbnf"},
    {"thinking": {"choices": ["cat", "dog"]}},
    {"tools": [TOOL], "choice": "required"},
]


@pytest.fixture(scope="module")
def engine(smollm2_folder):
    """An engine with so little room that requests are preempted."""
    os.environ.update(
        VLLM_CPU_KVCACHE_SPACE="1",
        VLLM_CPU_OMP_THREADS_BIND="1",
        VLLM_ENABLE_V1_MULTIPROCESSING="0",
        VLLM_NO_USAGE_STATS="1",
    )
    return vllm.LLM(
        str(smollm2_folder),
        dtype="float32",
        enforce_eager=True,
        max_num_seqs=4,
        max_model_len=256,
        num_gpu_blocks_override=7,
        disable_log_stats=False,
        logits_processors=["ctrlgen.serving.vllm:Control"],
    )


def accepted(value, ids, vocabulary):
    """Whether ids are a whole text of a request's constraint."""
    from ctrlgen.serving.registry import Registry
    from ctrlgen.serving.specification import read_request

    constraint = read_request(value, Registry()).constraint.compile(vocabulary)
    state = constraint.start
    for token in ids:
        state = constraint.advance(state, token)
    return state >= 0 and constraint.accepts(state) and ids[-1] in vocabulary.eos


def test_mixed_requests_that_come_go_and_are_preempted(engine):
    from ctrlgen.serving.admission import Admission

    draw = random.Random(0)
    vocabulary = Admission.of_process().compiler().vocabulary
    values = [draw.choice(VALUES) for _ in range(200)]
    core, waiting, done, aborted = engine.llm_engine, list(range(200)), {}, set()
    while waiting or core.has_unfinished_requests():
        for _ in range(draw.choice([0, 1, 2, 5]) if waiting else 0):  # arrivals
            number = waiting.pop() if waiting else None
            if number is None:
                break
            value = values[number]
            parameters = vllm.SamplingParams(
                temperature=1.0,
                seed=number,
                max_tokens=draw.choice([32, 48]),
                extra_args=None if value is None else {"ctrlgen": value},
            )
            core.add_request(str(number), "Tell me something about a person: " * draw.choice([1, 15, 16]), parameters)
        for output in core.step():
            if output.finished:
                done[int(output.request_id)] = output.outputs[0]
            elif draw.random() < 0.001:
                core.abort_request([output.request_id])
                aborted.add(int(output.request_id))
    assert set(done) | aborted == set(range(200))
    assert len(aborted) < 20
    wrong = [
        (values[number], output.text)
        for number, output in done.items()
        if values[number] is not None and not accepted(values[number], list(output.token_ids), vocabulary)
    ]
    assert wrong == []
    metrics = {metric.name: metric for metric in engine.get_metrics()}
    assert metrics["vllm:num_preemptions"].value > 0


def test_greedy_texts_are_those_of_transformers(engine, smollm2):
    import torch

    from ctrlgen.processor import ControlProcessor
    from ctrlgen.serving.registry import Registry
    from ctrlgen.serving.specification import read_request

    prompt = "Tell me something about a person: "
    for value in VALUES:
        extra = None if value is None else {"ctrlgen": value}
        parameters = vllm.SamplingParams(temperature=0.0, max_tokens=40, extra_args=extra)
        (found,) = engine.generate([prompt], [parameters], use_tqdm=False)
        ids = smollm2.tokenizer(prompt, return_tensors="pt").input_ids
        spec = None if value is None else read_request(value, Registry()).constraint
        processor = ControlProcessor(spec, smollm2.tokenizer, max_new_tokens=40)
        with torch.inference_mode():
            out = smollm2.model.generate(ids, max_new_tokens=40, do_sample=False, logits_processor=[processor])
        assert list(found.outputs[0].token_ids) == out[0, ids.shape[1] :].tolist(), value


def test_bad_requests_are_refused_with_the_reason(engine):
    from vllm.exceptions import VLLMValidationError

    for value, more, reason in [
        ({"regex": "("}, {}, "#/regex: this group is never closed"),
        ({"json_schema": OBJECT}, {"max_tokens": 3}, "is too small"),
        ({"choices": ["a"]}, {"min_tokens": 2}, "min_tokens=2 does not go with a constraint"),
        ({"free": {"token": "<none>"}}, {}, "no control token of this vocabulary"),
    ]:
        parameters = vllm.SamplingParams(**{"max_tokens": 20, "extra_args": {"ctrlgen": value}, **more})
        with pytest.raises(VLLMValidationError, match=r"ctrlgen: ") as caught:
            engine.generate(["x"], [parameters], use_tqdm=False)
        assert reason in str(caught.value)
