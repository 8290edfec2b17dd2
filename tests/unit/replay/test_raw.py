"""Bytes as they came: what can be read is heard, what cannot is set aside, and only a wrong signature is sent back."""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any

import pytest

from streams.replay.report import report
from streams.replay.run import Run

OPS = [
    {"op": "P1", "kind": "PAY", "order": "O1", "channel": "chA", "amount": 1000, "ccy": "USD", "state": "PAYING"},
    {"op": "订单", "kind": "PAY", "order": "O2", "channel": "chA", "amount": 1000, "ccy": "USD", "state": "PAYING"},
    {
        "op": "12345678901234567890",
        "kind": "PAY",
        "order": "7",
        "channel": "chA",
        "amount": 1000,
        "ccy": "USD",
        "state": "PAYING",
    },
]
FIELDS = {"op": "P1", "order": "O1", "txn": "X1", "event_id": "E1", "amount": "1000", "ccy": "USD", "status": "SUCCESS"}
CALLBACK = {**FIELDS, "type": "CALLBACK", "channel": "chA", "amount": 1000}


def play(event: dict[str, Any], **contract: Any) -> dict[str, Any]:
    given = {"ops": OPS, "contract": {"chA": contract}}
    return report(Run(given, [{"recv_time": "2025-03-03T10:00:05Z", **event}]).play())


def notice(body: bytes, content_type: str, signature: str | None = None, **contract: Any) -> dict[str, Any]:
    event = {
        "type": "RAW_CALLBACK",
        "channel": "chA",
        "delivery_id": "D1",
        "content_type": content_type,
        "body_hex": body.hex(),
    }
    return play(event | ({} if signature is None else {"signature": signature}), **contract)


def record(value: object, key: str | None = "O1", **contract: Any) -> dict[str, Any]:
    text = value if isinstance(value, str) else json.dumps(value)
    event = {"type": "RAW_RECORD", "partition": 3, "offset": 9, "value_utf8": text}
    return play(event | ({} if key is None else {"key_utf8": key}), **contract)


def heard(outcome: dict[str, Any], op: str = "P1") -> bool:
    assert outcome["discrepancies"] == []
    return outcome["ops"][op] == "SUCCESS"


def set_aside(outcome: dict[str, Any], ref: str) -> bool:
    assert set(outcome["ops"].values()) == {"PAYING"}
    return outcome["discrepancies"] == [{"type": "DEAD_LETTER", "severity": "high", "ref": ref}]


# -- records


def test_a_record_of_an_event_is_heard_and_unknown_fields_are_not_read():
    outcome = record(CALLBACK | {"colour": "red"})
    assert heard(outcome)
    assert outcome["acks"] == []


def test_ids_that_came_as_numbers_are_kept_as_their_digits():
    assert heard(record(CALLBACK | {"op": 12345678901234567890, "order": 7}, "7"), "12345678901234567890")


def test_amounts_of_a_channel_in_major_units_are_text():
    assert heard(record(CALLBACK | {"amount": "10.00"}, amount_unit="major"))
    assert set_aside(record(CALLBACK, amount_unit="major"), "3:9")
    assert set_aside(record(CALLBACK | {"amount": "1000"}), "3:9")


BAD_RECORDS = {
    "a fraction": CALLBACK | {"amount": 1000.0},
    "an exponent": json.dumps(CALLBACK).replace("1000", "1e3"),
    "a lower case currency": CALLBACK | {"ccy": "usd"},
    "no type": {**CALLBACK, "type": None},
    "an unknown type": CALLBACK | {"type": "CALLBCK"},
    "a raw type inside": CALLBACK | {"type": "RAW_RECORD"},
    "a missing field": {name: value for name, value in CALLBACK.items() if name != "status"},
    "an empty id": CALLBACK | {"op": ""},
    "a list": [1],
    "a fractional id": json.dumps(CALLBACK).replace('"P1"', "1.5"),
    "no JSON": "{",
    "not a number": json.dumps(CALLBACK).replace("1000", "NaN"),
    "a field twice": '{"op": "P1", ' + json.dumps(CALLBACK)[1:],
    "too deep": "[" * 100_000,
    "a flag that is none": CALLBACK | {"livemode": "yes"},
}


@pytest.mark.parametrize("what", BAD_RECORDS)
def test_a_record_that_cannot_be_read_is_set_aside(what: str):
    assert set_aside(record(BAD_RECORDS[what]), "3:9")


@pytest.mark.parametrize("key", ["O2", None])
def test_a_record_under_another_key_than_its_order_is_set_aside(key: str | None):
    assert set_aside(record(CALLBACK, key), "3:9")


def test_a_record_that_only_moves_the_clock_is_read():
    outcome = record({"type": "TICK"}, None)
    assert outcome["discrepancies"] == []


def test_a_record_of_a_card_entry_may_have_any_key_that_is_text():
    entry = {
        "type": "CARD_POSTING",
        "channel": "card",
        "event_id": "L1",
        "amount": 5,
        "ccy": "USD",
        "status": "PURCHASE",
    }
    assert record(entry, "card:1")["discrepancies"] == []
    event = {"type": "RAW_RECORD", "partition": 3, "offset": 9, "value_utf8": json.dumps(entry), "key_hex": "ff"}
    assert set_aside(play(event), "3:9")


# -- notices


def test_a_form_in_its_own_charset_is_heard():
    body = "order=O2&op=%B6%A9%B5%A5&txn=X1&event_id=E1&amount=10.00&ccy=USD&status=SUCCESS&charset=GBK&note=a+b"
    assert heard(notice(body.encode(), "application/x-www-form-urlencoded; charset=UTF-8", amount_unit="major"), "订单")


def test_json_in_its_own_charset_is_heard():
    body = json.dumps(
        {**FIELDS, "op": "订单", "order": "O2", "charset": "GBK", "version": 3, "livemode": True}, ensure_ascii=False
    )
    outcome = notice(body.encode("gbk"), "Application/JSON")
    assert heard(outcome, "订单")
    assert outcome["fields"]["订单"]["version"] == 3


@pytest.mark.parametrize("encoding", ["UTF-8", "GBK", "UTF-16"])
def test_xml_in_the_encoding_of_its_declaration_is_heard(encoding: str):
    fields = {**FIELDS, "op": "订单", "order": "O2", "sequence": "4", "captured_flag": "TRUE"}
    text = f'<?xml version="1.0" encoding="{encoding}"?><n>{"".join(f"<{k}>{v}</{k}>" for k, v in fields.items())}</n>'
    outcome = notice(text.encode(encoding), f"text/xml; charset={encoding}")
    assert heard(outcome, "订单")


def test_a_charset_field_of_xml_beats_the_header():
    text = (
        "<n>"
        + "".join(f"<{k}>{v}</{k}>" for k, v in {**FIELDS, "op": "订单", "order": "O2", "charset": "GBK"}.items())
        + "</n>"
    )
    assert heard(notice(text.encode("gbk"), "text/xml; charset=latin-1"), "订单")


def xml(inside: str) -> bytes:
    return f"<n>{inside}</n>".encode()


FORM = "&".join(f"{name}={value}" for name, value in FIELDS.items())
KIND = "application/x-www-form-urlencoded"
BAD_NOTICES = {
    "a document type": (b"<!DOCTYPE n><n/>", "text/xml"),
    "broken xml": (b"<n>", "text/xml"),
    "broken xml in its own charset": (b"<n><charset>utf-16</charset></n>", "text/xml"),
    "an unknown charset": (xml("<charset>klingon</charset>"), "text/xml"),
    "an encoding that does not fit": (b"\xff", "application/json"),
    "an unknown header charset": (b"{}", "application/json; charset=klingon"),
    "another content type": (b"x", "text/plain"),
    "no object": (b"[]", "application/json"),
    "a missing field": (FORM.replace("status=SUCCESS", "").encode(), KIND),
    "a field twice": (f"{FORM}&op=P2".encode(), KIND),
    "an amount that is no number": (FORM.replace("1000", "ten").encode(), KIND),
    "a version that is no number": (f"{FORM}&version=two".encode(), KIND),
    "a flag that is none": (f"{FORM}&livemode=perhaps".encode(), KIND),
    "a nested id": (json.dumps({**FIELDS, "txn": {"a": 1}}).encode(), "application/json"),
    "a form in no ascii charset": (f"{FORM}&charset=%FF".encode(), KIND),
}


@pytest.mark.parametrize("what", BAD_NOTICES)
def test_a_notice_that_cannot_be_read_is_set_aside_and_acknowledged(what: str):
    outcome = notice(*BAD_NOTICES[what])
    assert set_aside(outcome, "D1")
    assert outcome["acks"] == ["OK"]


def test_a_form_field_that_is_empty_is_absent():
    outcome = notice(f"{FORM}&version=&livemode=".encode(), KIND)
    assert heard(outcome)


def test_an_amount_that_does_not_exist_in_its_currency_is_for_a_person():
    outcome = notice(FORM.replace("1000", "10.001").encode(), KIND, amount_unit="major")
    assert [(one["type"], one["ref"]) for one in outcome["discrepancies"]] == [("INVALID_AMOUNT", "E1")]
    outcome = notice(FORM.replace("1000", "1000.5").encode(), KIND)
    assert [(one["type"], one["ref"]) for one in outcome["discrepancies"]] == [("INVALID_AMOUNT", "E1")]
    assert heard(notice(FORM.replace("1000", "1000.0").encode(), KIND))


def test_only_the_right_signature_over_the_raw_bytes_is_accepted():
    right = hmac.new(b"key", FORM.encode(), hashlib.sha256).hexdigest()
    assert heard(notice(FORM.encode(), KIND, right.upper(), hmac_sha256_key="key"))
    for wrong in (None, "", right[:-1], "ü"):
        outcome = notice(FORM.encode(), KIND, wrong, hmac_sha256_key="key")
        assert (outcome["acks"], outcome["discrepancies"]) == (["REJECT"], [])
