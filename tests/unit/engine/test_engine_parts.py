"""The small parts: deadlines that nest, a topology that is refused, sizes, histograms."""

from __future__ import annotations

import pytest

from streams.engine.config import Config
from streams.engine.stats import BUCKETS, Histogram, Stats
from streams.engine.topology import DUE
from streams.engine.transaction import Entry
from tests.unit.engine import tally


class TestConfig:
    def test_every_client_deadline_is_shorter_than_the_brokers(self):
        """Design §3: we give up before the broker ends the transaction."""
        for seconds in (3.0, 15.0, 30.0, 900.0):
            config = Config(kafka={}, transaction=seconds)
            assert config.request < config.deadline < seconds

    def test_secrets_are_not_printed(self):
        assert "hunter2" not in repr(Config(kafka={"sasl_plain_password": "hunter2"}))


class TestTopology:
    @pytest.mark.parametrize(
        "changes",
        [
            {"inputs": ()},
            {"inputs": ("a", "a")},
            {"outputs": ("in",)},
            {"outputs": ("out", "out")},
            {"changelog": "out"},
            {"dead_letters": "changelog"},
            {"changelog": "in"},
        ],
    )
    def test_topics_that_are_not_distinct_are_refused(self, changes):
        with pytest.raises(ValueError, match=r"topology 'tally': .* must be distinct"):
            tally.topology(**changes)

    def test_a_due_time_prints_as_what_it_is(self):
        assert repr(DUE) == "DUE"


class TestEntry:
    def test_its_size_is_no_less_than_its_bytes(self):
        entry = Entry(b"key", b"value", [("näme", b"text")])
        assert entry.size() >= 3 + 5 + 5 + 4

    def test_what_is_absent_takes_no_room(self):
        assert Entry(None, None).size() == Entry(b"", b"").size()


class TestHistogram:
    @pytest.mark.parametrize(
        ("seconds", "bucket"),
        [
            (0.0, 0),
            (0.001, 0),
            (0.0010001, 1),
            (0.01, 3),
            (5.0, len(BUCKETS) - 1),
            (5.01, len(BUCKETS)),
            (1e9, len(BUCKETS)),
        ],
    )
    def test_a_duration_counts_in_the_first_bucket_that_holds_it(self, seconds, bucket):
        histogram = Histogram()
        histogram.add(seconds)
        assert histogram.counts.index(1) == bucket
        assert sum(histogram.counts) == 1

    def test_the_total_is_the_sum_of_the_durations(self):
        histogram = Histogram()
        for seconds in (0.25, 0.5, 100.0):
            histogram.add(seconds)
        assert histogram.total == 100.75

    def test_each_partition_counts_for_itself(self):
        one, two = Stats(), Stats()
        one.commit.add(1.0)
        one.sent["out"] += 1
        assert two == Stats()
