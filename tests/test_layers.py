"""Imports point one way. Read with ast, so that function-local and TYPE_CHECKING imports count too."""

import ast
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent

LAYERS = (
    {"errors", "models", "resources", "recent"},
    {"vocabulary", "tokenizer", "trie", "cache", "tensors", "probes"},
    {"automaton", "automaton_kernel", "minimal_kernel", "words", "spans", "span_kernel"},
    {"constraint"},
    {"engine"},
    {"grammars"},
    {"index"},
    {"constraints"},
    {"guard"},
    {"steering"},
    {"hmm"},
    {"rows", "phases", "callers", "closing", "leaving", "warming", "processor"},
    {"flows"},
    {"serving", "cli"},
    {"testing"},
)
"""From left to right: a module imports from its own layer and from those before it."""

TRANSFORMERS = (
    "vocabulary",
    "models*",
    "steering.source",
    "steering.reward_model",
    "callers",
    "processor",
    "flows*",
    "testing*",
)
"""Modules that may import transformers."""

HEAVY = (
    *("*_kernel", "engine.*kernel*", "engine.masks*", "steering*", "hmm*"),
    *("callers", "leaving", "processor", "flows*", "serving.batch", "serving.slots", "testing*"),
)
"""Modules that may import torch, transformers and numba at the top level; elsewhere inside functions."""


class Import(NamedTuple):
    """An import in a module of ctrlgen: `ctrlgen.a.b` or `torch`; at the top level or not."""

    source: str
    line: int
    target: str
    eager: bool

    def __str__(self):
        return f"ctrlgen/{self.source.replace('.', '/')}, line {self.line}: imports {self.target}"


def name_of(path: Path, package: Path) -> str:
    parts = path.relative_to(package).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path: Path, package: Path) -> list[Import]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    lazy = {
        id(inner)
        for outer in ast.walk(tree)
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or is_type_checking(outer)
        for inner in ast.walk(outer)
    }
    source = name_of(path, package)
    within = path.relative_to(package.parent).with_suffix("").parts
    return [
        Import(source, node.lineno, target, id(node) not in lazy)
        for node in ast.walk(tree)
        for target in targets_of(node, within, package)
    ]


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def targets_of(node: ast.AST, within: tuple[str, ...], package: Path) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    base = within[: -node.level] if node.level else ()
    start = ".".join((*base, *([node.module] if node.module else [])))
    return [f"{start}.{alias.name}" if is_module(f"{start}.{alias.name}", package) else start for alias in node.names]


def is_module(name: str, package: Path) -> bool:
    path = package.parent.joinpath(*name.split("."))
    return path.with_suffix(".py").is_file() or path.is_dir()


def layer_of(module: str) -> int | None:
    head = module.split(".")[0]
    return next((i for i, layer in enumerate(LAYERS) if head in layer), None)


def violations(package: Path) -> list[str]:
    paths = sorted(package.rglob("*.py"))
    found = [imported for path in paths for imported in imports_of(path, package)]
    unplaced = sorted({name_of(p, package).split(".")[0] for p in paths} - set(chain.from_iterable(LAYERS)) - {""})
    return [f"ctrlgen/{name} is in no layer: put it into LAYERS" for name in unplaced] + [
        f"{imported}: {reason}" for imported in found for reason in faults(imported)
    ]


def faults(imported: Import) -> list[str]:
    library, _, module = imported.target.partition(".")
    if not imported.source:  # ctrlgen/__init__.py shows names of all layers
        return []
    if library == "ctrlgen":
        return layer_faults(imported.source, module)
    reasons = []
    if library == "transformers" and not matches(imported.source, TRANSFORMERS):
        reasons.append("only vocabulary, models, processor and flows know transformers")
    if library in ("torch", "transformers", "numba") and imported.eager and not matches(imported.source, HEAVY):
        reasons.append(f"{library} is slow to import: import it inside the function that needs it")
    return reasons


def layer_faults(source: str, module: str) -> list[str]:
    if not module:
        return ["import from the module that defines the name, not from ctrlgen"]
    here, there = layer_of(source), layer_of(module)
    if here is not None and there is not None and there > here:
        return [f"{module.split('.')[0]} lies to the right of {source.split('.')[0]}"]
    return []


def matches(module: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(module, pattern) for pattern in patterns)


def test_imports_point_one_way():
    assert violations(ROOT / "ctrlgen") == []


@pytest.mark.parametrize(
    ("module", "code", "reason"),
    [
        ("automaton.py", "from ctrlgen.engine import masks", "engine lies to the right of automaton"),
        ("automaton.py", "def f():\n    from .hmm.fit import em", "hmm lies to the right of automaton"),
        ("engine/network.py", "from ..grammars import regex", "grammars lies to the right of engine"),
        ("cli.py", "from ctrlgen.testing import check_laws", "testing lies to the right of cli"),
        ("hmm/fit.py", "import ctrlgen as cg", "import from the module that defines the name"),
        ("constraints/fit.py", "import numba", "numba is slow to import"),
        ("hmm/fit.py", "def f():\n    import transformers", "only vocabulary, models, processor and flows"),
        ("utils.py", "", "ctrlgen/utils is in no layer"),
    ],
)
def test_finds(tmp_path, module, code, reason):
    path = tmp_path / "ctrlgen" / module
    path.parent.mkdir(parents=True)
    path.write_text(code)
    (found,) = violations(tmp_path / "ctrlgen")
    assert reason in found


@pytest.mark.parametrize(
    ("module", "code"),
    [
        ("constraints/regex.py", "from ctrlgen.engine.masks import Masks\nfrom . import choice"),
        (
            "hmm/fit.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch\ndef f():\n    import numba",
        ),
        ("engine/kernels.py", "import numba"),
        ("__init__.py", "from ctrlgen.cli import main"),
    ],
)
def test_allows(tmp_path, module, code):
    path = tmp_path / "ctrlgen" / module
    path.parent.mkdir(parents=True)
    path.write_text(code)
    assert violations(tmp_path / "ctrlgen") == []
