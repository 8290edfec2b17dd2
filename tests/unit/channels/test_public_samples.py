"""Samples and signature vectors that the channels or their libraries published, where a copy lies beside the checkout."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from streams.channels import stripe, wechatpay
from streams.channels.verification import BadSignature, Stale
from streams.cli.ingest import ingest
from streams.domain.events import Callback, Unmapped

SAMPLES = Path(__file__).parents[4] / "shared" / "fixtures"

pytestmark = pytest.mark.skipif(not SAMPLES.is_dir(), reason="no public samples beside this checkout")


def sample(channel: str, name: str) -> bytes:
    return (SAMPLES / channel / name).read_bytes()


def vector(channel: str, number: int) -> dict:
    return json.loads(sample(channel, "signature_vectors.json"))[number]


def test_the_published_stripe_vector_verifies_over_its_raw_bytes_only():
    published = vector("stripe", 0)
    body, headers = sample("stripe", published["body_file"]), {"Stripe-Signature": published["header"]}
    stripe.verify(headers, body, [published["secret"]], 1533204620)
    for other in (body.rstrip(b"\n"), body.replace(b"\n", b"\r\n")):
        with pytest.raises(BadSignature):
            stripe.verify(headers, other, [published["secret"]], 1533204620)
    with pytest.raises(Stale):
        stripe.verify(headers, body, [published["secret"]], 1533204620 - 86_400)
    [event] = stripe.to_events(headers, body, "acct_123")
    assert isinstance(event, Unmapped)
    assert event.event_id == "evt_123"


@pytest.mark.parametrize(
    ("resource", "kind", "status"),
    [
        ("resource_payment_intent.json", "payment_intent.payment_failed", "DECLINED_RETRYABLE"),
        ("resource_charge.json", "charge.succeeded", "AUTHORIZED"),
    ],
)
def test_the_published_stripe_objects_are_mapped(resource: str, kind: str, status: str):
    obj = json.loads(sample("stripe", resource)) | {"metadata": {"order_id": "O1", "payment_no": "P1"}}
    body = json.dumps({"id": "evt_1", "type": kind, "created": 1, "livemode": False, "data": {"object": obj}}).encode()
    [event] = stripe.to_events({}, body, "acct_1")
    assert isinstance(event, Callback)
    assert (event.status, event.currency, event.livemode) == (status, "USD", False)


@pytest.mark.parametrize("number", [0, 2])
def test_the_published_wechat_pay_notices_verify(number: int):
    published = vector("wechatpay", number)
    body, headers = sample("wechatpay", published["body_file"]), published["headers"]
    at = int(headers["Wechatpay-Timestamp"])
    key = wechatpay.key_of_pem(sample("wechatpay", published["cert_file"]))
    wechatpay.verify(headers, body, {headers["Wechatpay-Serial"]: key}, at)
    with pytest.raises(BadSignature):
        wechatpay.verify(headers, body + b"\n", {headers["Wechatpay-Serial"]: key}, at)
    with pytest.raises(Stale):
        wechatpay.verify(headers, body, {headers["Wechatpay-Serial"]: key}, at + 300)


def test_the_published_certificate_carries_the_serial_of_its_notice():
    published = vector("wechatpay", 0)
    serial, _ = wechatpay.key_of_certificate(sample("wechatpay", published["cert_file"]))
    assert serial == published["headers"]["Wechatpay-Serial"]


def test_the_published_paid_notice_opens_to_its_plain_text():
    published = vector("wechatpay", 2)
    body, key = sample("wechatpay", published["body_file"]), published["apiv3_key"].encode()
    resource = json.loads(body)["resource"]
    opened = wechatpay.decrypt(
        wechatpay.Resource(resource["ciphertext"], resource["nonce"], associated_data=resource["associated_data"]),
        [key],
    )
    assert json.loads(opened) == json.loads(sample("wechatpay", published["plaintext_file"]))
    [event] = wechatpay.to_events(published["headers"], body, "1601959334", api_keys=[key])
    assert isinstance(event, Callback)
    assert (event.order_id, event.payment_no) == ("S20210128170702357723", "S20210128170702357723")
    assert (event.status, event.amount, event.currency) == ("SUCCESS", 1, "CNY")
    assert event.transaction == "4200000925202101284997714292"


@pytest.mark.parametrize("number", [0, 1])
def test_the_published_vectors_with_a_short_key_open_only_when_told_so(number: int):
    published = vector("wechatpay", number)
    resource = json.loads(sample("wechatpay", "go_notify_body.json"))["resource"] if number == 0 else published
    sealed = wechatpay.Resource(resource["ciphertext"], resource["nonce"], associated_data=resource["associated_data"])
    key = (published.get("key") or published["apiv3_key"]).split(" ")[0].encode()
    assert wechatpay.decrypt(sealed, [key], key_size=16).decode() == published["plaintext"]
    with pytest.raises(ValueError, match="not 32 bytes long"):
        wechatpay.decrypt(sealed, [key])


def test_the_published_paid_notice_goes_in_by_the_command(tmp_path: Path):
    published = vector("wechatpay", 2)
    (tmp_path / "headers").write_text("\n".join(f"{name}: {value}" for name, value in published["headers"].items()))
    (tmp_path / "key").write_text(published["apiv3_key"])
    certificate = f"{published['headers']['Wechatpay-Serial']}={SAMPLES / 'wechatpay' / published['cert_file']}"
    arguments = ["--channel", "wechatpay", "--account", "1601959334", "--headers", str(tmp_path / "headers")]
    arguments += ["--key-file", str(tmp_path / "key"), "--public-key", certificate, "--now", "2021-01-23T02:18:51Z"]
    arguments += ["--dry-run", str(SAMPLES / "wechatpay" / published["body_file"])]
    result = CliRunner().invoke(ingest, arguments)
    assert result.exit_code == 0, result.output
    assert json.loads(result.output)["transaction"] == "4200000925202101284997714292"
