"""A string in a JSON Schema or a Pydantic model that is a verbatim part of a text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlgen.constraints.copy import Copy
from ctrlgen.constraints.schema.quotes import KEYWORD, quote_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctrlgen.constraints.copy import Span
    from ctrlgen.constraints.copy_units import Unit


class Quote(dict[str, Any]):
    """A string that is copied from a given text, as a JSON Schema: a citation that is real.

    It stands wherever a schema may stand, and beside a type in a Pydantic model, where the value that is read back is
    checked and is a ``Span``, which knows its place in the text.

    >>> quote = Quote("Ada wrote the first program.", unit="word")
    >>> schema = {"type": "object", "properties": {"evidence": quote}, "required": ["evidence"]}
    >>> quote.copy_of.parse("the first program").start
    10

    Args:
        context, unit, least, most: as for ``Copy``.

    Raises:
        InputError: an argument makes no sense.
        UnsatisfiableError: the longest part has fewer units.
        ComplexityError: the texts have more than 16 million characters.
    """

    def __init__(
        self, context: str | Iterable[str], *, unit: Unit = "character", least: int = 1, most: int | None = None
    ) -> None:
        copy = Copy(context, unit=unit, least=least, most=most)
        value = {"context": list(copy.contexts), "unit": unit, "least": least}
        super().__init__({"type": "string", KEYWORD: value if most is None else {**value, "most": most}})
        self.copy_of = copy

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(quote_text(self[KEYWORD]))

    def __repr__(self) -> str:
        return f"Quote{repr(self.copy_of).removeprefix('Copy')}"

    def __reduce__(self) -> tuple[Any, ...]:
        copy = self.copy_of
        return _quote, (copy.contexts, copy.unit, copy.least, copy.most)

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core.core_schema import no_info_after_validator_function

        return no_info_after_validator_function(self._found, handler(source))

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> dict[str, Any]:
        return {**handler(core), **self}

    def _found(self, text: str) -> Span:
        from ctrlgen.errors import InputError

        try:
            return self.copy_of.parse(text)
        except InputError as error:
            raise ValueError(str(error)) from None


def _quote(contexts: tuple[str, ...], unit: Unit, least: int, most: int | None) -> Quote:
    return Quote(contexts, unit=unit, least=least, most=most)
