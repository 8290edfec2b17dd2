"""Adyen's and Lithic's published samples and signature vectors, where a copy lies beside the checkout."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from streams.channels import adyen, lithic
from streams.channels.adapter import Received
from streams.channels.contracts import shipped
from streams.channels.verification import BadSignature, Malformed, Refused
from streams.domain.events import Callback, Unmapped
from streams.simulator import adyen as simulated

SAMPLES = Path(__file__).parents[4] / "shared" / "fixtures"
NOW = datetime(2026, 3, 3, tzinfo=UTC)

pytestmark = pytest.mark.skipif(not SAMPLES.is_dir(), reason="no public samples beside this checkout")


def sample(channel: str, name: str) -> bytes:
    return (SAMPLES / channel / name).read_bytes()


def vector(channel: str, number: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(sample(channel, "signature_vectors.json"))[number]
    return found


def notified(body: bytes, account: str) -> Received:
    return Received(headers={}, body=body, account=account, at=NOW)


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("bare", [True, False])
def test_the_published_adyen_vectors_verify_and_no_changed_field_does(number: int, bare: bool):  # noqa: FBT001
    published = vector("adyen", number)
    keys = adyen.keys(adyen.Credentials(hmac_keys=[published["hmac_key_hex"]]))
    item = json.loads(sample("adyen", published["body_file"]))

    def body(one: dict[str, Any]) -> bytes:
        return json.dumps(
            one if bare else {"live": "true", "notificationItems": [{"NotificationRequestItem": one}]}
        ).encode()

    genuine = notified(body(item), item["merchantAccountCode"])
    adyen.verify(keys, genuine)
    [one] = adyen.events(keys, genuine, shipped()["adyen"])
    assert isinstance(one.event, Callback)
    assert (one.event.status, one.event.amount, one.event.payment_no) == ("SUCCESS", 1000, item["merchantReference"])
    for field in ("pspReference", "merchantAccountCode", "merchantReference", "eventCode", "success"):
        for place in range(len(item[field])):
            changed = item[field][:place] + chr(ord(item[field][place]) ^ 1) + item[field][place + 1 :]
            with pytest.raises(BadSignature):
                adyen.verify(keys, notified(body(item | {field: changed}), "AntoniStroinski"))


@pytest.mark.parametrize("name", ["authorisation-true", "capture-false", "refund-true", "chargeback"])
def test_the_published_adyen_notifications_are_mapped_when_signed_here(name: str):
    """The key of their own signatures is not published."""
    secrets, file = simulated.secrets(1)
    keys = adyen.keys(adyen.Credentials(hmac_keys=file["hmac_keys"]))
    body = sample("adyen", f"notification_{name}.json")
    [item] = [one["NotificationRequestItem"] for one in json.loads(body)["notificationItems"]]
    with pytest.raises(Refused):
        adyen.verify(keys, notified(body, item["merchantAccountCode"]))
    signed = notified(simulated.batch(secrets, [item]).body, item["merchantAccountCode"])
    adyen.verify(keys, signed)
    [one] = adyen.events(keys, signed, shipped()["adyen"])
    assert not isinstance(one.event, Unmapped)
    assert one.event.amount == item["amount"]["value"]


def test_the_published_lithic_vector_verifies_and_no_flipped_byte_does():
    published = vector("lithic", 0)
    keys = lithic.keys(lithic.Credentials(webhook_secrets=[published["secret"]]))
    body, headers = sample("lithic", published["body_file"]), published["headers"]
    at = datetime.fromtimestamp(int(headers["webhook-timestamp"]), UTC)

    def given(data: bytes, **changed: str) -> Received:
        return Received(headers=headers | changed, body=data, account="program", at=at)

    lithic.verify(keys, given(body))
    for place in range(len(body)):
        flipped = bytearray(body)
        flipped[place] ^= 1
        with pytest.raises(BadSignature):
            lithic.verify(keys, given(bytes(flipped)))
    with pytest.raises(BadSignature):
        lithic.verify(keys, given(body + b"\n"))
    with pytest.raises(Malformed):
        lithic.verify(keys, given(body, **{"webhook-signature": "v2,x"}))


def test_the_published_lithic_transaction_is_a_hold_and_posts_nothing():
    received = Received(headers={}, body=sample("lithic", "card_transaction_example0.json"), account="program", at=NOW)
    keys = lithic.keys(lithic.Credentials(webhook_secrets=[vector("lithic", 0)["secret"]]))
    [one] = lithic.events(keys, received, shipped()["lithic"])
    assert isinstance(one.event, Unmapped)
    assert one.event.event_type == "AUTHORIZATION"
