"""After a warm-up no kernel of the mask engine is left to be compiled."""

import ast
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import ctrlgen

RARE = {"lengths", "outlived", "chain_frames"}
"""Kernels for cases that no small specification brings about; none takes long to compile."""
NOT_OF_MASKS = ("index", "guard", "hmm", "testing")


def called():
    """(module, name) of what modules of ctrlgen take from kernel modules."""
    for path in Path(ctrlgen.__path__[0]).rglob("*.py"):
        if "kernel" not in path.name:
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ImportFrom) and "kernel" in (node.module or "").rpartition(".")[2]:
                    yield from ((node.module.rpartition(".")[2], alias.name) for alias in node.names)
                elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and "kernel" in node.value.id:
                    yield node.value.id, node.attr


def kernels():
    """(name, kernel) of all kernels of the mask engine that other modules call."""
    wanted = set(called())
    for module in pkgutil.walk_packages(ctrlgen.__path__, "ctrlgen."):
        short = module.name.rpartition(".")[2]
        if "kernel" in short and module.name.split(".")[1] not in NOT_OF_MASKS:
            for name, value in vars(importlib.import_module(module.name)).items():
                if (short, name) in wanted and hasattr(value, "signatures"):
                    yield f"{module.name}.{name}", value


def unused():
    """Names of kernels that Python code may call and that have not been compiled."""
    from ctrlgen.warming import run_every_kernel

    run_every_kernel()
    return sorted(name for name, kernel in kernels() if not kernel.signatures)


def test_a_warm_up_runs_every_kernel():
    # in a process of its own, since other tests have run some of them
    code = "import sys; sys.path.insert(0, sys.argv[1]); from test_warming import unused; print(*unused())"
    found = subprocess.run(
        [sys.executable, "-c", code, __file__.rpartition("/")[0]], capture_output=True, text=True, check=True
    )
    assert {name.rpartition(".")[2] for name in found.stdout.split()} <= RARE


VARIED = (
    *({"type": "string", "format": name} for name in ("date-time", "email", "idn-email", "uri", "ipv6", "regex")),
    {"type": "array", "items": {"type": "string", "pattern": "^[a-c]{1,3}$"}, "uniqueItems": True, "minItems": 2},
    {"type": "array", "items": {"type": "string", "minLength": 1}, "uniqueItems": True},
    {"type": "object", "patternProperties": {"^a": {"type": "integer"}, "b$": {"minimum": 3}}, "minProperties": 2},
    {"type": "object", "propertyNames": {"pattern": "^[ab]$"}, "additionalProperties": {"const": 1}},
    {"type": "object", "propertyNames": {"maxLength": 5}, "properties": {"a": False}, "required": ["b"]},
    {"type": "string", "minLength": 3, "maxLength": 90, "pattern": "^[^<>]*$"},
    {"type": "string", "not": {"pattern": "^x"}},
    {"type": "string", "pattern": "^$"},
    {"type": "number", "minimum": 0.25, "exclusiveMaximum": 7, "multipleOf": 0.25},
    {"anyOf": [{"enum": ["a", 1, None]}, {"type": "array", "prefixItems": [True, {"type": "null"}]}]},
)


def compiled_later():
    """Names of kernels that are compiled once more, for other kinds of arrays, after a warm-up."""
    import ctrlgen as cg
    from ctrlgen.warming import run_every_kernel

    run_every_kernel()
    before = {name: len(kernel.signatures) for name, kernel in kernels()}
    vocabulary = cg.Vocabulary([*[bytes([byte]) for byte in range(256)], None, b'":', b"aa", b'", "'], eos=256)
    for schema in VARIED:
        for order in ("declared", "any"):
            constraint = cg.JsonSchema(schema, key_order=order).compile(vocabulary)
            state = constraint.start
            for _ in range(40):
                row = constraint.mask(state)
                allowed = [token for token in range(len(vocabulary.tokens)) if row[token >> 5] >> (token & 31) & 1]
                state = constraint.advance(state, allowed[len(allowed) // 2])
    return sorted(name for name, kernel in kernels() if len(kernel.signatures) > before[name])


def test_no_kernel_is_compiled_twice():
    code = "import sys; sys.path.insert(0, sys.argv[1]); from test_warming import compiled_later as f; print(*f())"
    found = subprocess.run(
        [sys.executable, "-c", code, __file__.rpartition("/")[0]], capture_output=True, text=True, check=True
    )
    assert {name.rpartition(".")[2] for name in found.stdout.split()} <= RARE
