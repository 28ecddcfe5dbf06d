"""Finished texts through the scanner: the first byte that is refused tells a name that is not there, or no name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from ctrlgen.guard.package_guard import Finding
from ctrlgen.guard.scanner import TEXT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctrlgen.guard.scanner import Scanner
    from ctrlgen.index.name_index import NameIndex

_GOES_ON = (b":", b"/", b"+")
"""After a name that is not there, what tells that the whole word is none, but a URL, say."""

_NOT_THERE, _UNCHECKED = "not on the list", "cannot be checked"


def findings(text: str, scanner: Scanner, index: NameIndex, *, requirements: bool) -> list[Finding]:
    """What the guard would not have let through; after each find the text goes on as after a listed name."""
    content = text.encode(errors="surrogatepass")
    found: list[tuple[int, int, str]] = []
    begin = 0
    # in a file of requirements a fence is no end, but a line that cannot be read
    for fence in re.finditer(rb"(?m)^[ \t]*(```.*)$", content) if requirements else ():
        found += _found(content[: fence.start(1)], begin, scanner, index, scanner.block)
        found.append((*fence.span(1), _UNCHECKED))
        begin = fence.end()
    found += _found(content, begin, scanner, index, scanner.block if requirements else 0)
    return _placed(content, found)


def _found(content: bytes, at: int, scanner: Scanner, index: NameIndex, state: int) -> list[tuple[int, int, str]]:
    """(start, end, reason) of what is found from a place on."""
    from ctrlgen.guard.guard_kernel import LINES, run

    data, tables, names = np.frombuffer(content, np.uint8), scanner.tables, index.layout.walk
    found: list[tuple[int, int, str]] = []
    bits = 0
    while at < len(content):
        stop, before, begin, whole, bits = map(int, run(tables, names, scanner.joins, state, bits, data, at))
        bits -= bits % LINES
        if stop == len(content) and (begin < 0 or whole):
            break
        if begin < 0 and (opened := int(scanner.after[before, content[stop]])) >= 0 and scanner.in_name[opened]:
            begin, before = stop, opened  # no name begins with its first letter
        if begin >= 0 and not (whole and scanner.fold[content[stop]] < 0):
            end = _end_of_name(content, begin, scanner)
            found.append((begin, end, _NOT_THERE))
            if content[end : end + 1] in _GOES_ON:
                end = _end_of_word(content, end)
        else:
            end = stop
            if begin < 0 or content[stop] >= 0x80 or whole:
                wide = content[stop] >= 0x80 and not whole
                end = _end_of_name(content, stop, scanner) if wide else _end_of_character(content, stop)
                found.append((stop, end, _UNCHECKED))
        block = scanner.resume.get(before)
        after = int(scanner.after[before, content[end]]) if begin >= 0 and end < len(content) and end > begin else -1
        state, at = (after, end + 1) if after >= 0 else (0, max(end, at + 1))
        if after >= 0 and scanner.in_name[after]:
            state, at = 0, end
        elif after >= 0 and scanner.kind[after] == TEXT and content[end] == 0x0A:
            bits = LINES * int(scanner.lines.commanded[bits // LINES])
        if block is not None and after < 0:  # the next line is one of the block
            line = content.find(b"\n", at)
            state, at = block, len(content) if line < 0 else line + 1
    return found


def _end_of_name(content: bytes, begin: int, scanner: Scanner) -> int:
    """The index after all bytes of a name, without full stops at its end."""
    end = begin
    while end < len(content) and (scanner.fold[content[end]] >= 0 or content[end] >= 0x80):
        end += 1
    name = content[begin:end].rstrip(b".")
    return begin + max(len(name), 1)


def _end_of_word(content: bytes, at: int) -> int:
    while at < len(content) and content[at] not in b" \t\r\n\"'`":
        at += 1
    return at


def _end_of_character(content: bytes, at: int) -> int:
    end = at + 1
    while end < len(content) and content[end] & 0xC0 == 0x80:
        end += 1
    return end


def _placed(content: bytes, found: Iterable[tuple[int, int, str]]) -> list[Finding]:
    """(start, end, reason) in bytes, ascending, with line and column in characters."""
    placed, at, offset, line, column = [], 0, 0, 1, 1
    for start, end, reason in found:
        between = content[at:start].decode(errors="replace")
        at, offset, line = start, offset + len(between), line + between.count("\n")
        column = len(between) - between.rfind("\n") if "\n" in between else column + len(between)
        placed.append(Finding(offset, line, column, content[start:end].decode(errors="replace"), reason))
    return placed
