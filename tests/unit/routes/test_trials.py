"""A book on a simulated day, and on recorded decisions."""

from __future__ import annotations

from datetime import UTC, datetime

from stores.route_decisions import Routed
from streams.domain.routing import Ask, route
from streams.domain.score import Book, Health, Limit, Offer
from streams.routes import counterfactual
from streams.routes.day import Failing, Rolling, compared, favourite

CNY = {"CNY": Limit()}
CHEAP = Offer(channel="A", limits=CNY, fee_ppm=2_000, assumed_ppm=980_000)
SURE = Offer(channel="B", limits=CNY, fee_ppm=6_000, assumed_ppm=995_000)
BOOK = Book(offers=(CHEAP, SURE))
AT = datetime(2026, 1, 1, tzinfo=UTC)


def day(failing: Failing | None, seed: int = 1):
    return compared(BOOK, count=3000, seed=seed, currency="CNY", failing=failing)


def test_one_seed_is_one_day():
    assert day(None, 7) == day(None, 7)
    assert day(None, 7) != day(None, 8)


def test_when_a_channel_fails_scores_leave_it_and_a_fixed_order_does_not():
    """R-166: save money normally, prefer success when a channel jitters."""
    assert favourite(BOOK, "CNY", 1) == "A"
    found = day(Failing(channel="A", starts=720))
    fixed, plain, value = (found[name] for name in ("fixed priority", "plain score", "expected value"))
    assert fixed.hit_at_once == 0
    assert fixed.hit_payments == 42
    assert 0 < plain.hit_at_once < value.hit_at_once
    assert plain.fee_ppm < found["round robin"].fee_ppm
    for each in found.values():
        assert each.succeeded <= each.payments <= each.attempts
        assert each.attempts - each.succeeded <= 2 * each.payments


def test_the_window_forgets_what_is_half_an_hour_old():
    """R-155."""
    rolling = Rolling()
    rolling.take(0, "A", succeeded=False)
    rolling.take(5, "A", succeeded=True)
    assert rolling.at(29) == {"A": Health(succeeded=1, failed=1)}
    assert rolling.at(30) == {"A": Health(succeeded=1, failed=0)}


def recorded(amount: int, health: dict[str, Health], currency: str = "CNY") -> Routed:
    asked = Ask(amount=amount, currency=currency, at=0, minute=0)
    return Routed(
        id=f"c-{amount}",
        decided_at=AT,
        purpose="create",
        merchant="shop",
        order_id="o",
        payment_no="P",
        ask=asked,
        health=health,
        downgrades=(),
        routing=route(asked, BOOK, health),
    )


def test_a_recorded_decision_under_its_own_book_changes_nothing():
    sums = counterfactual.begun()
    for amount in (100, 10_000, 77_777):
        counterfactual.take(sums, recorded(amount, {"A": Health(succeeded=3, failed=9)}), BOOK, {0: BOOK})
    assert (sums.decisions, sums.changed, sums.moves) == (3, 0, {})
    assert sums.was == sums.would


def test_another_book_shows_what_it_would_cost_and_gain():
    sick = {"A": Health(succeeded=50, failed=50)}
    other = Book(offers=(CHEAP, SURE), by="expected_value")
    sums = counterfactual.begun()
    for one in (recorded(10_000, sick), recorded(10_000, {}, "USD")):
        counterfactual.take(sums, one, other, {0: BOOK})
    assert sums.moves == {"A -> B": 1}
    assert (sums.was.fees, sums.would.fees) == ({"CNY": 20}, {"CNY": 60})
    assert (sums.was.successes_ppm, sums.would.successes_ppm) == (543_636, 995_000)
    assert (sums.was.without, sums.would.without) == (1, 1)
