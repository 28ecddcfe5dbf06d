"""Modules that Python code in a text imports, found by lines and words: written apart from the guard, to judge it."""

import re

_STATEMENT = re.compile(r"[ \t\f\v]*(import|from)(?=[ \t\f\v\\])(.*)", re.S)


def imported(text: str) -> list[str]:
    """The first parts of the names of modules, as written, in fenced blocks of Python."""
    found = []
    for code in _blocks(text):
        for line in _joined(code):
            for statement in _statements(line):
                found += _modules(statement)
    return found


def _blocks(text: str) -> list[list[str]]:
    blocks, inside = [], None
    for line in re.split(r"[\n\r]", text):
        if inside is not None:
            if re.match(r"[ \t\f\v]*```", line):
                inside = None
            else:
                inside.append(line)
        elif re.match(r"[ \t\f\v]*```+[ \t\f\v]*(python|py)3?(?![\w`])[^`]*", line, re.I):
            inside = []
            blocks.append(inside)
    return blocks


def _joined(lines: list[str]) -> list[str]:
    """Import statements with their continued lines."""
    joined, going_on = [], False
    for line in lines:
        if going_on:
            joined[-1] += line
        else:
            joined.append(line)
        going_on = bool(_STATEMENT.match(joined[-1])) and "#" not in joined[-1] and joined[-1].endswith("\\")
        if going_on:
            joined[-1] = joined[-1][:-1] + " "
    return joined


def _statements(line: str) -> list[str]:
    """What an import statement's line holds, cut at semicolons, before a comment."""
    if not _STATEMENT.match(line):
        return []
    first, *rest = line.split(";", 1)
    if "#" in first or not _modules(first):
        return [first.split("#")[0]]
    return [first, *(one for after in rest for one in _statements(after))]


def _modules(statement: str) -> list[str]:
    kind, rest = _STATEMENT.match(statement).groups()
    found = []
    for item in rest.split(",") if kind == "import" else [rest.lstrip(" \t\f\v,")]:
        word = re.match(r"[ \t\f\v]*([^\W\d]\w*)", item)
        if word is None:
            if item.strip(" \t\f\v"):
                break
            continue
        found.append(word[1])
    return found
