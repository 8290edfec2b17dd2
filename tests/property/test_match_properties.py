"""Forced matching against exhaustive search, and what must not change it (R-188, R-198)."""

from __future__ import annotations

import itertools
import random
from functools import cache

import pytest

from streams.domain.match import forced


def exhaustive(edges):
    """The pairs that every largest matching has, by trying all matchings."""
    lines = sorted({line for line, _ in edges})
    items_of = {line: [item for each, item in sorted(edges) if each == line] for line in lines}

    @cache
    def largest(index, used):
        """Size, and the pairs common to all matchings of that size, of the lines from `index` on."""
        if index == len(lines):
            return 0, frozenset()
        size, common = largest(index + 1, used)
        for item in items_of[lines[index]]:
            if not used >> item & 1:
                more, pairs = largest(index + 1, used | 1 << item)
                pairs |= {(lines[index], item)}
                if more + 1 > size:
                    size, common = more + 1, pairs
                elif more + 1 == size:
                    common &= pairs
        return size, common

    return dict(largest(0, 0)[1])


@pytest.mark.parametrize("lines", [1, 2, 3])
def test_every_small_graph_is_matched_as_exhaustive_search_matches_it(lines):
    """All graphs of up to three lines and four items."""
    for items in range(1, 5):
        possible = list(itertools.product(range(lines), range(items)))
        for chosen in range(1 << len(possible)):
            edges = [edge for bit, edge in enumerate(possible) if chosen >> bit & 1]
            assert forced(edges).pairs == exhaustive(edges), edges


def test_every_graph_of_four_by_four_is_matched_as_exhaustive_search_matches_it():
    possible = list(itertools.product(range(4), range(4)))
    for chosen in range(1 << 16):
        edges = [edge for bit, edge in enumerate(possible) if chosen >> bit & 1]
        assert forced(edges).pairs == exhaustive(edges), edges


@pytest.mark.parametrize("seed", range(20))
def test_sampled_graphs_up_to_eight_by_eight_are_matched_as_exhaustive_search_matches_them(seed):
    chance = random.Random(seed)
    for _ in range(60):
        lines, items = chance.randint(1, 8), chance.randint(1, 8)
        density = chance.random()
        edges = [edge for edge in itertools.product(range(lines), range(items)) if chance.random() < density]
        found = forced(edges)
        assert found.pairs == exhaustive(edges), (seed, edges)
        shuffled = chance.sample(edges, len(edges))
        assert forced(shuffled + shuffled[:2]) == found
        assert {*found.pairs, *found.candidates} == {line for line, _ in edges}
        taken = set(found.pairs.values())
        assert len(taken) == len(found.pairs)
        for line, left in found.candidates.items():
            assert list(left) == sorted({item for each, item in edges if each == line} - taken)


def test_work_divided_along_unconnected_parts_gives_the_same():
    chance = random.Random(7)
    parts = []
    for part in range(20):
        edges = [(part * 10 + a, part * 10 + b) for a in range(5) for b in range(5) if chance.random() < 0.4]
        parts.append(edges)
    whole = forced([edge for edges in parts for edge in edges])
    pairs, candidates = {}, {}
    for edges in parts:
        one = forced(edges)
        pairs |= one.pairs
        candidates |= one.candidates
    assert (whole.pairs, whole.candidates) == (pairs, candidates)


def test_two_equal_lines_and_two_equal_items_never_match():
    found = forced([("l1", "i1"), ("l1", "i2"), ("l2", "i1"), ("l2", "i2")])
    assert not found.pairs
    assert found.candidates == {"l1": ("i1", "i2"), "l2": ("i1", "i2")}


def test_one_line_that_may_be_either_of_two_is_a_choice_and_so_are_two_lines_for_one_item():
    assert forced([("l", "a"), ("l", "b")]).pairs == {}
    assert forced([("k", "a"), ("l", "a")]).pairs == {}


def test_a_choice_that_only_one_answer_completes_is_forced():
    """The second line can only be b, so the first is a."""
    found = forced([("l1", "a"), ("l1", "b"), ("l2", "b")])
    assert found.pairs == {"l1": "a", "l2": "b"}


def test_a_hundred_thousand_lines_of_one_component_do_not_overflow():
    """A chain: every line may be its own item or the next; the last has one less, which forces all."""
    size = 100_000
    edges = [(number, number) for number in range(size)] + [(number, number + 1) for number in range(size - 1)]
    found = forced(edges)
    assert len(found.pairs) == size
    assert not forced([*edges, (size - 1, size)]).pairs
