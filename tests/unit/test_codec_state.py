"""What is stored is read back or refused; what is sent is JSON with times in UTC; what is published is a schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from streams.codec import OUTPUTS, STUB, VERSION, StateVersionError, dump, encode, load, schemas
from streams.domain import balance
from streams.domain.converge import decider
from streams.domain.events import CreatePayment
from streams.domain.order import Order
from streams.domain.story import story
from streams.engine.topology import DUE
from tests.support.worlds import START, World

decide = decider({}, DUE)

COMMAND = CreatePayment(
    command_id="c", order_id="O1", payment_no="P1", biz_code="trade", channel="chA", amount=1, currency="USD"
)


def test_an_order_with_everything_in_it_is_read_back():
    world = World()
    early = ("callback P1 SUCCESS e=E1 t=X1", "purchase P1 e=C1", "create P1", "start P1")
    for row in (*early, "callback P1 FAILED e=E2", "callback P9 FAILED e=E3"):
        world.row(row)
    assert world.order is not None
    assert all((world.order.payments, world.order.seen, world.order.parked, world.order.conflicts, world.order.cards))
    assert load(dump(world.order)) == world.order


@pytest.mark.parametrize("row", [b"", b"\x03\x95", b"{}"])
def test_a_layout_of_another_release_is_refused(row: bytes):
    with pytest.raises(StateVersionError, match="this release reads 01 and 02"):
        load(row)


GOLDEN = json.loads((Path(__file__).parent / "vectors/stored_orders_1.json").read_text())


@pytest.mark.parametrize("kept", GOLDEN, ids=lambda kept: kept["story"])
def test_what_the_first_release_stored_is_still_read_and_goes_on(kept: dict[str, Any]):
    """Rows that the first law wrote, before there were operations and holds. See tests/README.md for how they were made."""
    row = bytes.fromhex(kept["stored"])
    order = load(row)
    assert [[one.key, one.state, list(one.path)] for one in order.payments] == kept["states"]
    assert sorted([one.kind, one.ref] for one in order.conflicts if one.open) == kept["open"]
    assert len(order.seen) == kept["seen"]
    world = World(at=kept["at"], order=order)
    world.wind(100_000)
    assert world.order is not None
    told = story(world.order, world.at)
    assert [one.captured for one in told.payments if one.announced] == [1000] * sum(p.announced for p in order.payments)
    paid = [one for one in order.payments if one.announced and one.merchant is None]
    for one in paid:
        assert world.row(f"back R1 of={one.payment_no} a=400") == ["applied refund-asked REFUNDING REFUND"]
        assert balance.refundable(world.order, one) == 600


def test_fields_added_at_the_end_by_a_later_release_are_skipped_and_missing_ones_have_defaults():
    assert load(
        VERSION + msgspec.msgpack.encode(["O1", 3, 0, 0, 0, [], [], [], [], [], [], None, b"", None, "new"])
    ) == Order("O1", seq=3)
    assert load(VERSION + msgspec.msgpack.encode(["O1", 3])) == Order("O1", seq=3)


def test_a_stub_has_a_layout_of_its_own_that_an_earlier_release_refuses():
    """A release that did not look at the kept keys would take a repetition for news."""
    assert dump(Order("O1", kept=bytes(16)))[:1] == STUB != VERSION
    assert load(dump(Order("O1", kept=bytes(16)))) == Order("O1", kept=bytes(16))


def test_the_engine_calls_the_law_with_events_and_due_times():
    order, messages = decide(None, COMMAND, START)
    assert order is not None
    assert len(messages) == 2
    same, nothing = decide(order, DUE, START)
    assert same is order, "nothing to store"
    assert not nothing
    closed, messages = decide(order, DUE, START + 900_000)
    assert closed is not None
    assert closed.payments[0].state == "CLOSED"
    assert [json.loads(encode(message))["type"] for message in messages] == ["payment_update", "decision"]


def test_messages_are_json_with_utc_times():
    _, messages = decide(None, COMMAND, START + 5)
    sent = json.loads(encode(messages[0]))
    assert sent["decided_at"] == "2025-03-03T10:00:00.005000Z"
    assert (sent["type"], sent["amount"], sent["before"], sent["state"]) == ("payment_update", 1, None, "INIT")


def test_every_type_on_the_wire_has_a_schema():
    found = schemas()
    assert set(found) == {
        "create_payment", "start_payment", "retry_payment", "close_payment", "capture_payment", "void_payment", "refund_payment",
        "resolve", "undelivered", "finding", "difference", "agreement", "booking", "settled", "payout_notice",
        "callback", "refund_notice", "refund_layer", "release", "dispute", "unmapped", "answer", "card_posting",
        "payment_success", "discrepancy", "payment_update", "operation_update", "payer_action", "movement", "channel_request", "decision",
    }  # fmt: skip
    for name, schema in found.items():
        reference = schema["$ref"].rsplit("/", 1)[1]
        assert schema["$defs"][reference]["properties"]["type"]["enum"] == [name]
    json.dumps(found)


def structs_of(kind: Any) -> set[Any]:
    """Every struct inside a type, itself included."""
    found: set[Any] = set()

    def walk(node: Any) -> None:
        if isinstance(node, msgspec.inspect.StructType) and node.cls not in found:
            found.add(node.cls)
        for name in getattr(node, "__struct_fields__", ()):
            inner = getattr(node, name)
            for each in inner if isinstance(inner, tuple) else (inner,):
                if isinstance(each, msgspec.inspect.Field):
                    walk(each.type)
                elif isinstance(each, msgspec.inspect.Type):
                    walk(each)

    walk(msgspec.inspect.type_info(kind))
    return found


@pytest.mark.parametrize("kind", OUTPUTS)
def test_what_is_left_out_as_a_default_does_not_depend_on_where_a_text_came_from(kind: Any):
    """msgspec leaves a text out only if it is the very object of the default: a state that was read back then says other bytes."""
    for struct in structs_of(kind):
        if struct.__struct_config__.omit_defaults:
            assert [value for value in struct.__struct_defaults__ if isinstance(value, str | bytes) and value] == []
