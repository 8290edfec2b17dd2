"""`concord ingest` up to the broker: what it maps, what it refuses, where secrets may come from."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from streams.cli.ingest import ingest

if TYPE_CHECKING:
    from pathlib import Path

AT = 1_740_996_000
NOW = "2025-03-03T10:00:00Z"
KEY = "whsec_own_test_secret"
API_KEY = b"own-test-apiv3-key-of-32-bytes!!"
PAID = {
    "id": "evt_1",
    "type": "payment_intent.succeeded",
    "created": AT,
    "data": {
        "object": {
            "id": "pi_1",
            "status": "succeeded",
            "amount": 1099,
            "amount_received": 1099,
            "currency": "usd",
            "metadata": {"order_id": "O1", "payment_no": "P1"},
        }
    },
}


class Delivery:
    """A webhook in files, as an operator would have saved it."""

    def __init__(self, folder: Path, body: bytes) -> None:
        signature = hmac.new(KEY.encode(), f"{AT}.".encode() + body, hashlib.sha256).hexdigest()
        self.body, self.headers, self.key = folder / "body", folder / "headers", folder / "key"
        self.body.write_bytes(body)
        self.headers.write_bytes(
            f"POST / HTTP/1.1\r\nStripe-Signature: t={AT},v1={signature}\r\nCookie: x\r\n\r\n".encode()
        )
        self.key.write_text(KEY + "\n")

    def ingest(self, *options: str, channel: str = "stripe", key: bool = True, **environment: str) -> tuple[int, str]:
        arguments = ["--channel", channel, "--account", "acct_1", "--headers", str(self.headers), "--now", NOW]
        arguments += ["--key-file", str(self.key)] if key else []
        result = CliRunner().invoke(ingest, [*arguments, *options, str(self.body)], env=environment)
        return result.exit_code, result.output


@pytest.fixture
def delivery(tmp_path: Path) -> Delivery:
    return Delivery(tmp_path, json.dumps(PAID).encode())


def test_a_dry_run_prints_the_mapped_event_and_needs_no_broker(delivery: Delivery):
    code, output = delivery.ingest("--dry-run", CONCORD_KAFKA="127.0.0.1:1")
    event = json.loads(output)
    assert code == 0
    assert (event["type"], event["order_id"], event["status"]) == ("callback", "O1", "SUCCESS")
    assert event["received_at"] == NOW
    assert "cookie" not in event["raw"]["headers"]


def test_a_secret_may_come_from_the_environment(delivery: Delivery):
    code, _ = delivery.ingest("--dry-run", "--secret-env", "HOOK", key=False, HOOK=f"whsec_old {KEY}")
    assert code == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "no secret"),
        (("--secret-env", "HOOK_OF_NOBODY"), "the variable HOOK_OF_NOBODY is empty"),
        (("--secret-env", "HOOK", "--now", "today"), "is not RFC 3339"),
        (("--secret-env", "HOOK", "--now", "2025-03-03T10:00:00"), "has no zone"),
        (("--secret-env", "HOOK", "--public-key", "PUB_KEY_ID_1"), "use ID=FILE"),
        (("--secret-env", "HOOK", "--certificate", __file__), "not a PEM certificate"),
    ],
)
def test_wrong_usage_says_what_to_give(delivery: Delivery, options: tuple[str, ...], message: str):
    code, output = delivery.ingest("--dry-run", *options, key=False, HOOK=KEY)
    assert code == 2
    assert message in output


def test_wechat_pay_needs_a_platform_key(delivery: Delivery):
    code, output = delivery.ingest("--dry-run", channel="wechatpay")
    assert (code, "no platform key" in output) == (2, True)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda delivery: delivery.body.write_bytes(delivery.body.read_bytes() + b"\n"), "BadSignature"),
        (lambda delivery: delivery.key.write_text("whsec_other"), "BadSignature"),
        (lambda delivery: delivery.headers.write_bytes(b"Host: x\n"), "Malformed"),
        (lambda delivery: delivery.headers.write_bytes(b"\x00\xff"), "Malformed"),
    ],
)
def test_a_refused_notice_exits_with_three_and_no_secret_in_its_message(delivery: Delivery, change, name: str):
    change(delivery)
    code, output = delivery.ingest()
    assert code == 3
    assert output.startswith(f"refused: {name}: ")
    assert KEY not in output


def test_an_old_notice_is_refused_as_stale(delivery: Delivery):
    code, output = delivery.ingest("--now", "2025-03-03T10:05:01Z")
    assert (code, output.startswith("refused: Stale: ")) == (3, True)


def test_a_notice_too_large_for_the_topic_is_refused_before_it_is_sent(tmp_path: Path):
    large = Delivery(tmp_path, json.dumps(PAID | {"padding": "x" * 1_000_000}).encode())
    code, output = large.ingest(CONCORD_KAFKA="127.0.0.1:1")
    assert (code, output.startswith("refused: body: the record has ")) == (3, True)


def test_without_a_broker_the_notice_is_not_stored_and_says_so(delivery: Delivery):
    code, output = delivery.ingest(CONCORD_KAFKA="127.0.0.1:1")
    assert code == 4
    assert "not stored: " in output


class Sealed:
    """A WeChat Pay notice in files, with its platform certificate and key."""

    def __init__(self, folder: Path) -> None:
        paid = {"mchid": "1900000001", "out_trade_no": "P1", "transaction_id": "42", "trade_state": "SUCCESS"}
        plain = json.dumps(paid | {"amount": {"total": 1, "currency": "CNY"}}).encode()
        sealed = base64.b64encode(AESGCM(API_KEY).encrypt(b"0123456789ab", plain, b"")).decode()
        body = json.dumps(
            {
                "id": "n-1",
                "event_type": "TRANSACTION.SUCCESS",
                "resource": {"algorithm": "AEAD_AES_256_GCM", "ciphertext": sealed, "nonce": "0123456789ab"},
            }
        ).encode()
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        signature = key.sign(f"{AT}\nn\n".encode() + body + b"\n", padding.PKCS1v15(), hashes.SHA256())
        lines = [f"Wechatpay-Timestamp: {AT}", "Wechatpay-Nonce: n", "Wechatpay-Serial: PUB_KEY_ID_1"]
        lines += [f"Wechatpay-Signature: {base64.b64encode(signature).decode()}"]
        self.body, self.headers, self.key, self.public = (folder / name for name in ("body", "headers", "key", "pem"))
        self.body.write_bytes(body)
        self.headers.write_text("\r\n".join(lines))
        self.key.write_bytes(API_KEY)
        self.public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))

    def ingest(self) -> tuple[int, str]:
        arguments = ["--channel", "wechatpay", "--account", "1900000001", "--headers", str(self.headers), "--now", NOW]
        arguments += ["--key-file", str(self.key), "--public-key", f"PUB_KEY_ID_1={self.public}", "--dry-run"]
        result = CliRunner().invoke(ingest, [*arguments, str(self.body)])
        return result.exit_code, result.output


def test_a_sealed_notice_is_verified_opened_and_mapped(tmp_path: Path):
    code, output = Sealed(tmp_path).ingest()
    event = json.loads(output)
    assert code == 0
    assert (event["order_id"], event["channel"], event["status"]) == ("P1", "wechatpay:1900000001", "SUCCESS")


def test_a_key_of_the_wrong_length_is_wrong_usage(tmp_path: Path):
    notice = Sealed(tmp_path)
    notice.key.write_bytes(API_KEY[:16])
    code, output = notice.ingest()
    assert (code, "not 32 bytes long" in output) == (2, True)


def test_a_key_that_opens_nothing_refuses_so_that_the_notice_comes_again(tmp_path: Path):
    notice = Sealed(tmp_path)
    notice.key.write_bytes(API_KEY[::-1])
    code, output = notice.ingest()
    assert (code, output.startswith("refused: BadSignature: resource.ciphertext")) == (3, True)


def test_a_secret_that_is_no_text_is_wrong_usage(delivery: Delivery):
    delivery.key.write_bytes(b"\xff\xfe")
    code, output = delivery.ingest()
    assert (code, "the secret is not text" in output) == (2, True)
