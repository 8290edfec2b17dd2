"""`concord ingest` up to the broker: what it maps, what it refuses, where secrets may come from."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from streams.channels import registry
from streams.channels.contracts import shipped
from streams.cli.ingest import ingest
from streams.simulator import stripe, wechatpay
from streams.simulator.dialect import Fact

if TYPE_CHECKING:
    from pathlib import Path

NOW = "2025-03-03T10:00:00Z"
MOMENT = datetime(2025, 3, 3, 10, 0, tzinfo=UTC)
AT = int(MOMENT.timestamp())
CHINESE = ("alipay", "wechatpay", "unionpay")
SECRETS, CREDENTIALS = stripe.secrets(1)
PAID: dict[str, Any] = {
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
        self.body, self.headers, self.credentials = folder / "body", folder / "headers", folder / "credentials"
        self.body.write_bytes(body)
        self.sent = stripe.signed(SECRETS.webhook_secret, body, AT) | {"Cookie": "x"}
        self.headers.write_text(json.dumps(self.sent))
        self.credentials.write_text(json.dumps(CREDENTIALS))

    def ingest(self, *options: str, at: str = NOW, **environment: str) -> tuple[int, str]:
        arguments = ["--channel", "stripe", "--account", "acct_1", "--headers", str(self.headers), "--at", at]
        arguments += ["--credentials", str(self.credentials), *options, str(self.body)]
        result = CliRunner().invoke(ingest, arguments, env=environment)
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
    assert "references" not in event


def test_with_json_an_event_is_one_line(delivery: Delivery):
    code, output = delivery.ingest("--dry-run", "--format", "json")
    assert (code, output.count("\n")) == (0, 1)
    assert json.loads(output)["amount"] == 1099


def test_headers_may_be_the_lines_as_received(delivery: Delivery):
    lines = "".join(f"{name}: {value}\r\n" for name, value in delivery.sent.items())
    delivery.headers.write_bytes(f"POST /callbacks HTTP/1.1\r\n{lines}\r\n".encode())
    assert delivery.ingest("--dry-run")[0] == 0


def test_a_header_that_came_twice_may_be_a_list(delivery: Delivery):
    delivery.headers.write_text(json.dumps(delivery.sent | {"X-Twice": ["a", "b"]}))
    code, output = delivery.ingest("--dry-run")
    assert (code, json.loads(output)["raw"]["headers"]["x-twice"]) == (0, "a, b")


def test_a_secret_may_come_from_the_environment(delivery: Delivery):
    delivery.credentials.write_text("webhook_secrets: ['whsec_old', 'env:HOOK']\n")
    assert delivery.ingest("--dry-run", HOOK=SECRETS.webhook_secret)[0] == 0


@pytest.mark.parametrize("at", [str(AT), "2025-03-03T18:00:00+08:00"])
def test_the_time_of_receipt_may_be_unix_seconds_or_of_another_zone(delivery: Delivery, at: str):
    code, output = delivery.ingest("--dry-run", at=at)
    assert (code, json.loads(output)["received_at"]) == (0, NOW)


@pytest.mark.parametrize(
    ("at", "message"),
    [("today", "is not RFC 3339"), ("2025-03-03T10:00:00", "has no zone")],
)
def test_a_time_that_cannot_be_read_is_wrong_usage(delivery: Delivery, at: str, message: str):
    code, output = delivery.ingest("--dry-run", at=at)
    assert (code, message in output) == (2, True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("webhook_secrets: ['env:HOOK_OF_NOBODY']", "variable HOOK_OF_NOBODY is empty"),
        ("{}", "webhook_secrets: it is empty"),
        ("secret: x", "field `secret`"),
        ("- x", "Expected `object`"),
    ],
)
def test_credentials_that_cannot_be_used_are_wrong_usage(delivery: Delivery, text: str, message: str):
    delivery.credentials.write_text(text)
    code, output = delivery.ingest("--dry-run")
    assert code == 2
    assert message in " ".join(output.split())


REFUSALS = [
    (lambda delivery: delivery.body.write_bytes(delivery.body.read_bytes() + b"\n"), "BadSignature", "Stripe-Signature"),
    (lambda delivery: delivery.credentials.write_text("webhook_secrets: [whsec_x]"), "BadSignature", "Stripe-Signature"),
    (lambda delivery: delivery.headers.write_bytes(b"Host: x\n"), "Malformed", "Stripe-Signature"),
    (lambda delivery: delivery.headers.write_bytes(b"{}"), "Malformed", "Stripe-Signature"),
    (lambda delivery: delivery.headers.write_bytes(b'{"a": 1}'), "Malformed", "headers"),
    (lambda delivery: delivery.headers.write_bytes(b"{\xff"), "Malformed", "headers"),
    (lambda delivery: delivery.headers.write_bytes(b"\x00\xff"), "Malformed", "headers, line 1"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "kind", "field"), REFUSALS)
def test_a_refused_notice_exits_with_three_and_no_secret_in_its_message(
    delivery: Delivery, change, kind: str, field: str
):
    change(delivery)
    code, output = delivery.ingest()
    assert code == 3
    assert output.startswith(f"refused: {kind}: {field}: ")
    assert SECRETS.webhook_secret not in output
    code, output = delivery.ingest("--dry-run", "--format", "json")
    said = json.loads(output)
    assert (code, said["refused"], said["field"], set(said)) == (3, kind, field, {"refused", "field", "problem", "fix"})


@pytest.mark.parametrize("at", ["2025-03-03T10:05:01Z", "2025-03-03T09:54:59Z"])
def test_an_old_notice_and_one_of_the_future_are_refused_as_stale(delivery: Delivery, at: str):
    code, output = delivery.ingest(at=at)
    assert (code, output.startswith("refused: Stale: ")) == (3, True)


def test_a_notice_too_large_for_the_topic_is_refused_before_it_is_sent(tmp_path: Path):
    large = Delivery(tmp_path, json.dumps(PAID | {"padding": "x" * 1_000_000}).encode())
    code, output = large.ingest(CONCORD_KAFKA="127.0.0.1:1")
    assert (code, output.startswith("refused: Malformed: body: the record has ")) == (3, True)


def test_without_a_broker_the_notice_is_not_stored_and_says_so(delivery: Delivery):
    code, output = delivery.ingest(CONCORD_KAFKA="127.0.0.1:1")
    assert code == 4
    assert "not stored: " in output


def without_order() -> dict[str, Any]:
    return PAID | {"data": {"object": PAID["data"]["object"] | {"metadata": {}}}}


def test_an_event_whose_order_must_be_looked_up_says_its_references(tmp_path: Path):
    code, output = Delivery(tmp_path, json.dumps(without_order()).encode()).ingest("--dry-run", "--format", "json")
    event = json.loads(output)
    assert (code, event["order_id"]) == (0, "")
    assert event["references"] == [{"kind": "transaction", "value": "pi_1", "account": "stripe:acct_1"}]


def test_an_event_whose_order_is_not_known_is_not_stored(tmp_path: Path):
    code, output = Delivery(tmp_path, json.dumps(without_order()).encode()).ingest(CONCORD_KAFKA="127.0.0.1:1")
    assert code == 4
    assert "not stored: its order is not in it" in output
    assert "transaction/stripe:acct_1/pi_1" in output


def test_an_order_that_was_looked_up_by_hand_may_be_given(tmp_path: Path):
    lost = Delivery(tmp_path, json.dumps(without_order()).encode())
    code, output = lost.ingest("--dry-run", "--order-id", "O7")
    assert (code, json.loads(output)["order_id"]) == (0, "O7")


def test_the_order_in_the_notice_stands_against_a_given_one(delivery: Delivery):
    assert json.loads(delivery.ingest("--dry-run", "--order-id", "O7")[1])["order_id"] == "O1"


@pytest.mark.parametrize("channel", registry.CHANNELS)
def test_a_notice_of_every_channel_goes_in_by_the_one_command(channel: str, delivery: Delivery):
    dialect = registry.dialect(channel)
    theirs, credentials = dialect.secrets(7)
    fact = Fact(
        about="card" if channel in ("marqeta", "lithic") else "payment", word="SUCCESS", event_id="e-1", order_id="O1",
        payment_no="P1", transaction="42", amount=100, currency="CNY" if channel in CHINESE else "USD", at=MOMENT,
    )  # fmt: skip
    sent = dialect.notice(theirs, fact, "acct_1", MOMENT, shipped()[channel])
    delivery.body.write_bytes(sent.body)
    delivery.headers.write_text(json.dumps(sent.headers))
    delivery.credentials.write_text(json.dumps(credentials))
    code, output = delivery.ingest("--dry-run", "--format", "json", "--channel", channel)
    events = [said for line in output.splitlines() if (said := json.loads(line))["type"] != "unmapped"]
    assert (code, [event["amount"] for event in events]) == (0, [100])
    assert all(event["order_id"] or event["references"] for event in events)
    delivery.body.write_bytes(sent.body.replace(b"a", b"b").replace(b"1", b"2"))
    code, output = delivery.ingest("--dry-run", "--format", "json", "--channel", channel)
    assert (code, "refused" in json.loads(output)) == (3, True)


@pytest.fixture
def sealed(tmp_path: Path) -> Delivery:
    """A WeChat Pay notice in files."""
    theirs, credentials = wechatpay.secrets(1)
    fact = Fact(
        about="payment", word="SUCCESS", event_id="n-1", order_id="O1", payment_no="P1", transaction="42", amount=1,
        currency="CNY", at=MOMENT,
    )  # fmt: skip
    sent = wechatpay.DIALECT.notice(theirs, fact, "acct_1", MOMENT, shipped()["wechatpay"])
    made = Delivery(tmp_path, sent.body)
    made.headers.write_text(json.dumps(sent.headers))
    made.credentials.write_text(json.dumps(credentials))
    return made


def test_a_sealed_notice_is_verified_opened_and_mapped(sealed: Delivery):
    code, output = sealed.ingest("--dry-run", "--channel", "wechatpay")
    event = json.loads(output)
    assert code == 0
    assert (event["order_id"], event["channel"], event["status"]) == ("O1", "wechatpay:acct_1", "SUCCESS")


def test_a_key_that_opens_nothing_refuses_so_that_the_notice_comes_again(sealed: Delivery):
    credentials = json.loads(sealed.credentials.read_text()) | {"api_v3_keys": ["x" * 32]}
    sealed.credentials.write_text(json.dumps(credentials))
    code, output = sealed.ingest("--channel", "wechatpay")
    assert (code, output.startswith("refused: BadSignature: resource.ciphertext")) == (3, True)
