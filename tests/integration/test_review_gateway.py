"""The review desk in a real gateway, beside a real worker, on a real Kafka and Postgres."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from stores import reviewers
from stores.pool import connect
from streams.domain.decisions import Decision
from streams.domain.events import Answer
from streams.gateway.review import new_reviewer
from streams.gateway.review_shapes import handle_of
from tests.integration.test_cashier import CHANNEL, Stage, staged
from tests.support.desk import book

pytestmark = [pytest.mark.kafka, pytest.mark.postgres]


async def late(stage: Stage, connection: Any) -> str:
    """Money that came after its payment was closed: the discrepancy's id, in the books."""
    payment = (await stage.create("order-1", "c-1")).json()
    await stage.client.post(f"/v1/payments/{payment['payment_no']}/start", json={})
    common = {"order_id": "order-1", "payment_no": payment["payment_no"], "channel": CHANNEL, "merchant": "shop"}
    paid = Answer(request="query", status="SUCCESS", transaction="t-1", amount=1000, currency="USD", **common)
    await stage.job.send("query-results", [Answer(request="close", status="CLOSED", **common), paid])
    told = await stage.job.wait("decisions", lambda records: any(b"LATE_SUCCESS" in one.value for one in records))
    decisions = [msgspec.json.decode(one.value, type=Decision) for one in told]
    for decision in decisions:
        await book(connection, decision)
    (name,) = {one.id for each in decisions for one in each.discrepancies if one.kind == "LATE_SUCCESS"}
    return name


async def person(connection: Any, name: str, role: Any) -> dict[str, str]:
    made, key = new_reviewer(name, role)
    assert await reviewers.add(connection, made, datetime.now(UTC), "console")
    return {"Authorization": f"Bearer {key}"}


async def test_late_money_goes_back_through_a_real_gateway_and_worker(kafka, topic_prefix, tmp_path):
    """R-197: nobody but two people sends the one refund request."""
    async with staged(kafka, topic_prefix, tmp_path) as stage:
        connection = await connect(stage.postgres.dsn)
        case = f"/v1/reviews/{handle_of(await late(stage, connection))}"
        otto, anna = await person(connection, "otto", "operator"), await person(connection, "anna", "approver")
        await connection.close()
        assert (await stage.client.get(case)).status_code == 401  # a merchant's key
        revision = (await stage.client.get(case, headers=otto)).json()["item"]["revision"]
        assert (await stage.client.post(f"{case}/claim", headers=otto)).status_code == 204
        body = {"action": "refund", "evidence": "ticket 7", "revision": revision}
        assert (await stage.client.post(f"{case}/proposals", json=body, headers=otto)).status_code == 201
        assert await stage.requests("order-1", "REFUND") == []
        done = await stage.client.post(f"{case}/proposals/1/approve", json={}, headers=anna)
        assert (done.status_code, done.json()["state"], done.json()["rule"]) == (200, "applied", "decided-refund")
        await stage.job.wait("channel-requests", lambda records: any(b'"REFUND"' in one.value for one in records))
        (refund,) = await stage.requests("order-1", "REFUND")
        assert refund["amount"] == 1000
