"""One notice to one address, on loopback: signatures, refusals, bounds."""

from __future__ import annotations

import base64
import ipaddress
import secrets
import socket
from datetime import UTC, datetime

import httpx
import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from stores.notifications import Taken
from streams.agents import notifier_sending as sending
from tests.support.merchant_site import LOST, MOVED, OK, site

LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"),)
BODY = '{"type":"payment.succeeded","data":{"amount":1099}}'


def new_secret() -> str:
    return f"whsec_{base64.b64encode(secrets.token_bytes(32)).decode()}"


@pytest.fixture
def secret_at(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("SHOP_HOOK", new_secret())
    return "env:SHOP_HOOK"


def taken(url: str | None, *refs: str) -> Taken:
    return Taken(
        seq=1, claim=1, id="msg_1", merchant="shop", type="payment.succeeded", body=BODY, failures=0, url=url, secret_refs=refs
    )  # fmt: skip


async def send(one: Taken, allowed=LOOPBACK, within_s: float = 5.0) -> sending.Outcome:
    sender = sending.Sender(sending.Guard(allowed), within_s=within_s)
    try:
        return await sender.send(one, datetime.now(UTC))
    finally:
        await sender.close()


async def test_every_secret_of_a_rotation_verifies_the_same_notice(secret_at, monkeypatch, tmp_path):
    former = tmp_path / "former"
    former.write_text(new_secret() + "\n")
    async with site() as shop:
        assert await send(taken(shop.url, secret_at, f"file:{former}")) == (200, "")
    [told] = shop.told
    for held in (sending.secret(secret_at), Webhook(former.read_text().strip())):
        assert held.verify(told.body, told.headers) == {"type": "payment.succeeded", "data": {"amount": 1099}}
    with pytest.raises(WebhookVerificationError):
        Webhook(new_secret()).verify(told.body, told.headers)
    assert (told.target, told.headers["host"]) == ("/hook?token=hidden", f"127.0.0.1:{shop.port}")


@pytest.mark.parametrize("value", ["", "whsec_", "whsec_c2hvcnQ=", "whsec_ä"])
async def test_a_secret_that_cannot_sign_sends_nothing_and_is_not_shown(monkeypatch, value):
    monkeypatch.setenv("SHOP_HOOK", value)
    async with site() as shop:
        outcome = await send(taken(shop.url, "env:SHOP_HOOK"))
    assert shop.told == []
    assert "notify_secret_refs: env:SHOP_HOOK" in outcome.error
    assert "c2hvcnQ" not in outcome.error


async def test_a_redirect_is_a_failure_and_is_not_followed(secret_at):
    async with site(lambda _: MOVED) as shop:
        outcome = await send(taken(shop.url, secret_at))
    assert (outcome.status, len(shop.told)) == (302, 1)
    assert "redirects are not followed" in outcome.error
    assert "secret" not in outcome.error


async def test_a_server_that_drips_is_given_up_in_time(secret_at):
    async with site(drip_s=0.05) as shop:
        outcome = await send(taken(shop.url, secret_at), within_s=0.3)
    assert outcome == (0, "no answer within 0.3 s")


async def test_the_status_decides_however_long_the_body_is(secret_at):
    endless = OK.replace(b"content-length: 0", b"content-length: 100000000") + b"x" * 1_000_000
    async with site(lambda _: endless) as shop:
        assert await send(taken(shop.url, secret_at)) == (200, "")
    async with site(lambda _: LOST) as shop:
        assert await send(taken(shop.url, secret_at)) == (500, "answered 500")


async def test_headers_without_end_are_a_failure(secret_at):
    async with site(lambda _: b"HTTP/1.1 200 OK\r\nx: " + b"x" * 1_000_000) as shop:
        outcome = await send(taken(shop.url, secret_at))
    assert outcome == (0, "RemoteProtocolError")


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/", "https://127.0.0.1/", "https://localhost/", "https://2130706433/", "https://0x7f.1/", "https://[::1]/",
        "https://[::ffff:10.0.0.1]/", "https://[64:ff9b::a00:1]/", "https://[2002:a00:1::]/", "https://10.0.0.1/",
        "https://169.254.169.254/latest/meta-data", "https://[fe80::1]/", "https://0.0.0.0/", "https://100.64.0.1/",
        "https://192.168.1.1:8443/", "https://224.0.0.1/", "http://93.184.215.14/", "ftp://93.184.215.14/", "https://user@93.184.215.14/",
        "https://", "not a url", "https://no-such-host.invalid/",
    ],
)  # fmt: skip
async def test_what_is_not_public_https_is_refused_before_anything_is_sent(secret_at, url):
    outcome = await send(taken(url, secret_at), allowed=())
    assert outcome.status == 0
    assert outcome.error.startswith(("notify_url: ", "UnsupportedProtocol", "InvalidURL"))


async def test_a_merchant_without_an_address_is_not_told(secret_at):
    assert "notify_url" in (await send(taken(None, secret_at))).error


async def test_a_name_with_one_private_address_is_refused_whatever_the_others_are(monkeypatch):
    guard = sending.Guard()
    answers = iter([["93.184.215.14", "10.0.0.1"], ["93.184.215.14"]])

    async def names(*_arguments, **_options):
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 443)) for address in next(answers)]

    import asyncio  # noqa: PLC0415  the loop that runs this test

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", names)
    with pytest.raises(sending.RefusedError, match=r"leads to 10\.0\.0\.1"):
        await guard.pin(httpx.URL("https://shop.example/"))
    assert await guard.pin(httpx.URL("https://shop.example/")) == "93.184.215.14"


async def test_the_connection_goes_to_the_judged_address_and_asks_for_the_name(secret_at, monkeypatch):
    """The name is looked up once; a second answer would lead elsewhere, and nobody asks for it."""
    import asyncio  # noqa: PLC0415  the loop that runs this test

    asked = []

    async def names(host, port, **_options):
        asked.append(host)
        where = "127.0.0.1" if len(asked) == 1 or host == "127.0.0.1" else "10.0.0.1"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (where, port))]

    async with site() as shop:
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", names)
        url = f"http://shop.example:{shop.port}/hook"
        assert await send(taken(url, secret_at)) == (200, "")
    assert [host for host in asked if host == "shop.example"] == ["shop.example"]
    assert shop.told[0].headers["host"] == f"shop.example:{shop.port}"
