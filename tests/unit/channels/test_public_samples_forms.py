"""Public samples and signature vectors of Alipay, UnionPay and PayPal, where a copy lies beside the checkout."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlencode

import pytest

from streams.channels import alipay, forms, paypal, unionpay
from streams.channels.adapter import Received
from streams.channels.contracts import shipped
from streams.channels.verification import BadSignature, Refused, Stale
from streams.domain.events import Callback, Unmapped

SAMPLES = Path(__file__).parents[4] / "shared" / "fixtures"

pytestmark = pytest.mark.skipif(not SAMPLES.is_dir(), reason="no public samples beside this checkout")


def sample(channel: str, name: str) -> bytes:
    return (SAMPLES / channel / name).read_bytes()


def vector(channel: str) -> dict:
    [published] = json.loads(sample(channel, "signature_vectors.json"))
    return published


def notice(body: bytes, at: datetime, headers: dict[str, str] | None = None) -> Received:
    return Received(headers=headers or {}, body=body, account="shop", at=at)


def alipay_keys() -> alipay.Keys:
    public = sample("alipay", vector("alipay")["public_key_b64_file"]).decode()
    return alipay.keys(alipay.Credentials(app_id="2019073166072302", alipay_public_keys=[public]))


NOTIFIED = datetime(2019, 8, 15, 7, 56, 25, tzinfo=UTC)
CALLED_BACK = datetime(2017, 10, 30, 14, 36, 32, tzinfo=UTC)
TRANSMITTED = datetime(2015, 5, 18, 15, 45, 20, tzinfo=UTC)


def test_the_published_alipay_notice_verifies_and_says_what_was_paid():
    published, held = vector("alipay"), alipay_keys()
    body = sample("alipay", published["form_file"])
    alipay.verify(held, notice(body, NOTIFIED))
    texts = list(forms.signed_texts(forms.fields_of(body), {"sign"}, "sign_type"))
    assert texts[0].decode() == published["signed_string"]
    [one] = alipay.events(held, notice(body, NOTIFIED), shipped()["alipay"])
    assert isinstance(one.event, Callback)
    assert (one.event.status, one.event.amount, one.event.currency) == ("SUCCESS", 10, "CNY")
    assert (one.event.payment_no, one.event.transaction) == ("20190815155618536-564-57", "2019081522001468450512505578")
    assert one.event.event_time == "2019-08-15T07:56:24Z"


def test_any_changed_byte_of_the_published_alipay_notice_is_refused():
    held, form = alipay_keys(), forms.fields_of(sample("alipay", vector("alipay")["form_file"]))
    assert changed_anywhere(form, lambda body: alipay.verify(held, notice(body, NOTIFIED))) > 700


def changed_anywhere(form: forms.Form, verify) -> int:
    """Change each byte of each value in turn; each time it must be refused."""
    count = 0
    for field, value in form.items():
        for place in range(len(value)):
            changed = value[:place] + bytes([value[place] ^ 1]) + value[place + 1 :]
            with pytest.raises(Refused):
                verify(urlencode(form | {field: changed}).encode())
            count += 1
    return count


def unionpay_keys() -> unionpay.Keys:
    form = forms.fields_of(sample("unionpay", vector("unionpay")["form_file"]))
    return unionpay.keys(
        unionpay.Credentials(merchant_ids=["777290058146592"], certificates=[form["signPubKeyCert"].decode()])
    )


def test_the_published_unionpay_callback_verifies_while_its_certificate_was_valid():
    published, held = vector("unionpay"), unionpay_keys()
    body = sample("unionpay", published["form_file"])
    unionpay.verify(held, notice(body, CALLED_BACK))
    assert next(forms.signed_texts(forms.fields_of(body), {"signature"})).decode() == published["signed_string"]
    with pytest.raises(Stale, match=r"^signPubKeyCert: "):
        unionpay.verify(held, notice(body, datetime(2017, 12, 5, tzinfo=UTC)))
    [one] = unionpay.events(held, notice(body, CALLED_BACK), shipped()["unionpay"])
    assert isinstance(one.event, Unmapped)
    assert one.event.reason.startswith("txnType: 79 ")


def test_any_changed_byte_of_the_published_unionpay_callback_is_refused():
    held, form = unionpay_keys(), forms.fields_of(sample("unionpay", vector("unionpay")["form_file"]))
    assert changed_anywhere(form, lambda body: unionpay.verify(held, notice(body, CALLED_BACK))) > 2000


def paypal_keys() -> paypal.Keys:
    published = vector("paypal")
    certificates = {published["headers"]["PAYPAL-CERT-URL"]: sample("paypal", published["cert_file"]).decode()}
    return paypal.keys(paypal.Credentials(webhook_ids=[published["webhook_id"]], certificates=certificates))


def test_the_published_paypal_webhook_verifies_while_its_certificate_was_valid():
    published, held = vector("paypal"), paypal_keys()
    body, headers = sample("paypal", published["body_file"]), published["headers"]
    paypal.verify(held, notice(body, TRANSMITTED, headers))
    number, time = headers["PAYPAL-TRANSMISSION-ID"], headers["PAYPAL-TRANSMISSION-TIME"]
    assert paypal.signed_text(number, time, published["webhook_id"], body).decode() == published["signed_string"]
    with pytest.raises(Stale, match=r"^PAYPAL-CERT-URL: "):
        paypal.verify(held, notice(body, datetime(2017, 3, 23, tzinfo=UTC), headers))
    with pytest.raises(Stale, match=r"^PAYPAL-TRANSMISSION-TIME: "):
        paypal.verify(held, notice(body, datetime(2015, 5, 22, tzinfo=UTC), headers))


def test_the_published_paypal_sale_is_said_and_found_by_the_channels_numbers():
    published, held = vector("paypal"), paypal_keys()
    received = notice(sample("paypal", published["body_file"]), TRANSMITTED, published["headers"])
    [one] = paypal.events(held, received, shipped()["paypal"])
    assert isinstance(one.event, Callback)
    assert (one.event.event_id, one.event.event_type) == (
        "WH-0G2756385H040842W-5Y612302CV158622M",
        "PAYMENT.SALE.COMPLETED",
    )
    assert (one.event.status, one.event.amount, one.event.currency) == ("SUCCESS", 2000, "USD")
    assert [reference.value for reference in one.references] == ["4EU7004268015634R", "PAY-86C81811X5228590KKVNARQQ"]


def test_any_changed_byte_of_the_published_paypal_webhook_is_refused():
    published, held = vector("paypal"), paypal_keys()
    body, headers = sample("paypal", published["body_file"]), published["headers"]
    for place in range(len(body)):
        changed = body[:place] + bytes([body[place] ^ 1]) + body[place + 1 :]
        with pytest.raises(BadSignature):
            paypal.verify(held, notice(changed, TRANSMITTED, headers))
    for name, value in headers.items():
        for place in range(len(value)):
            changed_value = value[:place] + chr(ord(value[place]) ^ 1) + value[place + 1 :]
            with pytest.raises(Refused):
                paypal.verify(held, notice(body, TRANSMITTED, headers | {name: changed_value}))
