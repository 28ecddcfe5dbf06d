"""``ctrlgen reward fit``: a reward model learnt from labelled texts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ctrlgen.cli.generate import Dtype, load
from ctrlgen.cli.sources import read_json_lines
from ctrlgen.errors import InputError

commands = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@commands.callback()
def reward() -> None:
    """Reward models for ctrlgen.RAD, ctrlgen.ARGS and ctrlgen.RMOD."""


@commands.command()
def fit(
    texts: Annotated[
        str,
        typer.Argument(
            metavar="FILE|-", help='JSON lines: {"text", "label"}, a number from 0 to 1 or a list of such numbers.'
        ),
    ],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="A safetensors file; whole, or not there at all.")],
    model: Annotated[
        str | None, typer.Option(metavar="FOLDER|ID", help="Its first layers are copied; default: SmolLM2-135M.")
    ] = None,
    layers: Annotated[int, typer.Option(min=1, help="How many of them.")] = 4,
    tuned: Annotated[
        int | None, typer.Option(min=0, help="How many of the last layers learn, beside the head; default: all.")
    ] = None,
    epochs: Annotated[int, typer.Option(min=1, help="Times through the texts.")] = 1,
    batch: Annotated[int, typer.Option(min=1, help="Texts a step.")] = 16,
    rate: Annotated[float, typer.Option(min=0.0, help="Of AdamW.")] = 1e-4,
    seed: Annotated[int, typer.Option(min=0, help="Of the order of the texts.")] = 0,
    device: Annotated[str | None, typer.Option(metavar="NAME", help="cpu, cuda ...")] = None,
) -> None:
    """Learn what texts are worth, from the first token on."""
    rows = [_checked(row, i) for i, row in enumerate(read_json_lines(texts), 1)]
    loaded, tokenizer = load(model, Dtype.FLOAT32.value, device)
    from ctrlgen.steering.reward_model import fit_reward

    def told(step: int, total: int, loss: float) -> None:
        if step % 20 == 0 or step == total - 1:
            typer.echo(f"step {step + 1} of {total}: loss {loss:.4f}", err=True)

    scorer = fit_reward(
        loaded,
        [tokenizer(text)["input_ids"] for text, _ in rows],
        [label for _, label in rows],
        layers=layers,
        tuned=tuned,
        epochs=epochs,
        batch=batch,
        rate=rate,
        seed=seed,
        on_step=told,
    )
    scorer.save(out)
    typer.echo(f"{out}: {layers} layers, {scorer.head.out_features} values, from {len(rows)} texts")


def _checked(row: Any, number: int) -> tuple[str, list[float]]:
    label: Any = row.get("label") if isinstance(row, dict) else None
    values = label if isinstance(label, list) else [label]
    good = all(isinstance(one, (int, float)) and not isinstance(one, bool) for one in values)
    if not isinstance(row, dict) or not isinstance(row.get("text"), str) or not row["text"] or not good or not values:
        raise InputError(f'text {number} is {str(row)[:80]!r}; expected {{"text": "...", "label": number or numbers}}')
    return row["text"], [float(one) for one in values]
