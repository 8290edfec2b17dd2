"""Matching: a pair is made only if nothing else can be meant (R-188, R-189, R-198).

Lines and items that may belong together are a graph with two sides. It can have many largest matchings, each of which uses as much of it
as any. A pair that is part of **every** one of them is forced: whoever denied it would leave more unmatched. All else is a choice, so it is
left to people as candidates. Two equal amounts without a reference are such a choice, and so is one line that might be either of two.

    free      is in no pair of the matching M that was found
    a pair of M is *not* forced if an alternating path leads to it from something free (the path can be turned over),
    or if it lies on an alternating cycle (so can the cycle); every other pair of M is forced (Dulmage and Mendelsohn)

The result is a function of the graph alone: neither the order of the edges nor which largest matching was found plays a part, and parts
that no edge connects do not touch each other, so the work may be divided along them.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Ordered(Protocol):
    """What names a line or an item: hashable, and ordered among its like."""

    def __lt__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...


L = TypeVar("L", str, int, tuple[str, str])
R = TypeVar("R", str, int, tuple[str, str])
FREE: Final = -1


class Matching(Struct, Generic[L, R], frozen=True):
    """`pairs` are forced, line to item. `candidates` are the lines that have a choice, or lost one: all items that no forced pair took, in
    order; none are left where every item it might be is forced elsewhere.
    """

    pairs: dict[L, R]
    candidates: dict[L, tuple[R, ...]]


def forced(edges: Iterable[tuple[L, R]]) -> Matching[L, R]:
    """What is forced in the graph of `edges`, each from a line to an item that it may be. An edge that is named twice is one."""
    of_line: dict[L, set[R]] = {}
    of_item: dict[R, list[L]] = {}
    for line, item in edges:
        items = of_line.setdefault(line, set())
        if item not in items:
            items.add(item)
            of_item.setdefault(item, []).append(line)
    pairs: dict[L, R] = {}
    for lines in _parts(of_line, of_item):
        if len(lines) == 1 and len(of_line[lines[0]]) == 1:
            (pairs[lines[0]],) = of_line[lines[0]]
        else:
            pairs.update(_forced(lines, of_line))
    taken = set(pairs.values())
    candidates = {
        line: tuple(sorted(item for item in items if item not in taken))
        for line, items in sorted(of_line.items())
        if line not in pairs
    }
    return Matching({line: pairs[line] for line in sorted(pairs)}, candidates)


def _parts(of_line: dict[L, set[R]], of_item: dict[R, list[L]]) -> Iterator[list[L]]:
    """The lines of each connected part."""
    seen: set[L] = set()
    for start in of_line:
        if start in seen:
            continue
        seen.add(start)
        part, items = [start], set[R]()
        for line in part:
            for item in of_line[line] - items:
                items.add(item)
                for other in of_item[item]:
                    if other not in seen:
                        seen.add(other)
                        part.append(other)
        yield part


def _forced(lines: list[L], of_line: dict[L, set[R]]) -> dict[L, R]:
    """The forced pairs of one connected part."""
    items = sorted({item for line in lines for item in of_line[line]})
    number = {item: index for index, item in enumerate(items)}
    lines = sorted(lines)
    ahead = [sorted(number[item] for item in of_line[line]) for line in lines]
    line_of = _largest(ahead, len(items))
    item_of = [FREE] * len(lines)
    for item, line in enumerate(line_of):
        if line != FREE:
            item_of[line] = item
    loose = _turnable(ahead, item_of, line_of) | _circled(ahead, item_of, line_of)
    return {lines[line]: items[item] for line, item in enumerate(item_of) if item != FREE and line not in loose}


# -- a largest matching (Hopcroft and Karp)


def _largest(ahead: list[list[int]], items: int) -> list[int]:
    """The line of each item in one largest matching, or FREE."""
    item_of, line_of = [FREE] * len(ahead), [FREE] * items
    while True:
        level = _levels(ahead, item_of, line_of)
        if level is None:
            return line_of
        left = [iter(each) for each in ahead]
        for line, item in enumerate(item_of):
            if item == FREE:
                _augment(line, left, level, item_of, line_of)


def _levels(ahead: list[list[int]], item_of: list[int], line_of: list[int]) -> list[int] | None:
    """How far each line is from a free line along alternating paths; None where no free item can be reached."""
    level = [0 if item == FREE else FREE for item in item_of]
    queue = deque(line for line, item in enumerate(item_of) if item == FREE)
    reached = False
    while queue:
        line = queue.popleft()
        for item in ahead[line]:
            holder = line_of[item]
            if holder == FREE:
                reached = True
            elif level[holder] == FREE:
                level[holder] = level[line] + 1
                queue.append(holder)
    return level if reached else None


def _augment(start: int, left: list[Iterator[int]], level: list[int], item_of: list[int], line_of: list[int]) -> None:
    """One more pair, along a shortest alternating path from a free line, if there is one left."""
    path: list[tuple[int, int]] = []
    line = start
    while True:
        item = next(left[line], FREE)
        if item == FREE:
            if not path:
                return
            line, _ = path.pop()
            continue
        holder = line_of[item]
        if holder == FREE:
            for each, its in (*path, (line, item)):
                item_of[each], line_of[its] = its, each
            return
        if level[holder] == level[line] + 1:
            path.append((line, item))
            line = holder


# -- what could be otherwise


def _turnable(ahead: list[list[int]], item_of: list[int], line_of: list[int]) -> set[int]:
    """Lines whose pair lies on an alternating path from something free."""
    found = {line for line, item in enumerate(item_of) if item == FREE}
    free_lines = deque(found)
    while free_lines:
        for item in ahead[free_lines.popleft()]:
            holder = line_of[item]
            if holder != FREE and holder not in found:
                found.add(holder)
                free_lines.append(holder)
    behind: dict[int, list[int]] = {}
    for line, items in enumerate(ahead):
        for item in items:
            behind.setdefault(item, []).append(line)
    back: set[int] = set()
    free_items = deque(item for item, line in enumerate(line_of) if line == FREE)
    while free_items:
        for line in behind[free_items.popleft()]:
            if line not in back:
                back.add(line)
                if item_of[line] != FREE:
                    free_items.append(item_of[line])
    return found | back


def _circled(ahead: list[list[int]], item_of: list[int], line_of: list[int]) -> set[int]:
    """Lines whose pair lies on an alternating cycle: those that share a strongly connected part with another.

    A line leads to the holders of all other items that it may be.
    """
    walk = _Walk(len(ahead))
    for root in range(len(ahead)):
        if walk.order[root] != FREE:
            continue
        walk.enter(root)
        ways = [(root, iter(ahead[root]))]
        while ways:
            line, rest = ways[-1]
            item = next(rest, FREE)
            if item == FREE:
                ways.pop()
                walk.leave(line, ways[-1][0] if ways else FREE)
            elif (holder := line_of[item]) not in {FREE, line}:
                if walk.order[holder] == FREE:
                    walk.enter(holder)
                    ways.append((holder, iter(ahead[holder])))
                else:
                    walk.meet(line, holder)
    return {line for line in walk.circled if item_of[line] != FREE}


class _Walk:
    """The bookkeeping of Tarjan's search for strongly connected parts."""

    def __init__(self, size: int) -> None:
        self.order, self.low = [FREE] * size, [0] * size
        self.count = 0
        self.circled: set[int] = set()
        self._waiting: list[int] = []
        self._is_waiting = [False] * size

    def enter(self, line: int) -> None:
        self.order[line] = self.low[line] = self.count
        self.count += 1
        self._waiting.append(line)
        self._is_waiting[line] = True

    def meet(self, line: int, other: int) -> None:
        """A way from `line` to one that was entered before."""
        if self._is_waiting[other]:
            self.low[line] = min(self.low[line], self.order[other])

    def leave(self, line: int, above: int) -> None:
        """All ways of `line` were walked; it was entered from `above`."""
        if above != FREE:
            self.low[above] = min(self.low[above], self.low[line])
        if self.low[line] != self.order[line]:
            return
        part = [self._waiting.pop()]
        while part[-1] != line:
            part.append(self._waiting.pop())
        for each in part:
            self._is_waiting[each] = False
        if len(part) > 1:
            self.circled.update(part)
