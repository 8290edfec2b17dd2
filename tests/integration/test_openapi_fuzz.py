"""Requests made from the OpenAPI documents themselves, lawful and not: no answer is a 5xx (R-130 to R-144, R-197).

`OPENAPI_EXAMPLES=2000` looks longer.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import schemathesis
import uvicorn
from hypothesis import HealthCheck, given, settings

from streams.dev import ports
from tests.support.cashier import Shop, new

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLES = int(os.environ.get("OPENAPI_EXAMPLES", "120"))
WITHIN_S = 10.0


@contextmanager
def served(shop: Shop) -> Iterator[str]:
    """The cashier on a port of its own, in a thread with a loop of its own."""
    (port,) = ports.free(1)
    server = uvicorn.Server(uvicorn.Config(shop.app, port=port, log_level="critical", lifespan="off", ws="none"))

    async def run() -> None:
        async with shop:
            await server.serve()

    thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
    thread.start()
    deadline = time.monotonic() + WITHIN_S
    while not server.started:
        assert time.monotonic() < deadline, "the server did not start"
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(WITHIN_S)


def test_nothing_that_is_asked_of_the_cashier_is_answered_with_a_5xx():
    shop = Shop()
    with served(shop) as base:
        schema = schemathesis.openapi.from_url(f"{base}/v1/openapi.json")
        operations = [found.ok() for found in schema.get_all_operations()]
        assert len(operations) >= 8
        known = httpx.post(f"{base}/v1/payments", json=new("order-known"), headers=shop.headers["shop"]).json()[
            "payment_no"
        ]
        seen: dict[int, int] = {}
        for operation in operations:

            @settings(
                max_examples=max(1, EXAMPLES // len(operations)), deadline=None, database=None, derandomize=True,
                suppress_health_check=list(HealthCheck),
            )  # fmt: skip
            @given(case=operation.as_strategy())
            def answered(case: Any) -> None:
                shop.clock += 1.0  # a moment passes, so that the rate limit answers for nothing else
                if sum(seen.values()) % 2:  # every other one is about a payment that is there, or could be
                    case.path_parameters = dict.fromkeys(case.path_parameters or (), known)
                    if case.path == "/v1/payments" and isinstance(case.body, dict):
                        case.body = {**case.body, **new(f"order-{len(shop.orders)}")}
                response = case.call(base_url=base, headers=shop.headers["shop"])
                seen[response.status_code] = seen.get(response.status_code, 0) + 1
                assert response.status_code < 500, (case.method, case.path, response.status_code, response.text)

            answered()
    assert any(code < 300 for code in seen), seen
    assert any(400 <= code < 500 for code in seen), seen
