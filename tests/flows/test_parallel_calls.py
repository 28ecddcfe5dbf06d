"""call_in_parallel: the arguments are those that are decoded one by one, and the call is one of the tool's."""

import json

import pytest

import ctrlgen as cg
from ctrlgen.constraints.parts import byte_vocabulary
from ctrlgen.errors import BudgetError, InputError
from ctrlgen.flows.generate import generate
from ctrlgen.flows.parallel_calls import call_in_parallel
from ctrlgen.testing import ToyLM, ToyTokenizer
from ctrlgen.vocabulary import Vocabulary
from tests.constraints.tools.test_tool_calls import WEATHER, allows, book, marked_vocabulary
from tests.steering.models import tiny

BYTES = byte_vocabulary()
SHAPES = {
    "name": "shapes",
    "parameters": {
        "properties": {
            "kind": {"enum": ["circle", "square"]},
            "sizes": {"type": "array", "items": {"$ref": "#/$defs/size"}, "minItems": 1, "maxItems": 2},
            'é "q"': {"type": "boolean"},
            "note": {"type": "string", "maxLength": 5},
        },
        "required": ["kind", "sizes", 'é "q"'],
        "$defs": {"size": {"type": "integer", "minimum": 0, "maximum": 99}},
    },
}
TOOLS = [WEATHER, SHAPES, {"name": "time"}]


def model_of(vocabulary=BYTES):
    return ToyLM(vocabulary, scale=3.0), ToyTokenizer(vocabulary)


def call(prompt, spec, vocabulary=BYTES, **options):
    return call_in_parallel(*model_of(vocabulary), prompt, spec, vocabulary=vocabulary, **options)


@pytest.mark.parametrize("name", ["hermes", "json", "llama-function", "deepseek", "mistral", "mistral-v11"])
def test_calls_are_of_the_tools(name):
    vocabulary = marked_vocabulary()
    spec, seen = cg.ToolCalls(TOOLS, name, "required"), set()
    for prompt in ("ab", "c", "hello there", "x", "yy"):
        found = call(prompt, spec, vocabulary)
        seen.add(found.call.name)
        assert spec.parse(found.text) == [found.call]
        assert allows(spec.compile(BYTES), found.text)
        assert found.passes <= found.tokens
    assert len(seen) > 1


@pytest.mark.parametrize("optional", [False, True])
def test_arguments_are_those_decoded_one_by_one(optional):
    spec = cg.ToolCalls(SHAPES, "json", "shapes")
    found = call("ab", spec, optional=optional)
    schema = spec.arguments("shapes").schema
    expected = {}
    for head, inner in schema["properties"].items():
        needed = head in schema["required"]
        if not needed and not optional:
            continue
        whole = {"allOf": [inner if needed else {"anyOf": [inner, {"type": "null"}]}], "$defs": schema["$defs"]}
        prompt = 'ab[{"name": "shapes", "arguments": {' + json.dumps(head, ensure_ascii=False) + ":"
        one = cg.JsonSchema(whole)
        limit = " " >> one >> cg.Choice([",", "}"])
        (model, tokenizer) = model_of()
        text = generate(model, tokenizer, prompt, limit, max_new_tokens=64, vocabulary=BYTES).text
        value = json.loads(text[1:-1])
        if needed or value is not None:
            expected[head] = value
    assert found.call.arguments == expected


@pytest.mark.parametrize("kind", ["llama", "gpt2", "mistral"])
def test_models_of_transformers(kind):
    """The rows read the shared prefix once, or each for itself where windows slide: the same either way."""
    tokens = [bytes([b]) for b in b'{}[]":, abcdefgiklmnorstuyz019'] + [None]
    vocabulary = Vocabulary(tokens, eos=len(tokens) - 1)
    size = {"vocab_size": len(tokens), "eos_token_id": len(tokens) - 1, "pad_token_id": len(tokens) - 1}
    model = tiny(kind, 3, **size, **({"n_positions": 256} if kind == "gpt2" else {"max_position_embeddings": 256}))
    properties = {
        "city": {"enum": ["ab", "cd"]},
        "is": {"enum": [0, 1, 9]},
        "longer": {"type": "string", "maxLength": 4},
    }
    tool = {"name": "f", "parameters": {"properties": properties, "required": list(properties)}}
    spec = cg.ToolCalls(tool, "json", "f")
    found = call_in_parallel(model, ToyTokenizer(vocabulary), "is it", spec, vocabulary=vocabulary)
    for head, inner in properties.items():
        limit = " " >> cg.JsonSchema(inner) >> cg.Choice([",", "}"])
        prompt = f'is it[{{"name": "f", "arguments": {{"{head}":'
        alone = generate(model, ToyTokenizer(vocabulary), prompt, limit, max_new_tokens=64, vocabulary=vocabulary)
        assert found.call.arguments[head] == json.loads(alone.text[1:-1])


def test_python_functions():
    spec = cg.ToolCalls([book], "hermes")
    found = call("ab", spec)
    assert set(found.call.arguments) == {"room", "day"}
    assert book(**found.call.arguments).startswith(found.call.arguments["room"])


def test_what_it_refuses():
    tied = {"name": "f", "parameters": {"properties": {"a": True, "b": True}, "dependentRequired": {"a": ["b"]}}}
    with pytest.raises(InputError, match="dependentRequired"):
        call("a", cg.ToolCalls(tied, "json"))
    with pytest.raises(InputError, match="none"):
        call("a", cg.ToolCalls(WEATHER, "json", "none"))
    with pytest.raises(InputError, match="one prompt"):
        call(["a", "b"], cg.ToolCalls(WEATHER, "json"))
    with pytest.raises(BudgetError, match="raise max_argument_tokens to at least"):
        call("a", cg.ToolCalls(SHAPES, "json"), max_argument_tokens=3)
    for options in ({"max_argument_tokens": 0}, {"max_argument_tokens": "9"}, {"optional": "no"}):
        with pytest.raises(InputError, match=f"{next(iter(options))} is"):
            call("a", cg.ToolCalls(SHAPES, "json"), **options)
    with pytest.raises(InputError, match="of type list; expected"):
        call("a", [SHAPES])
    with pytest.raises(InputError, match="more than the 99 the model was made for"):
        short = ToyLM(BYTES, context=99)
        call_in_parallel(short, ToyTokenizer(BYTES), "a" * 80, cg.ToolCalls(SHAPES, "json"), vocabulary=BYTES)
    nameless = {"name": "f", "parameters": {"required": ["x"]}}
    with pytest.raises(InputError, match="not among"):
        call("a", cg.ToolCalls(nameless | {"parameters": {"required": ["x"], "additionalProperties": True}}, "json"))


@pytest.mark.model
def test_with_the_real_model(smollm2):
    spec = cg.ToolCalls([SHAPES, WEATHER], "json")
    prompt = "Call a function: what is the weather in Paris?"
    found = call_in_parallel(*smollm2, prompt, spec, chat=True, optional=True, max_argument_tokens=24)
    assert allows(spec.compile(BYTES), found.text)
    assert found.passes < found.tokens
