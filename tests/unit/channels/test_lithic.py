"""Lithic's webhooks, with keys and payloads of our own making."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from standardwebhooks.webhooks import Webhook

from streams.channels import lithic
from streams.channels.adapter import AUTHORIZATION, NETWORK, Mapped, Received, Reference
from streams.channels.contracts import shipped
from streams.channels.verification import BadSignature, Refused, Stale
from streams.domain.events import CardPosting, Unmapped
from streams.simulator import lithic as simulated
from streams.simulator.dialect import Delivery, Fact

NOW = datetime(2026, 3, 3, 10, 0, 5, tzinfo=UTC)
CONTRACT = shipped()["lithic"]
SECRETS, FILE = simulated.secrets(1)
KEYS = lithic.keys(msgspec.convert(FILE, lithic.Credentials))
MONEY = {"amount": 1999, "currency": "USD"}
FACT = Fact(
    about="card",
    word="SUCCESS",
    event_id="E1",
    order_id="",
    payment_no="",
    transaction="T1",
    amount=1999,
    currency="USD",
    at=NOW,
)


def received(delivery: Delivery, at: datetime = NOW) -> Received:
    return Received(headers=delivery.headers, body=delivery.body, account="program", at=at)


def mapped(delivery: Delivery) -> list[Mapped]:
    lithic.verify(KEYS, received(delivery))
    return lithic.events(KEYS, received(delivery), CONTRACT)


def sent(fact: Fact = FACT) -> Delivery:
    return simulated.notice(SECRETS, fact, "program", NOW, CONTRACT)


def told(**fields: Any) -> Mapped:
    """What is said of a history of this one event."""
    one = simulated.event("CLEARING", "E1", MONEY, FACT) | fields
    body = msgspec.json.encode({"token": "T1", "events": [one]})
    [found] = mapped(simulated.delivered(SECRETS, body, "msg_1", NOW))
    return found


def refused(delivery: Delivery, at: datetime = NOW, **headers: str) -> Refused:
    with pytest.raises(Refused) as caught:
        lithic.verify(KEYS, received(msgspec.structs.replace(delivery, headers=delivery.headers | headers), at))
    return caught.value


def test_each_event_of_the_history_is_told_under_its_own_token():
    """Each delivery repeats what came before, so the token is counted once, not the delivery."""
    hold, entry = mapped(sent())
    assert isinstance(hold.event, Unmapped)
    assert (hold.event.event_id, hold.event.event_type) == ("T1-hold", "AUTHORIZATION")
    assert msgspec.structs.replace(entry.event, raw=None) == CardPosting(
        channel="lithic:program",
        order_id="",
        event_id="E1",
        amount=1999,
        currency="USD",
        status="PURCHASE",
        authorization="T1",
        transaction="NT1",
        event_time="2026-03-03T10:00:05Z",
    )
    assert entry.references == (Reference(AUTHORIZATION, "T1", "lithic:program"), Reference(NETWORK, "NT1"))


def test_the_same_event_says_the_same_in_every_delivery():
    body = json.loads(sent().body)
    body["events"].append(simulated.event("RETURN", "E2", MONEY, FACT))
    later = mapped(simulated.delivered(SECRETS, json.dumps(body).encode(), "msg_2", NOW + timedelta(seconds=9)))
    first = msgspec.structs.replace(mapped(sent())[1].event, raw=None)
    assert msgspec.structs.replace(later[1].event, raw=None) == first
    assert [one.event.event_id for one in later] == ["T1-hold", "E1", "E2"]


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("CLEARING", "PURCHASE"),
        ("FINANCIAL_AUTHORIZATION", "PURCHASE"),
        ("RETURN", "REFUND"),
        ("FINANCIAL_CREDIT_AUTHORIZATION", "REFUND"),
    ],
)
def test_what_is_posted_is_a_purchase_or_a_refund(kind: str, status: str):
    event = told(type=kind).event
    assert isinstance(event, CardPosting)
    assert event.status == status


@pytest.mark.parametrize(
    "kind",
    [
        "AUTHORIZATION",
        "AUTHORIZATION_ADVICE",
        "AUTHORIZATION_EXPIRY",
        "AUTHORIZATION_REVERSAL",
        "BALANCE_INQUIRY",
        "CORRECTION_CREDIT",
        "CORRECTION_DEBIT",
        "CREDIT_AUTHORIZATION",
        "CREDIT_AUTHORIZATION_ADVICE",
        "RETURN_REVERSAL",
        "SOMETHING_NEW",
    ],
)
def test_a_hold_a_release_or_a_correction_posts_nothing(kind: str):
    assert isinstance(told(type=kind).event, Unmapped)


@pytest.mark.parametrize(
    "fields",
    [
        {"result": "INSUFFICIENT_FUNDS"},
        {"amounts": None},
        {"amounts": {"merchant": {"amount": 1, "currency": "XAU"}}},
        {"amounts": {"merchant": {"amount": 10**30, "currency": "USD"}}},
        {"token": ""},
    ],
)
def test_a_decline_or_an_unreadable_amount_posts_nothing(fields: dict[str, Any]):
    assert isinstance(told(**fields).event, Unmapped)


def test_the_merchants_amount_is_compared_and_not_the_cards_own_currency():
    amounts = {"cardholder": {"amount": 2100, "currency": "USD"}, "merchant": {"amount": -1999, "currency": "EUR"}}
    event = told(amounts=amounts).event
    assert isinstance(event, CardPosting)
    assert (event.amount, event.currency) == (1999, "EUR")


def test_the_program_may_name_our_order_itself():
    [_, entry] = mapped(sent(msgspec.structs.replace(FACT, order_id="O1", payment_no="P1")))
    assert isinstance(entry.event, CardPosting)
    assert (entry.event.order_id, entry.event.payment_no) == ("O1", "P1")


@pytest.mark.parametrize("body", ["", "{", "[]", "{}", '{"token":"T","events":[]}', '{"token":"T","events":7}'])
def test_another_body_is_kept_and_moves_nothing(body: str):
    [one] = mapped(simulated.delivered(SECRETS, body.encode(), "msg_1", NOW))
    assert isinstance(one.event, Unmapped)
    assert one.event.event_id == "msg_1"


# -- what is verified


@pytest.mark.parametrize("seconds", [-301, 301, 86_400, -86_400])
def test_a_time_outside_the_window_is_stale_both_ways(seconds: int):
    assert isinstance(refused(sent(), NOW + timedelta(seconds=seconds)), Stale)


def test_one_flipped_bit_anywhere_of_what_is_signed_is_refused():
    delivery = sent()
    for place in range(len(delivery.body)):
        body = bytearray(delivery.body)
        body[place] ^= 1
        assert isinstance(refused(msgspec.structs.replace(delivery, body=bytes(body))), BadSignature)
    assert isinstance(refused(delivery, **{lithic.ID: "msg_e1"}), BadSignature)
    assert isinstance(refused(delivery, **{lithic.TIMESTAMP: str(int(NOW.timestamp()) + 1)}), BadSignature)


@pytest.mark.parametrize("value", ["", "abc", "v2,abc", "v1a,abc", ",,", " ", "v1", " ".join(["v1,a"] * 17)])
def test_a_signature_that_cannot_be_read_is_refused_with_its_name(value: str):
    """The library raises `ValueError` on a signature without a comma."""
    assert refused(sent(), **{lithic.SIGNATURE: value}).field == lithic.SIGNATURE


@pytest.mark.parametrize("value", ["1.5", "nan", "inf", "-1", "99999999999999", "", "\uff11\uff17", "01772532005"])
def test_a_time_is_decimal_digits_and_nothing_else(value: str):
    """The library cuts a fraction off and signs the rest; here what is compared is what was signed."""
    assert isinstance(refused(sent(), **{lithic.TIMESTAMP: value}), Refused)


def test_unknown_versions_are_skipped_and_any_of_several_signatures_will_do():
    delivery = sent()
    both = f"v1a,xx v1,{base64.b64encode(b'0' * 32).decode()} {delivery.headers[lithic.SIGNATURE]}"
    lithic.verify(
        KEYS, received(msgspec.structs.replace(delivery, headers=delivery.headers | {lithic.SIGNATURE: both}))
    )


def test_any_live_secret_will_do_during_a_rotation():
    other, file = simulated.secrets(2)
    keys = lithic.keys(lithic.Credentials(webhook_secrets=FILE["webhook_secrets"] + file["webhook_secrets"]))
    delivery = simulated.notice(other, FACT, "program", NOW, CONTRACT)
    lithic.verify(keys, received(delivery))
    assert isinstance(refused(delivery), BadSignature)


def test_a_secret_without_its_padding_is_the_same_secret():
    secret = base64.b64encode(b"k" * 20).decode()
    assert secret.endswith("=")
    padded, bare = (
        lithic.keys(lithic.Credentials(webhook_secrets=[f"whsec_{text}"])) for text in (secret, secret.strip("="))
    )
    assert padded.live[0].sign("m", NOW, "x") == bare.live[0].sign("m", NOW, "x")


@pytest.mark.parametrize("secrets", [[], ["whsec_"], ["whsec_???"], ["whsec_YWJj"]])
def test_credentials_that_cannot_be_used_name_their_field(secrets: list[str]):
    with pytest.raises(ValueError, match="webhook_secrets"):
        lithic.keys(lithic.Credentials(webhook_secrets=secrets))


def test_the_official_library_and_we_agree_on_a_thousand_messages_both_ways():
    """It takes its own clock, so these are signed now; ours takes the receipt's time."""
    chance, official, now = Random(3), Webhook(SECRETS.webhook_secret), datetime.now(UTC)
    for number in range(1000):
        body = json.dumps({"text": "".join(chance.choice('aé单"\\\n😀') for _ in range(9))}, ensure_ascii=False)
        ours = simulated.delivered(SECRETS, body.encode(), f"msg_{number}", now)
        official.verify(ours.body, ours.headers)
        theirs = ours.headers | {lithic.SIGNATURE: official.sign(f"msg_{number}", now, body)}
        lithic.verify(KEYS, received(Delivery(headers=theirs, body=body.encode()), now))


@settings(max_examples=2000, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_hostile_input_is_mapped_or_refused_and_nothing_else(data: st.DataObject):
    body = bytearray(sent().body)
    for _ in range(data.draw(st.integers(0, 3))):
        place = data.draw(st.integers(0, len(body)))
        body[place : place + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=4))
    raw = data.draw(st.one_of(st.just(bytes(body)), st.binary(max_size=64)))
    names = st.sampled_from([lithic.ID, lithic.TIMESTAMP, lithic.SIGNATURE])
    headers = sent().headers | data.draw(
        st.dictionaries(names, st.one_of(st.text(), st.just("v1,a"), st.just("9" * 12)))
    )
    given, named = Received(headers=headers, body=raw, account="program", at=NOW), None
    try:
        lithic.verify(KEYS, given)
    except Refused as error:
        named = error
    assert named is None or (named.field and named.fix)
    for one in lithic.events(KEYS, given, CONTRACT):
        assert isinstance(one.event, Unmapped) or one.event.order_id or one.references
