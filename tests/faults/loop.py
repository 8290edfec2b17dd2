"""The long proof of the whole loop: thousands of payments over faulty channels, and every process killed in the middle.

    python -m tests.faults.loop --payments 20000                            # 5 % of everything faulty, SIGKILLs mid-run
    python -m tests.faults.loop --payments 2000 --drop 0.5 --no-kills       # silent loss: every payment by query

Prints what it found and exits 1 if anything is wrong; the seed and the command repeat it.
"""

from __future__ import annotations

import argparse
import asyncio
import secrets
import sys
import time
from pathlib import Path

import structlog

from streams import log as logs
from streams.demo.loop import running
from streams.simulator.faults import Rates
from streams.simulator.server import hush
from tests.support import services
from tests.support.loop import Loop

CHANNELS = ["stripe:acct_1", "adyen:Shop_ECOM", "alipay:2021000000000001", "wechatpay:1900000001"]
KILLS = ("gateway", "worker", "connector")

log = structlog.get_logger(__name__)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--payments", type=int, default=20_000)
    parser.add_argument(
        "--rate", type=float, default=50.0, help="payments a second; two cores drive 50 with all processes on them"
    )
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--faulty", type=float, default=0.05, help="the rate of every fault")
    parser.add_argument("--drop", type=float, help="the rate of notices that are never sent; --faulty without it")
    parser.add_argument("--channels", default=",".join(CHANNELS))
    parser.add_argument("--no-kills", action="store_true")
    parser.add_argument(
        "--lease", type=int, default=20, help="seconds in which a request may be sent; a kill takes some ten"
    )
    parser.add_argument("--settle", type=float, default=300.0, help="seconds to wait for the end")
    parser.add_argument("--folder", type=Path, default=Path(".concord/loop"))
    return parser.parse_args()


async def harm(loop: Loop, seconds: float) -> None:
    """Kill each process once, spread over the run, and bring it back."""
    for name in KILLS:
        await asyncio.sleep(seconds / (len(KILLS) + 1))
        loop.kill(name)
        log.warning("SIGKILL", process=name)
        loop.start(name)


async def main(told: argparse.Namespace, bootstrap: str) -> int:
    f = told.faulty
    rates = Rates(
        drop=f if told.drop is None else told.drop, delay=f, double=f, reorder=f, lose=f, maintenance=f, contradict=f,
        fail=0.05, slow=0.3,
    )  # fmt: skip
    folder = told.folder / secrets.token_hex(3)
    kafka = {"CONCORD_KAFKA": bootstrap, "CONCORD_REPLICATION": "1"}
    loop = Loop(
        kafka, f"loop{secrets.token_hex(3)}.", folder, told.channels.split(","), rates, told.seed, lease_s=told.lease
    )
    began = time.monotonic()
    async with running(loop):
        harming = asyncio.create_task(asyncio.sleep(0) if told.no_kills else harm(loop, told.payments / told.rate))
        await loop.pay(told.payments, rate=told.rate)
        await harming
        log.info("all payments were started")
        states = await loop.settled(told.settle)
        verdict = await loop.judge()
        if loop.open:
            (folder / "open.jsonl").write_text("\n".join(await loop.stories(loop.open)), encoding="utf-8")
    share = verdict.by_query / max(1, verdict.announced)
    print(f"seed {told.seed}: {told.payments} payments in {time.monotonic() - began:.0f} s; logs in {folder}")
    print(
        f"{verdict.charged} charged, {verdict.announced} announced, {verdict.acknowledged} notices acknowledged and in Kafka"
    )
    print(f"{verdict.by_query} successes first learned by query ({share:.1%})")
    print(f"{verdict.denied} charged, called failed by the channel, and never heard of again")
    print(f"{verdict.unheard} charged where nobody can ask, answer and notices lost: still open, as they must be")
    for state, count in sorted(states.items()):
        print(f"  {state}: {count}")
    print(f"{len(loop.open)} still open" + (f": their stories are in {folder / 'open.jsonl'}" if loop.open else ""))
    print(f"{len(verdict.wrong)} wrong", *verdict.wrong[:20], sep="\n  ")
    return 1 if verdict.wrong else 0


if __name__ == "__main__":
    logs.configure(level="warning")
    hush()
    with services.shared_kafka() as kafka:
        sys.exit(asyncio.run(main(arguments(), kafka.bootstrap)))
