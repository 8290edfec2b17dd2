"""The repository keeps its own rules. Every rule here is one that a linter does not hold."""

from __future__ import annotations

import ast
import os
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from streams.__main__ import COMMANDS
from streams.cli.docs import stale

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
REQUIREMENTS = ROOT.parent / "shared" / "requirements.md"
OWN = Path(__file__)
MOST_LINES = 400
MOST_FUNCTION_LINES = 60
FEWEST_WORDS = 3
NOT_NAMES = {"utils", "util", "common", "helpers", "helper", "base", "manager", "managers", "misc"}
NOT_OURS = {
    ".git",
    ".venv",
    ".concord",
    ".hypothesis",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    "__pycache__",
    "dist",
    "build",
}
TEXT = {
    ".py",
    ".md",
    ".toml",
    ".yaml",
    ".yml",
    ".json",
    ".jsonl",
    ".java",
    ".sql",
    ".lock",
    ".txt",
    ".cfg",
    ".html",
    ".js",
    ".css",
    "",
}
MACHINE_PATH = re.compile(r"(?<![\w.\-])/(?:work|tmp|root|home)(?![\w\-])")
REGISTRY = re.compile(
    r"pypi\.org|pythonhosted|npmjs|maven\.org|maven\.apache\.org|crates\.io|proxy\.golang|debian\.org|(?<!emit-)index-url"
)
UNDONE = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X)\b")
REPORT = re.compile(r"(?i)^(?:status|report|summary|plan|progress|notes?|roadmap|worklog|handoff)\b.*\.(?:md|txt|rst)$")
CLOCKS_AND_CHANCE = {
    "now",
    "utcnow",
    "today",
    "time",
    "time_ns",
    "monotonic",
    "perf_counter",
    "random",
    "uuid1",
    "uuid4",
    "urandom",
}
NOT_IN_THE_LAW = {
    "time",
    "random",
    "uuid",
    "secrets",
    "os",
    "socket",
    "asyncio",
    "logging",
    "threading",
    "pathlib",
    "sys",
    "decimal",
}


def files(*folders: str) -> list[Path]:
    found = []
    for start in [ROOT / folder for folder in folders] or [ROOT]:
        for here, inner, names in os.walk(start):
            # What is not ours is not entered: servers of this very run come and go there.
            inner[:] = [name for name in inner if name not in NOT_OURS and "egg-info" not in name]
            found += [Path(here, name) for name in names if name not in NOT_OURS]
    return sorted(found)


def texts() -> Iterator[tuple[str, str]]:
    for path in files():
        if path.suffix in TEXT and path != OWN:
            yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")


def modules(*folders: str) -> list[Path]:
    return [path for path in files(*folders) if path.suffix == ".py"]


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def at(path: Path, node: ast.AST) -> str:
    return f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}"


def code_of(text: str) -> str:
    """What a Markdown page shows as code."""
    return "\n".join(re.findall(r"```.*?```|`[^`\n]+`", text, re.DOTALL))


def pages() -> list[Path]:
    return [path for path in files() if path.suffix == ".md"]


def test_no_module_of_the_product_holds_two_ideas():
    long = {str(path.relative_to(ROOT)): path.read_text().count("\n") for path in modules("streams", "stores")}
    assert {name: lines for name, lines in long.items() if lines > MOST_LINES} == {}


def test_no_function_of_the_product_is_longer_than_a_screen():
    long = [
        f"{at(path, function)} {function.name}: {(function.end_lineno or 0) - function.lineno + 1} lines"
        for path in modules("streams", "stores")
        for function in functions(path)
        if (function.end_lineno or 0) - function.lineno >= MOST_FUNCTION_LINES
    ]
    assert long == []


def test_every_package_file_is_a_docstring_and_nothing_else():
    wrong = [
        at(path, path_tree)
        for path in modules("streams", "stores", "tests")
        if path.name == "__init__.py"
        for path_tree in [tree(path)]
        if len(path_tree.body) != 1 or ast.get_docstring(path_tree) is None
    ]
    assert wrong == []


def test_every_module_opens_by_saying_what_it_rules():
    assert [at(path, tree(path)) for path in modules() if not ast.get_docstring(tree(path))] == []


def test_no_file_or_folder_has_a_name_that_says_nothing():
    assert [
        str(path) for path in files() if NOT_NAMES & {part.partition(".")[0] for part in path.relative_to(ROOT).parts}
    ] == []


def test_nothing_committed_is_marked_as_undone():
    assert [name for name, text in texts() if UNDONE.search(text)] == []


def test_nothing_committed_names_a_path_of_one_machine():
    found = [(name, match.group()) for name, text in texts() for match in MACHINE_PATH.finditer(text)]
    assert found == []


def test_nothing_committed_names_a_package_registry():
    assert [(name, match.group()) for name, text in texts() if (match := REGISTRY.search(text))] == []


def test_the_product_depends_on_nothing_beside_its_checkout():
    beside = [name for name, text in texts() if "../shared" in text and not name.startswith("tests/")]
    assert beside == []


def test_no_status_report_or_plan_is_committed():
    assert [path.name for path in [*files("docs"), *ROOT.glob("*")] if REPORT.match(path.name)] == []


def test_whatever_catches_everything_says_why():
    silent = []
    for path in modules("streams", "stores"):
        lines = path.read_text().splitlines()
        for node in ast.walk(tree(path)):
            if not isinstance(node, ast.ExceptHandler) or isinstance(node.body[-1], ast.Raise):
                continue  # what raises again has only tidied up, or said it better
            caught = (
                {name.id for name in ast.walk(node.type) if isinstance(name, ast.Name)}
                if node.type
                else {"BaseException"}
            )
            reason = lines[node.lineno - 1].partition("#")[2].replace("noqa: BLE001", "").strip()
            if caught & {"Exception", "BaseException"} and len(reason.split()) < 2:
                silent.append(at(path, node))
    assert silent == []


def test_every_test_is_named_by_its_claim():
    names = {f"{at(path, test)} {test.name}": test.name for path in modules("tests") for test in functions(path)}
    tests = {place: name for place, name in names.items() if name.startswith("test")}
    assert len(tests) > 50
    claim = re.compile(r"test(_[a-z0-9]+){" + str(FEWEST_WORDS) + ",}")
    assert [place for place, name in tests.items() if not claim.fullmatch(name)] == []


def test_every_make_command_that_a_page_shows_exists():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    shown = {
        (page.name, name) for page in pages() for name in re.findall(r"\bmake ([a-z-]+)", code_of(page.read_text()))
    }
    assert {(page, name) for page, name in shown if name not in targets} == set()


def test_every_concord_command_that_a_page_shows_exists():
    shown = {
        (page.name, name)
        for page in pages()
        for name in re.findall(r"\bconcord ([a-z]+(?:-[a-z]+)*)\b", code_of(page.read_text()))
    }
    assert {(page, name) for page, name in shown if name not in COMMANDS} == set()


@pytest.mark.skipif(not REQUIREMENTS.is_file(), reason="the requirements do not lie beside this checkout")
def test_every_requirement_that_is_named_exists():
    known = set(re.findall(r"\bR-\d{3}\b", REQUIREMENTS.read_text()))
    named = {(name, each) for name, text in texts() for each in re.findall(r"\bR-\d{3}\b", text)}
    assert {(name, each) for name, each in named if each not in known} == set()


def test_generated_pages_are_fresh():
    assert stale(ROOT / "docs") == [], "run `make docs`"


def test_the_law_knows_no_floating_point():
    found = []
    for path in modules("streams/domain"):
        for node in ast.walk(tree(path)):
            constant = isinstance(node, ast.Constant) and isinstance(node.value, float | complex)
            named = isinstance(node, ast.Name) and node.id == "float"
            divides = isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Div)
            if constant or named or divides:
                found.append(at(path, node))
    assert found == []


def test_the_law_asks_for_no_clock_no_chance_and_no_world():
    found = []
    for path in modules("streams/domain"):
        for node in ast.walk(tree(path)):
            imported = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            imported += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            called = node.func if isinstance(node, ast.Call) else None
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            asks = name in CLOCKS_AND_CHANCE or (isinstance(called, ast.Name) and name in {"open", "print", "input"})
            if asks or {module.partition(".")[0] for module in imported} & NOT_IN_THE_LAW:
                found.append(at(path, node))
    assert found == []


def test_the_lock_file_pins_every_package_by_hash_and_names_no_index():
    lock = (ROOT / "requirements.lock").read_text()
    assert not re.search(r"https?://|(?<!emit-)index-url|find-links|trusted-host", lock)
    entries = re.split(r"^(?=[a-z0-9])", lock, flags=re.MULTILINE)[1:]
    assert len(entries) > 20
    assert [
        entry.split()[0] for entry in entries if "==" not in entry.split()[0] or "--hash=sha256:" not in entry
    ] == []


@pytest.mark.parametrize("package", ["aiokafka", "faust-streaming"])
def test_a_library_whose_private_parts_are_used_is_pinned_exactly_and_locked(package: str):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    [pin] = [text for text in project["dependencies"] if text.startswith(package)]
    assert re.fullmatch(rf"{package}==\d+\.\d+\.\d+", pin)
    assert f"\n{pin} " in (ROOT / "requirements.lock").read_text()


def test_the_map_of_test_rooms_names_every_room_and_no_other():
    rooms = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and path.name != "__pycache__"}
    table = re.findall(r"^\| `([a-z]+)/` \|", (ROOT / "tests" / "README.md").read_text(), re.MULTILINE)
    assert rooms <= set(table)
    assert len(table) == len(set(table))
