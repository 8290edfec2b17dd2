"""What holds of every book and every payment: order-freedom, lawfulness of the choice, the end of every fallback."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec import json, structs

from streams.domain.downgrade import downgraded
from streams.domain.routing import MOST_CHANNELS, Ask, Routing, route
from streams.domain.score import Book, Health, Hours, Limit, Offer, Rule

AMOUNTS = st.integers(1, 200)
NAMES = st.sampled_from("ABCDE")
CLOCKS = st.sampled_from(["0000", "0600", "1200", "1830", "2330", "2400"])
limits = st.builds(Limit, least=st.integers(0, 100), most=st.sampled_from([0, 50, 150]))
offers = st.lists(
    st.builds(
        Offer,
        channel=NAMES,
        limits=st.dictionaries(st.sampled_from(["CNY", "USD"]), limits, max_size=2),
        methods=st.sampled_from([(), ("card",), ("card", "wallet")]),
        fee_ppm=st.sampled_from([0, 2_000, 6_000, 30_000]),
        fee_fixed=st.integers(0, 3),
        assumed_ppm=st.integers(0, 1_000_000),
        enabled=st.booleans(),
    ),
    unique_by=lambda one: one.channel,
    max_size=5,
)
rules = st.lists(
    st.builds(
        Rule,
        name=st.sampled_from("pqrs"),
        channel=NAMES,
        priority=st.integers(-1, 2),
        amount_min=st.integers(0, 100),
        amount_max=st.sampled_from([0, 60, 120]),
        buyer_tag=st.sampled_from([None, "v1", "v2"]),
        hours=st.one_of(st.none(), st.builds(Hours, start=CLOCKS.filter(lambda one: one != "2400"), end=CLOCKS)),
        active=st.booleans(),
    ),
    unique_by=lambda one: one.name,
    max_size=4,
)
books = st.builds(
    Book, offers=offers.map(tuple), rules=rules.map(tuple), by=st.sampled_from(["plain", "expected_value"])
)
asks = st.builds(
    Ask,
    amount=AMOUNTS,
    currency=st.sampled_from(["CNY", "USD"]),
    at=st.integers(0, 10**6),
    minute=st.integers(0, 1439),
    method=st.sampled_from([None, "card", "wallet"]),
    buyer_tag=st.sampled_from([None, "v1", "v2"]),
)
counts = st.integers(0, 60)
health = st.dictionaries(NAMES, st.builds(Health, succeeded=counts, failed=counts, unknown=counts))


@given(asks, books, health, st.randoms(use_true_random=False))
def test_the_order_of_a_book_changes_nothing(ask, book, heard, chance):
    shuffled = structs.replace(
        book,
        offers=tuple(chance.sample(book.offers, len(book.offers))),
        rules=tuple(chance.sample(book.rules, len(book.rules))),
    )
    assert route(ask, shuffled, heard) == route(ask, book, heard)


@given(asks, books, health)
def test_every_channel_is_a_candidate_or_dropped_by_name(ask, book, heard):
    routing = route(ask, book, heard)
    seen = [one.channel for one in (*routing.candidates, *routing.dropped)]
    assert sorted(seen) == sorted(one.channel for one in book.offers)
    assert all(sum(one.terms.values()) == one.total for one in routing.candidates)
    assert (routing.channel is None) is (routing.failure is not None)


@given(asks, books, health)
def test_what_is_chosen_takes_the_payment(ask, book, heard):
    routing = route(ask, book, heard)
    if routing.channel is None:
        return
    offer = next(one for one in book.offers if one.channel == routing.channel)
    limit = offer.limits[ask.currency]
    assert offer.enabled
    assert limit.least <= ask.amount
    assert limit.most in {0, max(limit.most, ask.amount)}
    assert ask.method is None or ask.method in offer.methods
    assert not book.rules or any(rule.channel == offer.channel and rule.active for rule in book.rules)


@given(asks, books, health)
def test_a_fallback_ends_and_never_comes_back(ask, book, heard):
    """R-156, R-162: each error downgrades, and an over-limit loop cannot recur, for this payment or the next of its size."""
    tried: list[str] = []
    downs = []
    for _ in range(MOST_CHANNELS + 1):
        routing = route(structs.replace(ask, tried=tuple(tried)), book, heard, tuple(downs))
        if routing.channel is None:
            break
        assert routing.channel not in tried
        tried.append(routing.channel)
        downs.append(downgraded(book, ask, channel=routing.channel, error="over_limit", attempt=f"P-{len(tried)}"))
    assert routing.channel is None
    assert len(tried) <= MOST_CHANNELS
    again = route(ask, book, heard, tuple(downs))
    assert again.channel not in tried


@given(asks, books, health)
def test_a_recorded_decision_is_made_again_from_its_record(ask, book, heard):
    kept = json.encode((ask, book, heard))
    read_ask, read_book, read_heard = json.decode(kept, type=tuple[Ask, Book, dict[str, Health]])
    routing = route(read_ask, read_book, read_heard)
    assert json.decode(json.encode(routing), type=Routing) == route(ask, book, heard)
