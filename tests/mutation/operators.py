"""Mutations of tables and statements, which cosmic-ray lacks: its own operators change expressions, and the law's tables *are* the machine.

Each operator works on parso's tree: `mutation_positions` yields one position per mutant of a node, `mutate` makes the index-th.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

from cosmic_ray.operators.operator import Example, Operator
from parso.python.tree import Name, PythonNode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from parso.tree import BaseNode, NodeOrLeaf

    Positions = Iterator[tuple[tuple[int, int], tuple[int, int]]]


class Entry(NamedTuple):
    """One element between the braces: what it is made of, and its key and value if it is one of a dict."""

    nodes: list[NodeOrLeaf]
    key: str | None
    value: NodeOrLeaf | None

    @property
    def text(self) -> str:
        return "".join(node.get_code() for node in self.nodes).strip()


def text(code: str, old: NodeOrLeaf) -> Name:
    """A leaf that is written as `code` where `old` stood."""
    return Name(code, old.start_pos, prefix=old.get_first_leaf().prefix)


def braces(node: NodeOrLeaf) -> bool:
    """Whether it is a dict or a set written out; a comprehension is neither."""
    if node.type != "atom" or node.children[0].value != "{":
        return False
    inside = node.children[1]
    return not any(
        getattr(child, "type", "") in {"comp_for", "sync_comp_for"} for child in getattr(inside, "children", ())
    )


def entries(atom: BaseNode) -> list[Entry]:
    """What stands between the braces, in order."""
    if len(atom.children) == 2:
        return []
    inside = atom.children[1]
    children = inside.children if inside.type == "dictorsetmaker" else [inside]
    groups: list[list[NodeOrLeaf]] = [[]]
    for child in children:
        if child.type == "operator" and child.value == ",":
            groups.append([])
        else:
            groups[-1].append(child)
    return [_entry(group) for group in groups if group]


def _entry(group: list[NodeOrLeaf]) -> Entry:
    if len(group) == 3 and group[1].type == "operator" and group[1].value == ":":
        return Entry(group, group[0].get_code().strip(), group[2])
    return Entry(group, None, None)


def span(atom: BaseNode, nodes: list[NodeOrLeaf]) -> tuple[int, int]:
    """Where the nodes begin and end in the code of the braces."""
    at, start = 0, 0
    leaf, last = atom.get_first_leaf(), nodes[-1].get_last_leaf()
    while True:
        begins = at + (len(leaf.prefix) if at else 0)
        if leaf is nodes[0].get_first_leaf():
            start = begins
        at = begins + len(leaf.value)
        if leaf is last:
            return start, at
        leaf = leaf.get_next_leaf()


def written(atom: BaseNode, start: int, end: int, new: str) -> Name:
    """The same braces with other code from `start` to `end`, and every other line as it was: a survivor is listed by changed lines."""
    code = atom.get_code(include_prefix=False)
    return text(code[:start] + new + code[end:], atom)


class DropEntry(Operator):
    """One entry of a dict or a set is missing: what was allowed is refused."""

    def mutation_positions(self, node: NodeOrLeaf) -> Positions:
        if braces(node):
            for entry in entries(node):
                yield entry.nodes[0].start_pos, entry.nodes[-1].end_pos

    def mutate(self, node: BaseNode, index: int) -> Name:
        rows = entries(node)
        start, end = span(node, rows[index].nodes)
        if len(rows) == 1:
            was_set = rows[0].key is None and not rows[0].text.startswith("**")
            return text("set()", node) if was_set else written(node, start, end, "")
        if index + 1 < len(rows):
            return written(node, start, span(node, rows[index + 1].nodes)[0], "")
        return written(node, span(node, rows[index - 1].nodes)[1], end, "")

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        return (
            Example("x = {1: 2, 3: 4}", "x = {3: 4}"),
            Example("x = {1: 2, 3: 4}", "x = {1: 2}", occurrence=1),
            Example("x = {1}", "x = set()"),
            Example("x = {**a, 3: 4}", "x = {3: 4}"),
        )


def _enclosing_key(atom: NodeOrLeaf) -> str | None:
    """The key under which a row of a table of tables stands."""
    maker = atom.parent
    if maker is None or maker.type != "dictorsetmaker":
        return None
    place = next(index for index, child in enumerate(maker.children) if child is atom)
    if place < 2 or maker.children[place - 1].get_code().strip() != ":":
        return None
    return str(maker.children[place - 2].get_code()).strip()


class SwapTarget(Operator):
    """An entry leads where its neighbours lead, or stays where it is: a wrong target state, a wrong meaning of a word."""

    def _swaps(self, node: BaseNode) -> list[tuple[int, str]]:
        values = {index: row.value for index, row in enumerate(entries(node)) if row.value is not None}
        if any(braces(value) for value in values.values()):
            return []
        own = _enclosing_key(node)
        known = list(dict.fromkeys([value.get_code().strip() for value in values.values()] + ([own] if own else [])))
        swaps = []
        for index, value in values.items():
            place = known.index(value.get_code().strip())
            others = dict.fromkeys((known[place - 1], known[(place + 1) % len(known)]))
            swaps += [(index, other) for other in others if other != known[place]]
        return swaps

    def mutation_positions(self, node: NodeOrLeaf) -> Positions:
        if braces(node):
            rows = entries(node)
            for index, _ in self._swaps(node):
                yield rows[index].value.start_pos, rows[index].value.end_pos

    def mutate(self, node: BaseNode, index: int) -> Name:
        row, target = self._swaps(node)[index]
        value = entries(node)[row].value
        assert value is not None
        return written(node, *span(node, [value]), target)

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        return (
            Example("x = {1: A, 2: B}", "x = {1: B, 2: B}"),
            Example("x = {S: {1: A}}", "x = {S: {1: S}}"),
        )


class AddEntry(Operator):
    """A row of a table of tables takes what another row takes: what was refused is allowed, and an end is no end."""

    def _added(self, node: BaseNode) -> list[tuple[int, str]]:
        rows = [row.value for row in entries(node)]
        if not rows or any(row is None or not braces(row) for row in rows):
            return []
        moves: dict[str, str] = {}
        for row in rows:
            for entry in entries(row):
                if entry.key is not None:
                    moves.setdefault(entry.key, entry.text)
        return [
            (index, move)
            for index, row in enumerate(rows)
            for key, move in moves.items()
            if key not in {entry.key for entry in entries(row)}
        ]

    def mutation_positions(self, node: NodeOrLeaf) -> Positions:
        if braces(node):
            rows = entries(node)
            for index, _ in self._added(node):
                yield rows[index].value.start_pos, rows[index].value.end_pos

    def mutate(self, node: BaseNode, index: int) -> Name:
        place, move = self._added(node)[index]
        row = entries(node)[place].value
        assert row is not None
        known = entries(row)
        _, end = span(node, known[-1].nodes if known else [row.children[0]])
        return written(node, end, end, f", {move}" if known else move)

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        return (Example("x = {A: {1: B}, B: {}}", "x = {A: {1: B}, B: {1: B}}"),)


class DropStatement(Operator):
    """A statement that is there for its effect is not there: a posting, a message, a change of the order."""

    KEPT: ClassVar = {"string", "strings", "keyword"}

    def _dropped(self, node: NodeOrLeaf) -> bool:
        if not isinstance(node, PythonNode) or node.type != "simple_stmt" or node.parent.type == "file_input":
            return False
        statement = node.children[0]
        if statement.type in {"raise_stmt", "assert_stmt", "import_from", "import_name", "pass_stmt", *self.KEPT}:
            return False
        if statement.type == "return_stmt":
            return str(statement.children[1].get_code()).strip() not in {"None", "False"}
        if statement.type == "expr_stmt":
            target = statement.children[0]
            augmented = statement.children[1].type == "operator" and statement.children[1].value != "="
            return target.type in {"atom_expr", "power"} or (augmented and statement.children[1].value != "=")
        return statement.type in {"atom_expr", "power"}

    def mutation_positions(self, node: NodeOrLeaf) -> Positions:
        if self._dropped(node):
            yield node.children[0].start_pos, node.children[0].end_pos

    def mutate(self, node: BaseNode, index: int) -> BaseNode:
        assert index == 0
        statement = node.children[0]
        node.children[0] = text("return None" if statement.type == "return_stmt" else "pass", statement)
        return node

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        return (
            Example("def f():\n    g(1)\n", "def f():\n    pass\n"),
            Example("def f():\n    a.b = 1\n", "def f():\n    pass\n"),
            Example(
                "def f():\n    return 1\n", "def f():\n    return None\n"
            ),  # as untrue as False, which is left alone
        )


class Operators:
    """The provider under which cosmic-ray finds them: `law/DropEntry` and so on."""

    ALL: ClassVar = {one.__name__: one for one in (DropEntry, SwapTarget, AddEntry, DropStatement)}

    def __iter__(self) -> Iterator[str]:
        return iter(self.ALL)

    def __getitem__(self, name: str) -> type[Operator]:
        return self.ALL[name]
