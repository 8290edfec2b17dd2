"""The list of surviving mutants cannot rot: each still names code that is there, and says why its change makes no difference."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.mutation.places import places, source
from tests.mutation.survivors import Survivor, survivors

FEWEST_WORDS = 5
LISTED = survivors()
NAMES = [f"{one.module}.{one.place}" for one in LISTED]


@pytest.mark.parametrize("survivor", LISTED, ids=NAMES)
def test_every_listed_mutant_changes_code_that_is_still_there(survivor: Survivor):
    found = places(source(survivor.module))
    assert survivor.place in found, f"{survivor.module} has no {survivor.place}; take the entry out of survivors.toml"
    assert survivor.was in found[survivor.place], "the lines were changed; run `make mutants` for this module again"
    assert survivor.now != survivor.was


@pytest.mark.parametrize("survivor", LISTED, ids=NAMES)
def test_every_listed_mutant_is_argued_in_a_sentence(survivor: Survivor):
    verdict, _, reason = survivor.because.partition(": ")
    assert verdict in {"equivalent", "unreachable"}
    assert len(reason.split()) >= FEWEST_WORDS


def test_no_mutant_is_listed_twice():
    assert [
        one for one, times in Counter((one.module, one.place, one.change) for one in LISTED).items() if times > 1
    ] == []
