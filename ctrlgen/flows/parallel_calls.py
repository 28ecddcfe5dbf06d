"""A tool call whose arguments are decoded all at once: the name first, then every argument as a row of one batch.

    called = call_in_parallel(model, tokenizer, "Weather in Oslo tomorrow?", ToolCalls(tools, format="hermes"))
    called.call.name, called.call.arguments

What all rows begin with (prompt, name of the tool) is read once; each row goes on with the name of its argument. That
takes as many forward passes as the longest argument has tokens. Arguments do not see each other: p(a, b) is taken for
p(a) p(b). Reference: SimpleTool, arXiv 2603.00030, which trains a model for it; here any model and any format.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from ctrlgen.closing import check_budget
from ctrlgen.constraints.choice import Choice
from ctrlgen.constraints.combined import Sequence as InOrder
from ctrlgen.constraints.combined import Text
from ctrlgen.constraints.free import Token
from ctrlgen.constraints.json_schema import JsonSchema
from ctrlgen.constraints.tools.tool_calls import Call, ToolCalls
from ctrlgen.errors import BudgetError, InputError
from ctrlgen.flows.fast_forward_reading import CACHE_NAMES, empty_cache, is_ragged
from ctrlgen.flows.generate import vocabulary_for
from ctrlgen.flows.prompts import prepare
from ctrlgen.processor import ControlProcessor

if TYPE_CHECKING:
    from ctrlgen.constraint import Constraint
    from ctrlgen.vocabulary import Vocabulary

_ALONE = {"type", "properties", "required", "additionalProperties", "$defs", "definitions", "$schema", "$id"}
_ALONE |= {"title", "description", "examples", "default", "deprecated", "$comment"}
"""Keywords of parameters that say nothing about several arguments together."""


@dataclass(frozen=True, slots=True)
class ParallelCall:
    """A call made of arguments that were decoded at once."""

    call: Call
    text: str
    """The call in the format of the tools."""
    tokens: int
    """Tokens generated in all rows."""
    passes: int
    """Steps of decoding, in the name and in the longest argument."""


def call_in_parallel(
    model: Any,
    tokenizer: Any,
    prompt: Any,
    tools: ToolCalls,
    *,
    max_argument_tokens: int = 64,
    optional: bool = False,
    chat: bool | None = None,
    vocabulary: Vocabulary | None = None,
) -> ParallelCall:
    """Choose a tool, then decode its arguments greedily, all at once.

    Args:
        model: a causal model of transformers.
        tokenizer: its tokenizer.
        prompt: a text or chat.
        tools: the tools and their format; its ``choice`` may name the tool.
        max_argument_tokens: the most tokens of an argument, and of the name; each is ended in time.
        optional: whether optional arguments are asked for too: a row that writes null leaves its argument out.
        chat: as for ``generate``.
        vocabulary: instead of ``Vocabulary.from_tokenizer(tokenizer, model=model)``.

    Raises:
        InputError: the parameters of the tool chosen depend on each other (``allOf``, ``dependentRequired`` ...);
            arguments that do not fit together; a prompt too long for the model.
        BudgetError: ``max_argument_tokens`` is too small for the shortest text of an argument.
    """
    _check(tools, max_argument_tokens, optional)
    if model.config.is_encoder_decoder:
        raise InputError("call_in_parallel works with causal models; this is an encoder-decoder model")
    if not tools.callable_tools:
        raise InputError('tools has choice="none", so there is nothing to call')
    vocabulary = vocabulary_for(model, tokenizer, vocabulary)
    given = prepare(tokenizer, prompt, chat, pad=vocabulary.eos[0])
    if not given.single:
        raise InputError("call_in_parallel takes one prompt; call it for each")
    decoding = _Decoding(model, tokenizer, vocabulary, given.prompts[0], max_argument_tokens)
    name, spent = _chosen(decoding, tools)
    heads = _heads(tools, name, optional)
    space = "" if tools.whitespace == "compact" else " "
    began = (*tools.format.head, Text(tools.written_name(name)), *tools.format.middle)
    before = [(*began, Text("{" + json.dumps(head, ensure_ascii=tools.ensure_ascii) + ":")) for head, _ in heads]
    specs = [InOrder((Text(space), spec, Choice([",", "}"]))) for _, spec in heads]
    rows = decoding.run(before, specs) if heads else []
    found = [text[len(space) : -1] for text, _ in rows]
    left_out = set(tools.arguments(name).schema.get("properties", {})) - _required(tools, name)
    pairs = [
        (head, text) for (head, _), text in zip(heads, found, strict=True) if head not in left_out or text != "null"
    ]
    inner = ("," + space).join(
        f"{json.dumps(head, ensure_ascii=tools.ensure_ascii)}:{space}{text}" for head, text in pairs
    )
    tool = next(one for one in tools.tools if one.name == name)
    try:
        call = Call(name, tool.validated(json.loads("{" + inner + "}")))
    except ValueError as error:
        raise InputError(f"the arguments of {name!r} are refused by its own validation: {error}") from error
    counts = [count for _, count in rows]
    text = tools.write_call(name, "{" + inner + "}")
    return ParallelCall(call, text, sum(counts) + spent, max(counts, default=0) + spent)


def _check(tools: object, max_argument_tokens: object, optional: object) -> None:
    if not isinstance(tools, ToolCalls):
        raise InputError(f"tools is of type {type(tools).__name__}; expected ctrlgen.ToolCalls(tools, format=...)")
    if isinstance(max_argument_tokens, bool) or not isinstance(max_argument_tokens, int) or max_argument_tokens < 1:
        raise InputError(f"max_argument_tokens is {max_argument_tokens!r}; expected a number of at least 1")
    if not isinstance(optional, bool):
        raise InputError(f"optional is {optional!r}; expected True or False")


def _chosen(decoding: _Decoding, tools: ToolCalls) -> tuple[str, int]:
    """The name of a tool, and how many tokens were spent on it."""
    names = [tool.name for tool in tools.callable_tools]
    if len(names) == 1:
        return names[0], 0
    *before, last = tools.format.head
    trailing = ""
    if isinstance(last, Text):  # a blank before the name belongs to the name's first token
        trailing = last.text[len(last.text.rstrip(" ")) :]
        last = Text(last.text.rstrip(" "))
    written = [trailing + tools.written_name(name) for name in names]
    ((text, count),) = decoding.run([(*before, last)], [InOrder((Choice(written), *tools.format.middle))])
    matching = [i for i, one in enumerate(written) if text.startswith(one)]
    after = "".join(one.text for one in tools.format.middle if isinstance(one, Text))
    whole = [i for i in matching if not after or text[len(written[i]) :].startswith(after[:1])]
    return names[max(whole or matching, key=lambda i: len(written[i]))], count


def _required(tools: ToolCalls, name: str) -> set[str]:
    return set(tools.arguments(name).schema.get("required", []))


def _heads(tools: ToolCalls, name: str, optional: bool) -> list[tuple[str, JsonSchema]]:
    """The arguments to decode, each with what it may be.

    Raises:
        InputError: arguments are not independent of each other.
    """
    schema = tools.arguments(name).schema
    if others := sorted(set(schema) - _ALONE):
        raise InputError(
            f"the parameters of {name!r} have {', '.join(others)}, so arguments cannot be decoded apart from each "
            "other; use ctrlgen.generate"
        )
    properties, required = schema.get("properties", {}), _required(tools, name)
    if unknown := required - set(properties):
        raise InputError(f"the parameters of {name!r} require {sorted(unknown)}, which are not among the properties")
    shared = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
    heads = []
    for head, inner in properties.items():
        if head in required or optional:
            wanted = inner if head in required else {"anyOf": [inner, {"type": "null"}]}
            whole = {**shared, "allOf": [wanted]} if shared else wanted
            spec = JsonSchema(
                json.dumps(whole),
                whitespace=tools.whitespace,
                strict=tools.strict,
                key_order=tools.key_order,
                ensure_ascii=tools.ensure_ascii,
            )
            heads.append((head, spec))
    return heads


class _Decoding:
    """Rows that begin alike, decoded greedily under a constraint each."""

    def __init__(self, model: Any, tokenizer: Any, vocabulary: Vocabulary, prompt: list[int], budget: int) -> None:
        self._model, self._tokenizer, self._vocabulary = model, tokenizer, vocabulary
        self._prompt, self._budget = prompt, budget

    def run(self, before: Sequence[Sequence[Text | Token]], specs: Sequence[InOrder]) -> list[tuple[str, int]]:
        """For each row, which goes on with ``before``: its text, and the number of its tokens."""
        compiled: list[Constraint | None] = [spec.compile(self._vocabulary) for spec in specs]
        try:
            check_budget(compiled, [0 if one is None else one.start for one in compiled], self._budget)
        except BudgetError as error:
            raise BudgetError(needed=error.needed, given=self._budget, option="max_argument_tokens") from None
        rows = [self._prompt + self._ids(parts) for parts in before]
        self._check_context(max(map(len, rows)))
        inputs = self._inputs(rows)
        width = inputs["input_ids"].shape[1]
        made = self._model.generate(
            **inputs,
            logits_processor=[ControlProcessor(compiled, vocabulary=self._vocabulary, max_new_tokens=self._budget)],
            max_new_tokens=self._budget,
            do_sample=False,
            num_beams=1,
            eos_token_id=list(self._vocabulary.eos),
            pad_token_id=self._vocabulary.eos[0],
        )
        return [self._read(row) for row in made[:, width:].tolist()]

    def _check_context(self, length: int) -> None:
        limit = getattr(self._model.config.get_text_config(), "max_position_embeddings", None)
        if limit and length + self._budget > limit:
            raise InputError(
                f"the prompt with the beginning of the call has {length} tokens, and with max_argument_tokens="
                f"{self._budget} that makes {length + self._budget}, more than the {limit} the model was made for; "
                "shorten the prompt or lower max_argument_tokens"
            )

    def _read(self, row: list[int]) -> tuple[str, int]:
        ends = [place for place, token in enumerate(row) if token in self._vocabulary.eos]
        count = ends[0] if ends else len(row)
        return self._vocabulary.decode(row[:count]).decode(), count + bool(ends)

    def _ids(self, parts: Sequence[Text | Token]) -> list[int]:
        """Texts as the tokenizer spells them, control tokens as their ids."""
        ids: list[int] = []
        text = ""
        for part in (*parts, None):
            if isinstance(part, Token) and part.name in self._vocabulary.special:
                ids += [*self._spelled(text), self._vocabulary.special[str(part.name)]]
                text = ""
            elif part is not None:
                text += part.text if isinstance(part, Text) else str(part.name)
        return ids + self._spelled(text)

    def _spelled(self, text: str) -> list[int]:
        return list(self._tokenizer(text, add_special_tokens=False)["input_ids"]) if text else []

    def _inputs(self, rows: list[list[int]]) -> dict[str, Any]:
        """What ``model.generate`` takes: what all rows begin with in a cache, the rests padded between."""
        device, pad = self._model.device, self._vocabulary.eos[0]
        name = next((one for one in CACHE_NAMES if one in inspect.signature(self._model.forward).parameters), None)
        cache = None if name is None or len(rows) == 1 else empty_cache(self._model)
        shared = _same(rows) if cache is not None and is_ragged(self._model, cache) else 0
        longest = max(map(len, rows))
        gaps = [longest - len(row) for row in rows]
        ids = [row[:shared] + [pad] * gap + row[shared:] for row, gap in zip(rows, gaps, strict=True)]
        seen = [[1] * shared + [0] * gap + [1] * (longest - shared - gap) for gap in gaps]
        inputs = {
            "input_ids": torch.tensor(ids, device=device),
            "attention_mask": torch.tensor(seen, device=device),
        }
        if shared and name is not None and cache is not None:
            with torch.no_grad():
                self._model(input_ids=inputs["input_ids"][:1, :shared], **{name: cache}, use_cache=True)
            cache.batch_repeat_interleave(len(rows))
            inputs[name] = cache
        return inputs


def _same(rows: Sequence[Sequence[int]]) -> int:
    """How many ids all rows begin with, less than any row has."""
    same = 0
    while same < min(map(len, rows)) - 1 and len({row[same] for row in rows}) == 1:
        same += 1
    return same
