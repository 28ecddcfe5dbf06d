"""ctrlgen in vLLM, offline: python examples/serving_vllm.py MODEL (a folder or a name; vLLM must be installed)."""

import sys

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
REQUESTS = [
    ("Somebody as JSON: ", {"json_schema": SCHEMA}),
    ("The date of the meeting: ", {"regex": "[0-9]{4}-[0-9]{2}-[0-9]{2}"}),
    ("Is water wet? ", {"choices": ["yes", "no"]}),
    ("Tell me a joke. ", None),
]


def main(model: str) -> None:
    """Requests of different kinds in one batch."""
    from vllm import LLM, SamplingParams

    engine = LLM(model, max_model_len=512, logits_processors=["ctrlgen.serving.vllm:Control"])
    parameters = [
        SamplingParams(max_tokens=60, seed=0, extra_args=None if asked is None else {"ctrlgen": asked})
        for _, asked in REQUESTS
    ]
    outputs = engine.generate([prompt for prompt, _ in REQUESTS], parameters)
    for (prompt, asked), output in zip(REQUESTS, outputs, strict=True):
        print(f"{prompt!r} {asked}\n    {output.outputs[0].text!r}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "HuggingFaceTB/SmolLM2-135M-Instruct")
