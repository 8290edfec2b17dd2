"""The payment job as users run it: `concord worker` on a real broker, JSON in, JSON out."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509 import load_pem_x509_certificate

from streams.dev import ports
from streams.domain.events import Answer, Callback, CreatePayment, StartPayment
from streams.proof import compare
from tests.support.job import Job

pytestmark = pytest.mark.kafka

FIXTURES = Path(__file__).parents[2].parent / "shared" / "fixtures"
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture
async def job(kafka, topic_prefix, tmp_path):
    found = Job(kafka.bootstrap, topic_prefix, tmp_path)
    await found.create()
    yield found
    found.end()


def begun(order: str, payment: str = "P1", channel: str = "stripe:acct_1", amount: int = 1099, currency: str = "USD"):
    about = {"order_id": order, "payment_no": payment}
    return [
        CreatePayment(
            command_id=f"{order}-c", biz_code="SHOP", channel=channel, amount=amount, currency=currency, **about
        ),
        StartPayment(command_id=f"{order}-s", **about),
    ]


def success(order: str, event: str = "E1", **more: object) -> Callback:
    fields = {"amount": 1099, "currency": "USD", "transaction": "T1", **more}
    return Callback(
        order_id=order, payment_no="P1", channel="stripe:acct_1", status="SUCCESS", event_id=event, **fields
    )


def count(number: int):
    return lambda records: len(records) >= number


async def test_one_payment_is_announced_once_with_its_evidence_and_its_trace(job):
    await job.start()
    await job.send("commands", begun("订单-1"))
    await job.send("channel-callbacks", [success("订单-1")] * 3, traceparent=TRACE)
    [announced] = await job.wait("success", count(1))
    await job.wait("decisions", count(5))
    fields, headers = json.loads(announced.value), dict(announced.headers)
    assert announced.key.decode() == fields["order_id"] == "订单-1"
    assert (fields["amount"], fields["currency"], fields["transaction"], fields["evidence"]) == (
        1099,
        "USD",
        "T1",
        "E1",
    )
    assert fields["funds_stage"] == "IN_TRANSIT"
    assert headers["ce_type"] == b"concord.payment_success"
    assert (headers["ce_id"].decode(), headers["ce_source"], headers["ce_specversion"]) == (
        fields["id"],
        b"concord",
        b"1.0",
    )
    assert headers["ce_time"].decode()[:19] == fields["decided_at"][:19]
    assert headers["traceparent"].decode() == TRACE
    assert len(await job.read("success")) == 1
    verdicts = [json.loads(record.value)["verdict"] for record in await job.read("decisions")]
    assert verdicts.count("duplicate") == 2


async def test_a_timeout_is_unknown_and_says_what_is_awaited(job):
    await job.start()
    await job.send("commands", begun("O1"))
    await job.send(
        "query-results",
        [Answer(request="submit", order_id="O1", payment_no="P1", channel="stripe:acct_1", status="TIMEOUT")],
    )
    await job.wait("updates", lambda found: any(json.loads(record.value)["state"] == "UNKNOWN" for record in found))
    told = job.run("explain", "O1")
    assert told.returncode == 0, told.stderr
    assert "INIT → PAYING → UNKNOWN" in told.stdout
    assert "awaited" in told.stdout
    assert "channel stripe:acct_1" in told.stdout
    assert job.run("explain", "nobody").returncode == 1


BAD = {
    "empty": ("commands", b"b1", b""),
    "truncated": ("channel-callbacks", b"b2", b'{"type":"callback","order_id":"b2"'),
    "not_utf8": ("channel-callbacks", b"b3", b'{"type":"\xff\xfe"}'),
    "not_json": ("query-results", b"b4", b"<xml/>"),
    "not_object": ("query-results", b"b5", b"[1,2]"),
    "unknown_type": ("commands", b"b6", b'{"type":"teleport","order_id":"b6"}'),
    "missing_field": ("channel-callbacks", b"b7", b'{"type":"callback","order_id":"b7"}'),
    "wrong_type": (
        "channel-callbacks",
        b"b8",
        msgspec.json.encode({**msgspec.to_builtins(success("b8")), "type": "callback", "amount": "10.99"}),
    ),
    "out_of_range": (
        "channel-callbacks",
        b"b9",
        msgspec.json.encode({**msgspec.to_builtins(success("b9")), "type": "callback", "amount": 10**18}),
    ),
    "key_mismatch": ("channel-callbacks", b"other", msgspec.json.encode(success("b10"))),
    "missing_key": ("channel-callbacks", None, msgspec.json.encode(success("b11"))),
    "tombstone": ("commands", b"b12", None),
    "reserved_key": ("commands", b"@position", b"{}"),
}
"""Bad input of every kind, by the kind that the dead letter names."""


async def test_every_kind_of_bad_input_is_kept_with_its_bytes_place_and_reason_and_stops_nothing(job):
    await job.start()
    for topic, key, value in BAD.values():
        await job.send_raw(topic, [(key, value)])
    await job.send("commands", begun("good"))
    await job.send("channel-callbacks", [success("good")])
    await job.wait("success", count(1))
    dead = await job.wait("dead-letters", count(len(BAD)))
    found = {dict(record.headers)["dead-kind"].decode(): record for record in dead}
    assert set(found) == set(BAD)
    assert len(dead) == len(BAD)
    for kind, (topic, key, value) in BAD.items():
        headers = dict(found[kind].headers)
        assert (found[kind].key, found[kind].value) == (key, value)
        assert headers["dead-topic"].decode() == job.topics[topic]
        assert headers["dead-partition"].isdigit()
        assert headers["dead-offset"].isdigit()
        assert len(headers["dead-reason"]) > 15, kind


async def test_negative_and_zero_amounts_at_the_door_are_refused_by_the_law_and_kept(job):
    await job.start()
    await job.send("commands", [*begun("minus", amount=-5), *begun("zero", amount=0)])
    found = await job.wait("discrepancies", count(2))
    assert {json.loads(record.value)["kind"] for record in found} == {"INVALID_AMOUNT"}
    assert await job.read("channel-requests") == []


async def test_fields_of_a_later_release_are_passed_over(job):
    await job.start()
    await job.send("commands", begun("O1"))
    fields = {**msgspec.to_builtins(success("O1")), "type": "callback", "loyalty_points": 7}
    await job.send_raw("channel-callbacks", [(b"O1", msgspec.json.encode(fields))])
    assert len(await job.wait("success", count(1))) == 1


async def test_what_two_workers_and_a_kill_leave_behind_is_proven_and_audited(job):
    """R-019, R-024: one owner decides serially, and everything commits together."""
    first = await job.start()
    await job.start(CONCORD_TABLE="rocksdb", CONCORD_STATE_DIR=str(job.folder / "state"))
    orders = [f"O{number}" for number in range(200)]
    for half in (orders[:100], orders[100:]):
        await job.send("commands", [event for order in half for event in begun(order)])
        await job.send("channel-callbacks", [success(order) for order in half for _ in range(2)])
        if first.alive:
            await job.wait("success", count(20))
            first.kill()
    await job.wait("success", count(200))
    await job.wait("decisions", count(800))
    names = [*job.topology.inputs, *job.topology.outputs, job.topology.dead_letters, job.topology.changelog]
    read = {name: await job.read(logical) for logical, name in job.topics.names.items() if name in names}
    proof = compare(job.topology, read, job.topics["decisions"])
    assert proof.wrong == []
    assert (proof.inputs, proof.orders, proof.outputs[job.topics["success"]]) == (800, 200, 200)
    audited = job.run("audit", "stream", "--settle", "10")
    assert (audited.returncode, audited.stdout.splitlines()[-1]) == (0, "no difference"), (
        audited.stdout + audited.stderr
    )


async def test_an_audit_names_an_output_that_nobody_may_have_written(job):
    await job.start()
    await job.send("commands", begun("O1"))
    await job.wait("updates", count(2))
    await job.send_raw("success", [(b"O1", b"{}")], ce_id="forged/success")
    audited = job.run("audit", "stream", "--settle", "1")
    assert audited.returncode == 1
    assert f"extra: {job.topics['success']}" in audited.stdout
    assert "forged/success" in audited.stdout


async def test_an_audit_that_follows_says_what_it_reads_and_reports_when_it_is_stopped(job):
    await job.start()
    await job.send("commands", begun("O1"))
    await job.wait("updates", count(2))
    await job.send_raw("success", [(b"O1", b"{}")], ce_id="forged\n\x1b[2Kno difference")
    with subprocess.Popen(
        [sys.executable, "-m", "streams", "audit", "stream", "--follow", "--settle", "0.5"],
        env={**os.environ, **job.env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as follower:
        try:
            first, second, logged = [await asyncio.to_thread(follower.stderr.readline) for _ in range(3)]
            follower.send_signal(signal.SIGINT)
            said, more = await asyncio.to_thread(follower.communicate, timeout=30)
        finally:
            follower.kill()
    assert f"reading {job.topics.changelog} and 5 output topics" in first
    assert "Ctrl-C" in second
    assert json.loads(logged)["kind"] == "extra"
    assert (follower.returncode, more) == (1, "")
    assert said.splitlines()[-2:] == [
        next(line for line in said.splitlines() if line.endswith("forged\\x0a\\x1b[2Kno difference")),
        "1 differences",
    ]


@pytest.mark.parametrize("command", [("explain", "O1"), ("audit", "stream"), ("audit", "stream", "--follow")])
async def test_a_reader_without_its_topics_says_which_at_once(command, kafka, topic_prefix, tmp_path):
    job = Job(kafka.bootstrap, topic_prefix, tmp_path)
    began = time.monotonic()
    ran = await asyncio.to_thread(job.run, *command)
    assert time.monotonic() - began < 8
    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (2, "", 1)
    assert f"{topic_prefix}payments." in ran.stderr
    assert "is missing on the broker" in ran.stderr


async def test_a_state_of_another_release_is_refused_with_its_own_words(job):
    await job.send_raw("state", [(b"O1", b"\xff\x00")])
    for command in (("explain", "O1"), ("audit", "stream")):
        ran = await asyncio.to_thread(job.run, *command)
        assert (ran.returncode, ran.stderr.count("\n")) == (4, 1), ran.stderr
        assert "written by another release" in ran.stderr


async def test_ids_cannot_forge_lines_of_what_is_printed(job):
    order = "O1\nnothing is awaited\x1b[2K\u202e"
    await job.start()
    await job.send("commands", begun(order))
    await job.wait("updates", count(2))
    told = await asyncio.to_thread(job.run, "explain", order)
    assert told.returncode == 0, told.stderr
    assert told.stdout.startswith("order O1\\x0anothing is awaited\\x1b[2K\\u202e  ")
    assert told.stdout.replace("\n", "").isprintable()
    assert "nothing is awaited" not in told.stdout.splitlines()


async def test_a_worker_without_its_topics_says_which_and_what_to_run(kafka, topic_prefix, tmp_path):
    job = Job(kafka.bootstrap, topic_prefix, tmp_path)
    ran = await asyncio.to_thread(job.run, "worker", "--port", str(ports.free(1)[0]))
    assert ran.returncode == 5
    last = json.loads(ran.stderr.splitlines()[-1])
    assert "payments.commands" in last["why"]
    assert "concord topics create" in last["todo"]


async def test_a_wrong_setting_is_named_with_its_fix(kafka, topic_prefix, tmp_path):
    job = Job(kafka.bootstrap, topic_prefix, tmp_path)
    ran = await asyncio.to_thread(job.run, "worker", CONCORD_BATCH="many")
    assert ran.returncode == 2
    assert "CONCORD_BATCH='many': use a whole number" in ran.stderr


async def test_fausts_own_command_runs_the_same_worker_and_drains_on_sigterm(job):
    port = ports.free(1)[0]
    process = subprocess.Popen(
        [str(Path(sys.executable).with_name("faust")), "-A", "streams.app", "worker", "-l", "warn"],
        env={**os.environ, **job.env, "CONCORD_WEB_PORT": str(port)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + 40
        while not await asyncio.to_thread(answers, port):
            assert process.poll() is None, "the worker ended"
            assert time.monotonic() < deadline
            await asyncio.sleep(0.2)
        await job.send("commands", begun("O1"))
        await job.send("channel-callbacks", [success("O1")])
        await job.wait("success", count(1))
        process.terminate()
        assert await asyncio.to_thread(process.wait, 30) == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=1) as answer:
            return answer.status == 200
    except OSError:
        return False


@pytest.mark.skipif(not FIXTURES.exists(), reason="the public samples are in a `shared` folder beside the checkout")
class TestPublicSamples:
    """Real notices, as published: in by `concord ingest`, out as verdicts."""

    async def test_wechat_pays_sample_becomes_a_success(self, job, tmp_path):
        vectors = json.loads((FIXTURES / "wechatpay" / "signature_vectors.json").read_text())
        vector = next(each for each in vectors if each["name"].startswith("gunsluo"))
        plain = json.loads((FIXTURES / "wechatpay" / vector["plaintext_file"]).read_text())
        order, account = plain["out_trade_no"], plain["mchid"]
        (tmp_path / "headers").write_text("".join(f"{name}: {value}\n" for name, value in vector["headers"].items()))
        # The published certificate is not the one whose serial the published header names, though its key made the signature.
        certificate = load_pem_x509_certificate((FIXTURES / "wechatpay" / vector["cert_file"]).read_bytes())
        pem = certificate.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
        live = {
            "api_v3_keys": [vector["apiv3_key"]],
            "platform_public_keys": {vector["headers"]["Wechatpay-Serial"]: pem},
        }
        (tmp_path / "credentials").write_text(json.dumps(live))
        await job.start()
        await job.send("commands", begun(order, order, f"wechatpay:{account}", plain["amount"]["total"], "CNY"))
        stored = await asyncio.to_thread(
            job.run, "ingest", "--channel", "wechatpay", "--account", account, "--headers", str(tmp_path / "headers"),
            "--credentials", str(tmp_path / "credentials"), "--order-id", order,
            "--at", "2021-01-23T02:18:50Z", str(FIXTURES / "wechatpay" / vector["body_file"]),
        )  # fmt: skip
        assert stored.returncode == 0, stored.stderr
        [announced] = await job.wait("success", count(1))
        fields = json.loads(announced.value)
        assert (fields["order_id"], fields["amount"], fields["transaction"]) == (order, 1, plain["transaction_id"])

    async def test_stripes_sample_is_not_a_payments_and_is_kept(self, job, tmp_path):
        [vector] = json.loads((FIXTURES / "stripe" / "signature_vectors.json").read_text())
        (tmp_path / "headers").write_text(f"Stripe-Signature: {vector['header']}\n")
        (tmp_path / "credentials").write_text("webhook_secrets: ['env:HOOK']\n")
        await job.start()
        stored = await asyncio.to_thread(
            job.run, "ingest", "--channel", "stripe", "--account", "acct_1", "--headers", str(tmp_path / "headers"),
            "--credentials", str(tmp_path / "credentials"), "--at", "2018-08-02T10:10:20Z", str(FIXTURES / "stripe" / vector["body_file"]),
            HOOK=vector["secret"],
        )  # fmt: skip
        assert stored.returncode == 0, stored.stderr
        [dead] = await job.wait("dead-letters", count(1))
        assert dict(dead.headers)["dead-kind"] == b"unmapped"
