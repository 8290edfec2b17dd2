"""Stripe's webhooks, with keys and payloads of our own making."""

from __future__ import annotations

import hashlib
import hmac
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import stripe as official
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streams.channels import stripe
from streams.channels.adapter import Mapped, Received, Reference
from streams.channels.contracts import shipped
from streams.channels.credentials import CredentialsError
from streams.channels.credentials import keys as read_keys
from streams.channels.verification import BadSignature, Malformed, Refused, Stale
from streams.codec import TOPICS
from streams.domain.events import Callback, CardPosting, Dispute, RefundNotice, Release, Unmapped
from streams.simulator.dialect import Fact
from streams.simulator.stripe import DIALECT, Secrets, secrets, signed

NOW = 1_740_996_000
AT = datetime.fromtimestamp(NOW, UTC)
KEY = "whsec_own_test_secret"
OLD_KEY = "whsec_retired_yesterday"
BODY = b'{"id": "evt_1"}\n'
NAMED = {"order_id": "O1", "payment_no": "P1"}
CONTRACT = shipped()["stripe"]
SAMPLES = Path(__file__).parents[4] / "shared" / "fixtures" / "stripe"
EVERY_INPUT = TOPICS["channel-callbacks"] | TOPICS["card-postings"]


def live(*secrets_: str) -> stripe.Keys:
    return stripe.Keys(tuple(secret.encode() for secret in secrets_), "")


def received(headers: dict[str, str], body: bytes = BODY, at: float = NOW, account: str = "acct_1") -> Received:
    lowered = {name.lower(): value for name, value in headers.items()}
    return Received(lowered, body, account, datetime.fromtimestamp(at, UTC))


def verify(headers: dict[str, str], body: bytes = BODY, keys: tuple[str, ...] = (KEY,), at: float = NOW) -> None:
    stripe.verify(live(*keys), received(headers, body, at))


def sign(body: bytes, key: str = KEY, at: int | str = NOW) -> str:
    return hmac.new(key.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()


def header(body: bytes = BODY, key: str = KEY, at: int = NOW) -> dict[str, str]:
    return {"Stripe-Signature": f"t={at},v1={sign(body, key, at)}"}


def event(kind: str, obj: dict[str, Any], **envelope: Any) -> bytes:
    plain = {"id": "evt_1", "type": kind, "created": NOW, "livemode": True, "data": {"object": obj}, "future": [1]}
    return json.dumps(plain | envelope).encode()


def thing(kind: str, status: str, **extra: Any) -> dict[str, Any]:
    ids = {"payment_intent": "pi_1", "charge": "ch_1", "refund": "re_1", "dispute": "dp_1"}
    of = {} if kind == "payment_intent" else {"payment_intent": "pi_1"}
    plain = {"id": ids[kind], "object": kind, "status": status, "amount": 1099, "currency": "usd", "metadata": NAMED}
    return plain | of | extra


def intent(status: str, **extra: Any) -> dict[str, Any]:
    return thing("payment_intent", status, **extra)


def charge(status: str, **extra: Any) -> dict[str, Any]:
    return thing("charge", status, **extra)


def refund(status: str, **extra: Any) -> dict[str, Any]:
    return thing("refund", status, metadata=NAMED | {"refund_no": "R1"}, charge="ch_1") | extra


def dispute(status: str, **extra: Any) -> dict[str, Any]:
    return thing("dispute", status, charge="ch_1", metadata={}) | extra


def entry(kind: str, amount: int, **extra: Any) -> dict[str, Any]:
    plain = {"id": "ipi_1", "type": kind, "amount": amount, "currency": "usd", "created": NOW, "metadata": {}}
    return plain | {"authorization": "iauth_1", "network_data": {"transaction_id": "N1"}} | extra


def mapped(kind: str, obj: dict[str, Any], **envelope: Any) -> Mapped:
    [result] = stripe.ADAPTER.events(live(), received({}, event(kind, obj, **envelope)), CONTRACT)
    return result


def said(kind: str, obj: dict[str, Any], **envelope: Any) -> Any:
    return mapped(kind, obj, **envelope).event


# -- who signed it, and when


def test_a_signature_over_the_raw_bytes_is_accepted():
    verify(header())


def test_any_live_key_and_any_v1_signature_will_do_during_a_rotation():
    verify(header(key=OLD_KEY), keys=(KEY, OLD_KEY))
    verify({"stripe-signature": f"t={NOW},v1={sign(BODY, OLD_KEY)},v1={sign(BODY)}"})


@pytest.mark.parametrize("body", [b'{"id": "evt_1"}', b'{"id": "evt_1"}\r\n', b'{"id":"evt_1"}\n', b""])
def test_one_changed_byte_breaks_the_signature(body: bytes):
    with pytest.raises(BadSignature):
        verify(header(), body)


def test_one_flipped_bit_anywhere_in_the_body_the_time_or_the_signature_is_refused():
    for place in range(len(BODY)):
        with pytest.raises(BadSignature):
            verify(header(), BODY[:place] + bytes([BODY[place] ^ 1]) + BODY[place + 1 :])
    value = header()["Stripe-Signature"]
    for place in range(len(value)):
        with pytest.raises(Refused):
            verify({"Stripe-Signature": value[:place] + chr(ord(value[place]) ^ 1) + value[place + 1 :]})


@pytest.mark.parametrize("keys", [(), ("whsec_other",), (KEY.upper(),)])
def test_a_key_that_is_not_live_refuses(keys: tuple[str, ...]):
    with pytest.raises(BadSignature):
        verify(header(), keys=keys)


def test_a_v0_signature_proves_nothing():
    with pytest.raises(BadSignature):
        verify({"Stripe-Signature": f"t={NOW},v0={sign(BODY)},v1={'0' * 64}"})
    with pytest.raises(Malformed):
        verify({"Stripe-Signature": f"t={NOW},v0={sign(BODY)}"})


@pytest.mark.parametrize("distance", [-301, 301, 86_400])
def test_an_authentic_webhook_is_stale_in_either_direction(distance: int):
    with pytest.raises(Stale):
        verify(header(at=NOW + distance))


@pytest.mark.parametrize("distance", [-300, 300])
def test_the_edge_of_the_window_is_inside(distance: int):
    verify(header(at=NOW + distance))


MALFORMED = ["", "t=", "t,v1=,v0=", ",,", "t", "t=1", "v1=ab", "t=x,v1=ab", "t=1,t=2,v1=ab", "t=1,v1=", "t=1;v1=ab"]


@pytest.mark.parametrize("value", [*MALFORMED, "t=1" + ",v1=ab" * 17, "t=" + "1" * 9000])
def test_a_malformed_header_is_refused(value: str):
    with pytest.raises(Malformed, match=r"^Stripe-Signature"):
        verify({"Stripe-Signature": value})


def test_a_missing_header_is_malformed():
    with pytest.raises(Malformed, match="Stripe-Signature: the header is absent"):
        verify({})


@pytest.mark.parametrize("signature", ["é" * 64, "z" * 64, "0" * 63, "0" * 4000])
def test_a_signature_of_strange_characters_is_only_a_bad_one(signature: str):
    with pytest.raises(BadSignature):
        verify({"Stripe-Signature": f"t={NOW},v1={signature}"})


@pytest.mark.parametrize("at", [NOW, NOW - 999])
def test_a_refusal_shows_neither_key_nor_signature(at: int):
    with pytest.raises(Refused) as refusal:
        verify({"Stripe-Signature": f"t={at},v1={sign(BODY, 'other', at)}"})
    assert KEY not in str(refusal.value)
    assert sign(BODY, at=at) not in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "said_"),
    [
        ("{}", "webhook_secrets: it is empty, and so is api_key"),
        ("webhook_secrets: [' whsec_x']", "webhook_secrets: one is empty or has blanks"),
        ("api_key: 'sk x'", "api_key: it has characters that no key has"),
    ],
)
def test_credentials_that_cannot_be_keys_are_refused_by_field(text: str, said_: str):
    with pytest.raises(CredentialsError, match=said_):
        read_keys(stripe.ADAPTER, text)


# -- payments


def test_a_succeeded_intent_is_a_success_of_the_amount_received():
    body = event("payment_intent.succeeded", intent("succeeded", amount_received=1000))
    [one] = stripe.ADAPTER.events(live(), received({"Content-Type": "application/json"}, body), CONTRACT)
    callback = one.event
    assert isinstance(callback, Callback)
    assert (callback.order_id, callback.payment_no, callback.channel) == ("O1", "P1", "stripe:acct_1")
    assert (callback.status, callback.event_type) == ("SUCCESS", "payment_intent.succeeded")
    assert (callback.amount, callback.currency, callback.transaction) == (1000, "USD", "pi_1")
    assert (callback.event_id, callback.event_time, callback.livemode) == ("evt_1", "2025-03-03T10:00:00Z", True)
    assert callback.raw is not None
    assert callback.raw.sha256 == hashlib.sha256(body).hexdigest()


@pytest.mark.parametrize(
    ("kind", "obj", "status", "amount"),
    [
        ("payment_intent.canceled", intent("canceled"), "CLOSED", 1099),
        ("payment_intent.processing", intent("processing"), "PROCESSING", 1099),
        ("payment_intent.created", intent("requires_payment_method"), "PENDING", 1099),
        ("payment_intent.requires_action", intent("requires_action"), "PENDING", 1099),
        ("payment_intent.payment_failed", intent("requires_payment_method"), "DECLINED_RETRYABLE", 1099),
        ("payment_intent.amount_capturable_updated", intent("requires_capture", amount_capturable=900), "AUTHORIZED", 900),
        ("payment_intent.succeeded", intent("canceled"), "CONTRADICTORY", 1099),
        ("payment_intent.payment_failed", intent("succeeded", amount_received=1), "CONTRADICTORY", 1),
        ("payment_intent.later_word", intent("a_word_of_next_year"), "a_word_of_next_year", 1099),
        ("charge.succeeded", charge("succeeded", captured=True), "SUCCESS", 1099),
        ("charge.captured", charge("succeeded", captured=True, amount_captured=500), "SUCCESS", 500),
        ("charge.succeeded", charge("succeeded", captured=False, amount_captured=0), "AUTHORIZED", 1099),
        ("charge.pending", charge("pending"), "PENDING", 1099),
        ("charge.failed", charge("failed"), "DECLINED_RETRYABLE", 1099),
        ("charge.failed", charge("failed", payment_intent=None), "FAILED", 1099),
        ("charge.failed", charge("succeeded"), "CONTRADICTORY", 1099),
        ("charge.updated", charge("succeeded"), "SUCCESS", 1099),
    ],
)  # fmt: skip
def test_each_status_has_its_word_and_its_amount(kind: str, obj: dict[str, Any], status: str, amount: int):
    callback = said(kind, obj)
    assert isinstance(callback, Callback)
    assert (callback.status, callback.amount) == (status, amount)


def test_an_intent_and_its_charge_name_one_transaction():
    of_intent = said("payment_intent.succeeded", intent("succeeded", amount_received=1099))
    of_charge = said("charge.succeeded", charge("succeeded", payment_intent={"id": "pi_1"}))
    alone = said("charge.succeeded", charge("succeeded", payment_intent=None))
    assert [each.transaction for each in (of_intent, of_charge, alone)] == ["pi_1", "pi_1", "ch_1"]


def test_what_a_capture_received_is_said_of_the_capture():
    metadata = NAMED | {"capture_no": "C1"}
    callback = said("payment_intent.succeeded", intent("succeeded", amount_received=500, metadata=metadata))
    assert (callback.order_id, callback.payment_no, callback.amount) == ("O1", "C1", 500)


def test_amounts_count_by_the_contracts_exponents():
    for currency, ours in (("mga", 500), ("jpy", 5), ("kwd", 5)):
        callback = said("payment_intent.succeeded", intent("succeeded", amount_received=5, currency=currency))
        assert (callback.amount, callback.currency) == (ours, currency.upper())


def test_an_amount_that_no_currency_has_stays_the_channels_text():
    callback = said("payment_intent.succeeded", intent("succeeded", amount_received=5, currency="zzz"))
    assert (callback.amount, callback.amount_text, callback.currency) == (None, "5", "ZZZ")


@pytest.mark.parametrize("metadata", [None, {}, {"order_id": "O1"}])
def test_without_its_whole_name_an_order_is_found_by_reference(metadata: dict[str, str] | None):
    found = mapped("payment_intent.succeeded", intent("succeeded", amount_received=1, metadata=metadata))
    assert isinstance(found.event, Callback)
    assert (found.event.order_id, found.event.payment_no) == ("", "")
    assert found.references == (Reference("transaction", "pi_1", "stripe:acct_1"),)


def test_our_own_number_is_trusted_before_the_channels():
    found = mapped("charge.succeeded", charge("succeeded", metadata={"payment_no": "P1"}))
    assert [reference.key for reference in found.references] == [
        "payment//P1",
        "transaction/stripe:acct_1/pi_1",
        "transaction/stripe:acct_1/ch_1",
    ]


# -- refunds


@pytest.mark.parametrize("kind", ["refund.created", "refund.updated", "refund.failed", "charge.refund.updated"])
@pytest.mark.parametrize(
    ("status", "word"),
    [
        ("succeeded", "SUCCESS"),
        ("failed", "FAILED"),
        ("canceled", "CLOSED"),
        ("pending", "PENDING"),
        ("requires_action", "PENDING"),
        ("a_later_word", "a_later_word"),
    ],
)
def test_each_refund_status_has_its_word(kind: str, status: str, word: str):
    notice = said(kind, refund(status, amount=300))
    assert isinstance(notice, RefundNotice)
    assert (notice.status, notice.amount, notice.currency) == (word, 300, "USD")
    assert (notice.order_id, notice.payment_no, notice.refund_no) == ("O1", "P1", "R1")
    assert (notice.refund_transaction, notice.transaction) == ("re_1", "pi_1")


def test_a_refund_that_succeeded_may_still_fail_and_both_are_told_of_one_refund():
    first = said("refund.updated", refund("succeeded"), id="evt_1")
    then = said("refund.failed", refund("failed"), id="evt_2")
    assert [first.status, then.status] == ["SUCCESS", "FAILED"]
    assert first.refund_transaction == then.refund_transaction
    assert first.event_id != then.event_id


def test_a_refund_that_stripe_started_has_no_number_of_ours():
    found = mapped("refund.created", refund("succeeded", metadata={}))
    assert (found.event.order_id, found.event.refund_no) == ("", None)
    assert [reference.kind for reference in found.references] == ["transaction", "transaction", "refund_transaction"]


def test_a_refunded_charge_tells_its_newest_refund_if_it_lists_one():
    listed = {"data": [refund("succeeded", amount=300), refund("failed", id="re_0")]}
    notice = said("charge.refunded", charge("succeeded", captured=True, amount_refunded=500, refunds=listed))
    assert (notice.refund_transaction, notice.amount, notice.status) == ("re_1", 300, "SUCCESS")
    assert notice.cumulative_refunded == 500


def test_a_refunded_charge_without_its_refunds_is_a_total_that_completes_nothing():
    notice = said("charge.refunded", charge("succeeded", captured=True, amount_refunded=500))
    assert isinstance(notice, RefundNotice)
    assert (notice.status, notice.cumulative_refunded, notice.amount) == ("REFUND_TOTAL", 500, None)
    assert (notice.refund_no, notice.refund_transaction) == (None, None)


# -- holds, disputes, cards


def test_an_expired_charge_lets_its_hold_go_and_is_no_refund():
    release = said("charge.expired", charge("failed", captured=False))
    assert isinstance(release, Release)
    assert (release.status, release.amount, release.transaction) == ("SUCCESS", 1099, "pi_1")


def test_a_refund_of_an_uncaptured_charge_is_a_release():
    release = said("charge.refunded", charge("succeeded", captured=False, amount_refunded=1099))
    assert isinstance(release, Release)
    assert release.amount == 1099


@pytest.mark.parametrize(
    ("status", "word"),
    [
        ("needs_response", "OPEN"),
        ("under_review", "OPEN"),
        ("won", "WON"),
        ("prevented", "WON"),
        ("lost", "LOST"),
        ("a_later_word", "a_later_word"),
    ],
)
def test_each_dispute_status_has_its_word(status: str, word: str):
    found = mapped("charge.dispute.updated", dispute(status))
    assert isinstance(found.event, Dispute)
    assert (found.event.status, found.event.amount, found.event.order_id) == (word, 1099, "")
    assert [reference.value for reference in found.references] == ["pi_1", "ch_1"]


@pytest.mark.parametrize(("kind", "amount", "status"), [("capture", -100, "PURCHASE"), ("refund", 100, "REFUND")])
def test_a_card_entry_is_posted_under_its_own_id_however_often_it_is_told(kind: str, amount: int, status: str):
    created = mapped("issuing_transaction.created", entry(kind, amount), id="evt_1")
    updated = mapped("issuing_transaction.updated", entry(kind, amount), id="evt_2", created=NOW + 9)
    assert isinstance(created.event, CardPosting)
    assert (created.event.status, created.event.amount, created.event.event_id) == (status, 100, "ipi_1")
    assert msgspec.structs.replace(created.event, raw=None) == msgspec.structs.replace(updated.event, raw=None)
    assert [reference.key for reference in created.references] == ["authorization/stripe:acct_1/iauth_1", "network//N1"]


# -- what cannot be mapped


@pytest.mark.parametrize(
    ("kind", "obj", "reason"),
    [
        ("customer.created", {"id": "cus_1"}, "customer.created says nothing about a payment"),
        ("payout.paid", {"id": "po_1"}, "payout.paid says nothing about a payment"),
        ("payment_intent.succeeded", intent("succeeded", amount=10.5), "data.object: Expected `int`"),
        ("payment_intent.succeeded", intent("succeeded", amount=2**60), "data.object: Expected `int`"),
        ("payment_intent.succeeded", intent("succeeded", amount=-1), "data.object: Expected `int`"),
        ("payment_intent.succeeded", intent("succeeded", currency="us"), "data.object: Expected `str`"),
        ("payment_intent.succeeded", intent("succeeded", currency="us\u00df"), "data.object: Expected `str`"),
        ("payment_intent.succeeded", intent(""), "data.object: Expected `str`"),
        ("payment_intent.succeeded", intent("s", metadata={"payment_no": "x" * 257}), "payment_no: it is longer than 256"),
        ("charge.succeeded", {"id": "ch_1"}, "data.object: Object missing required field"),
        ("charge.expired", charge("succeeded", captured=True), "a captured charge cannot expire"),
        ("charge.refunded", charge("succeeded", refunds={"data": [7]}), "data.object: Expected `object`"),
        ("charge.dispute.created", dispute("warning_needs_response"), "is an inquiry; it takes no money"),
        ("charge.dispute.created", dispute("lost", currency="zzz"), "1099 is no amount of ZZZ"),
        ("issuing_transaction.created", entry("capture", 100), "its sign contradicts the type capture"),
        ("issuing_transaction.created", entry("refund", -100), "its sign contradicts the type refund"),
        ("issuing_transaction.created", entry("fee", 1), "fee is neither capture nor refund"),
        ("issuing_transaction.created", entry("refund", 1, authorization=None, network_data=None), "nothing in it names its order"),
        ("charge.dispute.created", dispute("lost", payment_intent=None, charge=None), "nothing in it names its order"),
        ("issuing_authorization.created", {"id": "iauth_1"}, "a card's hold moves no money"),
    ],
)  # fmt: skip
def test_a_verified_webhook_that_cannot_be_mapped_is_kept_with_its_reason(kind: str, obj: dict[str, Any], reason: str):
    unmapped = said(kind, obj)
    assert isinstance(unmapped, Unmapped)
    assert reason in unmapped.reason
    assert (unmapped.event_id, unmapped.event_type, unmapped.channel) == ("evt_1", kind, "stripe:acct_1")
    assert unmapped.raw is not None


@pytest.mark.parametrize(
    ("kind", "obj"),
    [
        ("charge.expired", charge("failed", captured=False)),
        ("charge.dispute.created", dispute("lost")),
        ("issuing_transaction.created", entry("capture", -100)),
    ],
)
def test_test_traffic_is_kept_out_where_the_event_cannot_say_so(kind: str, obj: dict[str, Any]):
    assert "test traffic" in said(kind, obj, livemode=False).reason
    assert said("payment_intent.succeeded", intent("succeeded"), livemode=False).livemode is False


THIN = b'{"id": "evt_1", "object": "v2.core.event", "type": "v1.x", "created": "2025-03-03T10:00:00Z", "data": {}}'


@pytest.mark.parametrize(
    "body", [b"", b"\xff\xfe", b"[]", b'{"id": 1}', b'{"id": "evt_1", "type": "x"', b"null", b"[" * 100_000, THIN]
)
def test_a_verified_body_that_is_no_event_is_kept(body: bytes):
    [one] = stripe.ADAPTER.events(live(), received({}, body), CONTRACT)
    assert isinstance(one.event, Unmapped)
    assert "not a Stripe event" in one.event.reason


def test_an_event_of_another_account_is_kept_and_not_mapped():
    unmapped = said("payment_intent.succeeded", intent("succeeded", amount_received=1099), account="acct_2")
    assert isinstance(unmapped, Unmapped)
    assert "about acct_2, not acct_1" in unmapped.reason


# -- the simulated channel, the official library, and hostile input

SECRETS, CREDENTIALS = secrets(7)
KEYS = read_keys(stripe.ADAPTER, json.dumps(CREDENTIALS))


def fact(about: Any = "payment", word: Any = "SUCCESS", **extra: Any) -> Fact:
    plain = {"event_id": "evt_1", "order_id": "O1", "payment_no": "P1", "transaction": "p1", "amount": 1099}
    return Fact(about=about, word=word, **plain | {"currency": "USD", "at": AT} | extra)


def told(one: Fact) -> Any:
    delivery = DIALECT.notice(SECRETS, one, "acct_1", AT, CONTRACT)
    came = received(delivery.headers, delivery.body)
    stripe.ADAPTER.verify(KEYS, came)
    [found] = stripe.ADAPTER.events(KEYS, came, CONTRACT)
    return found.event


@pytest.mark.parametrize(
    ("about", "word", "kind", "status"),
    [
        ("payment", "SUCCESS", Callback, "SUCCESS"),
        ("payment", "FAILED", Callback, "CLOSED"),
        ("payment", "CLOSED", Callback, "CLOSED"),
        ("payment", "PROCESSING", Callback, "PROCESSING"),
        ("payment", "AUTHORIZED", Callback, "AUTHORIZED"),
        ("payment", "REFUSED", Callback, "DECLINED_RETRYABLE"),
        ("capture", "SUCCESS", Callback, "SUCCESS"),
        ("capture", "FAILED", Callback, "AUTHORIZED"),
        ("void", "SUCCESS", Callback, "CLOSED"),
        ("refund", "SUCCESS", RefundNotice, "SUCCESS"),
        ("refund", "FAILED", RefundNotice, "FAILED"),
        ("refund", "PROCESSING", RefundNotice, "PENDING"),
        ("dispute", "PROCESSING", Dispute, "OPEN"),
        ("dispute", "SUCCESS", Dispute, "WON"),
        ("dispute", "FAILED", Dispute, "LOST"),
        ("card", "SUCCESS", CardPosting, "REFUND"),
    ],
)
def test_what_the_simulator_tells_is_verified_and_understood(about: str, word: str, kind: type, status: str):
    event_ = told(fact(about, word, operation_no="N1", operation_transaction="x1"))
    assert isinstance(event_, kind)
    assert (event_.status, event_.amount, event_.currency) == (status, 1099, "USD")


def generated(number: int) -> tuple[bytes, str]:
    """A webhook and its secret, of no two the same."""
    text = hashlib.sha256(f"{number}".encode()).hexdigest()
    obj = intent("succeeded", id=f"pi_{text}", amount_received=number, description="é\u2028\U0001f600" * (number % 7))
    body = json.dumps(
        json.loads(event("payment_intent.succeeded", obj)), ensure_ascii=number % 2 == 0, indent=number % 5 or None
    )
    return body.encode() + b"\n" * (number % 3), f"whsec_{text}"


def test_the_official_library_and_we_accept_a_thousand_messages_of_each_other():
    for number in range(1000):
        body, secret = generated(number)
        theirs = official.WebhookSignature._compute_signature(f"{NOW}.{body.decode()}", secret)
        verify({"Stripe-Signature": f"t={NOW},v1={theirs}"}, body, (secret,))
        ours = signed(secret, body, NOW)["Stripe-Signature"]
        assert official.WebhookSignature.verify_header(body.decode(), ours, secret, tolerance=None)
        with pytest.raises(official.SignatureVerificationError):
            official.WebhookSignature.verify_header(body.decode(), ours, secret + "x", tolerance=None)


def test_unlike_the_official_library_we_refuse_a_time_far_ahead_because_it_could_be_replayed_for_long():
    ahead = int(datetime.now(UTC).timestamp()) + 86_400
    value = signed(KEY, BODY, ahead)["Stripe-Signature"]
    assert official.WebhookSignature.verify_header(BODY.decode(), value, KEY, tolerance=300)
    with pytest.raises(Stale):
        verify({"Stripe-Signature": value}, at=ahead - 86_400)


def test_unlike_the_official_library_we_refuse_a_header_with_two_times_because_only_one_was_signed():
    value = f"t={NOW},t={NOW},v1={sign(BODY)}"
    assert official.WebhookSignature.verify_header(BODY.decode(), value, KEY, tolerance=None)
    with pytest.raises(Malformed):
        verify({"Stripe-Signature": value})


BODIES = [
    event(kind, obj)
    for kind, obj in (
        ("payment_intent.succeeded", intent("succeeded", amount_received=1)),
        ("charge.refunded", charge("succeeded", refunds={"data": [refund("succeeded")]})),
        ("refund.failed", refund("failed")),
        ("charge.dispute.closed", dispute("lost")),
        ("charge.expired", charge("failed", captured=False)),
        ("issuing_transaction.created", entry("capture", -1)),
    )
]
ODD: list[Any] = [
    None,
    True,
    -1,
    0,
    2**53,
    2**70,
    1.5,
    float("nan"),
    "",
    "\ud800",
    "\u0000",
    "x" * 300,
    [],
    [1],
    {},
    {"id": 7},
]


@st.composite
def hostile(draw: st.DrawFn) -> bytes:
    """Arbitrary bytes, or a good body with some bytes or a field of it replaced."""
    body = draw(st.sampled_from(BODIES))
    how = draw(st.integers(0, 2))
    if how == 0:
        return draw(st.binary(max_size=200))
    if how == 1:
        place, size = draw(st.integers(0, len(body))), draw(st.integers(0, 8))
        return body[:place] + draw(st.binary(max_size=8)) + body[place + size :]
    plain = json.loads(body)
    at = draw(st.sampled_from([plain, plain["data"]["object"]]))
    at[draw(st.sampled_from(sorted(at)))] = draw(st.sampled_from(ODD))
    return json.dumps(plain).encode()


@settings(max_examples=2000, deadline=None, suppress_health_check=list(HealthCheck))
@given(hostile(), st.one_of(st.none(), st.text(st.characters(max_codepoint=255), max_size=120)))
def test_whatever_comes_is_accepted_or_refused_by_name_and_what_is_mapped_can_be_stored(body: bytes, value: str | None):
    value = signed(KEY, body, NOW)["Stripe-Signature"] if value is None else value
    came = received({"Stripe-Signature": value}, body)
    try:
        stripe.ADAPTER.verify(live(KEY), came)
    except Refused:
        return
    for one in stripe.ADAPTER.events(live(KEY), came, CONTRACT):
        assert msgspec.json.decode(msgspec.json.encode(one.event), type=EVERY_INPUT) == one.event
        assert one.event.order_id or one.references or isinstance(one.event, Unmapped)


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="no public samples beside this checkout")
def test_every_published_vector_verifies_and_one_flipped_byte_does_not():
    for vector in json.loads((SAMPLES / "signature_vectors.json").read_bytes()):
        body, value = (SAMPLES / vector["body_file"]).read_bytes(), vector["header"]
        at = int(value.split(",")[0].removeprefix("t="))
        verify({"Stripe-Signature": value}, body, (vector["secret"],), at)
        for place in range(len(body)):
            flipped = body[:place] + bytes([body[place] ^ 1]) + body[place + 1 :]
            with pytest.raises(BadSignature):
                verify({"Stripe-Signature": value}, flipped, (vector["secret"],), at)
        with pytest.raises(Stale):
            verify({"Stripe-Signature": value}, body, (vector["secret"],), at - timedelta(days=1).total_seconds())


def test_the_same_seed_makes_the_same_keys():
    assert secrets(7) == secrets(7)
    assert secrets(7) != secrets(8)
    assert isinstance(SECRETS, Secrets)
