"""Who may ask what: every route with every scope, every merchant and every wrong key; rates; and a register that ages."""

from __future__ import annotations

import msgspec
import pytest

from stores.merchants import SCOPES
from streams.channels.adapter import PAYMENT, Reference
from streams.gateway import cashier as room
from streams.gateway.keys import AGAIN_S, GOOD_S
from streams.gateway.links import Link
from tests.support.cashier import Shop, new, secret_key

SHARE = {"amount": 1, "currency": "USD"}
ROUTES = {
    ("POST", "/payments"): ("payments:write", new("order-9")),
    ("POST", "/consultations"): ("payments:read", {"biz_code": "SALE", "amount": 1, "currency": "USD"}),
    ("GET", "/payments?order_id=order-1&biz_code=SALE"): ("payments:read", None),
    ("GET", "/payments/{payment}"): ("payments:read", None),
    ("POST", "/payments/{payment}/start"): ("payments:write", {}),
    ("POST", "/payments/{payment}/close"): ("payments:write", None),
    ("POST", "/payments/{payment}/capture"): ("payments:write", SHARE),
    ("POST", "/payments/{payment}/void"): ("payments:write", None),
    ("POST", "/payments/{payment}/refunds"): ("refunds:write", SHARE),
    ("GET", "/refunds/{refund}"): ("refunds:read", None),
}
NAMED = [route for route in ROUTES if "{" in route[1]]


@pytest.fixture
async def shop(monkeypatch):
    monkeypatch.setattr(room, "ACTION_S", 0.05)
    async with Shop() as found:
        payment = await found.paid()
        answer = await found.post(f"/payments/{payment['payment_no']}/refunds", SHARE, "r-1")
        found.numbers = {"payment": payment["payment_no"], "refund": answer.json()["refund_no"]}
        found.commands.clear()
        yield found


async def ask(shop: Shop, route: tuple[str, str], headers: dict[str, str]):
    method, path = route
    sent = {**headers, "Idempotency-Key": "k-9"}
    return await shop.client.request(method, f"/v1{path.format(**shop.numbers)}", json=ROUTES[route][1], headers=sent)


def test_every_route_is_in_the_matrix():
    paths = Shop().app.openapi_schema.to_schema()["paths"]
    found = {(method.upper(), path) for path, item in paths.items() for method in item if method in {"get", "post"}}
    listed = {(m, f"/v1{p}".partition("?")[0].format(payment="{payment_no}", refund="{refund_no}")) for m, p in ROUTES}
    assert found == listed


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("scope", SCOPES)
async def test_a_key_opens_the_routes_of_its_scope_and_no_other(shop: Shop, route, scope: str):
    headers = shop.key("shop", scope)
    await shop.directory.refresh()
    answer = await ask(shop, route, headers)
    if ROUTES[route][0] == scope:
        assert answer.status_code not in {401, 403, 404}
    else:
        assert (answer.status_code, answer.json()["code"]) == (403, "SCOPE_MISSING")
        assert shop.commands == []


@pytest.mark.parametrize("route", NAMED)
async def test_another_merchants_payment_is_not_there(shop: Shop, route):
    answer = await ask(shop, route, shop.headers["other"])
    missing = "REFUND_NOT_FOUND" if "/refunds/{" in route[1] else "PAYMENT_NOT_FOUND"
    assert (answer.status_code, answer.json()["code"]) == (404, missing)
    assert shop.commands == []
    nowhere = await shop.client.request(
        route[0], f"/v1{route[1].format(payment='SALE0', refund='RF0')}", json=ROUTES[route][1],
        headers={**shop.headers["other"], "Idempotency-Key": "k-9"},
    )  # fmt: skip
    same = {name: value for name, value in answer.json().items() if name != "instance"}
    assert same == {name: value for name, value in nowhere.json().items() if name != "instance"}


@pytest.mark.parametrize(("owner", "status"), [("shop", 200), ("other", 404), (None, 404)])
async def test_a_link_leads_only_its_own_merchant_to_a_payment(shop: Shop, owner, status: int):
    """What this gateway did not see decided is found by the links, which hold the payments of all merchants."""
    number = (await shop.create("order-6")).json()["payment_no"]
    shop.verdicts.places.recent._values.clear()
    link = Link("order-6", number, owner)
    shop.links.take(Reference(PAYMENT, number).key, msgspec.json.encode(link))
    assert (await shop.post(f"/payments/{number}/close")).status_code == status


async def test_another_merchants_order_of_the_same_name_is_another_order(shop: Shop):
    answer = await shop.create("order-1", merchant="other")
    assert answer.status_code == 201
    assert answer.json()["payment_no"] != shop.numbers["payment"]


async def test_the_same_key_text_of_two_merchants_does_not_meet(shop: Shop):
    one = await shop.create("order-5", key="same")
    other = await shop.create("order-5", key="same", merchant="other")
    assert (one.status_code, other.status_code) == (201, 201)
    assert one.json()["payment_no"] != other.json()["payment_no"]


@pytest.mark.parametrize("route", ROUTES)
async def test_no_key_opens_nothing(shop: Shop, route):
    forged = secret_key("shop", key_id=next(iter(shop.keys)))[1]
    wrong = [
        "",
        "Bearer",
        "Bearer ",
        "Basic c2hvcDpzaG9w",
        "Bearer ck_0",
        secret_key("shop")[1],
        forged,
        "Bearer " + "x" * 9000,
    ]
    for header in wrong:
        answer = await ask(shop, route, {"Authorization": header})
        assert (answer.status_code, answer.json()["code"]) == (401, "UNAUTHENTICATED")
        assert answer.headers["www-authenticate"].startswith("Bearer")
    assert shop.commands == []


async def test_a_revoked_key_opens_nothing_any_more(shop: Shop):
    headers = shop.key("shop")
    await shop.directory.refresh()
    assert (await ask(shop, ("GET", "/payments/{payment}"), headers)).status_code == 200
    shop.keys.popitem()
    await shop.directory.refresh()
    assert (await ask(shop, ("GET", "/payments/{payment}"), headers)).status_code == 401


async def test_keys_are_kept_while_postgres_is_down_and_not_for_ever(shop: Shop):
    shop.postgres_down = True
    shop.clock += GOOD_S
    await shop.directory.refresh()
    assert (await shop.create("order-7")).status_code == 201
    shop.clock += AGAIN_S
    await shop.directory.refresh()
    answer = await shop.create("order-8")
    assert (answer.status_code, answer.json()["code"]) == (503, "KEYS_UNAVAILABLE")
    assert answer.headers["retry-after"] == "5"


async def test_a_merchant_that_asks_too_often_waits_and_the_other_does_not(shop: Shop):
    shop.merchants["shop"] = msgspec.structs.replace(shop.merchants["shop"], rate_per_second=2)
    await shop.directory.refresh()
    shop.clock += 1000
    path = f"/payments/{shop.numbers['payment']}"
    assert [(await shop.get(path)).status_code for _ in range(5)] == [200] * 4 + [429]
    assert (await shop.get(path)).headers["retry-after"] == "1"
    assert (await shop.get(path, "other")).status_code == 404
    shop.clock += 0.5
    assert [(await shop.get(path)).status_code for _ in range(2)] == [200, 429]


async def test_no_answer_and_no_repr_shows_a_secret(shop: Shop):
    key, header = secret_key("shop")
    answer = await ask(shop, ("GET", "/payments/{payment}"), {"Authorization": header})
    assert header.rpartition("_")[2] not in answer.text
    assert key.secret_hash.hex() not in repr(key)
    assert shop.merchants["shop"].numbering.hex() not in repr(shop.merchants["shop"])
