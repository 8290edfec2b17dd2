"""An order at rest shrinks to a stub after its contract's life, and the stub answers as the whole order would."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from streams.codec import dump
from streams.domain.age import ENTRY, settled
from streams.domain.contract import Contract
from streams.domain.order import MAX_SEEN, due, pressing
from streams.domain.story import story
from streams.domain.why import why
from tests.support.worlds import World

if TYPE_CHECKING:
    from streams.domain.order import Order

LIFE = 400 * 86_400
PAID = ("create P1", "start P1", "callback P1 SUCCESS e=1 t=X1")
FAILED = ("create P1", "start P1", "callback P1 FAILED e=1")


def after(*rows: str, contracts: dict[str, Contract] | None = None) -> World:
    world = World(contracts or {})
    for row in rows:
        world.row(row)
    return world


def order(world: World) -> Order:
    assert world.order is not None
    return world.order


def aged(*rows: str) -> World:
    world = after(*rows, "callback P1 PENDING e=0")
    assert world.row(f"+{LIFE} tick") == ["applied aged -"]
    return world


def test_an_order_shrinks_after_its_life_and_once():
    world = after(*PAID)
    assert world.row(f"+{LIFE - 1} tick") == []
    whole = len(dump(order(world)))
    assert world.row("+1 tick") == ["applied aged -"]
    assert len(dump(order(world))) < 0.6 * whole
    assert (order(world).seen, len(order(world).kept)) == ((), 3 * ENTRY)
    assert due(order(world)) is None
    assert world.told_all_that_it_implies()


def test_every_word_begins_the_life_anew():
    world = after(*PAID, f"+{LIFE - 1} tick", "callback P1 SUCCESS e=1 t=X1")
    assert world.row(f"+{LIFE - 1} tick") == []
    assert world.row("+1 tick") == ["applied aged -"]


def test_an_order_that_time_itself_ended_shrinks_too():
    """Nobody ever speaks of most payments that were never begun; they would be kept whole for ever."""
    world = after("create P1", "+900 tick")
    assert world.state() == "CLOSED"
    assert world.row(f"+{LIFE - 1} tick") == []
    assert world.row("+1 tick") == ["applied aged -"]


def test_the_longest_life_of_its_channels_counts():
    contracts = {"chA": Contract(life_days=30), "chB": Contract(life_days=60)}
    world = after(
        *FAILED, "create P2 channel=chB", "start P2", "callback P2 FAILED e=2 channel=chB", contracts=contracts
    )
    assert order(world).age_at == world.at + 60 * 86_400_000
    assert order(after("start P9")).age_at == World().at + LIFE * 1000, "no channel is known: the default"


@pytest.mark.parametrize(
    "rows",
    [
        ("create P1", "start P1"),
        ("create P1", "start P1", "callback P1 AUTHORIZED e=1 t=X1"),
        (*PAID, "back R1 of=P1 a=300"),
        (*PAID, "dispute P1 OPEN e=2"),
        (*PAID, "callback P1 FAILED e=2 t=X1"),
        (*PAID, "callback P9 SUCCESS e=2 t=X2"),
    ],
    ids=["open payment", "hold", "open refund", "open dispute", "open discrepancy", "waiting evidence"],
)
def test_what_is_open_never_ages(rows: tuple[str, ...]):
    world = after(*rows)
    assert not settled(order(world))
    assert order(world).age_at is None


def test_a_refund_whose_card_posting_is_awaited_is_not_at_rest():
    contracts = {"chA": Contract(card_posting_window_s=3600)}
    rows = (
        *PAID,
        "back R1 of=P1 a=300",
        "returned R1 of=P1 SUCCESS t=R a=300",
        "layer R1 of=P1 merchant COMPLETED e=L",
    )
    assert order(after(*rows, contracts=contracts)).age_at is None
    assert order(after(*rows, "layer R1 of=P1 card POSTED e=M", contracts=contracts)).age_at is not None


LATE: dict[str, tuple[tuple[str, ...], str, list[str]]] = {
    "the success again": (PAID, "callback P1 SUCCESS e=1 t=X1", ["duplicate same-key-same-payload SUCCESS"]),
    "the success with another amount": (
        PAID, "callback P1 SUCCESS e=1 t=X1 a=5",
        ["conflict same-key-other-payload SUCCESS PAYLOAD_CONFLICT:high:1:opened QUERY"],
    ),
    "the success under another id": (PAID, "callback P1 SUCCESS e=7 t=X1", ["applied already-success SUCCESS"]),
    "a second transaction": (
        PAID, "callback P1 SUCCESS e=7 t=X2", ["conflict second-transaction SUCCESS DUPLICATE_PAYMENT:high:P1:opened"],
    ),
    "a failure of what succeeded": (
        PAID, "callback P1 FAILED e=7 t=X1", ["illegal success-stays SUCCESS ILLEGAL_TRANSITION:high:7:opened"],
    ),
    "a late success": (FAILED, "callback P1 SUCCESS e=7 t=X1", ["illegal late-success FAIL LATE_SUCCESS:high:7:opened"]),
    "the create command again": (PAID, "create P1", ["duplicate same-command SUCCESS"]),
    "another payment of the same thing": (PAID, "create P2", ["refused one-payment -"]),
    "another start": (PAID, "start P1 command_id=n", ["refused not-init SUCCESS"]),
    "a refund": (PAID, "back R1 of=P1 a=300", ["applied refund-asked REFUNDING REFUND"]),
    "too large a refund": (PAID, "back R1 of=P1 a=3000", ["refused over-refund - OVER_REFUND:info:R1:opened"]),
    "evidence of a stranger": (PAID, "callback P9 SUCCESS e=7 t=X9", ["parked waits-for-payment -"]),
}  # fmt: skip


@pytest.mark.parametrize("name", LATE)
def test_a_stub_still_answers_late_evidence(name: str):
    rows, late, expected = LATE[name]
    world = aged(*rows)
    assert world.row(late) == expected
    assert world.told_all_that_it_implies()


def test_evidence_of_a_stranger_on_a_stub_becomes_an_unknown_order():
    """R-081."""
    world = aged(*PAID)
    world.row("callback P9 SUCCESS e=7 t=X9")
    assert world.row("+86400 tick") == ["applied park-window-over - UNKNOWN_ORDER:high:7:opened"]


def test_a_word_without_a_key_is_a_repetition_only_of_the_very_same():
    keyless = "callback P1 PENDING a=-"
    world = after(*PAID, keyless, "decide close about=MISSING_DEDUP_KEY", f"+{LIFE} tick")
    assert order(world).kept
    assert world.row(keyless) == ["duplicate same-key-same-payload SUCCESS"]
    assert world.row("callback P1 PROCESSING a=-")[0].startswith("conflict no-key")


def test_an_answer_is_no_repetition_on_a_stub_either():
    world = aged(*PAID, "query P1 SUCCESS t=X1")
    assert len(order(world).kept) == 4 * ENTRY, "answers are not kept"
    assert world.row("query P1 SUCCESS t=X1") == ["applied already-success SUCCESS"]


def test_what_people_decided_stays_decided_on_a_stub():
    rows = (*PAID, "callback P1 FAILED e=2 t=X1", "decide close about=ILLEGAL_TRANSITION")
    world = aged(*rows)
    (conflict,) = order(world).conflicts
    assert (conflict.revision, conflict.decided, conflict.ref, conflict.kind) == (2, True, "", "")
    assert (conflict.opened_at, conflict.payment_no, conflict.merchant, conflict.severity) == (0, None, None, "")
    assert world.row("callback P1 FAILED e=2 t=X1") == ["duplicate same-key-same-payload SUCCESS"]
    assert not world.items()


def test_a_stub_that_is_heard_of_again_ages_again_and_forgets_the_oldest():
    world = aged(*PAID)
    for number in range(MAX_SEEN - 2):
        world.row(f"callback P1 PENDING e=n{number}")
    world.row(f"+{LIFE} tick")
    assert len(order(world).kept) == MAX_SEEN * ENTRY
    assert order(world).forgotten == 2
    assert world.row("create P1") == ["duplicate same-number SUCCESS"], "the number itself is never forgotten"


def test_a_stub_is_explained_by_what_it_kept():
    world = aged(*PAID)
    told = story(order(world), world.at)
    assert (told.evidence, told.forgotten, told.next_due) == ((), 4, None)
    assert pressing(order(world)) is None
    (ended,) = why(order(world), world.at).ended
    assert (ended.state, ended.witness) == ("SUCCESS", "1")
