"""``ctrlgen generate``: prompts in, JSON lines out."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ctrlgen.cli import options
from ctrlgen.cli.output import Row, part_of, prepare, rows_to
from ctrlgen.cli.sources import STDIN, checked, read_prompts
from ctrlgen.errors import CtrlgenError, InputError

if TYPE_CHECKING:
    from ctrlgen.constraint import Specification
    from ctrlgen.flows.generate import Result, Trace


class Dtype(Enum):
    """Of the weights in memory."""

    AUTO = "auto"
    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"


def generate(
    prompt: Annotated[str | None, typer.Argument(metavar="PROMPT", help="What the model goes on from.")] = None,
    schema: options.Schema = None,
    pydantic: options.Pydantic = None,
    regex: options.Regex = None,
    choices: options.Choices = None,
    grammar: options.Grammar = None,
    syntax: options.Syntax = None,
    start: options.Start = None,
    lexer: options.Lexer = None,
    prompts: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|-", help='Prompts, one a line, or JSON lines with "prompt"; default: standard input.'
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="FOLDER|ID", help="A model; default: SmolLM2-135M-Instruct, fetched once.")
    ] = None,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Most tokens of a text, the end token included.")] = 200,
    temperature: Annotated[
        float, typer.Option(min=0.0, help="Of sampling; 0 takes the likeliest token each time.")
    ] = 0.0,
    seed: Annotated[int, typer.Option(min=0, help="The same seed, prompts and batch size give the same texts.")] = 0,
    beams: Annotated[int, typer.Option(min=1, help="Beams of the search; 1: none.")] = 1,
    batch_size: Annotated[int, typer.Option(min=1, help="Prompts that run through the model together.")] = 8,
    dtype: Annotated[Dtype, typer.Option(help="Of the weights in memory; auto: as stored.")] = Dtype.AUTO,
    device: Annotated[
        str | None, typer.Option(metavar="NAME", help="cpu, cuda ...; default: cuda where there is one.")
    ] = None,
    chat: Annotated[
        bool | None,
        typer.Option("--chat/--no-chat", help="Put prompts into the model's chat format; default: if it has one."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write here, by way of FILE.part; default: standard output.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A page that shows what control did to each token.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Skip prompts whose rows are in FILE.part or FILE.")] = False,
) -> None:
    """Generate a text for each prompt, within a constraint.

    Writes one JSON object a line: prompt, text, value (the parsed text, null if unfinished), finished, tokens (their
    number), mask_share (the part of the time that the constraint took); problem, where a finished text was refused.
    """
    if resume and out is None:
        raise InputError("--resume needs --out: it goes on from FILE.part")
    if resume and report is not None:
        raise InputError("--report shows all texts of a run, and --resume leaves some out; choose one")
    several = _prompts(prompt, prompts, schema)
    specification = options.specification(
        schema, pydantic, regex, choices, grammar, syntax=syntax, start=start, lexer=lexer
    )
    done = 0 if out is None else prepare(out, several, resume=resume)
    with _noted(out), rows_to(out) as write:
        if done < len(several):
            run = _loaded(model, dtype.value, device, chat, several, specification, max_new_tokens)
            decoding = _decoding(temperature, beams) | ({} if report is None else {"likeliest": 8})
            traces: list[Trace] = []
            with _bar(len(several), done) as advance:
                for first in range(done, len(several), batch_size):
                    batch = several[first : first + batch_size]
                    for text, result in zip(batch, run(batch, seed + first, decoding), strict=True):
                        write(_row(text, result))
                        if report is not None and result.trace is not None:
                            traces.append(result.trace)
                    advance(len(batch))
            if report is not None:
                from ctrlgen.flows.trace_page import write_page

                write_page(report, traces, several)


def _prompts(prompt: str | None, file: str | None, schema: str | None) -> list[str]:
    """The prompts, from the one place that is given."""
    if prompt is not None and file is not None:
        raise InputError("a PROMPT and --prompts are given: choose one")
    if prompt is not None:
        return [checked(prompt, "PROMPT")]
    if file is None and sys.stdin.isatty():
        raise InputError("no prompt: give a PROMPT or --prompts FILE, or pipe prompts in, one a line")
    if schema == STDIN and file in (None, STDIN):
        raise InputError("schema and prompts cannot both come from standard input; give one of them as a file")
    return read_prompts(file or STDIN)


Run = Callable[[Sequence[str], int, dict[str, Any]], list["Result"]]


def _loaded(
    name: str | None,
    dtype: str,
    device: str | None,
    chat: bool | None,
    prompts: Sequence[str],
    specification: Specification | None,
    max_new_tokens: int,
) -> Run:
    """What runs a batch. All that can be wrong is found here, before the first token."""
    if specification is not None:
        from ctrlgen.cli.walk import byte_vocabulary
        from ctrlgen.warming import run_every_kernel

        specification.compile(byte_vocabulary())  # its errors come sooner than a model does
        run_every_kernel()  # loading them is no part of what masks cost
    model, tokenizer = load(name, dtype, device)
    from ctrlgen.flows.generate import generate as run
    from ctrlgen.processor import vocabulary_of

    vocabulary = vocabulary_of(tokenizer, model)
    chat = bool(tokenizer.chat_template) if chat is None else chat
    _check_lengths(model, tokenizer, prompts, chat, max_new_tokens)

    def run_batch(batch: Sequence[str], seed: int, decoding: dict[str, Any]) -> list[Result]:
        results: list[Result] = run(
            model,
            tokenizer,
            list(batch),
            specification,
            max_new_tokens=max_new_tokens,
            seed=seed,
            chat=chat,
            vocabulary=vocabulary,
            **decoding,
        )
        return results

    return run_batch


def load(name: str | None, dtype: str, device: str | None) -> tuple[Any, Any]:
    """A model and its tokenizer, without the chatter of loading."""
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    import torch

    from ctrlgen import models

    return models.load(name, dtype=dtype, device=device or ("cuda" if torch.cuda.is_available() else "cpu"))


def _check_lengths(model: Any, tokenizer: Any, prompts: Sequence[str], chat: bool, new: int) -> None:
    """Raise InputError for the first prompt that leaves no room for ``new`` tokens."""
    from ctrlgen.flows.prompts import prepare as tokenize

    room = getattr(model.config, "max_position_embeddings", None)
    for number, prompt in enumerate(prompts, 1):
        length = tokenize(tokenizer, [prompt], chat, pad=0).ids.shape[1]
        if room is not None and length + new > room:
            raise InputError(
                f"prompt {number} ({prompt[:40]!r}{'...' if len(prompt) > 40 else ''}) has {length} tokens; with "
                f"--max-new-tokens {new} that is {length + new - room} more than the model's context of {room}: "
                f"shorten it{f', or lower --max-new-tokens to {room - length}' if length < room else ''}"
            )


def _decoding(temperature: float, beams: int) -> dict[str, Any]:
    sampling = {"do_sample": True, "temperature": temperature} if temperature > 0 else {}
    return {**sampling, **({"num_beams": beams} if beams > 1 else {})}


def _row(prompt: str, result: Result) -> Row:
    from pydantic_core import to_jsonable_python

    row = {
        "prompt": prompt,
        "text": result.text,
        "value": to_jsonable_python(result.value),
        "finished": result.finished,
        "complete": result.complete,
        "tokens": len(result.token_ids),
        "mask_share": None if result.trace is None else round(result.trace.mask_share, 4),
    }
    # a Python type may refuse what its JSON Schema admits: say so rather than leave a bare null
    return row if result.problem is None else {**row, "problem": result.problem}


@contextlib.contextmanager
def _noted(out: Path | None) -> Iterator[None]:
    """Say, when a run stops, where what is done can be found; an empty FILE.part is removed."""
    try:
        yield
    except (KeyboardInterrupt, CtrlgenError, OSError):
        if out is not None and (part := part_of(out)).exists():
            if part.stat().st_size:
                typer.echo(f"what is done is in {part}; --resume goes on from there", err=True)
            else:
                part.unlink()
        raise


@contextlib.contextmanager
def _bar(total: int, done: int) -> Iterator[Callable[[int], None]]:
    """A progress bar on stderr, if that is a terminal and there is more than one prompt."""
    if total == 1 or not sys.stderr.isatty():
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("generating"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=total, completed=done)
        yield lambda count: progress.advance(task, count)
