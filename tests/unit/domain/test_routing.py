"""Filter, score, downgrade, consultation and what is said of a book (R-140, R-150 to R-166)."""

from __future__ import annotations

import pytest
from msgspec import structs

from streams.domain.consult import consult
from streams.domain.downgrade import LONGEST_MS, SHORTEST_MS, downgraded
from streams.domain.remarks import remarks
from streams.domain.routing import Ask, Downgrade, route
from streams.domain.score import (
    Book,
    Deterministic,
    Health,
    Hours,
    Limit,
    Maintenance,
    Offer,
    Rule,
    Value,
    Weights,
    success_ppm,
)

CNY = {"CNY": Limit()}
NOON = Ask(amount=10_000, currency="CNY", at=1_000_000, minute=720)
CHEAP = Offer(channel="A", limits=CNY, fee_ppm=2_000, assumed_ppm=980_000)
SURE = Offer(channel="B", limits=CNY, fee_ppm=6_000, assumed_ppm=995_000)
PUBLISHED = Book(offers=(CHEAP, SURE))


def test_the_published_example_scores_as_published():
    """R-154: A costs 0.2 % and succeeds at 98 %, B costs 0.6 % and succeeds at 99.5 %."""
    routing = route(NOON, PUBLISHED, {})
    assert routing.channel == "A"
    assert [(one.channel, one.total) for one in routing.candidates] == [("A", 960_000_000), ("B", -1_010_000_000)]
    assert routing.candidates[0].terms == {"priority": 0, "success": 1_960_000_000, "fee": -1_000_000_000, "tag": 0}
    assert [one.fee for one in routing.candidates] == [20, 60]


def test_the_published_example_is_warned_of():
    """Ruling 4: with the required weights A wins even if none of its payments succeeds."""
    first = remarks(PUBLISHED)[0]
    assert first.warning
    assert first.text == "A over B (at 99.5 %): wins even at 0 % success; only the health filter (50 %) takes it out"


def test_the_expected_value_has_no_such_blind_spot():
    book = structs.replace(PUBLISHED, by="expected_value")
    (said,) = remarks(book)
    assert not said.warning
    assert said.text == "A over B (at 99.5 %): wins down to 85.2858 % success"


def test_the_health_filter_protects_success_where_the_score_does_not():
    dead = {"A": Health(succeeded=0, failed=20)}
    routing = route(NOON, PUBLISHED, dead)
    assert routing.channel == "B"
    assert [(one.channel, one.reason) for one in routing.dropped] == [("A", "unhealthy")]
    assert routing.dropped[0].detail == "0 of 20 succeeded; 500000 ppm are asked of 20 or more"


def test_too_little_heard_is_no_sickness():
    assert route(NOON, PUBLISHED, {"A": Health(succeeded=0, failed=19)}).channel == "A"


def test_where_all_are_sick_the_health_filter_stands_aside_and_says_so():
    dead = {"A": Health(succeeded=0, failed=50), "B": Health(succeeded=1, failed=50)}
    routing = route(NOON, PUBLISHED, dead)
    assert routing.channel == "A"
    assert routing.waived
    assert not routing.dropped


def test_unknown_results_count_as_neither():
    """An unknown result is shown, and moves no rate (design, channel health)."""
    heard = Health(succeeded=9, failed=1, unknown=500)
    assert success_ppm(CHEAP, heard, 0) == 900_000
    one = next(one for one in route(NOON, PUBLISHED, {"A": heard}).candidates if one.channel == "A")
    assert (one.observed, one.unknown) == (10, 500)


@pytest.mark.parametrize(
    ("heard", "prior", "rate"),
    [
        (Health(), 10, 980_000),
        (Health(), 0, 980_000),
        (Health(succeeded=10), 10, 990_000),
        (Health(failed=10), 10, 490_000),
        (Health(succeeded=1_000_000), 10, 1_000_000),
        (Health(succeeded=1, failed=2), 0, 333_333),
        (Health(succeeded=2, failed=1), 0, 666_667),
    ],
)
def test_a_rate_is_drawn_towards_what_was_assumed(heard, prior, rate):
    """R-163: a cold start uses the empirical figures."""
    assert success_ppm(CHEAP, heard, prior) == rate


LUNCH = Hours(start="1130", end="1230")
NIGHT = Hours(start="2300", end="0500")


@pytest.mark.parametrize(
    ("hours", "minute", "inside"),
    [
        (LUNCH, 690, True),
        (LUNCH, 689, False),
        (LUNCH, 749, True),
        (LUNCH, 750, False),
        (NIGHT, 1380, True),
        (NIGHT, 1379, False),
        (NIGHT, 0, True),
        (NIGHT, 299, True),
        (NIGHT, 300, False),
        (Hours(start="2200", end="2400"), 1439, True),
        (Hours(start="2200", end="2400"), 0, False),
        (Hours(start="0000", end="0000"), 1439, True),
    ],
)
def test_hours_run_over_midnight_and_end_before_their_end(hours, minute, inside):
    """R-120: HHmm."""
    assert hours.covers(minute) is inside


def fit(**changes):
    """A book of one channel that differs in one thing, beside B, which takes everything."""
    return Book(offers=(structs.replace(CHEAP, **changes), SURE))


@pytest.mark.parametrize(
    ("book", "ask", "reason"),
    [
        (fit(enabled=False), {}, "disabled"),
        (fit(limits={"USD": Limit()}), {}, "currency"),
        (fit(limits={}), {}, "currency"),
        (fit(limits={"CNY": Limit(least=10_001)}), {}, "below_minimum"),
        (fit(limits={"CNY": Limit(most=9_999)}), {}, "above_maximum"),
        (fit(maintenance=(Maintenance(starts=1_000_000, ends=1_000_001),)), {}, "maintenance"),
        (fit(closed=(LUNCH,)), {}, "maintenance"),
        (fit(), {"tried": ("A",)}, "tried"),
    ],
)
def test_a_channel_that_cannot_take_it_is_dropped_and_says_why(book, ask, reason):
    """R-151."""
    routing = route(structs.replace(NOON, **ask), book, {})
    assert routing.channel == "B"
    (dropped,) = routing.dropped
    assert (dropped.channel, dropped.reason) == ("A", reason)
    assert dropped.detail


@pytest.mark.parametrize(
    "changes",
    [
        {"limits": {"CNY": Limit(least=10_000, most=10_000)}},
        {"limits": {"CNY": Limit(most=0)}},
        {"maintenance": (Maintenance(starts=0, ends=1_000_000), Maintenance(starts=1_000_001, ends=2_000_000))},
        {"closed": (NIGHT,)},
    ],
)
def test_a_bound_is_part_of_what_is_taken(changes):
    """R-153: 0 is unlimited."""
    assert route(NOON, fit(**changes), {}).channel == "A"


def test_a_method_that_is_asked_for_must_be_offered():
    book = fit(methods=("card", "wallet"))
    assert route(structs.replace(NOON, method="card"), book, {}).channel == "A"
    routing = route(structs.replace(NOON, method="boleto"), book, {})
    assert routing.failure == "no_channel_after_filters"
    assert [(one.reason, one.detail) for one in routing.dropped] == [
        ("method", "takes card, wallet"),
        ("method", "takes no method"),
    ]


RULES = (
    Rule(name="small", channel="A", priority=1, amount_max=9_999),
    Rule(name="large", channel="B", priority=1, amount_min=10_000),
    Rule(name="grey", channel="C", priority=2, buyer_tag="v1"),
    Rule(name="night", channel="D", priority=3, hours=NIGHT),
    Rule(name="retired", channel="A", priority=9, active=False),
    Rule(name="dollars", channel="A", priority=9, currency="USD"),
)
RULED = Book(
    offers=tuple(Offer(channel=name, limits={"CNY": Limit(), "USD": Limit()}) for name in "DCBA"),
    rules=RULES,
)


@pytest.mark.parametrize(
    ("ask", "channel", "rule"),
    [
        ({"amount": 9_999}, "A", "small"),
        ({"amount": 10_000}, "B", "large"),
        ({"amount": 9_999, "buyer_tag": "v1"}, "C", "grey"),
        ({"amount": 10_000, "buyer_tag": "v2"}, "B", "large"),
        ({"amount": 10_000, "buyer_tag": "v1", "minute": 60}, "D", "night"),
        ({"amount": 50, "currency": "USD"}, "A", "dollars"),
    ],
)
def test_rules_express_only_which_condition_gives_which_channel(ask, channel, rule):
    """R-152: small to A, large to B, the grey group to C, the night to D."""
    routing = route(structs.replace(NOON, **ask), RULED, {})
    assert (routing.channel, routing.candidates[0].rule) == (channel, rule)


def test_a_channel_that_no_rule_names_is_never_chosen_and_that_is_said():
    book = structs.replace(RULED, offers=(*RULED.offers, Offer(channel="E", limits=CNY)))
    dropped = {one.channel: one.reason for one in route(NOON, book, {}).dropped}
    assert dropped["E"] == "no_rule"
    kinds = [(one.kind, one.warning) for one in remarks(book) if one.kind != "wins_when_dead"]
    assert ("channel_without_rule", True) in kinds


def test_a_rule_for_a_channel_that_is_not_offered_is_said():
    book = Book(offers=(CHEAP,), rules=(Rule(name="lost", channel="Z"), Rule(name="all", channel="A")))
    assert [one.text for one in remarks(book)] == ["rule lost names Z, which the book does not offer"]


def test_the_tag_v1_has_a_bonus_where_the_rule_is_for_it():
    """R-154: + 5.0."""
    rules = (
        Rule(name="grey", channel="A", buyer_tag="v1"),
        Rule(name="a", channel="A"),
        Rule(name="b", channel="B", buyer_tag="v2"),
    )
    book = structs.replace(PUBLISHED, rules=rules)
    tagged = route(structs.replace(NOON, buyer_tag="v1"), book, {}).candidates[0]
    assert (tagged.rule, tagged.terms["tag"]) == ("grey", 5_000_000_000)
    plain = route(structs.replace(NOON, buyer_tag="v2"), book, {})
    assert {one.channel: one.terms["tag"] for one in plain.candidates} == {"A": 0, "B": 0}


def test_a_priority_of_one_is_ten_points():
    book = structs.replace(PUBLISHED, rules=(Rule(name="a", channel="A"), Rule(name="b", channel="B", priority=1)))
    assert route(NOON, book, {}).channel == "B"
    assert route(NOON, book, {}).candidates[0].terms["priority"] == 10_000_000_000


def test_the_weights_can_be_set():
    book = structs.replace(PUBLISHED, weights=Weights(fee=1))
    assert route(NOON, book, {}).channel == "B"


def test_a_fixed_fee_counts_by_what_it_is_of_the_amount():
    small = structs.replace(NOON, amount=100)
    book = Book(offers=(structs.replace(CHEAP, fee_ppm=0, fee_fixed=3), SURE))
    assert route(small, book, {}).channel == "B"  # 30 per mille
    assert route(structs.replace(NOON, amount=100_000), book, {}).channel == "A"


def test_the_expected_value_is_money():
    """B's fee eats four per mille, its certainty is worth 1.5 % of the margin and of what a failure costs."""
    book = structs.replace(PUBLISHED, by="expected_value", value=Value(margin_ppm=30_000, failure_cost=0))
    assert route(NOON, book, {}).channel == "A"
    dear = structs.replace(book, value=Value(margin_ppm=30_000, failure_cost=3_000))
    assert route(NOON, dear, {}).channel == "B"


def test_equals_are_decided_by_priority_then_fee_then_name():
    book = Book(offers=(structs.replace(SURE, channel="Y"), structs.replace(SURE, channel="X")))
    assert route(NOON, book, {}).channel == "X"


def test_three_channels_are_tried_at_most():
    """R-156, R-159."""
    offers = tuple(Offer(channel=name, limits=CNY) for name in "ABCDE")
    book, tried = Book(offers=offers), []
    for _ in range(3):
        routing = route(structs.replace(NOON, tried=tuple(tried)), book, {})
        assert routing.channel not in tried
        tried.append(routing.channel)
    last = route(structs.replace(NOON, tried=tuple(tried)), book, {})
    assert (last.channel, last.failure) == (None, "all_channel_failed")
    assert len(last.candidates) == 2


def test_nothing_left_after_a_try_is_all_failed_and_nothing_at_first_is_no_channel():
    """R-159."""
    only = Book(offers=(CHEAP,))
    assert route(structs.replace(NOON, tried=("A",)), only, {}).failure == "all_channel_failed"
    assert route(structs.replace(NOON, currency="EUR"), only, {}).failure == "no_channel_after_filters"
    assert route(NOON, Book(), {}).failure == "no_channel_after_filters"


# -- downgrades


def test_over_the_limit_is_not_asked_again_for_as_much_or_more():
    """R-162: five to ten minutes."""
    held = downgraded(PUBLISHED, NOON, channel="A", error="over_limit", attempt="P1-1")
    assert held is not None
    assert SHORTEST_MS <= held.until - NOON.at <= LONGEST_MS
    assert (SHORTEST_MS, LONGEST_MS) == (5 * 60_000, 10 * 60_000)
    downs = (held,)
    assert route(NOON, PUBLISHED, {}, downs).channel == "B"
    assert route(structs.replace(NOON, amount=10_001), PUBLISHED, {}, downs).channel == "B"
    assert route(structs.replace(NOON, amount=9_999), PUBLISHED, {}, downs).channel == "A"
    assert route(structs.replace(NOON, at=held.until), PUBLISHED, {}, downs).channel == "A"
    assert route(structs.replace(NOON, at=held.until - 1), PUBLISHED, {}, downs).dropped[0].reason == "downgraded"


def test_a_downgrade_of_a_channel_holds_for_everything_there_and_nothing_elsewhere():
    held = downgraded(PUBLISHED, NOON, channel="A", error="maintenance", attempt="P1-1")
    assert held is not None
    small = structs.replace(NOON, amount=1)
    assert route(small, PUBLISHED, {}, (held,)).channel == "B"
    assert not held.holds("B", small)


def test_the_longest_of_several_downgrades_is_named():
    downs = tuple(Downgrade(channel="A", until=until, why=f"w{until}") for until in (2_000_000, 3_000_000, 500_000))
    (dropped,) = route(NOON, PUBLISHED, {}, downs).dropped
    assert dropped.detail == "w3000000, until 3000000 ms"


def test_an_error_that_may_not_come_again_downgrades_nothing():
    assert downgraded(PUBLISHED, NOON, channel="A", error="insufficient_funds", attempt="P1-1") is None
    of_b = structs.replace(PUBLISHED, deterministic=(Deterministic(error="x", scope="channel", channel="B"),))
    assert downgraded(of_b, NOON, channel="A", error="x", attempt="P1-1") is None
    assert downgraded(of_b, NOON, channel="B", error="x", attempt="P1-1") is not None


def test_the_same_attempt_is_passed_over_until_the_same_moment_and_others_until_others():
    untils = {
        name: [downgraded(PUBLISHED, NOON, channel="A", error="maintenance", attempt=name).until for _ in range(2)]
        for name in ("P1-1", "P2-1", "P3-1")
    }
    assert all(first == second for first, second in untils.values())
    assert len({first for first, _ in untils.values()}) == 3


# -- consultation


def test_a_consultation_orders_what_can_be_used_and_says_why_not_the_rest():
    """R-140."""
    book = Book(
        offers=(
            Offer(channel="A", limits=CNY, methods=("wallet",), fee_ppm=2_000),
            Offer(channel="B", limits=CNY, methods=("card", "wallet"), fee_ppm=6_000),
            Offer(channel="C", limits={"CNY": Limit(most=5_000)}, methods=("boleto",)),
        )
    )
    usable, second, refused = consult(NOON, book, {})
    assert (usable.method, usable.channel) == ("wallet", "A")
    assert (second.method, second.channel) == ("card", "B")
    assert (refused.method, refused.channel) == ("boleto", None)
    assert [(one.channel, one.reason) for one in refused.why] == [("C", "above_maximum")]


def test_what_a_rule_does_for_some_buyers_is_said_of_them_alone():
    """A bonus for one group is no reason to warn of all payments."""
    rules = (
        Rule(name="all", channel="A"),
        Rule(name="rest", channel="B"),
        Rule(name="trial", channel="B", buyer_tag="v1"),
    )
    said = [one.text for one in remarks(structs.replace(PUBLISHED, rules=rules))]
    assert said == [
        "A over B (at 99.5 %): wins even at 0 % success; only the health filter (50 %) takes it out",
        "B over A (at 98 %) for buyer tag v1: wins even at 0 % success; only the health filter (50 %) takes it out",
    ]
    only = (rules[0], rules[2])
    assert [one.text for one in remarks(structs.replace(PUBLISHED, rules=only))] == said[1:]
