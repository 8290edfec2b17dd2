"""The review desk on a real Postgres, with the law in place of the worker: who may do what, and that nothing moves without two people."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from stores import audit
from stores.audit import Head
from stores.reviewers import ROLES
from streams.gateway.review_rights import RIGHTS
from streams.gateway.review_shapes import handle_of
from tests.support.desk import PEOPLE, office, quick, tables

pytestmark = pytest.mark.postgres

PROPOSAL = {"action": "refund", "evidence": "ticket 7", "revision": 1}
ROUTES = {
    ("GET", "/reviews"): ("read", None),
    ("GET", "/reviews/{handle}"): ("read", None),
    ("GET", "/reviews/{handle}/audit"): ("audit", None),
    ("POST", "/reviews/{handle}/claim"): ("claim", None),
    ("POST", "/reviews/{handle}/comments"): ("comment", {"text": "the bank was asked"}),
    ("POST", "/reviews/{handle}/proposals"): ("propose", PROPOSAL),
    ("POST", "/reviews/{handle}/proposals/{number}/approve"): ("decide", {}),
    ("POST", "/reviews/{handle}/proposals/{number}/reject"): ("decide", {}),
    ("GET", "/reviewers"): ("people", None),
    ("POST", "/reviewers"): ("people", {"name": "nina", "role": "viewer"}),
    ("POST", "/reviewers/{name}/disable"): ("people", None),
}


@pytest.fixture
async def desk(postgres, monkeypatch):
    quick(monkeypatch)
    async with office(postgres.dsn) as found:
        yield found


def filled(path: str) -> str:
    return path.format(handle=handle_of("d-1"), number=1, name="nobody")


async def test_every_route_of_the_desk_is_in_the_matrix(desk):
    paths = desk.app.openapi_schema.to_schema()["paths"]
    found = {(method.upper(), path) for path, item in paths.items() for method in item if method in {"get", "post"}}
    assert found == {(method, f"/v1{path}") for method, path in ROUTES}


@pytest.mark.parametrize("role", ROLES)
async def test_a_role_opens_the_routes_of_its_rights_and_no_other(desk, role: str):
    """R-197: every route with every role."""
    who = next(name for name, one in PEOPLE.items() if one == role)
    before = await desk.log()
    for (method, path), (right, body) in ROUTES.items():
        answer = await desk.ask(who, method, filled(path), body)
        if right in RIGHTS[role]:
            assert answer.status_code in {200, 201, 204, 404, 409}, (role, path, answer.text)
        else:
            assert (answer.status_code, answer.json()["code"]) == (403, "RIGHT_MISSING"), (role, path)
    assert await desk.log() == before
    assert desk.shop.commands == []


async def test_no_key_opens_nothing(desk):
    key = desk.headers["anna"]["Authorization"]
    merchant = desk.shop.headers["shop"]["Authorization"]
    forged = key[:-4] + ("AAAA" if not key.endswith("AAAA") else "BBBB")
    for header in (
        "",
        "Bearer",
        "Bearer rk_0",
        key.replace("Bearer", "Basic"),
        merchant,
        forged,
        "Bearer " + "x" * 9000,
    ):
        for (method, path), (_right, body) in ROUTES.items():
            answer = await desk.client.request(
                method, f"/v1{filled(path)}", json=body, headers={"Authorization": header}
            )
            assert (answer.status_code, answer.json()["code"]) == (401, "UNAUTHENTICATED")
    opened = await desk.shop.client.get("/v1/payments/SALE0", headers=desk.headers["anna"])
    assert opened.status_code == 401


async def test_a_person_who_is_disabled_is_out_at_once(desk):
    assert (await desk.ask("vera", "GET", "/reviews")).status_code == 200
    assert (await desk.post("adam", "/reviewers/vera/disable")).status_code == 204
    assert (await desk.ask("vera", "GET", "/reviews")).status_code == 401
    again = await desk.post("adam", "/reviewers", {"name": "vera", "role": "approver"})
    assert (again.status_code, again.json()["code"]) == (409, "REVIEWER_EXISTS")


async def test_a_key_is_shown_once_and_works(desk):
    made = (await desk.post("adam", "/reviewers", {"name": "nina", "role": "viewer"})).json()
    desk.headers["nina"] = {"Authorization": f"Bearer {made['key']}"}
    assert (await desk.ask("nina", "GET", "/reviews")).status_code == 200
    everybody = await desk.ask("adam", "GET", "/reviewers")
    assert made["key"].split("_", 2)[2] not in everybody.text
    rows = await desk.pool.fetch("SELECT * FROM reviewer_keys")
    assert made["key"].split("_", 2)[2] not in str(rows)


async def test_late_money_goes_back_when_two_people_say_so(desk):
    """R-197: the action is a command of its own, and the law applies it."""
    name = await desk.late()
    number = await desk.proposed(name)
    case = (await desk.ask("anna", "GET", f"/reviews/{handle_of(name)}")).json()
    assert (case["item"]["kind"], case["exits"], case["item"]["claimed_by"]) == (
        "LATE_SUCCESS", ["close", "fulfil", "refund"], "otto",
    )  # fmt: skip
    answer = await desk.post(
        "anna", f"/reviews/{handle_of(name)}/proposals/{number}/approve", {"reason": "seen at the bank"}
    )
    assert (answer.status_code, answer.json()["state"], answer.json()["rule"]) == (200, "applied", "decided-refund")
    command = desk.shop.commands[-1]
    assert (command.proposer, command.approver, command.discrepancy) == ("otto", "anna", name)
    assert command.refund_no == case["proposals"][0]["refund_no"]
    assert command.command_id not in {command.refund_no, name}
    refunds = [one for one in desk.shop.decisions[-1].operations if one.kind == "REFUND"]
    assert [(one.number, one.state, one.amount) for one in refunds] == [(command.refund_no, "REFUNDING", 1000)]
    await desk.book()
    after = (await desk.ask("vera", "GET", f"/reviews/{handle_of(name)}")).json()
    assert (after["item"]["status"], after["proposals"][0]["state"]) == ("resolved", "applied")
    assert await desk.log() == [("otto", "claim"), ("otto", "propose"), ("anna", "approve"), ("law", "applied")]


async def test_nobody_approves_what_they_proposed(desk):
    name = await desk.late()
    number = await desk.proposed(name, who="anna")
    answer = await desk.post("anna", f"/reviews/{handle_of(name)}/proposals/{number}/approve", {})
    assert (answer.status_code, answer.json()["code"]) == (403, "ONE_PERSON")
    with pytest.raises(asyncpg.CheckViolationError, match="another_person_decides"):
        await desk.pool.execute("UPDATE review_proposals SET state = 'approved', decider = 'anna', decided_at = now()")
    assert (await desk.post("anna", f"/reviews/{handle_of(name)}/proposals/{number}/reject", {})).status_code == 200
    assert all(type(one).__name__ != "Resolve" for one in desk.shop.commands)


async def test_two_approvals_at_once_are_one_command(desk):
    name = await desk.late()
    number = await desk.proposed(name)
    path = f"/reviews/{handle_of(name)}/proposals/{number}/approve"
    answers = await asyncio.gather(*(desk.post(("anna", "axel")[turn % 2], path, {}) for turn in range(20)))
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 19
    assert sum(type(one).__name__ == "Resolve" for one in desk.shop.commands) == 1


async def test_two_people_cannot_close_over_late_money(desk):
    """Late money has its two exits; the law refuses any other, whoever agrees on it."""
    name = await desk.late()
    number = await desk.proposed(name, "close")
    answer = await desk.post("anna", f"/reviews/{handle_of(name)}/proposals/{number}/approve", {})
    assert (answer.status_code, answer.json()["state"], answer.json()["rule"]) == (200, "refused", "money-waits")
    body = {"action": "book", "evidence": "e", "revision": 1}
    booked = await desk.post("otto", f"/reviews/{handle_of(name)}/proposals", body)
    assert (booked.status_code, booked.json()["code"]) == (422, "NO_SUCH_EXIT")
    assert [one.kind for each in desk.shop.decisions for one in each.operations if one.kind == "REFUND"] == []


@pytest.mark.parametrize(
    ("who", "change", "code"),
    [
        ("olga", {}, "NOT_CLAIMED"),
        ("otto", {"revision": 99}, "DISCREPANCY_CHANGED"),
        ("otto", {"evidence": "  "}, "MALFORMED_REQUEST"),
        ("otto", {"evidence": "x" * 257}, "MALFORMED_REQUEST"),
        ("otto", {"evidence": "nul\0"}, "MALFORMED_REQUEST"),
        ("otto", {"action": "edit"}, "MALFORMED_REQUEST"),
        ("otto", {"amount": 1}, "MALFORMED_REQUEST"),
        ("otto", {"state": "SUCCESS"}, "MALFORMED_REQUEST"),
        ("otto", {"revision": "1"}, "MALFORMED_REQUEST"),
    ],
)
async def test_a_proposal_that_is_not_fit_is_refused_by_name(desk, who: str, change, code: str):
    """R-197: there is no field by which an amount or a state could be edited."""
    name = await desk.late()
    assert (await desk.post("otto", f"/reviews/{handle_of(name)}/claim")).status_code == 204
    revision = (await desk.ask("otto", "GET", f"/reviews/{handle_of(name)}")).json()["item"]["revision"]
    body = {"action": "refund", "evidence": "e", "revision": revision} | change
    answer = await desk.post(who, f"/reviews/{handle_of(name)}/proposals", body)
    assert answer.json()["code"] == code
    assert answer.status_code < 500
    assert await desk.log() == [("otto", "claim")]


async def test_one_proposal_at_a_time_is_open(desk):
    name = await desk.late()
    number = await desk.proposed(name)
    body = {"action": "fulfil", "evidence": "e", "revision": 1}
    answers = await asyncio.gather(
        *(desk.post("otto", f"/reviews/{handle_of(name)}/proposals", body) for _ in range(8))
    )
    assert {(one.status_code, one.json()["code"]) for one in answers} == {(409, "PROPOSAL_OPEN")}
    assert (
        await desk.post("axel", f"/reviews/{handle_of(name)}/proposals/{number}/reject", {"reason": "no"})
    ).status_code == 200
    answers = await asyncio.gather(
        *(desk.post("otto", f"/reviews/{handle_of(name)}/proposals", body) for _ in range(8))
    )
    assert sorted(one.status_code for one in answers) == [201] + [409] * 7


async def test_another_works_on_it_until_an_approver_takes_it(desk):
    name = await desk.late()
    assert (await desk.post("otto", f"/reviews/{handle_of(name)}/claim")).status_code == 204
    answer = await desk.post("olga", f"/reviews/{handle_of(name)}/claim")
    assert (answer.status_code, answer.json()["code"]) == (409, "CLAIMED_BY_ANOTHER")
    assert (await desk.post("anna", f"/reviews/{handle_of(name)}/claim")).status_code == 204
    listed = (await desk.ask("vera", "GET", "/reviews?claimed_by=anna")).json()["items"]
    assert [one["id"] for one in listed] == [name]


async def test_an_approval_outlives_a_broker_that_is_away(desk):
    """Approved is durable before it is sent; the command is sent later under the same id, and once."""
    name = await desk.late()
    number = await desk.proposed(name)
    desk.shop.broken = True
    answer = await desk.post("anna", f"/reviews/{handle_of(name)}/proposals/{number}/approve", {})
    assert (answer.status_code, answer.json()["state"]) == (202, "approved")
    await desk.desk.settle(desk.shop.now)
    desk.shop.broken = False
    await desk.desk.settle(desk.shop.now)
    await desk.desk.settle(desk.shop.now)
    assert [type(one).__name__ for one in desk.shop.commands].count("Resolve") == 1
    case = (await desk.ask("vera", "GET", f"/reviews/{handle_of(name)}")).json()
    assert (case["proposals"][0]["state"], case["proposals"][0]["rule"]) == ("applied", "decided-refund")


async def test_a_verdict_that_nobody_heard_is_learned_from_the_books(desk):
    """A gateway that was killed between sending and hearing: the command is repeated at most, and the law finds it so."""
    name = await desk.late()
    number = await desk.proposed(name)
    desk.shop.silent = True
    assert (await desk.post("anna", f"/reviews/{handle_of(name)}/proposals/{number}/approve", {})).status_code == 202
    desk.shop.silent = False
    desk.shop.hear(desk.shop.commands[-1])
    desk.shop.verdicts.decided.recent._values.clear()
    await desk.desk.settle(desk.shop.now)
    assert desk.shop.decisions[-1].rule == "same-command"
    assert (await desk.ask("vera", "GET", f"/reviews/{handle_of(name)}")).json()["proposals"][0]["state"] == "approved"
    await desk.book()
    await desk.desk.settle(desk.shop.now)
    assert (await desk.ask("vera", "GET", f"/reviews/{handle_of(name)}")).json()["proposals"][0]["state"] == "applied"
    refunds = [one for each in desk.shop.decisions for one in each.operations if one.kind == "REFUND"]
    assert len({one.number for one in refunds}) == 1


async def test_the_law_may_refuse_what_two_people_decided(desk):
    name = await desk.late()
    number = await desk.proposed(name)
    desk.shop.broken = True
    await desk.post("anna", f"/reviews/{handle_of(name)}/proposals/{number}/approve", {})
    desk.shop.broken = False
    await desk.pool.execute("UPDATE review_proposals SET revision = 77")
    await desk.desk.settle(desk.shop.now)
    proposal = (await desk.ask("vera", "GET", f"/reviews/{handle_of(name)}")).json()["proposals"][0]
    assert (proposal["state"], proposal["rule"]) == ("refused", "discrepancy-changed")
    assert await desk.proposed(name) == number + 1


async def test_the_list_tells_what_presses_first(desk):
    first, second = await desk.late("order-1"), await desk.late("order-2")
    await desk.pool.execute("UPDATE books.discrepancies SET deadline = $2 WHERE id = $1", second, desk.shop.now)
    await desk.pool.execute("UPDATE books.discrepancies SET severity = 'info' WHERE id = $1", first)
    told = (await desk.ask("vera", "GET", "/reviews")).json()["items"]
    assert [one["id"] for one in told][:1] == [second]
    assert [one["id"] for one in told][-1] == first
    for query, expected in (
        ("severity=info", [first]), ("order_id=order-2&kind=LATE_SUCCESS", [second]), ("owner=nobody", []),
        ("older_than_hours=1", []), ("resolved=true", []), ("claimed_by=otto", []),
    ):  # fmt: skip
        assert [one["id"] for one in (await desk.ask("vera", "GET", f"/reviews?{query}")).json()["items"]] == expected


@pytest.mark.parametrize(
    "path",
    [
        "%00",
        "x" * 301,
        "x",
        "'; DROP TABLE reviewers; --",
        "AAAA",
        "_-8",
        "ZC0x=",
        handle_of("'; DROP TABLE reviewers; --"),
    ],
)
async def test_a_hostile_name_is_a_name_that_is_not_there(desk, path: str):
    answer = await desk.ask("vera", "GET", f"/reviews/{path}")
    assert (answer.status_code, answer.json()["code"]) == (404, "DISCREPANCY_NOT_FOUND")


@pytest.mark.parametrize(
    ("who", "path", "body"),
    [
        ("vera", "/reviews?owner=%00", None),
        ("vera", "/reviews?most=201", None),
        ("vera", "/reviews?most=x", None),
        ("otto", "/reviews/ZC0x/comments", {"text": ""}),
        ("otto", "/reviews/ZC0x/comments", {"text": "x" * 4001}),
        ("otto", "/reviews/ZC0x/comments", {"text": "nul\0"}),
        ("otto", "/reviews/ZC0x/comments", [[[]]]),
        ("anna", "/reviews/ZC0x/proposals/1/approve", {"approver": "otto"}),
        ("adam", "/reviewers", {"name": "Eve!", "role": "viewer"}),
        ("adam", "/reviewers", {"name": "eve", "role": "root"}),
    ],
)
async def test_a_malformed_request_is_refused_and_changes_nothing(desk, who: str, path: str, body):
    before = await desk.pool.fetchval("SELECT count(*) FROM audit_log")
    answer = await desk.ask(who, "GET" if body is None else "POST", path, body)
    assert (answer.status_code, answer.json()["code"]) == (400, "MALFORMED_REQUEST")
    assert await desk.pool.fetchval("SELECT count(*) FROM audit_log") == before


async def test_a_number_too_large_for_the_tables_is_not_there(desk):
    answer = await desk.post("anna", f"/reviews/ZC0x/proposals/{10**30}/approve", {})
    assert (answer.status_code, answer.json()["code"]) == (404, "PROPOSAL_NOT_FOUND")


async def test_everything_people_did_is_sealed_and_stays(desk):
    name = await desk.late()
    await desk.proposed(name)
    await desk.post("vera", f"/reviews/{handle_of(name)}/comments", {"text": "not mine"})
    for who in ("otto", "olga"):
        assert (
            await desk.post(who, f"/reviews/{handle_of(name)}/comments", {"text": "asked the bank"})
        ).status_code == 201
    async with desk.pool.acquire() as connection:
        verified = await audit.verify(connection)
        assert (verified.broken, verified.head.seq) == ((), len(PEOPLE) + 4)
        for statement in ("UPDATE audit_log SET actor = 'eve'", "DELETE FROM audit_log", "TRUNCATE audit_log"):
            with pytest.raises(asyncpg.RestrictViolationError):
                await connection.execute(statement)
    told = (await desk.ask("anna", "GET", f"/reviews/{handle_of(name)}/audit")).json()
    assert [(one["actor"], one["act"]) for one in told] == await desk.log()


async def test_whoever_owns_the_database_cannot_change_the_log_unseen(postgres):
    async with tables(postgres.dsn) as pool, pool.acquire() as connection:
        at = await connection.fetchval("SELECT now()")
        for number in range(5):
            async with connection.transaction():
                head = await audit.append(connection, audit.act(at, "otto", "comment", "d-1", number=str(number)))
        assert await audit.verify(connection, head) == (head, ())
        await connection.execute("ALTER TABLE audit_log DISABLE TRIGGER ALL")
        await connection.execute("UPDATE audit_log SET actor = 'eve' WHERE seq = 3")
        assert (await audit.verify(connection)).broken == ("entry 3 is not what was sealed",)
        await connection.execute("DELETE FROM audit_log WHERE seq >= 3")
        assert (await audit.verify(connection)).broken == ()
        assert (await audit.verify(connection, Head(5, head.hash))).broken != ()


async def test_writers_at_once_make_one_chain(postgres):
    async with tables(postgres.dsn) as pool:
        at = await pool.fetchval("SELECT now()")

        async def write(number: int) -> None:
            async with pool.acquire() as connection, connection.transaction():
                await audit.append(connection, audit.act(at, f"p{number}", "comment", "d-1"))

        await asyncio.gather(*(write(number) for number in range(50)))
        async with pool.acquire() as connection:
            verified = await audit.verify(connection)
    assert (verified.head.seq, verified.broken) == (50, ())


async def test_a_desk_without_its_database_says_so(desk):
    await desk.pool.execute("ALTER TABLE reviewers RENAME TO gone")
    answer = await desk.ask("vera", "GET", "/reviews")
    assert (answer.status_code, answer.json()["code"]) == (503, "DESK_UNAVAILABLE")
    assert answer.headers["retry-after"] == "5"
