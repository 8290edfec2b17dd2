"""The public scenarios with faults, and some of ours, on a real broker with real workers (R-024): what each expects is what comes of it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from streams.replay.report import report
from streams.replay.run import Run
from tests.faults.cases import Case, play_all
from tests.faults.chaos import FOLDER, fresh
from tests.support.expectations import differences

if TYPE_CHECKING:
    from streams.dev.services import Kafka

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

PUBLIC: Final = Path(__file__).parents[3] / "shared" / "scenarios" / "faults.jsonl"
FILES: Final = frozenset({"FILE", "PAYOUT"})
MONEY: Final = {"channel": "chZ", "ccy": "EUR"}


def line(second: int, kind: str, /, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "recv_time": f"2025-05-05T10:{second // 60:02d}:{second % 60:02d}Z", **fields}


def fault(second: int, kind: str, /, **fields: Any) -> dict[str, Any]:
    return line(second, "FAULT", fault=kind, **fields)


def paid(second: int, name: str, **fields: Any) -> dict[str, Any]:
    """The channel's word that the payment of an order succeeded."""
    told = {
        "order": f"order-{name}",
        "op": name,
        "amount": 1250,
        "txn": f"txn-{name}",
        "event_id": f"e-{name}",
        **MONEY,
    }
    return line(second, "CALLBACK", **{"status": "SUCCESS"} | told | fields)


def asked(at: int, name: str) -> dict[str, Any]:
    return line(at, "SUBMIT", order=f"order-{name}", op=name, amount=1250, **MONEY)


PART: Final = {"order": "order-back", "op": "R-back", "parent": "back", "amount": 400, **MONEY}
HELD: Final = {"order": "order-held", "op": "C-held", "parent": "held", "amount": 1250, **MONEY}
OURS: Final[list[dict[str, Any]]] = [
    {
        "id": "a failed send, a rewound group and a killed worker",
        "given": {"now": "2025-05-05T10:00:00Z"},
        "events": [
            asked(1, "back"),
            fault(2, "OUTPUT_FAIL_ONCE"),
            paid(3, "back", offset=0),
            line(4, "REFUND_REQUEST", **PART),
            line(
                5,
                "RAW_RECORD",
                partition=1,
                offset=7,
                key_utf8="order-back",
                value_utf8='{"type": "CALLBACK", "order":',
            ),
            fault(6, "OFFSET_RESET", to_offset=0, redeliver_from=0),
            line(200, "TICK"),
            line(
                201, "REFUND_CALLBACK", status="SUCCESS", refund_txn="rtx-back", event_id="e-refund", offset=1, **PART
            ),
            fault(202, "KILL", at="AFTER_OUTPUT_BEFORE_COMMIT", redeliver_from=0),
        ],
        "expect": {
            "ops": {"back": "SUCCESS", "R-back": "SUCCESS"},
            "success_events": 1,
            "refund_events": 1,
            "discrepancies": [{"type": "DEAD_LETTER", "severity": "high", "ref": "1:7"}],
            "refunded": {"order-back": 400},
        },
    },
    {
        "id": "a partition that moves before the commit of a capture",
        "given": {"now": "2025-05-05T10:00:00Z"},
        "events": [
            asked(1, "held"),
            paid(2, "held", status="AUTHORIZED", offset=0),
            line(3, "CAPTURE_REQUEST", **HELD),
            line(4, "CAPTURE_RESULT", status="SUCCESS", txn="ctx-held", offset=1, **HELD),
            fault(5, "REBALANCE", to_instance=2, before_commit=True),
            fault(20, "RESTART", instance=2, redeliver_from=0),
        ],
        "expect": {
            "ops": {"held": "SUCCESS", "C-held": "SUCCESS"},
            "success_events": 1,
            "captured": {"order-held": 1250},
        },
    },
]


def without_partitions(scenario: dict[str, Any]) -> dict[str, Any]:
    """The same lines, each where its key belongs."""
    events = [{name: value for name, value in event.items() if name != "partition"} for event in scenario["events"]]
    return {**scenario, "id": f"{scenario['id']} by key", "events": events}


def playable(scenario: dict[str, Any]) -> str:
    """Why a scenario cannot be played to workers; empty if it can."""
    if {event["type"] for event in scenario["events"]} & FILES:
        return "it needs the importer of files, which is not in this release"
    if any(event.get("fault") == "CRASH_IMPORT" for event in scenario["events"]):
        return "it crashes the importer of files, which is not in this release"
    return ""


def scenarios() -> list[dict[str, Any]]:
    public = [json.loads(text) for text in PUBLIC.read_text().splitlines()] if PUBLIC.exists() else []
    misplaced = [one for one in public if any("partition" in event for event in one["events"])]
    return [*OURS, *public, *map(without_partitions, misplaced)]


def params() -> list[Any]:
    found = []
    for scenario in scenarios():
        marks = []
        if reason := playable(scenario):
            marks.append(pytest.mark.skip(reason=reason))
        found.append(pytest.param(scenario, id=scenario["id"], marks=marks))
    if not PUBLIC.exists():
        reason = "there is no shared folder with scenarios beside this checkout"
        found.append(pytest.param({}, id="no-scenarios", marks=pytest.mark.skip(reason=reason)))
    return found


@pytest.fixture(scope="module")
def played(kafka: Kafka) -> dict[str, Case]:
    """All of them, several at the same time: most of their time is spent waiting for the group to notice."""
    chosen = [one for one in scenarios() if not playable(one)]
    fresh(FOLDER / "cases")
    cases = asyncio.run(play_all(chosen, kafka.bootstrap, FOLDER / "cases"))
    return {one["id"]: case for one, case in zip(chosen, cases, strict=True)}


@pytest.mark.parametrize("scenario", params())
def test_a_scenario_with_faults_ends_as_it_expects_on_a_broker(scenario: dict[str, Any], played: dict[str, Case]):
    case = played[scenario["id"]]
    assert case.facts.violations == [], case.folder
    assert differences(scenario["expect"], case.outcome) == {}, case.folder


@pytest.mark.parametrize("scenario", OURS, ids=lambda one: one["id"])
def test_a_broker_and_a_replay_tell_the_same_in_every_key(scenario: dict[str, Any], played: dict[str, Case]):
    replayed = report(Run(scenario["given"], scenario["events"]).play())
    assert differences(replayed, played[scenario["id"]].outcome) == {}
