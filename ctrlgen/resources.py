"""The folders grammars/, constraints/ and hmm/ with what users write, wherever ctrlgen runs from.

The wheel carries them in ctrlgen/data/; in a source tree (and so in an editable install) they lie beside ctrlgen/.
"""

from __future__ import annotations

from pathlib import Path

from ctrlgen.errors import CtrlgenError, InputError

FOLDERS = ("constraints", "grammars", "hmm")

_PACKAGE = Path(__file__).resolve().parent


def folder(name: str) -> Path:
    """The folder ``name``, one of "constraints", "grammars" and "hmm".

    >>> folder("grammars").name
    'grammars'
    """
    if name not in FOLDERS:
        raise InputError(f"no folder of ready files is called {name!r}; there are {', '.join(FOLDERS)}")
    root = _PACKAGE.parent
    found = root / name if (root / "pyproject.toml").is_file() else _PACKAGE / "data" / name
    if not found.is_dir():
        raise CtrlgenError(f"{found} is missing: this installation of ctrlgen is incomplete; install it again")
    return found
