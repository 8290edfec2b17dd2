"""Whatever the bytes, a record becomes an event or poison; nothing else escapes and the partition moves on (R-083)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from streams.codec import TOPICS, decoder, encode
from streams.domain.converge import converge
from streams.engine.topology import Poison

if TYPE_CHECKING:
    from streams.domain.events import Event

decode = decoder({name: name for name in TOPICS})

FIELDS = ("type", "request", "order_id", "payment_no", "channel", "status", "event_id", "transaction", "amount", "currency",
          "command_id", "biz_code", "event_time", "expires_at", "livemode", "raw", "merchant", "qr", "version", "noise")  # fmt: skip
TYPES = ("create_payment", "start_payment", "callback", "unmapped", "answer", "card_posting", "nonsense")
LIKELY = {
    "type": st.sampled_from(TYPES),
    "request": st.sampled_from(("query", "submit", "odd")),
    "status": st.sampled_from(("SUCCESS", "FAILED", "PURCHASE", "odd", "")),
    "amount": st.sampled_from((1000, 0, -1, 2**53, 10**40, 1.5, "1")),
    "currency": st.sampled_from(("USD", "usd", "US", "")),
    "order_id": st.just("O1"),
    "event_time": st.sampled_from(
        ("2025-03-03T10:00:00Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2025-03-03", "")
    ),
    "expires_at": st.sampled_from(("2025-03-03T10:00:00Z", "0001-01-01T00:00:00Z", "2025-03-03T10:00:00", 5)),
    "livemode": st.booleans(),
}
ODD = st.sampled_from(
    (None, True, 0, -1, 2**70, 1.5, float("nan"), "", "\ud800", "é", [], [[]], {}, {"": ""}, "A" * 300)
)


class Record(NamedTuple):
    topic: str
    key: bytes | None
    value: bytes | None
    partition: int = 0
    offset: int = 0
    timestamp: int = 0
    headers: tuple[tuple[str, bytes], ...] = ()


def likely(name: str) -> st.SearchStrategy[object]:
    return st.one_of(LIKELY.get(name, st.sampled_from(("A", "B", 7, ""))), LIKELY.get(name, st.just("A")), ODD)


OBJECTS = st.fixed_dictionaries({}, optional={name: likely(name) for name in FIELDS})
VALUES = st.one_of(
    OBJECTS.map(lambda fields: json.dumps(fields).encode()),
    OBJECTS.map(lambda fields: json.dumps(fields, ensure_ascii=False).encode("utf-8", "surrogatepass")),
    st.builds(lambda fields, cut: json.dumps(fields).encode()[:cut], OBJECTS, st.integers(0, 200)),
    st.binary(max_size=50),
    st.none(),
)


@given(st.sampled_from(sorted(TOPICS)), st.sampled_from((b"O1", b"", None, b"\xff")), VALUES)
def test_any_record_is_an_event_or_poison_and_any_event_has_a_decision(
    topic: str, key: bytes | None, value: bytes | None
):
    try:
        event = decode(Record(topic, key, value))
    except Poison as poison:
        said = (poison.kind, poison.reason)
    else:
        said = _decided(event)
    assert all(said)


def _decided(event: Event) -> tuple[object, ...]:
    order, messages = converge(None, event, 1_741_000_000_000, {})
    return (order, messages, *(encode(message) for message in messages))
