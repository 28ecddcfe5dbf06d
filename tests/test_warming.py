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
