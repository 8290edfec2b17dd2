"""Marqeta's webhooks, with keys and payloads of our own making."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streams.channels import marqeta
from streams.channels.adapter import AUTHORIZATION, NETWORK, Mapped, Received, Reference
from streams.channels.contracts import shipped
from streams.channels.verification import BadSignature, Malformed, Refused
from streams.domain.events import CardPosting, Unmapped
from streams.simulator import marqeta as simulated
from streams.simulator.dialect import Delivery, Fact

NOW = datetime(2026, 3, 3, 10, 0, 5, tzinfo=UTC)
CONTRACT = shipped()["marqeta"]
SECRETS, FILE = simulated.secrets(1)
KEYS = marqeta.keys(msgspec.convert(FILE, marqeta.Credentials))
FACT = Fact(
    about="card",
    word="SUCCESS",
    event_id="T1",
    order_id="",
    payment_no="",
    transaction="A1",
    amount=1999,
    currency="USD",
    at=NOW,
)


def received(delivery: Delivery) -> Received:
    return Received(headers=delivery.headers, body=delivery.body, account="program", at=NOW)


def mapped(delivery: Delivery, keys: marqeta.Keys = KEYS) -> list[Mapped]:
    marqeta.verify(keys, received(delivery))
    return marqeta.events(keys, received(delivery), CONTRACT)


def told(**fields: Any) -> Mapped:
    [one] = mapped(simulated.batch(SECRETS, [simulated.transaction(FACT) | fields]))
    return one


def refused(delivery: Delivery, keys: marqeta.Keys = KEYS) -> Refused:
    with pytest.raises(Refused) as caught:
        marqeta.verify(keys, received(delivery))
    return caught.value


def test_a_cleared_purchase_is_an_entry_found_by_the_numbers_that_issuers_share():
    one = told(acquirer_reference_data="ARN1")
    assert msgspec.structs.replace(one.event, raw=None) == CardPosting(
        channel="marqeta:program",
        order_id="",
        event_id="T1",
        amount=1999,
        currency="USD",
        status="PURCHASE",
        authorization="A1",
        transaction="ARN1",
        event_time="2026-03-03T10:00:05Z",
    )
    assert one.references == (
        Reference(AUTHORIZATION, "A1", "marqeta:program"),
        Reference(NETWORK, "ARN1"),
        Reference(NETWORK, "NA1"),
    )


@pytest.mark.parametrize("kind", ["refund", "pindebit.refund", "refund.authorization.clearing"])
def test_a_credit_that_was_posted_is_a_refund_on_the_card(kind: str):
    event = told(type=kind).event
    assert isinstance(event, CardPosting)
    assert event.status == "REFUND"


def test_the_program_may_name_our_order_itself():
    event = told(metadata={"order_id": "O1", "payment_no": "P1"}).event
    assert isinstance(event, CardPosting)
    assert (event.order_id, event.payment_no) == ("O1", "P1")


@pytest.mark.parametrize(
    "fields",
    [
        {"type": "authorization", "state": "PENDING"},
        {"type": "authorization.incremental"},
        {"type": "authorization.reversal"},
        {"type": "authorization.reversal.issuerexpiration"},
        {"type": "refund.authorization"},
        {"type": "authorization.clearing.chargeback"},
        {"type": "original.credit.authorization"},
        {"state": "DECLINED"},
        {"state": "ERROR"},
        {"state": "PENDING"},
        {"state": None},
        {"token": ""},
        {"currency_code": None},
    ],
)
def test_a_hold_a_release_or_a_decline_posts_nothing_on_the_card(fields: dict[str, Any]):
    assert isinstance(told(**fields).event, Unmapped)


@pytest.mark.parametrize(
    ("text", "currency", "amount"),
    [
        ("19.99", "USD", 1999),
        ("10", "USD", 1000),
        ("10.0", "USD", 1000),
        ("-0.5", "USD", 50),
        ("1e2", "USD", 10000),
        ("100.10", "USD", 10010),
        ("4503599627370.07", "USD", 450359962737007),
        ("500.0", "JPY", 500),
        ("1.005", "KWD", 1005),
    ],
)
def test_a_number_in_major_units_is_read_as_the_text_it_is(text: str, currency: str, amount: int):
    event = told(amount=msgspec.Raw(text.encode()), currency_code=currency).event
    assert isinstance(event, CardPosting)
    assert event.amount == amount


@pytest.mark.parametrize("text", ["19.999", "1e99", "1e999999999", '"19.99"', "null", "true", "9" * 30, "0.1e-9"])
def test_what_is_no_amount_of_the_currency_is_kept(text: str):
    assert isinstance(told(amount=msgspec.Raw(text.encode())).event, Unmapped)


def test_a_ping_is_acknowledged_and_nothing_is_kept_of_it():
    assert mapped(simulated.ping(SECRETS)) == []
    bad = simulated.ping(SECRETS)
    assert isinstance(refused(msgspec.structs.replace(bad, body=bad.body + b" ")), BadSignature)


def test_every_transaction_of_a_batch_becomes_a_record_of_its_own():
    batch = [simulated.transaction(msgspec.structs.replace(FACT, event_id=f"T{n}")) for n in range(10)]
    said = mapped(simulated.batch(SECRETS, [*batch, {"token": 7}]))
    assert [one.event.event_id for one in said] == [f"T{n}" for n in range(10)] + [None]
    assert isinstance(said[-1].event, Unmapped)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b'{"cards":[{}]}', b'{"transactions":[]}', b"\xff"])
def test_another_body_is_kept_and_moves_nothing(body: bytes):
    [one] = mapped(simulated.delivered(SECRETS, body))
    assert isinstance(one.event, Unmapped)


# -- what is verified


def test_basic_authentication_is_mandatory_beside_the_signature():
    delivery = simulated.notice(SECRETS, FACT, "program", NOW, CONTRACT)
    for value in ("", "Bearer x", "Basic ???", "Basic é"):
        changed = msgspec.structs.replace(delivery, headers=delivery.headers | {"Authorization": value})
        assert isinstance(refused(changed), Malformed)
    other = base64.b64encode(b"issuer:wrong").decode()
    changed = msgspec.structs.replace(delivery, headers=delivery.headers | {"Authorization": f"Basic {other}"})
    assert isinstance(refused(changed), BadSignature)
    assert other not in str(refused(changed))


def test_a_configured_secret_makes_the_signature_mandatory():
    delivery = simulated.notice(SECRETS, FACT, "program", NOW, CONTRACT)
    unsigned = {name: value for name, value in delivery.headers.items() if name != marqeta.SIGNATURE}
    without = msgspec.structs.replace(delivery, headers=unsigned)
    assert isinstance(refused(without), Malformed)
    marqeta.verify(KEYS._replace(secrets=()), received(without))


def test_sha1_is_accepted_only_while_the_credentials_say_so():
    body = simulated.notice(SECRETS, FACT, "program", NOW, CONTRACT).body
    old = simulated.delivered(SECRETS, body, "sha1")
    assert isinstance(refused(old), BadSignature)
    marqeta.verify(KEYS._replace(sha1=True), received(old))


def test_a_signature_in_base64_is_the_same_signature():
    delivery = simulated.notice(SECRETS, FACT, "program", NOW, CONTRACT)
    made = base64.b64encode(hmac.new(SECRETS.secret.encode(), delivery.body, hashlib.sha256).digest()).decode()
    marqeta.verify(
        KEYS, received(msgspec.structs.replace(delivery, headers=delivery.headers | {marqeta.SIGNATURE: made}))
    )


def test_any_live_password_and_secret_will_do_during_a_rotation():
    other, file = simulated.secrets(2)
    both = {name: FILE[name] + file[name] for name in ("basic", "secrets")}
    keys = marqeta.keys(msgspec.convert(both, marqeta.Credentials))
    for secrets in (SECRETS, other):
        marqeta.verify(keys, received(simulated.ping(secrets)))
    assert isinstance(refused(simulated.ping(other)), BadSignature)


def test_one_flipped_bit_anywhere_of_the_body_is_refused():
    delivery = simulated.notice(SECRETS, FACT, "program", NOW, CONTRACT)
    for place in range(len(delivery.body)):
        body = bytearray(delivery.body)
        body[place] ^= 1
        assert isinstance(refused(msgspec.structs.replace(delivery, body=bytes(body))), BadSignature)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"basic": []}, "basic"),
        ({"basic": [{"username": "a:b", "password": "c"}]}, r"basic\[0\]"),
        ({"basic": FILE["basic"], "secrets": ["short"]}, r"secrets\[0\]"),
    ],
)
def test_credentials_that_cannot_be_used_name_their_field(fields: dict[str, Any], field: str):
    with pytest.raises(ValueError, match=field):
        marqeta.keys(msgspec.convert(fields, marqeta.Credentials))


@settings(max_examples=2000, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_hostile_input_is_mapped_or_refused_and_nothing_else(data: st.DataObject):
    sent = simulated.batch(SECRETS, [simulated.transaction(FACT)])
    body = bytearray(sent.body)
    for _ in range(data.draw(st.integers(0, 3))):
        place = data.draw(st.integers(0, len(body)))
        body[place : place + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=4))
    raw = data.draw(st.one_of(st.just(bytes(body)), st.binary(max_size=64)))
    hostile = st.dictionaries(st.sampled_from(["Authorization", marqeta.SIGNATURE]), st.text())
    given, named = Received(headers=data.draw(hostile), body=raw, account="program", at=NOW), None
    try:
        marqeta.verify(KEYS, given)
    except Refused as error:
        named = error
    assert named is None or (named.field and named.fix)
    for one in mapped(simulated.delivered(SECRETS, raw)):
        assert isinstance(one.event, Unmapped) or one.event.order_id or one.references


def test_the_dialects_json_is_what_the_channel_writes():
    body = json.loads(simulated.notice(SECRETS, FACT, "program", NOW, CONTRACT).body)
    assert body["transactions"][0]["amount"] == 19.99
