"""The command line: ``ctrlgen generate | guard | check | report | fetch | index | hmm | acd | reward | warmup``.

options.py    the options that say what a text must satisfy
sources.py    files and standard input, with errors that show the place
generate.py   prompts in, JSON lines out
output.py     JSON lines on disk: whole, or readable as far as they go
guard.py      only packages that there are
check.py      does a text satisfy a constraint, and if not, where
walk.py       a text along a constraint, byte by byte
expected.py   what may come next, in words
report.py     what of a schema is enforced, and what it costs
fetch.py      models and kernels, made ready beforehand
index.py      catalogues as files
item_files.py the items of a catalogue, from files of several formats
hmm.py        hidden Markov models: sample, fit
attribute.py  attributes, from labelled texts
acd.py        opposite soft prompts, learnt from anchors
reward.py     reward models, learnt from labelled texts

Each command imports what is slow to import when it runs, so that ``--help`` comes at once.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any, NoReturn

import click
import typer
from typer.core import TyperGroup

from ctrlgen.cli import acd, check, fetch, generate, guard, hmm, index, report, reward
from ctrlgen.errors import CtrlgenError

INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells have it."""


class Commands(TyperGroup):
    """Runs a command; what it raises on purpose becomes one paragraph on stderr and an exit status."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that ``ctx`` names."""
        try:
            try:
                return super().invoke(ctx)
            finally:
                sys.stdout.flush()
        except KeyboardInterrupt:
            fail("interrupted", INTERRUPTED)
        except (typer.Exit, typer.Abort, click.ClickException):
            raise
        except BrokenPipeError:
            leave_quietly()
        except (CtrlgenError, OSError) as error:
            if ctx.params.get("debug"):
                raise
            fail(f"error: {told(error)}", 2)
        except Exception as error:
            # from transformers or torch, for instance: an option of theirs that makes no sense
            if ctx.params.get("debug"):
                raise
            fail(f"error: {type(error).__name__}: {error}\n(ctrlgen --debug ... shows where)", 2)


def told(error: Exception) -> str:
    """The message of an error, with the file where there is one."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def fail(message: str, status: int) -> NoReturn:
    """Say ``message`` on stderr and end."""
    typer.echo(message, err=True)
    raise typer.Exit(status)


def leave_quietly() -> NoReturn:
    """End when whoever read the output has gone; nothing more is written, at exit neither."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise typer.Exit(1)


def show_version(wanted: bool) -> None:
    """Print the version and end, if that is wanted."""
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        try:
            typer.echo(f"ctrlgen {version('ctrlgen')}")
        except PackageNotFoundError:
            typer.echo("ctrlgen, run from its sources without being installed")
        raise typer.Exit


# plain help: rich takes three times as long to start
app = typer.Typer(
    name="ctrlgen", cls=Commands, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False
)


@app.callback()
def common(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show the version and end.")
    ] = False,
) -> None:
    """What a language model may say, token by token, exactly and fast.

    Exit status: 0 if all went well, 1 if the answer is no (check, guard, report), 2 after an error, 130 after Ctrl-C.
    """


for command in (generate.generate, guard.guard, check.check, report.report, fetch.fetch, fetch.warmup):
    app.command()(command)
app.add_typer(index.commands, name="index")
app.add_typer(hmm.commands, name="hmm")
app.add_typer(acd.commands, name="acd")
app.add_typer(reward.commands, name="reward")


def main() -> None:
    """Run the command line."""
    app(prog_name="ctrlgen")
