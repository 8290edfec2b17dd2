"""Where a mutant stands: the function, class or constant of a module that holds a line, and that one's lines.

A survivor is listed by place and by the text of the lines it changes, never by line numbers, so that the list outlives edits elsewhere.
"""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
LAW = ROOT / "streams" / "domain"
MODULE = "the module"
"""The place of what stands in no definition and no constant."""


def source(module: str) -> str:
    """The text of one module of the law."""
    return (LAW / f"{module}.py").read_text(encoding="utf-8")


def squeezed(code: str) -> str:
    """Code without its line breaks and indents: `turn.enter( payment, FAIL)` however it is wrapped."""
    return " ".join(code.split())


def _names(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _found(body: list[ast.stmt], within: str = "") -> dict[str, ast.stmt]:
    found = {}
    for node in body:
        for name in _names(node):
            found[within + name] = node
        if isinstance(node, ast.ClassDef):
            found |= {
                name: one
                for name, one in _found(node.body, f"{node.name}.").items()
                if isinstance(one, ast.FunctionDef)
            }
    return found


def places(code: str) -> dict[str, str]:
    """Every place of a module and its squeezed text: `Turn.enter`, `may_submit`, `MACHINE`; the whole as `the module`."""
    lines = code.splitlines()
    found = {
        name: squeezed("\n".join(lines[node.lineno - 1 : node.end_lineno]))
        for name, node in _found(ast.parse(code).body).items()
    }
    return {**found, MODULE: squeezed(code)}


def place(code: str, line: int) -> str:
    """The narrowest place that holds a line, counted from one."""
    holding = [
        (node.lineno, name)
        for name, node in _found(ast.parse(code).body).items()
        if node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    return max(holding)[1] if holding else MODULE
