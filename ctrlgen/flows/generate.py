"""generate: prompts in, texts out, each of them finished or said not to be.

    result = generate(model, tokenizer, "A colour:", Regex("red|green|blue"))
    result.text, result.value, result.finished, result.trace

Decoding itself is ``model.generate`` of transformers, in every mode it has. Here is what comes before: prompts, and
all that can be checked before the first token.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from ctrlgen.closing import check_budget
from ctrlgen.constraint import Constraint, Specification
from ctrlgen.errors import InputError
from ctrlgen.flows.drawing import Opening, drawing
from ctrlgen.flows.fast_forward import FastForward, fast_forward_loop
from ctrlgen.flows.prompts import Batch, prepare
from ctrlgen.flows.results import Reading, Result, Step, Trace, read_prompt
from ctrlgen.flows.streaming import Pieces, iterate
from ctrlgen.phases import Left, has_free_text, may_swallow
from ctrlgen.processor import ControlProcessor, Measurement, vocabulary_of
from ctrlgen.steering.protocol import is_final, name_of, steerers_of

if TYPE_CHECKING:
    from ctrlgen.leaving import Brake
    from ctrlgen.steering.protocol import Steerer
    from ctrlgen.vocabulary import Vocabulary

    Control = Specification | Constraint | None

__all__ = ["Result", "Step", "Trace", "generate", "generate_stream"]

_SAMPLING = ("temperature", "top_k", "top_p", "min_p", "typical_p", "top_h")


def generate(
    model: Any,
    tokenizer: Any,
    prompts: str | Sequence[Any],
    constraint: Control | Sequence[Control] = None,
    *,
    max_new_tokens: int = 200,
    seed: int | None = None,
    chat: bool | None = None,
    stream: Callable[[str], object] | bool | None = None,
    trace: bool = True,
    vocabulary: Vocabulary | None = None,
    steer: Sequence[Steerer] | None = None,
    brake: Brake | None = None,
    fast_forward: bool | str = False,
    likeliest: int = 0,
    **options: Any,
) -> Any:
    """Generate a text for each prompt, within the constraint.

    Args:
        model: a model of transformers with ``generate``.
        tokenizer: its tokenizer.
        prompts: a text; a chat, i.e. a list of ``{"role": ..., "content": ...}``; or a list of either.
        constraint: a specification or compiled constraint, None, or a list of these, one for each prompt.
        max_new_tokens: the most tokens to generate for a prompt, the end token included. Texts within a constraint
            are ended in time.
        seed: makes sampling repeatable, and leaves the global random state as it was.
        chat: True takes texts for messages of a user, False refuses chats; None takes prompts for what they are.
        stream: called with pieces of text as they come, whole characters only; True prints them. One prompt only.
        trace: measure each step, which costs two more passes over the logits.
        vocabulary: instead of ``Vocabulary.from_tokenizer(tokenizer, model=model)``.
        likeliest: how many tokens, with their probabilities before and after control, the trace keeps of each step.
        steer: steerers, which change the distribution over the allowed tokens: see ``docs/steering.md``.
        brake: leaves free text early (``docs/phases.md``).
        fast_forward: True appends what the constraint leaves no choice about, as the tokenizer spells it, without
            asking the model; "verify" asks it about all of that in one forward pass, and changes nothing but the
            time (``docs/fast_forward.md``).
        options: anything that ``model.generate`` takes: ``do_sample``, ``temperature``, ``top_k``, ``top_p``,
            ``num_beams``, ``num_return_sequences``, ``assistant_model``, ``logits_processor`` ... Decoding is greedy
            unless ``do_sample`` says otherwise or an option that only sampling has is given. Processors in
            ``logits_processor`` come before the constraint.

    Returns:
        A Result for one prompt, a list of Results for a list. With ``num_return_sequences=n`` each Result carries
        the n - 1 others as ``alternatives``; fewer if beam search found fewer texts that satisfy the constraint.

    Raises:
        InputError: arguments that do not fit together, a prompt that is empty or too long.
        BudgetError: ``max_new_tokens`` is too small for the shortest text that satisfies the constraint.
        DeadEndError: a row has no token left, because of other logits processors.
        VocabularyError: the tokenizer cannot be read, or no end token is known.
    """
    _check_numbers(max_new_tokens, seed, likeliest)
    vocabulary = vocabulary_for(model, tokenizer, vocabulary)
    batch = prepare(tokenizer, prompts, chat, pad=_pad(tokenizer, vocabulary))
    steerers = steerers_of(steer)
    options = _decoding(_plain_sampling(options, steerers) if steerers and is_final(steerers[-1]) else options)
    _check_context(model, batch, max_new_tokens)
    controls = spread(constraint, len(batch.prompts))
    compiled = compile_each(controls, vocabulary)
    check_budget(compiled, [0 if one is None else one.start for one in compiled], max_new_tokens)
    streamer = _streamer(stream, vocabulary, batch, options)
    forward = None
    if fast_forward is not False:
        if likeliest:
            raise InputError("likeliest needs the logits of each step, and fast_forward skips some: choose one")
        controlled = {"steer": bool(steerers), "brake": brake is not None, "beams": _beams(options) > 1}
        forward = fast_forward_loop(
            fast_forward, compiled, (vocabulary, tokenizer), max_new_tokens, controlled, options
        )
    call = _Call(
        vocabulary, batch, compiled, max_new_tokens, seed, streamer, trace, steerers, brake, forward, likeliest
    )
    output, reading = _decode(model, call, options)
    sequences = output.sequences[:, 1 if model.config.is_encoder_decoder else batch.ids.shape[1] :].tolist()
    beams = None if (indices := getattr(output, "beam_indices", None)) is None else indices.tolist()
    rows = [(row, ids, None if beams is None else beams[row]) for row, ids in enumerate(sequences)]
    each = len(rows) // len(batch.prompts)
    results = [
        read_prompt(reading, i, given, made, rows[i * each : (i + 1) * each])
        for i, (given, made) in enumerate(zip(controls, compiled, strict=True))
    ]
    return results[0] if batch.single else results


def vocabulary_for(model: Any, tokenizer: Any, vocabulary: Vocabulary | None) -> Vocabulary:
    """The vocabulary of a tokenizer, or the one that is given, as wide as the logits of a model."""
    vocabulary = vocabulary_of(tokenizer, model) if vocabulary is None else vocabulary
    return vocabulary.with_width(getattr(model.config.get_text_config(), "vocab_size", vocabulary.width))


def generate_stream(
    model: Any, tokenizer: Any, prompt: Any, constraint: Control = None, **options: Any
) -> Generator[str, None, Result]:
    """The text for one prompt, piece by piece; arguments as for ``generate``.

    Decoding runs in a thread of its own, which stops at the next token when the iterator is closed. With ``seed`` the
    global random state is borrowed until the end.

    Returns:
        An iterator over pieces of whole characters; what ``yield from`` gives in the end is the Result.

    Raises:
        CtrlgenError: as ``generate``, when the next piece is asked for.
    """
    return iterate(lambda push: generate(model, tokenizer, prompt, constraint, stream=push, **options))


class _Call(NamedTuple):
    """All that was checked before decoding."""

    vocabulary: Vocabulary
    batch: Batch
    compiled: list[Constraint | None]
    max_new_tokens: int
    seed: int | None
    streamer: Pieces | None
    trace: bool
    steer: Sequence[Steerer]
    brake: Brake | None
    forward: FastForward | None
    likeliest: int


def _decode(model: Any, call: _Call, options: dict[str, Any]) -> tuple[Any, Reading]:
    """Run ``model.generate``; returns its output and what is needed to read it."""
    measured: list[Measurement] = []
    beams, pad = _beams(options) > 1, options["pad_token_id"] if "pad_token_id" in options else _filler(model, call)
    processors = list(options.pop("logits_processor", None) or [])
    ends = call.vocabulary.eos
    constrained = any(one is not None for one in call.compiled)
    left: list[Left] = []
    opening = Opening(call.brake, left.append)
    if call.forward is not None:
        processors.append(call.forward.masking)
        options["custom_generate"] = call.forward.streaming(call.streamer, measure=call.trace)
    elif constrained or call.steer:
        processors.append(_processor(call, measured.append if call.trace else None, opening))
    if call.forward is None and _leaves(call, options):
        options["custom_generate"] = drawing(opening, call.streamer)
    if constrained:
        options.setdefault("eos_token_id", list(ends))
    else:
        ends = _ends_of(model, options) or ends
    begun = time.perf_counter()
    with _seeded(call.seed):
        output = model.generate(
            input_ids=call.batch.ids.to(model.device),
            attention_mask=call.batch.attention_mask.to(model.device),
            max_new_tokens=call.max_new_tokens,
            logits_processor=processors,
            streamer=call.streamer,
            return_dict_in_generate=True,
            **{"pad_token_id": pad, **options},
        )
    seconds = time.perf_counter() - begun
    trace = measured if call.trace else None
    traced = None if call.forward is None or not call.trace else call.forward.trace
    names = tuple(map(name_of, call.steer))
    return output, Reading(
        call.vocabulary, set(ends), pad, trace, seconds, beams, left, call.max_new_tokens, names, traced
    )


def _leaves(call: _Call, options: dict[str, Any]) -> bool:
    """Whether a constraint goes on where the model would end, which takes a loop of one sequence a row.

    Raises:
        InputError: another loop is asked for; or a brake and beams.
    """
    leaves = any(may_swallow(one) for one in call.compiled)
    if call.brake is not None and not any(hasattr(one, "way_out") and has_free_text(one) for one in call.compiled):
        raise InputError("a brake leaves free text early, and the constraint has none: see ctrlgen.Free and Thinking")
    what = "the constraint goes on where the model would end (EOS)" if leaves else "a brake was given"
    if leaves or call.brake is not None:
        if call.steer and is_final(call.steer[-1]):
            raise InputError(
                f"{what}, and its tokens are then drawn twice: {name_of(call.steer[-1])} guarantees one draw"
            )
        if _beams(options) > 1:
            raise InputError(f"{what}, which beam search cannot follow; decode greedily or sample")
        for name in ("assistant_model", "prompt_lookup_num_tokens", "custom_generate"):
            if options.get(name) is not None:
                raise InputError(f"{what}, which does not go together with {name}")
    return leaves


def _processor(call: _Call, on_step: Callable[[Measurement], None] | None, opening: Opening) -> ControlProcessor:
    mask = call.batch.attention_mask
    return ControlProcessor(
        call.compiled,
        vocabulary=call.vocabulary,
        on_step=on_step,
        likeliest=call.likeliest,
        steer=call.steer,
        attention_mask=mask,
        max_new_tokens=call.max_new_tokens,
        leaving=opening,
    )


def _plain_sampling(options: dict[str, Any], steer: Sequence[Steerer]) -> dict[str, Any]:
    """The options of a steerer that guarantees a distribution, which samples are drawn from as it is."""
    name = name_of(steer[-1])
    if given := [option for option in _SAMPLING if options.get(option) is not None]:
        raise InputError(f"{name} guarantees what it makes: give {', '.join(given)} to {name}, which has its own")
    return {"do_sample": True, "temperature": 1.0, "top_k": 0, "top_p": 1.0, **options}


def _decoding(options: dict[str, Any]) -> dict[str, Any]:
    """The options, with ``do_sample`` made explicit."""
    options = {name: value for name, value in options.items() if value is not None}
    if options.get("temperature") == 0:  # what other libraries call greedy
        del options["temperature"]
        options.setdefault("do_sample", False)
    if "generation_config" not in options:
        options.setdefault("do_sample", any(name in options for name in _SAMPLING))
        if _sequences(options) > 1 and _beams(options) == 1 and not options["do_sample"]:
            raise InputError(
                f"num_return_sequences={_sequences(options)} needs sampling (do_sample=True) or as many beams; "
                "greedy decoding would give the same text each time"
            )
    return options


def _beams(options: dict[str, Any]) -> int:
    given = options.get("num_beams") or getattr(options.get("generation_config"), "num_beams", None)
    return int(given or 1)


def _sequences(options: dict[str, Any]) -> int:
    given = options.get("num_return_sequences")
    return int(given or getattr(options.get("generation_config"), "num_return_sequences", None) or 1)


def spread(constraint: Any, count: int) -> list[Any]:
    """One constraint for each prompt."""
    if not isinstance(constraint, (list, tuple)):
        return [constraint] * count
    if len(constraint) != count:
        raise InputError(f"{len(constraint)} constraints for {count} prompts; pass one, or one for each prompt")
    return list(constraint)


def compile_each(controls: Sequence[Any], vocabulary: Vocabulary) -> list[Constraint | None]:
    """The constraints, each specification compiled once."""
    made: dict[int, Constraint] = {}
    for one in controls:
        if isinstance(one, Constraint):
            made[id(one)] = one
        elif isinstance(one, Specification):
            made[id(one)] = made.get(id(one)) or one.compile(vocabulary)
        elif one is not None:
            raise InputError(
                f"constraint is {one!r}; expected a specification such as ctrlgen.Regex(...), what its compile() "
                "returns, None, or a list of these"
            )
    return [None if one is None else made[id(one)] for one in controls]


def _streamer(stream: Any, vocabulary: Vocabulary, batch: Batch, options: dict[str, Any]) -> Pieces | None:
    if not stream:
        return None
    if stream is not True and not callable(stream):
        raise InputError(f"stream is {stream!r}; expected a function that takes a piece of text, or True to print")
    if len(batch.prompts) > 1 or _sequences(options) > 1 or _beams(options) > 1:
        raise InputError("stream works with one prompt and one sequence, without beams")
    return Pieces(vocabulary, _print if stream is True else stream)


def _print(piece: str) -> None:
    print(piece, end="", flush=True)


def _check_numbers(max_new_tokens: object, seed: object, likeliest: object) -> None:
    if not isinstance(likeliest, int) or likeliest < 0:
        raise InputError(f"likeliest is {likeliest!r}; expected a number of tokens, 0 for none")
    if not isinstance(max_new_tokens, int) or max_new_tokens < 1:
        raise InputError(f"max_new_tokens is {max_new_tokens!r}; expected a number of at least 1")
    if seed is not None and not isinstance(seed, int):
        raise InputError(f"seed is {seed!r}; expected an integer or None")


def _check_context(model: Any, batch: Batch, max_new_tokens: int) -> None:
    limit = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    longest = max(range(len(batch.prompts)), key=lambda i: len(batch.prompts[i]))
    length = len(batch.prompts[longest])
    if limit and not model.config.is_encoder_decoder and length + max_new_tokens > limit:
        raise InputError(
            f"prompt {longest} has {length} tokens, and with max_new_tokens={max_new_tokens} that makes "
            f"{length + max_new_tokens}, more than the {limit} the model was made for; shorten the prompt or set "
            f"max_new_tokens to at most {max(0, limit - length)}"
        )


def _pad(tokenizer: Any, vocabulary: Vocabulary) -> int:
    pad = getattr(tokenizer, "pad_token_id", None)
    return vocabulary.eos[0] if pad is None else int(pad)


def _filler(model: Any, call: _Call) -> int:
    """What transformers fills finished rows with: the model's own choice, an end token otherwise."""
    pad = getattr(model.generation_config, "pad_token_id", None)
    return call.vocabulary.eos[0] if pad is None else int(pad)


def _ends_of(model: Any, options: dict[str, Any]) -> tuple[int, ...]:
    """The ids at which transformers stops when nobody asks for others."""
    given = options.get("eos_token_id")
    if given is None:
        config = options.get("generation_config") or model.generation_config
        given = config.eos_token_id
    return () if given is None else (given,) if isinstance(given, int) else tuple(given)


@contextlib.contextmanager
def _seeded(seed: int | None) -> Generator[None]:
    """Seed torch's global generators, the only ones transformers draws from, and restore them afterwards."""
    if seed is None:
        yield
        return
    devices = range(torch.cuda.device_count()) if torch.cuda.is_available() else ()
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        yield
