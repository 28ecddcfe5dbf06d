"""Modules that can be read in one sitting: at most 500 lines, functions at most 60 without their docstring."""

import ast
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "ctrlgen"
MODULE_LINES = 500
FUNCTION_LINES = 60
KERNEL_LINES = 130  # a numba kernel is one flat loop: a call with array arguments inside it costs more than its work


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return function.end_lineno - body[0].lineno + 1 if body else 0


def too_long(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    where = path.relative_to(PACKAGE.parent)
    lines = len(text.splitlines())
    found = [f"{where}: {lines} lines"] if lines > MODULE_LINES else []
    return found + [
        f"{where}: {node.name} has {body_lines(node)} lines"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and body_lines(node) > (KERNEL_LINES if "kernel" in path.name else FUNCTION_LINES)
    ]


def test_nothing_is_too_long():
    assert [fault for path in sorted(PACKAGE.rglob("*.py")) for fault in too_long(path)] == []
