"""Names that an install command names, found with shlex: written apart from the guard, to judge it."""

import re
import shlex

_VALUES = {
    *("-r", "--requirement", "-c", "--constraint", "-t", "--target", "-i", "--index-url", "--extra-index-url"),
    *("-f", "--find-links", "-n", "--name", "--python", "-p", "-e", "--editable", "--registry", "--prefix", "-w"),
    *("--platform", "--proxy", "--cache-dir", "--trusted-host", "--group", "--tag", "--channel"),
}
_PIP = re.compile(
    r"(?<![\w-])(?:pip[\d.]*|pipx|pipenv|conda|mamba)[ \t]+install[ \t]+|(?<![\w-])(?:uv|poetry)[ \t]+add[ \t]+", re.I
)
_NPM = re.compile(r"(?<![\w-])(?:npm[ \t]+(?:install|i|add)|(?:yarn|pnpm|bun)[ \t]+add)[ \t]+", re.I)


def installed(text: str, ecosystem: str = "pypi") -> list[str]:
    """The names after install commands, as written; what a shell would not read as one command is left out."""
    text = text.replace("\\\n", " ")
    found = []
    for match in (_PIP if ecosystem == "pypi" else _NPM).finditer(text):
        line = re.split(r"[\n`;|&()\]}?]|\\[nrt]|\*\*|</", text[match.end() :], maxsplit=1)[0]
        found += _names(_words(line), ecosystem)
    return found


def _words(line: str) -> list[str]:
    """The words of a shell; a quote that never closes is taken for a slip."""
    while True:
        lexer = shlex.shlex(line, posix=True)
        lexer.whitespace_split, lexer.commenters = True, "#"
        try:
            return list(lexer)
        except ValueError:
            last = max(line.rfind('"'), line.rfind("'"), line.rfind("\\"))
            line = line[:last] + line[last + 1 :]


def _names(words: list[str], ecosystem: str) -> list[str]:
    found, skip, compared = [], False, False
    for word in words:
        if compared and word[:1].isdigit():
            compared = False
            continue
        compared = re.fullmatch(r"[=<>!~]+", word) is not None
        if word in (">", ">>"):  # a file follows
            skip = True
            continue
        if skip or word.startswith("-"):
            skip = not skip and word in _VALUES
            continue
        if re.match(r"[./~<>=!*]|.*://", word):
            continue
        if ecosystem == "npm":
            name = re.match(r"@?[^@]*", word)
        else:
            name = re.match(r"[\w.\-]*", word)
        if name and (kept := name[0].rstrip(".,:*")):
            found.append(kept)
        if word.endswith((".", ":", "!")):  # the sentence is over
            break
    return found


def normal(name: str) -> str:
    """PEP 503."""
    return re.sub(r"[-_.]+", "-", name).lower()
