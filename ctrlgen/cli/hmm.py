"""``ctrlgen hmm sample | fit | info | attribute``: hidden Markov models of what a language model says."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ctrlgen.cli import attribute
from ctrlgen.errors import InputError

if TYPE_CHECKING:
    from ctrlgen.hmm.fitting import Progress

commands = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
commands.add_typer(attribute.commands, name="attribute")


@commands.callback()
def hmm() -> None:
    """Hidden Markov models of what a language model says, for cg.Trace and cg.DecoG."""


Eos = Annotated[list[int] | None, typer.Option(metavar="ID", help="An id that ends a text; may be repeated.")]


@commands.command()
def sample(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="For the texts; those that are there stay.")],
    tokens: Annotated[int, typer.Option(metavar="N", min=1, help="How many to sample.")],
    model: Annotated[str | None, typer.Option(metavar="NAME|PATH", help="Default: SmolLM2-135M-Instruct.")] = None,
    prompts: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A prompt a line; without, texts from nothing.")
    ] = None,
    chat: Annotated[
        bool, typer.Option("--chat", help="Prompts are instructions: each as a user's message, in the chat format.")
    ] = False,
    new_tokens: Annotated[int, typer.Option(metavar="N", min=1, help="The most of a text.")] = 48,
    batch: Annotated[int, typer.Option(metavar="N", min=1, help="Texts at a time, which are one file.")] = 256,
    hidden_rows: Annotated[
        int, typer.Option(metavar="N", min=0, help="Texts of a file whose hidden states stay.")
    ] = 24,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Processes with different seeds share a folder.")] = 0,
    dtype: Annotated[str, typer.Option(metavar="NAME", help="Of the model: bfloat16, float32 ...")] = "bfloat16",
) -> None:
    """Sample texts from a language model. A run that was cut off goes on where it stopped.

    For Deco-G sample answers to instructions that say nothing of a format: --chat --prompts instructions.txt.
    """
    from ctrlgen import models
    from ctrlgen.hmm.sampling import sample as sampled
    from ctrlgen.vocabulary import Vocabulary

    loaded, tokenizer = models.load(model, dtype=dtype)
    vocabulary = Vocabulary.from_tokenizer(tokenizer, model=loaded)
    begin = getattr(tokenizer, "bos_token_id", None)
    begin = min(vocabulary.eos) if begin is None else begin
    if chat and prompts is None:
        raise InputError("--chat needs instructions: give --prompts FILE, one a line")
    rows = [[begin]] if prompts is None else _prompts(prompts, tokenizer, chat)
    sampled(
        loaded.eval(), rows, folder, tokens=tokens, new_tokens=new_tokens, batch=batch, eos=vocabulary.eos, seed=seed,
        hidden_rows=hidden_rows,
        progress=lambda p: typer.echo(f"{p.shard}/{p.shards}: {p.tokens / p.seconds:.0f} tokens a second", err=True),
    )  # fmt: skip


@commands.command()
def fit(
    folders: Annotated[list[Path], typer.Argument(metavar="FOLDER...", help="What `ctrlgen hmm sample` wrote.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The model, and FILE.checkpoint until it is done.")],
    states: Annotated[int, typer.Option(metavar="N", min=1, help="Hidden states.")],
    eos: Eos = None,
    begin: Annotated[str, typer.Option(metavar="KIND", help="classes, hidden or random.")] = "classes",
    stepwise: Annotated[int, typer.Option(metavar="N", min=0, help="Passes in steps of a few files.")] = 4,
    full: Annotated[int, typer.Option(metavar="N", min=0, help="Full passes after these.")] = 4,
    shards: Annotated[int, typer.Option(metavar="N", min=1, help="Files a step.")] = 16,
    dropout: Annotated[float, typer.Option(metavar="P", min=0, max=0.99, help="Share of tokens not seen.")] = 0.0,
    emission: Annotated[float, typer.Option(metavar="N", min=0, help="Pseudocounts of tokens, a state.")] = 100.0,
    transition: Annotated[float, typer.Option(metavar="N", min=0, help="Pseudocounts of states, a state.")] = 10.0,
    held_out: Annotated[int, typer.Option(metavar="N", min=2, help="Keep each Nth file to measure with.")] = 25,
    dtype: Annotated[str, typer.Option(metavar="NAME", help="bfloat16, float32 or float64.")] = "bfloat16",
    device: Annotated[str, typer.Option(metavar="NAME", help="cpu or cuda; each process its own.")] = "cpu",
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Of all that is random.")] = 0,
) -> None:
    """Fit a model to sampled texts. Killed, and called again, it goes on.

    Several processes share the work: torchrun --nproc-per-node 4 -m ctrlgen.cli hmm fit ...
    """
    import torch

    from ctrlgen.hmm import fitting
    from ctrlgen.hmm.workers import joined

    _check_out(out)
    settings = fitting.Settings(
        states, tuple(eos or ()), begin, stepwise, full, shards, dropout, emission, transition, dtype, seed
    )
    where = torch.device(device)
    with joined(where) as group:
        if where.type == "cuda" and where.index is None:
            where = torch.device("cuda", group.rank % torch.cuda.device_count())
        made = fitting.fit(folders, out, settings, held_out=held_out, device=where, progress=_tell)
    if group.leads:
        typer.echo(json.dumps(dict(made.card)))


@commands.command()
def info(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A model.")],
) -> None:
    """What a model is, and how it was made: one JSON object."""
    from ctrlgen.hmm.model import HMM

    made = HMM.load(file)
    facts: dict[str, Any] = {"states": made.states, "width": made.width, "eos": list(made.eos)}
    typer.echo(json.dumps(facts | {"bytes": file.stat().st_size, "card": dict(made.card)}, indent=2))


def _check_out(out: Path) -> None:
    if out.exists():
        raise InputError(f"{out} is there already: delete it, or choose another name")
    if not out.parent.is_dir():
        raise InputError(f"cannot write {out}: there is no folder {out.parent}")


def _prompts(path: Path, tokenizer: Any, chat: bool) -> list[list[int]]:
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line]
    if chat:
        if not getattr(tokenizer, "chat_template", None):
            raise InputError("the tokenizer has no chat format: leave out --chat, or take an instructed model")
        asked = [[{"role": "user", "content": line}] for line in lines]
        lines = [tokenizer.apply_chat_template(one, tokenize=False, add_generation_prompt=True) for one in asked]
    rows = [tokenizer(line, add_special_tokens=not chat)["input_ids"] for line in lines]
    if not rows or not all(rows):
        raise InputError(f"{path} has no prompts; expected a text a line")
    return rows


def _tell(progress: Progress) -> None:
    line = f"step {progress.step}/{progress.steps}: perplexity {progress.training:.1f}"
    if progress.held_out is not None and math.isfinite(progress.held_out):
        line += f", held out {progress.held_out:.1f}"
        line += f" (unigram {progress.baselines.unigram:.1f}, bigram {progress.baselines.bigram:.1f})"
    typer.echo(f"{line}, {progress.tokens / max(1e-9, progress.seconds):.0f} tokens a second", err=True)
