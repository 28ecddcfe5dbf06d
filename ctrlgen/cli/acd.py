"""``ctrlgen acd fit``: two opposite soft prompts learnt from anchors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ctrlgen.cli.generate import Dtype, load
from ctrlgen.cli.sources import read_json_lines
from ctrlgen.errors import InputError

if TYPE_CHECKING:
    from ctrlgen.steering.opposite_fit import Anchor

commands = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@commands.callback()
def acd() -> None:
    """Adversarial contrastive decoding: prompts for ctrlgen.ACD."""


@commands.command()
def fit(
    anchors: Annotated[
        str,
        typer.Argument(
            metavar="FILE|-",
            help='JSON lines: {"prompt", "refused", "complied"} for unsafe prompts, {"prompt", "answer"} for others.',
        ),
    ],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="A safetensors file; whole, or not there at all.")],
    model: Annotated[
        str | None, typer.Option(metavar="FOLDER|ID", help="A model; default: SmolLM2-135M-Instruct, fetched once.")
    ] = None,
    steps: Annotated[int, typer.Option(min=1, help="Steps of Adam.")] = 100,
    batch: Annotated[int, typer.Option(min=1, help="Anchors a step.")] = 8,
    rate: Annotated[float, typer.Option(min=0.0, help="Of Adam.")] = 3e-3,
    safe: Annotated[str | None, typer.Option(metavar="TEXT", help="What the safe prompt begins as.")] = None,
    adverse: Annotated[str | None, typer.Option(metavar="TEXT", help="What the adverse prompt begins as.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the order of the anchors.")] = 0,
    dtype: Annotated[Dtype, typer.Option(help="Of the weights in memory; auto: as stored.")] = Dtype.AUTO,
    device: Annotated[str | None, typer.Option(metavar="NAME", help="cpu, cuda ...")] = None,
) -> None:
    """Learn the safe and the adverse prompt of a model."""
    rows = read_json_lines(anchors)
    checked = [_checked(row, number) for number, row in enumerate(rows, 1)]
    loaded, tokenizer = load(model, dtype.value, device)
    from ctrlgen.steering.opposite_fit import ADVERSE, SAFE, fit_opposite

    def told(step: int, careful: float, reckless: float) -> None:
        if step % 10 == 0 or step == steps - 1:
            typer.echo(f"step {step + 1} of {steps}: loss {careful:.3f} safe, {reckless:.3f} adverse", err=True)

    made = fit_opposite(
        loaded,
        [_anchor(row, tokenizer) for row in checked],
        safe=tokenizer(safe or SAFE)["input_ids"],
        adverse=tokenizer(adverse or ADVERSE)["input_ids"],
        steps=steps,
        batch=batch,
        rate=rate,
        seed=seed,
        on_step=told,
    )
    made.save(out)
    typer.echo(f"{out}: {len(made.safe)} and {len(made.adverse)} embeddings of size {made.safe.shape[1]}")


def _checked(row: Any, number: int) -> dict[str, str]:
    kinds = ({"prompt", "refused", "complied"}, {"prompt", "answer"})
    if not isinstance(row, dict) or set(row) not in kinds or not all(isinstance(v, str) and v for v in row.values()):
        raise InputError(
            f"anchor {number} is {str(row)[:80]!r}; expected texts under prompt, refused and complied, or under prompt "
            "and answer"
        )
    return row


def _anchor(row: dict[str, str], tokenizer: Any) -> Anchor:
    from ctrlgen.flows.prompts import prepare
    from ctrlgen.steering.opposite_fit import Anchor

    prompt = prepare(tokenizer, [row["prompt"]], bool(tokenizer.chat_template) or None, pad=0).prompts[0]

    def answer(text: str) -> tuple[int, ...]:
        return (*tokenizer(text, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id)

    good = answer(row["refused"] if "refused" in row else row["answer"])
    return Anchor(tuple(prompt), good, answer(row["complied"]) if "complied" in row else ())
