"""Everything ctrlgen raises on purpose.

CtrlgenError
├── SpecificationError      what the user wrote cannot be enforced
│   ├── SchemaError         a JSON Schema: pointer, keyword, rewrite
│   ├── RegexError          a regular expression: position, caret
│   ├── GrammarError        a grammar: line, column, caret
│   └── RequestError        what a request to a server asks for: JSON pointer
├── VocabularyError         a tokenizer whose ids cannot be turned into bytes
├── UnsatisfiableError      no string (of this vocabulary) satisfies the constraint
├── ComplexityError         a limit on states, memory, depth or time was reached
├── DeadEndError            a row of a batch has no token left
├── BudgetError             max_new_tokens is too small to finish
├── InputError              arguments that do not fit together (prompt too long, empty batch ...)
└── ModelError              a model or tokenizer that cannot be loaded or fetched

SchemaWarning (a UserWarning) says what a JSON Schema is likely not to mean.

Each message says what is wrong, where, what was expected and what to do.
"""

from __future__ import annotations


class CtrlgenError(Exception):
    """Base of all errors raised by ctrlgen on purpose."""


class SpecificationError(CtrlgenError):
    """What the user wrote cannot be enforced."""


class SchemaError(SpecificationError):
    """A JSON Schema (or a part of one) that cannot be enforced.

    Args:
        message: what is wrong, in one sentence.
        pointer: JSON pointer to the subschema, "" for the root; shown as "#...".
        keyword: the keyword at fault, if there is one.
        rewrite: what to write instead, if there is an equivalent that can be enforced.
    """

    def __init__(
        self, message: str, *, pointer: str = "", keyword: str | None = None, rewrite: str | None = None
    ) -> None:
        self.pointer, self.keyword, self.rewrite = pointer, keyword, rewrite
        where = f"#{pointer}" if keyword is None else f"#{pointer}/{keyword}"
        super().__init__(f"{where}: {message}" + (f"\n  write instead: {rewrite}" if rewrite else ""))


class RegexError(SpecificationError):
    """A regular expression that cannot be compiled; shows the pattern and a caret.

    Args:
        message: what is wrong.
        pattern: the whole expression.
        position: index into ``pattern``, in code points.
    """

    def __init__(self, message: str, pattern: str, position: int) -> None:
        self.pattern, self.position = pattern, position
        super().__init__(f"{message} (position {position})\n{caret(pattern, position)}")


class GrammarError(SpecificationError):
    """A grammar that cannot be compiled; shows the line and a caret (line and column count from 1)."""

    def __init__(self, message: str, text: str, line: int, column: int) -> None:
        self.line, self.column = line, column
        lines = text.splitlines() or [""]
        shown = lines[min(line, len(lines)) - 1]
        super().__init__(f"line {line}, column {column}: {message}\n{caret(shown, column - 1)}")


class RequestError(SpecificationError):
    """What a request to a server asks for cannot be done.

    Args:
        message: what is wrong, and what was expected.
        pointer: JSON pointer to the place, "" for the whole; shown as "#...".
    """

    def __init__(self, message: str, *, pointer: str = "") -> None:
        self.pointer = pointer
        super().__init__(f"#{pointer}: {message}")


class VocabularyError(CtrlgenError):
    """A tokenizer whose ids cannot be turned into bytes."""


class UnsatisfiableError(CtrlgenError):
    """No string of this vocabulary satisfies the constraint."""


class ComplexityError(CtrlgenError):
    """A limit on states, memory, nesting or time was reached; the message names limit and option."""


class DeadEndError(CtrlgenError):
    """A row of a batch has no token left.

    Args:
        message: what happened.
        row: index of the row in the batch.
        text: what the row has generated so far.
    """

    def __init__(self, message: str, *, row: int, text: str) -> None:
        self.row, self.text = row, text
        super().__init__(f"row {row}: {message}; text so far: {text!r}")


class BudgetError(CtrlgenError):
    """``max_new_tokens`` is too small to finish.

    Args:
        needed: number of tokens, the end token included, that is certain to suffice.
        given: the budget.
        option: the argument that it was given with.
    """

    def __init__(self, *, needed: int, given: int, row: int | None = None, option: str = "max_new_tokens") -> None:
        self.needed, self.given = needed, given
        where = "" if row is None else f"row {row}: "
        super().__init__(
            f"{where}{option}={given} is too small: the shortest output that satisfies the "
            f"constraint takes {needed} tokens, the end token included; raise {option} to at least {needed}"
        )


class InputError(CtrlgenError):
    """Arguments that do not fit together."""


class ModelError(CtrlgenError):
    """A model or tokenizer that cannot be loaded or fetched."""


class SchemaWarning(UserWarning):
    """A JSON Schema that restricts less than its author is likely to think."""


def caret(line: str, position: int, width: int = 78) -> str:
    """Show ``line`` with a caret under ``position``, cut to ``width`` columns around it.

    >>> print(caret("a(b", 1))
      a(b
       ^
    """
    shown = "".join(character if character.isprintable() else "." for character in line)
    start = max(0, min(position - width // 2, len(shown) - width))
    return f"  {shown[start : start + width]}\n  {' ' * (position - start)}^"
