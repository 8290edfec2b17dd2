"""When a simulated channel tells something again."""

from __future__ import annotations

from streams.channels.contracts import shipped
from streams.domain.contract import Redelivery
from streams.simulator.notifier import distances


def test_a_contracts_own_distances_are_kept():
    assert distances(Redelivery(after_s=(9, 18, 27))) == [9, 18, 27]


def test_where_only_its_length_is_known_a_series_doubles_until_it_ends():
    assert distances(Redelivery(life_s=1000)) == [60, 120, 240, 480]


def test_a_number_of_deliveries_counts_the_first():
    assert distances(Redelivery(after_s=(1, 2, 3), most=3)) == [1, 2]
    assert distances(Redelivery(after_s=(1, 2), most=5)) == [1, 2, 4, 8]


def test_a_channel_of_which_nothing_is_known_tells_once():
    assert distances(Redelivery()) == []


def test_no_shipped_channel_that_promises_a_redelivery_tells_only_once():
    for name, contract in shipped().items():
        again = contract.notice.redelivery
        assert distances(again) or again == Redelivery(), name
