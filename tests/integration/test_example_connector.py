"""The example connector in another language works from the published schemas alone, in the whole loop."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from streams.demo.loop import running
from streams.simulator.faults import Rates
from tests.support.loop import Loop

pytestmark = pytest.mark.kafka

EXAMPLE = Path(__file__).parents[2] / "examples" / "connector-node"
FAULTY = Rates(drop=0.05, double=0.05, lose=0.05, maintenance=0.05, fail=0.05, slow=0.3)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """The example with what it needs, or a skip that says what is missing."""
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        pytest.skip("Node.js is not installed: `node` and `npm` are not on the path")
    folder = tmp_path / "connector"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("node_modules"))
    got = subprocess.run([npm, "ci"], cwd=folder, check=False, capture_output=True, text=True, timeout=120)
    if got.returncode != 0:
        pytest.skip(f"`npm ci` cannot get the Kafka client: {got.stderr.strip()[-300:]}")
    return folder / "connector.js"


async def test_a_connector_in_node_charges_each_payment_once_from_the_schemas_alone(
    kafka, topic_prefix, tmp_path, program
):
    loop = Loop(
        {"CONCORD_KAFKA": kafka.bootstrap, "CONCORD_REPLICATION": "1"}, topic_prefix, tmp_path, ["simulator"], FAULTY
    )
    account = loop.simulator.played["simulator"].account
    credentials = tmp_path / f"simulator-{account}.json"
    told = {
        "BROKERS": kafka.bootstrap,
        "PREFIX": loop.topics["channel-requests"].removesuffix("channel-requests"),
        "GROUP": f"{topic_prefix}example",
        "ACCOUNT": f"simulator:{account}",
        "ENDPOINT": f"http://127.0.0.1:{loop.ports['simulator']}/simulator",
        "API_KEY": json.loads(credentials.read_text())["api_key"],
    }
    loop.env |= told
    loop.instead["connector"] = ["node", str(program)]
    async with running(loop):
        await loop.pay(100, rate=50)
        states = await loop.settled(60)
        verdict = await loop.judge()
    assert verdict.wrong == [], states
    assert not loop.open, states
    assert verdict.charged == verdict.announced > 75
