"""Samples and signature vectors that the channels or their libraries published, where a copy lies beside the checkout."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from streams.channels import stripe, wechatpay, wechatpay_events
from streams.channels.adapter import Received
from streams.channels.contracts import shipped
from streams.channels.verification import BadSignature, Stale
from streams.cli.ingest import ingest
from streams.domain.events import Callback, Unmapped

SAMPLES = Path(__file__).parents[4] / "shared" / "fixtures"

pytestmark = pytest.mark.skipif(not SAMPLES.is_dir(), reason="no public samples beside this checkout")


def sample(channel: str, name: str) -> bytes:
    return (SAMPLES / channel / name).read_bytes()


def vector(channel: str, number: int) -> dict:
    return json.loads(sample(channel, "signature_vectors.json"))[number]


def received(headers: dict[str, str], body: bytes, at: float, account: str = "acct_1") -> Received:
    lowered = {name.lower(): value for name, value in headers.items()}
    return Received(lowered, body, account, datetime.fromtimestamp(at, UTC))


def test_the_published_stripe_vector_verifies_over_its_raw_bytes_only():
    published = vector("stripe", 0)
    body, headers = sample("stripe", published["body_file"]), {"Stripe-Signature": published["header"]}
    keys = stripe.keys(stripe.Credentials(webhook_secrets=[published["secret"]]))
    stripe.verify(keys, received(headers, body, 1533204620))
    for other in (body.rstrip(b"\n"), body.replace(b"\n", b"\r\n")):
        with pytest.raises(BadSignature):
            stripe.verify(keys, received(headers, other, 1533204620))
    with pytest.raises(Stale):
        stripe.verify(keys, received(headers, body, 1533204620 - 86_400))
    [one] = stripe.ADAPTER.events(keys, received(headers, body, 1533204620, "acct_123"), shipped()["stripe"])
    assert isinstance(one.event, Unmapped)
    assert one.event.event_id == "evt_123"


def of_stripe(kind: str, obj: dict[str, Any]) -> Any:
    body = json.dumps({"id": "evt_1", "type": kind, "created": 1, "data": {"object": obj}}).encode()
    keys = stripe.keys(stripe.Credentials(webhook_secrets=["whsec_x"]))
    [one] = stripe.ADAPTER.events(keys, received({}, body, 1), shipped()["stripe"])
    return one.event


@pytest.mark.parametrize(
    ("resource", "kind", "status"),
    [
        ("resource_payment_intent.json", "payment_intent.payment_failed", "DECLINED_RETRYABLE"),
        ("resource_charge.json", "charge.succeeded", "AUTHORIZED"),
    ],
)
def test_the_published_stripe_objects_are_mapped(resource: str, kind: str, status: str):
    obj = json.loads(sample("stripe", resource)) | {"metadata": {"order_id": "O1", "payment_no": "P1"}}
    event = of_stripe(kind, obj)
    assert isinstance(event, Callback)
    assert (event.status, event.currency) == (status, "USD")


@pytest.mark.parametrize(
    ("resource", "kind", "made", "status"),
    [
        ("resource_refund.json", "refund.updated", "RefundNotice", "SUCCESS"),
        ("resource_issuing.transaction.json", "issuing_transaction.created", "CardPosting", "PURCHASE"),
        ("resource_dispute.json", "charge.dispute.created", "Unmapped", None),
        ("resource_issuing.authorization.json", "issuing_authorization.created", "Unmapped", None),
        ("resource_payout.json", "payout.paid", "Unmapped", None),
    ],
)
def test_the_published_objects_beside_payments_are_what_they_are(
    resource: str, kind: str, made: str, status: str | None
):
    event = of_stripe(kind, json.loads(sample("stripe", resource)))
    assert (type(event).__name__, getattr(event, "status", None)) == (made, status)


@pytest.mark.parametrize("number", [0, 2])
def test_the_published_wechat_pay_notices_verify(number: int):
    published = vector("wechatpay", number)
    body, headers = sample("wechatpay", published["body_file"]), published["headers"]
    at = int(headers["Wechatpay-Timestamp"])
    key = wechatpay.key_of_pem(sample("wechatpay", published["cert_file"]))
    keys = wechatpay.Keys((), {headers["Wechatpay-Serial"]: key}, None)
    wechatpay.verify(keys, received(headers, body, at))
    with pytest.raises(BadSignature):
        wechatpay.verify(keys, received(headers, body + b"\n", at))
    with pytest.raises(Stale):
        wechatpay.verify(keys, received(headers, body, at + 300))


def test_the_published_certificate_carries_the_serial_of_its_notice():
    published = vector("wechatpay", 0)
    serial, _ = wechatpay.key_of_certificate(sample("wechatpay", published["cert_file"]))
    assert serial == published["headers"]["Wechatpay-Serial"]


def test_the_published_paid_notice_opens_to_its_plain_text():
    published = vector("wechatpay", 2)
    body, key = sample("wechatpay", published["body_file"]), published["apiv3_key"].encode()
    resource = json.loads(body)["resource"]
    opened = wechatpay_events.decrypt(
        wechatpay_events.Resource(
            resource["ciphertext"], resource["nonce"], associated_data=resource["associated_data"]
        ),
        [key],
    )
    assert json.loads(opened) == json.loads(sample("wechatpay", published["plaintext_file"]))
    keys = wechatpay.Keys((key,), {}, None)
    [one] = wechatpay.ADAPTER.events(keys, received({}, body, 1, "1601959334"), shipped()["wechatpay"])
    event = one.event
    assert isinstance(event, Callback)
    assert (event.order_id, event.payment_no) == ("", "S20210128170702357723")
    assert (event.status, event.amount, event.currency) == ("SUCCESS", 1, "CNY")
    assert event.transaction == "4200000925202101284997714292"


@pytest.mark.parametrize("number", [0, 1])
def test_the_published_vectors_with_a_short_key_open_only_when_told_so(number: int):
    published = vector("wechatpay", number)
    resource = json.loads(sample("wechatpay", "go_notify_body.json"))["resource"] if number == 0 else published
    sealed = wechatpay_events.Resource(
        resource["ciphertext"], resource["nonce"], associated_data=resource["associated_data"]
    )
    key = (published.get("key") or published["apiv3_key"]).split(" ")[0]
    certificate = sample("wechatpay", "go_platform_cert.pem").decode()
    fields: dict[str, Any] = {"api_v3_keys": [key], "platform_certificates": [certificate]}
    with pytest.raises(ValueError, match="not 32 bytes long"):
        wechatpay.keys(wechatpay.Credentials(**fields))
    keys = wechatpay.keys(wechatpay.Credentials(**fields, allow_short_keys=True))
    assert wechatpay_events.decrypt(sealed, keys.api_keys).decode() == published["plaintext"]


def test_the_published_paid_notice_goes_in_by_the_command(tmp_path: Path):
    published = vector("wechatpay", 2)
    (tmp_path / "headers").write_text(json.dumps(published["headers"]))
    certificate = f"file:{SAMPLES / 'wechatpay' / published['cert_file']}"
    credentials = {
        "api_v3_keys": [published["apiv3_key"]],
        "platform_public_keys": {published["headers"]["Wechatpay-Serial"]: certificate},
    }
    (tmp_path / "credentials").write_text(json.dumps(credentials))
    arguments = ["--channel", "wechatpay", "--account", "1601959334", "--headers", str(tmp_path / "headers")]
    arguments += ["--credentials", str(tmp_path / "credentials"), "--at", "2021-01-23T02:18:51Z"]
    arguments += ["--dry-run", str(SAMPLES / "wechatpay" / published["body_file"])]
    result = CliRunner().invoke(ingest, arguments)
    assert result.exit_code == 0, result.output
    assert json.loads(result.output)["transaction"] == "4200000925202101284997714292"
