"""Ready models and attributes, from the folder hmm/ at the root: ``HMM.named("smollm2-135m")``."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

from ctrlgen.errors import InputError
from ctrlgen.resources import folder

_SUFFIX = ".safetensors"


def names() -> list[str]:
    """Of all ready files, sorted; an attribute is called model.attribute.kind.

    >>> names()[0]
    'smollm2-135m'
    """
    return sorted(path.name.removesuffix(_SUFFIX) for path in folder("hmm").glob(f"*{_SUFFIX}"))


def ready(name: str) -> Path:
    """The file called ``name``.

    Raises:
        InputError: there is none.
    """
    if name not in names():
        close = get_close_matches(str(name), names(), 3)
        hint = f"did you mean {' or '.join(close)}?" if close else f"there are {', '.join(names()) or 'none'}"
        raise InputError(f"there is no ready HMM or attribute called {name!r}; {hint}")
    return folder("hmm") / f"{name}{_SUFFIX}"
