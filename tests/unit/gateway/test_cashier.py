"""The cashier's answers, with the law itself behind them: idempotency, refusals by name, and what waits for a decision."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from streams.domain.decisions import ChannelRequest
from streams.domain.number import is_number
from streams.domain.rules import RULES
from streams.gateway import cashier as room
from streams.gateway.problems import CODES, KINDS
from tests.support.cashier import LIMIT, Shop, new


@pytest.fixture
async def shop(monkeypatch):
    monkeypatch.setattr(room, "ACTION_S", 0.05)
    async with Shop() as found:
        yield found


def submits(shop: Shop) -> list[ChannelRequest]:
    return [one for one in shop.said if isinstance(one, ChannelRequest) and one.verb == "SUBMIT"]


async def test_a_payment_is_created_with_a_number_of_ours(shop: Shop):
    answer = await shop.create()
    found = answer.json()
    assert answer.status_code == 201
    assert is_number(found["payment_no"])
    assert found["payment_no"].startswith("SALE20260501")
    assert answer.headers["location"] == f"/v1/payments/{found['payment_no']}"
    assert (found["state"], found["conclusion"], found["amount"]) == ("INIT", "PENDING", 1000)
    assert found["expires_at"] == "2026-05-01T12:15:00Z"


async def test_a_payment_by_qr_code_can_be_started_for_thirty_minutes(shop: Shop):
    """R-062."""
    assert (await shop.create(qr=True)).json()["expires_at"] == "2026-05-01T12:30:00Z"


async def test_two_hundred_creates_of_one_order_give_one_payment(shop: Shop):
    """R-037."""
    answers = await asyncio.gather(*(shop.create() for _ in range(200)))
    assert sorted(answer.status_code for answer in answers) == [200] * 199 + [201]
    assert len({answer.json()["payment_no"] for answer in answers}) == 1
    assert len(shop.orders["order-1"].payments) == 1


async def test_a_key_that_is_used_again_gives_the_same_payment(shop: Shop):
    first, second = await shop.create(key="k-1"), await shop.create(key="k-1")
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json()["payment_no"] == second.json()["payment_no"]
    assert second.json()["replayed"] is True


async def test_a_key_that_is_used_again_after_midnight_gives_the_same_payment(shop: Shop):
    first = (await shop.create(key="k-1")).json()
    shop.now += timedelta(hours=12, seconds=1)
    assert (await shop.create(key="k-1")).json()["payment_no"] == first["payment_no"]


async def test_a_key_of_another_request_is_refused(shop: Shop):
    await shop.create(key="k-1")
    answer = await shop.create(key="k-1", amount=2000)
    assert (answer.status_code, answer.json()["code"]) == (422, "IDEMPOTENCY_KEY_REUSED")


async def test_another_amount_for_the_same_order_is_refused_and_names_the_payment(shop: Shop):
    first = (await shop.create()).json()
    answer = await shop.create(amount=2000)
    assert (answer.status_code, answer.json()["code"]) == (409, "AMOUNT_NOT_MATCH")
    assert answer.json()["payment_no"] == first["payment_no"]


async def test_a_create_of_a_paid_order_finds_the_payment_as_it_stands_now(shop: Shop):
    paid = await shop.paid()
    answer = await shop.create()
    assert (answer.status_code, answer.json()["payment_no"]) == (200, paid["payment_no"])
    assert (answer.json()["state"], answer.json()["conclusion"]) == ("SUCCESS", "SUCCESS")
    assert answer.json()["funds_stage"] == "IN_TRANSIT"


async def test_an_order_whose_payment_failed_gets_another_one(shop: Shop):
    """R-130."""
    first = (await shop.create()).json()
    await shop.post(f"/payments/{first['payment_no']}/close")
    again = await shop.create()
    assert again.status_code == 201
    assert again.json()["payment_no"] != first["payment_no"]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"amount": 0}, "PAY_AMOUNT_INVALID"),
        ({"amount": -1}, "PAY_AMOUNT_INVALID"),
        ({"amount": LIMIT + 1}, "PAY_AMOUNT_INVALID"),
        ({"biz_code": "NONE"}, "BIZ_CODE_UNKNOWN"),
        ({"currency": "EUR"}, "BIZ_CODE_UNKNOWN"),
        ({"channel": "simulator:other"}, "CHANNEL_UNKNOWN"),
        ({"channel": "nowhere"}, "CHANNEL_UNKNOWN"),
        ({"expires_at": "2026-05-01T11:59:59Z"}, "EXPIRY_INVALID"),
        ({"expires_at": "2026-05-03T12:00:00Z"}, "EXPIRY_INVALID"),
    ],
)
async def test_what_cannot_be_created_is_refused_before_it_is_stored(shop: Shop, fields, code: str):
    """R-133."""
    answer = await shop.create(**fields)
    assert (answer.status_code, answer.json()["code"]) == (422, code)
    assert answer.headers["content-type"] == "application/problem+json"
    assert shop.commands == []


async def test_the_limit_itself_may_be_paid(shop: Shop):
    assert (await shop.create(amount=LIMIT)).status_code == 201


@pytest.mark.parametrize("key", ["", "k-{}"])
async def test_two_hundred_starts_submit_once(shop: Shop, key: str):
    """R-017."""
    number = (await shop.create()).json()["payment_no"]
    answers = await asyncio.gather(*(shop.post(f"/payments/{number}/start", {}, key.format(n)) for n in range(200)))
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 199
    assert {a.json()["code"] for a in answers if a.status_code == 409} == {"PAYMENT_STATUS_NOT_INIT"}
    assert len(submits(shop)) == 1


async def test_details_of_a_start_pass_to_the_channel(shop: Shop):
    number = (await shop.create()).json()["payment_no"]
    await shop.post(f"/payments/{number}/start", {"details": {"payer": "p-1"}})
    assert [one.details for one in submits(shop)] == [{"payer": "p-1"}]


async def test_a_start_does_not_wait_where_the_channel_asks_nothing_of_the_payer(shop: Shop, monkeypatch):
    monkeypatch.setattr(room, "ACTION_S", 600.0)
    payment = (await shop.create()).json()
    starting = asyncio.create_task(shop.post(f"/payments/{payment['payment_no']}/start", {}))
    while not submits(shop):
        await asyncio.sleep(0)
    shop.answer(payment, "submit", "PROCESSING")
    assert "payer_action" not in (await asyncio.wait_for(starting, 10)).json()


async def test_a_start_answers_with_what_the_payer_needs(shop: Shop, monkeypatch):
    monkeypatch.setattr(room, "ACTION_S", 600.0)
    payment = (await shop.create()).json()
    starting = asyncio.create_task(shop.post(f"/payments/{payment['payment_no']}/start", {}, "s-1"))
    while not submits(shop):
        await asyncio.sleep(0)
    shop.answer(payment, "submit", "PROCESSING", payer_action="https://pay.example/1")
    answer = await starting
    assert (answer.json()["state"], answer.json()["payer_action"]) == ("PAYING", "https://pay.example/1")
    again = await shop.post(f"/payments/{payment['payment_no']}/start", {}, "s-1")
    assert (again.status_code, again.json()["payer_action"]) == (200, "https://pay.example/1")
    assert len(submits(shop)) == 1


async def test_a_loser_that_asks_again_is_told_again_that_it_lost(shop: Shop):
    number = (await shop.create()).json()["payment_no"]
    await shop.post(f"/payments/{number}/start", {}, "winner")
    for _ in range(2):
        answer = await shop.post(f"/payments/{number}/start", {}, "loser")
        assert (answer.status_code, answer.json()["code"]) == (409, "PAYMENT_STATUS_NOT_INIT")


async def test_a_payment_that_was_never_started_is_closed_at_once(shop: Shop):
    number = (await shop.create()).json()["payment_no"]
    answer = await shop.post(f"/payments/{number}/close")
    assert (answer.json()["state"], answer.json()["conclusion"]) == ("CLOSED", "FAILURE")
    assert (await shop.post(f"/payments/{number}/close")).json()["code"] == "PAYMENT_NOT_OPEN"


async def test_a_refund_has_a_number_of_its_own_and_is_made_once(shop: Shop):
    """R-031, R-032, R-222."""
    number = (await shop.paid())["payment_no"]
    body = {"amount": 400, "currency": "USD"}
    first = await shop.post(f"/payments/{number}/refunds", body, "r-1")
    again = await shop.post(f"/payments/{number}/refunds", body, "r-1")
    other = await shop.post(f"/payments/{number}/refunds", body, "r-2")
    assert [first.status_code, again.status_code, other.status_code] == [201, 200, 201]
    assert first.json()["refund_no"] == again.json()["refund_no"] != other.json()["refund_no"]
    assert first.json()["state"] == "REFUNDING"
    assert len([one for one in shop.said if isinstance(one, ChannelRequest) and one.verb == "REFUND"]) == 2


async def test_more_than_is_left_cannot_be_refunded(shop: Shop):
    """R-015."""
    number = (await shop.paid(amount=1000))["payment_no"]
    assert (await shop.post(f"/payments/{number}/refunds", {"amount": 1000, "currency": "USD"}, "a")).status_code == 201
    for _ in range(2):
        answer = await shop.post(f"/payments/{number}/refunds", {"amount": 1, "currency": "USD"}, "b")
        assert (answer.status_code, answer.json()["code"]) == (422, "REFUND_AMOUNT_INVALID")


async def test_a_refund_needs_an_idempotency_key(shop: Shop):
    number = (await shop.paid())["payment_no"]
    answer = await shop.post(f"/payments/{number}/refunds", {"amount": 1, "currency": "USD"})
    assert (answer.status_code, answer.json()["code"]) == (400, "IDEMPOTENCY_KEY_INVALID")


async def test_a_hold_that_is_being_captured_cannot_be_let_go_and_a_capture_is_asked_once(shop: Shop):
    payment = (await shop.create()).json()
    number = payment["payment_no"]
    await shop.post(f"/payments/{number}/start", {}, "s")
    shop.answer(payment, "query", "AUTHORIZED", transaction="t-1", amount=1000, currency="USD")
    captured = await shop.post(f"/payments/{number}/capture", {"amount": 300, "currency": "USD"}, "c")
    assert (captured.status_code, captured.json()["state"]) == (201, "PAYING")
    busy = await shop.post(f"/payments/{number}/void", None, "v")
    assert (busy.status_code, busy.json()["code"]) == (409, "HOLD_IN_USE")
    number_of = {"operation_no": captured.json()["operation_no"], "transaction": "c-1"}
    shop.answer(payment, "capture", "SUCCESS", amount=300, currency="USD", **number_of)
    again = await shop.post(f"/payments/{number}/capture", {"amount": 300, "currency": "USD"}, "c")
    assert (again.status_code, again.json()["state"], again.json()["replayed"]) == (200, "SUCCESS", True)
    assert again.json()["operation_no"] == captured.json()["operation_no"]


async def test_a_hold_that_is_not_there_cannot_be_let_go(shop: Shop):
    number = (await shop.create()).json()["payment_no"]
    assert (await shop.post(f"/payments/{number}/void")).json()["code"] == "PAYMENT_NOT_AUTHORIZED"
    answer = await shop.post(f"/payments/{number}/capture", {"amount": 1, "currency": "USD"}, "c")
    assert (answer.status_code, answer.json()["code"]) == (422, "CAPTURE_AMOUNT_INVALID")


async def test_a_refund_is_never_said_to_be_on_the_card_before_the_card_shows_it(shop: Shop):
    """R-230, R-231, R-233."""
    number = (await shop.paid())["payment_no"]
    refund = (await shop.post(f"/payments/{number}/refunds", {"amount": 400, "currency": "USD"}, "r")).json()
    page = (await shop.get(f"/refunds/{refund['refund_no']}")).json()
    assert page["mark"] is False
    assert page["layers"]["card"] is None
    assert "back on the card" not in str(page["en"])
    assert "退回到卡" not in str(page["zh"])
    assert page["zh"]["headline"]


async def test_what_is_not_decided_in_time_is_accepted_with_a_place_to_look(shop: Shop, monkeypatch):
    monkeypatch.setattr(room, "DECIDED_S", 0.01)
    number = (await shop.paid())["payment_no"]
    shop.silent = True
    created = await shop.create("order 2?".replace(" ", "&"))
    refunded = await shop.post(f"/payments/{number}/refunds", {"amount": 4, "currency": "USD"}, "r")
    closed = await shop.post(f"/payments/{number}/close")
    assert {created.status_code, refunded.status_code, closed.status_code} == {202}
    assert created.headers["location"] == "/v1/payments?order_id=order%262%3F&biz_code=SALE"
    assert closed.headers["location"] == f"/v1/payments/{number}"
    for command in shop.commands[-3:]:
        shop.hear(command)
    assert (await shop.client.get(created.headers["location"], headers=shop.headers["shop"])).status_code == 200
    assert (await shop.client.get(refunded.headers["location"], headers=shop.headers["shop"])).status_code == 200


async def test_what_is_not_stored_for_certain_is_to_be_sent_again(shop: Shop):
    shop.broken = True
    answer = await shop.create(key="k")
    assert (answer.status_code, answer.json()["code"]) == (503, "NOT_STORED")
    assert answer.headers["retry-after"] == "2"


async def test_reads_say_so_while_the_books_are_away_and_writes_go_on(shop: Shop):
    number = (await shop.create()).json()["payment_no"]
    shop.books.down = True
    for path in (f"/payments/{number}", "/payments?order_id=order-1&biz_code=SALE", f"/refunds/{number}"):
        answer = await shop.get(path)
        assert (answer.status_code, answer.json()["code"]) == (503, "BOOKS_UNAVAILABLE")
        assert answer.headers["retry-after"] == "5"
    assert (await shop.create("order-2")).status_code == 201


async def test_a_full_pool_turns_away_at_once():
    async with Shop(places=0) as full:
        answer = await full.create()
        assert (answer.status_code, answer.json()["code"]) == (503, "BUSY")
    async with Shop() as shop:
        await shop.create()
        assert shop.pool.taken == 0


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"order_id": 1}', b'{"order_id": "a"}',
        b'{"order_id":"a","biz_code":"SALE","channel":"simulator:sim","amount":1.5,"currency":"USD"}',
        b'{"order_id":"a","biz_code":"SALE","channel":"simulator:sim","amount":"1","currency":"USD"}',
        b'{"order_id":"a","biz_code":"SALE","channel":"simulator:sim","amount":1e3000,"currency":"USD"}',
        b'{"order_id":"a","biz_code":"SALE","channel":"simulator:sim","amount":99999999999999999999,"currency":"USD"}',
        b'{"order_id":"a b","biz_code":"SALE","channel":"simulator:sim","amount":1,"currency":"USD"}',
        b'{"order_id":"a","biz_code":"SALE","channel":"simulator:sim","amount":1,"currency":"usd"}',
        b'{"order_id":"a","biz_code":"SALE","channel":"simulator:sim","amount":1,"currency":"USD","state":"SUCCESS"}',
        b'{"order_id":"a","biz_code":"SALE","channel":"simulator:sim","amount":1,"currency":"USD","expires_at":"2026-05-01T12:05:00"}',
        b"[" * 20_000,
    ],
)  # fmt: skip
async def test_a_malformed_body_is_refused_and_not_stored(shop: Shop, body: bytes):
    headers = {**shop.headers["shop"], "Content-Type": "application/json"}
    answer = await shop.client.post("/v1/payments", content=body, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (400, "MALFORMED_REQUEST")
    assert shop.commands == []


async def test_an_oversized_body_is_refused(shop: Shop):
    answer = await shop.post("/payments", new(padding="x" * 40_000))
    assert (answer.status_code, answer.json()["code"]) == (413, "BODY_TOO_LARGE")


@pytest.mark.parametrize("key", ["with blank", "x" * 129, "tab\t"])
async def test_a_key_that_is_no_key_is_refused(shop: Shop, key: str):
    assert (await shop.create(key=key)).status_code == 400
    assert shop.commands == []


@pytest.mark.parametrize("number", ["x", "..%2f..%2fetc", "' OR 1=1--", "SALE20260501" + "0" * 17, "%00", "A" * 2000])
async def test_what_is_no_number_is_not_found(shop: Shop, number: str):
    answer = await shop.post(f"/payments/{number}/close")
    assert answer.status_code == 404
    assert (await shop.get(f"/payments/{number}")).status_code == 404


def test_every_code_of_a_rule_is_published_and_every_rule_exists():
    assert set(CODES.values()) <= set(KINDS)
    assert set(CODES) <= set(RULES)
