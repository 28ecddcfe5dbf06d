"""``ctrlgen guard``: text that installs only packages there are; generated so, or checked when it is finished."""

from __future__ import annotations

import json
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ctrlgen.cli.sources import STDIN, read_bytes
from ctrlgen.errors import InputError

if TYPE_CHECKING:
    from ctrlgen.flows.guarded import Guarded
    from ctrlgen.guard.package_guard import Finding, PackageGuard


class Where(Enum):
    """From where packages come."""

    PYPI = "pypi"
    NPM = "npm"


class Allowed(Enum):
    """Whether something that is no name may stand in its place."""

    ALLOW = "allow"
    REFUSE = "refuse"


def guard(
    prompt: Annotated[str | None, typer.Argument(metavar="PROMPT", help="What the model goes on from.")] = None,
    names: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="The packages there are: one a line, gzip, or a simple index's JSON."),
    ] = None,
    index: Annotated[
        str | None, typer.Option(metavar="URL|pip", help="Fetch the names from a package index; pip: the one it uses.")
    ] = None,
    ecosystem: Annotated[Where, typer.Option(help="Whose commands are watched.")] = Where.PYPI,
    urls: Annotated[Allowed, typer.Option(help="Whether URLs and other indexes may be named.")] = Allowed.REFUSE,
    paths: Annotated[Allowed, typer.Option(help="Whether local files and folders may.")] = Allowed.ALLOW,
    imports: Annotated[bool, typer.Option("--imports", help="Watch import statements in Python code too.")] = False,
    modules: Annotated[
        list[str] | None,
        typer.Option(
            "--module", metavar="MODULE=PACKAGE", help="With --imports: a module and its package; repeatable."
        ),
    ] = None,
    check: Annotated[
        str | None, typer.Option(metavar="FILE|-", help="Check a finished text instead of generating one.")
    ] = None,
    requirements: Annotated[
        bool, typer.Option("--requirements", help="The text of --check is a file of requirements.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines instead of a table.")] = False,
    model: Annotated[
        str | None, typer.Option(metavar="FOLDER|ID", help="A model; default: SmolLM2-135M-Instruct, fetched once.")
    ] = None,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Most tokens of the text.")] = 200,
    temperature: Annotated[float, typer.Option(min=0.0, help="Of sampling; 0 takes the likeliest token.")] = 0.0,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same text.")] = 0,
    chat: Annotated[
        bool | None, typer.Option("--chat/--no-chat", help="Put the prompt into the model's chat format.")
    ] = None,
) -> None:
    """Let a model name only packages that there are.

    With PROMPT a model goes on from it, and what the guard changed is listed on stderr. With --check a finished text is
    read: exit status 0 if all it installs is on the list, 1 if something is not, and then the places are shown.
    """
    made = _guard(names, index, ecosystem.value, urls.value, paths.value, _imports(imports, modules))
    if check is not None:
        if prompt is not None:
            raise InputError("a PROMPT and --check are given: choose one")
        _check(made, check, requirements, as_json)
        return
    if prompt is None or requirements:
        raise InputError("give a PROMPT to generate from, or --check FILE (which --requirements goes with)")
    decoding = {"do_sample": True, "temperature": temperature} if temperature > 0 else {}
    _generate(made, prompt, model, chat, as_json, max_new_tokens=max_new_tokens, seed=seed, **decoding)


def _imports(watched: bool, modules: list[str] | None) -> bool | dict[str, str]:
    if not modules:
        return watched
    pairs = [one.partition("=") for one in modules]
    if not watched or not all(name and package for name, _, package in pairs):
        raise InputError(
            f"--module is {', '.join(modules)}; expected MODULE=PACKAGE, such as yaml=pyyaml, with --imports"
        )
    return {name: package for name, _, package in pairs}


def _guard(
    names: str | None, index: str | None, ecosystem: Any, urls: Any, paths: Any, imports: bool | dict[str, str]
) -> PackageGuard:
    from ctrlgen.guard.names import fetch_names
    from ctrlgen.guard.package_guard import PackageGuard

    if (names is None) == (index is None):
        raise InputError("which packages are there? give --names FILE, or --index URL (--index pip: the one pip uses)")
    source = names if names is not None else fetch_names(None if index == "pip" else index)
    return PackageGuard(source, ecosystem, urls=urls, paths=paths, imports=imports)


def _check(guard: PackageGuard, source: str, requirements: bool, as_json: bool) -> None:
    text = read_bytes(source).decode(errors="replace")
    requirements = requirements or (source != STDIN and Path(source).name.startswith("requirements"))
    found = guard.check(text, requirements=requirements)
    for one in found:
        typer.echo(json.dumps(one._asdict()) if as_json else f"{source}:{one.line}:{one.column}: {_told(one)}")
    if found:
        raise typer.Exit(1)
    if not as_json:
        typer.echo("all that is installed is on the list")


def _told(one: Finding) -> str:
    return f"{one.text!r} is {one.reason}" if one.reason == "not on the list" else f"{one.text!r} {one.reason}"


def _generate(
    guard: PackageGuard, prompt: str, name: str | None, chat: bool | None, as_json: bool, **decoding: Any
) -> None:
    from ctrlgen.cli.generate import load
    from ctrlgen.flows.guarded import guarded

    model, tokenizer = load(name, "auto", None)
    chat = bool(tokenizer.chat_template) if chat is None else chat
    made: Guarded = guarded(model, tokenizer, prompt, guard, chat=chat, trace=False, **decoding)
    if as_json:
        changed = [one._asdict() for one in made.interventions]
        typer.echo(json.dumps({"prompt": prompt, "text": made.text, "interventions": changed}, ensure_ascii=False))
        return
    typer.echo(made.text)
    for one in made.interventions:
        typer.echo(f"character {one.start}: the model wanted {one.wanted!r}, which is not on the list", err=True)
