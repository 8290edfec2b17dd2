"""A routing decision in words."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from streams.domain.routing import Downgrade, route
from streams.domain.score import Book, Health, Limit, Offer
from streams.routes.asks import ask
from streams.routes.wording import WHY, decimal, lines

AT = datetime(2026, 1, 5, 12, tzinfo=UTC)
CHEAP = Offer(channel="A", limits={"CNY": Limit()}, fee_ppm=2_000, assumed_ppm=980_000)
SURE = Offer(channel="B", limits={"CNY": Limit()}, fee_ppm=6_000, assumed_ppm=995_000)
BOOK = Book(version=3, zone="Asia/Shanghai", offers=(CHEAP, SURE))


def test_the_minute_is_that_of_the_books_zone():
    """R-120: HHmm is what people there read on the clock."""
    assert ask(BOOK, AT, amount=1, currency="CNY").minute == 20 * 60


def test_every_score_term_and_every_reason_is_said():
    asked = ask(BOOK, AT, amount=10_000, currency="CNY", method=None, tried=())
    passed = (Downgrade(channel="B", until=asked.at + 300_000, why="over_limit"),)
    said = "\n".join(lines(asked, route(asked, BOOK, {"A": Health(succeeded=30, failed=10, unknown=4)}, passed), BOOK))
    assert "-> A, by book 3, plain" in said
    assert "+ A 0.592 points: priority 0, success 1.592, fee -1, tag 0" in said
    assert "success 79.6 % (30 of 40 succeeded, 4 unknown), fee 20 minor units, no rule" in said
    assert "- B is passed over for some minutes (downgraded): over_limit, until 2026-01-05T12:05:00Z" in said


def test_no_channel_is_said_by_its_name():
    """R-159."""
    asked = ask(BOOK, AT, amount=10_000, currency="USD")
    assert "-> no_channel_after_filters: no channel can take it" in list(lines(asked, route(asked, BOOK, {}), BOOK))


def test_every_reason_of_the_filter_has_words():
    assert set(WHY) == {
        "disabled", "account", "currency", "method", "below_minimum", "above_maximum", "maintenance", "downgraded",
        "no_rule", "tried", "unhealthy",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("value", "shown"), [(0, "0"), (-1_000, "-0.001"), (1_234_567, "1.2345"), (-9, "0"), (-2_000_000, "-2")]
)
def test_scores_are_shown_without_a_float(value: int, shown: str):
    assert decimal(value, 1_000_000) == shown
