"""What installs packages, by ecosystem: the words of a command, and its flags that take a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Ecosystem = Literal["pypi", "npm"]


@dataclass(frozen=True)
class Commands:
    """The commands of an ecosystem.

    Attributes:
        many: phrases after which any number of names may come; ``pip*`` also stands for pip3 and pip.exe.
        one: phrases after which one name comes, and then anything.
        values: flags followed by a value that is no name.
        sources: of these, the flags that say where packages come from.
        paths: of these, the flags whose value is itself a requirement: a path or a URL.
        blocks: whether files of requirements are watched, too, where a text shows them (``ctrlgen.guard.lines``).
    """

    many: tuple[str, ...]
    one: tuple[str, ...]
    values: frozenset[str]
    sources: frozenset[str]
    paths: frozenset[str]
    blocks: bool = False


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_PYPI = Commands(
    many=(
        "pip* install", "pip* download", "pip* wheel", "pipx install", "pipx inject", "pipenv install", "uv add",
        "uv tool install", "poetry add", "pdm add", "rye add", "conda install", "mamba install", "micromamba install",
        "easy_install",
    ),
    one=("pipx run", "uvx", "uv tool run"),
    values=_words(
        """
        -r --requirement -c --constraint -t --target -d --dest --platform --python-version --implementation --abi
        --root --prefix --src --upgrade-strategy --no-binary --only-binary --progress-bar --proxy --timeout --retries
        --trusted-host --cert --client-cert --cache-dir --log --python -p -C --config-settings --config-setting
        --global-option --build-option --hash --report --root-user-action --exists-action --keyring-provider
        --group -G --extras -E --source --optional --extra --index --default-index -n --name --channel --file --solver
        --with-editable --branch --tag --rev --resolution --prerelease --link-mode --index-strategy -w --wheel-dir
        --use-feature -i --index-url --extra-index-url -f --find-links -e --editable
        """
    ),
    sources=_words("-i --index-url --extra-index-url -f --find-links --index --default-index"),
    paths=_words("-e --editable --with-editable"),
    blocks=True,
)  # fmt: skip

_NPM = Commands(
    many=(
        "npm install", "npm i", "npm add", "npm in", "npm ins", "npm inst", "npm insta", "npm instal", "npm isnt",
        "npm isnta", "npm isntal", "npm isntall", "yarn add", "yarn global add", "pnpm add", "pnpm i", "pnpm install",
        "bun add", "bun a", "bun i", "bun install",
    ),
    one=("npx", "bunx", "pnpx", "pnpm dlx", "yarn dlx", "npm exec", "npm x", "npm init", "npm create", "bun x"),
    values=_words(
        """
        --prefix -C -w --workspace --tag --omit --include --save-prefix --cache --loglevel --registry --filter -F --dir
        --modules-folder --cwd --otp --scope --userconfig --before --network-timeout
        """
    ),
    sources=_words("--registry"),
    paths=frozenset(),
)  # fmt: skip

COMMANDS: dict[Ecosystem, Commands] = {"pypi": _PYPI, "npm": _NPM}
