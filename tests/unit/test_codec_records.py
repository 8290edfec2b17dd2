"""Each way a record can be bad has its own kind, and a message that names the field and the fix (R-117)."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest

from streams.codec import MAX_VALUE, TOPICS, decoder
from streams.domain.events import Answer, Callback, CardPosting, CreatePayment
from streams.engine.topology import Poison

decode = decoder({name: f"payments.{name}" for name in TOPICS})

CALLBACK: dict[str, Any] = {
    "type": "callback", "order_id": "O1", "payment_no": "P1", "channel": "chA", "status": "SUCCESS", "event_id": "E1",
    "transaction": "X1", "amount": 1000, "currency": "USD",
}  # fmt: skip
CREATE = {
    "type": "create_payment", "command_id": "c1", "order_id": "O1", "payment_no": "P1", "biz_code": "trade", "channel": "chA",
    "amount": 1000, "currency": "USD",
}  # fmt: skip
UNMAPPED = {
    "type": "unmapped", "channel": "chA", "event_type": "charge.odd", "reason": "no rule",
    "raw": {"body": "e30=", "headers": {"a": ""}, "sha256": "00", "content_type": "application/json"},
}  # fmt: skip


class Record(NamedTuple):
    value: bytes | None
    key: bytes | None = b"O1"
    topic: str = "payments.channel-callbacks"
    partition: int = 0
    offset: int = 0
    timestamp: int = 0
    headers: tuple[tuple[str, bytes], ...] = ()


def body(**change: Any) -> bytes:
    return json.dumps({name: field for name, field in (CALLBACK | change).items() if field is not ...}).encode()


BAD: dict[str, tuple[Record, str, str]] = {
    "tombstone": (Record(None), "tombstone", "no value"),
    "empty": (Record(b" "), "empty", "send a JSON object"),
    "truncated": (Record(body()[:40]), "truncated", "whole object"),
    "binary": (Record(b"\xff\xfe\x00"), "not_utf8", "byte 0"),
    "latin-1 inside": (Record(b'{"type":"callback","order_id":"\xe9"}'), "not_utf8", "byte 31"),
    "latin-1 in a field we do not know": (Record(body()[:-1] + b',"note":"\xe9"}'), "not_utf8", "UTF-8"),
    "not JSON": (Record(b"op=P1&status=SUCCESS"), "not_json", "JSON"),
    "two objects": (Record(body() + body()), "not_json", "JSON"),
    "a list": (Record(b"[1]"), "not_object", "object"),
    "null": (Record(b"null"), "not_object", "object"),
    "no type": (Record(body(type=...)), "unknown_type", "`type`"),
    "unknown type": (Record(body(type="settle")), "unknown_type", "settle"),
    "type of another topic": (Record(json.dumps(CREATE).encode()), "unknown_type", "create_payment"),
    "no status": (Record(body(status=...)), "missing_field", "`status`"),
    "amount as text": (Record(body(amount="10.00")), "wrong_type", "$.amount"),
    "amount with a fraction": (Record(body(amount=10.5)), "wrong_type", "$.amount"),
    "amount with an exponent": (Record(body().replace(b"1000", b"1e3")), "wrong_type", "$.amount"),
    "amount true": (Record(body(amount=True)), "wrong_type", "$.amount"),
    "huge amount": (Record(body(amount=2**53)), "out_of_range", "$.amount"),
    "huge negative amount": (Record(body(amount=-(10**30))), "out_of_range", "$.amount"),
    "id as object": (Record(body(event_id={})), "wrong_type", "$.event_id"),
    "long id": (Record(body(event_id="E" * 257)), "wrong_length", "$.event_id"),
    "empty order id": (Record(body(order_id="")), "empty_field", "`order_id`"),
    "small currency": (Record(body(currency="usd")), "wrong_currency", "three capital letters"),
    "short currency": (Record(body(currency="US")), "wrong_length", "$.currency"),
    "lone surrogate": (Record(body().replace(b"E1", b"\\ud800")), "not_json", "JSON"),
    "lone surrogate and a numeric id": (Record(body(transaction=7).replace(b"E1", b"\\ud800")), "not_json", "JSON"),
    "numeric id, then a lone surrogate": (Record(body(payment_no=7).replace(b"E1", b"\\ud800")), "not_json", "JSON"),
    "numeric id and an endless number": (
        Record(body(payment_no=7)[:-1] + b',"x":' + b"9" * 5000 + b"}"),
        "not_json",
        "JSON",
    ),
    "NaN and a numeric id": (Record(body(event_id=7)[:-1] + b',"x":NaN}'), "not_json", "NaN"),
    "numeric id, then cut": (Record(body(event_id=7)[:-1]), "not_json", "JSON"),
    "numeric id and a wrong amount": (Record(body(event_id=7, amount="x")), "wrong_type", "$.amount"),
    "deep nesting": (Record(b'{"type":"callback","order_id":' + b"[" * 100_000), "not_json", "JSON"),
    "ten megabytes": (Record(body(note="x" * 10_000_000)), "too_large", str(MAX_VALUE)),
    "no key": (Record(body(), key=None), "missing_key", "order_id"),
    "empty key": (Record(body(), key=b""), "missing_key", "order_id"),
    "another key": (Record(body(), key=b"O2"), "key_mismatch", "'O2'"),
    "look-alike key": (Record(body(order_id="caf\u00e9"), key="cafe\u0301".encode()), "key_mismatch", "order_id"),
    "binary key": (Record(body(), key=b"\x85\xff\x00"), "key_not_utf8", "85ff00"),
    "unmapped": (Record(json.dumps(UNMAPPED).encode()), "unmapped", "charge.odd"),
    "unknown request": (
        Record(json.dumps(CALLBACK | {"type": "answer", "request": "guess"}).encode(), topic="payments.query-results"),
        "unknown_value",
        "$.request",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_has_its_own_kind_and_says_what_to_fix(name: str):
    record, kind, words = BAD[name]
    with pytest.raises(Poison) as caught:
        decode(record)
    assert caught.value.kind == kind, caught.value
    assert words in caught.value.reason


def test_a_good_record_is_read():
    event = decode(Record(body()))
    assert isinstance(event, Callback)
    assert (event.order_id, event.amount, event.merchant) == ("O1", 1000, None)
    assert isinstance(decode(Record(json.dumps(CREATE).encode(), topic="payments.commands")), CreatePayment)


def test_unknown_fields_are_ignored_for_the_next_releases_sake():
    assert decode(Record(body(colour="red", nested={"a": [1]}))) == decode(Record(body()))


def test_an_empty_id_is_an_absent_one():
    assert decode(Record(body(event_id="", merchant="", event_type=""))) == decode(Record(body(event_id=...)))


def test_ids_may_be_json_numbers_and_keep_their_digits():
    """Digits are kept as text, however many; amounts stay numbers."""
    event = decode(
        Record(
            body(event_id=12345678901234567890123, transaction=7, sequence=3, raw={"body": "", "sha256": "0"}, x=[1])
        )
    )
    assert isinstance(event, Callback)
    assert (event.event_id, event.transaction, event.sequence, event.amount) == (
        "12345678901234567890123",
        "7",
        3,
        1000,
    )
    answer = Record(
        json.dumps(CALLBACK | {"type": "answer", "request": "query", "payment_no": 5}).encode(),
        topic="payments.query-results",
    )
    read = decode(answer)
    assert isinstance(read, Answer)
    assert read.payment_no == "5"


def test_look_alike_ids_stay_apart():
    one = decode(Record(body(payment_no="订单-123"), key=b"O1"))
    other = decode(Record(body(payment_no="订单-\uff11\uff12\uff13"), key=b"O1"))
    assert one.payment_no != other.payment_no


def test_a_card_entry_is_read():
    value = {
        "type": "card_posting",
        "channel": "issuer",
        "order_id": "O1",
        "event_id": "C1",
        "amount": -5,
        "currency": "EUR",
        "status": "REFUND",
    }
    event = decode(Record(json.dumps(value).encode(), topic="payments.card-postings"))
    assert isinstance(event, CardPosting)
    assert event.amount == -5
