"""The whole loop: gateway, worker and connector around simulated channels that lie, lose and repeat."""

from __future__ import annotations

import pytest

from streams.demo.loop import running
from streams.simulator.faults import Rates
from tests.support.loop import Loop

pytestmark = pytest.mark.kafka

FAULTY = Rates(drop=0.05, delay=0.05, double=0.05, reorder=0.05, lose=0.05, maintenance=0.05, fail=0.05, slow=0.3)


async def test_every_charge_ends_in_one_verdict_and_none_is_made_twice(kafka, topic_prefix, tmp_path):
    channels = ["simulator", "stripe:acct_1", "alipay:2021000000000001", "wechatpay:1900000001"]
    loop = Loop(
        {"CONCORD_KAFKA": kafka.bootstrap, "CONCORD_REPLICATION": "1"}, topic_prefix, tmp_path, channels, FAULTY
    )
    async with running(loop):
        await loop.pay(200, rate=50)
        states = await loop.settled(90)
        verdict = await loop.judge()
    assert verdict.wrong == [], states
    assert verdict.charged == verdict.announced > 150
    assert verdict.acknowledged > 100
