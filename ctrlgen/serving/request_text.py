"""The JSON of a request, bounded before anything is made of it."""

from __future__ import annotations

import json
from typing import Any

from ctrlgen.errors import RequestError


def read_json(value: object, *, most_bytes: int) -> tuple[Any, str]:
    """The value that a request brings, as JSON text or as the value itself, and its one text.

    Args:
        value: a string of JSON, or what ``json`` can write.
        most_bytes: of the text.

    Returns:
        A new value, and the text: equal for requests that mean the same for certain. Members keep their order, which
        matters in schemas.

    Raises:
        RequestError: not JSON, too long, nested too deeply, a name twice, NaN or infinity, half of a surrogate pair.
    """
    try:
        text = value if isinstance(value, str) else json.dumps(value, allow_nan=False)
        size = len(text.encode())
        if size > most_bytes:
            raise RequestError(f"{size} bytes of JSON; this server takes up to {most_bytes}")
        found = json.loads(text, object_pairs_hook=_object, parse_constant=_no_number)
        canonical = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
        canonical.encode()
    except json.JSONDecodeError as error:
        raise RequestError(f"not JSON: line {error.lineno}, column {error.colno}: {error.msg}") from None
    except UnicodeEncodeError as error:
        raise RequestError(f"{error.object[error.start]!r} is half of a surrogate pair, which no text has") from None
    except RecursionError:
        raise RequestError("nested too deeply") from None
    except (TypeError, ValueError) as error:  # no value of JSON; a number of thousands of digits
        raise RequestError(f"not JSON: {error}") from None
    return found, canonical


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise RequestError(f"an object has the name {next(n for i, n in enumerate(names) if n in names[:i])!r} twice")
    return found


def _no_number(name: str) -> object:
    raise RequestError(f"{name} is no number of JSON")
