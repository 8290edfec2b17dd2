"""The public scenarios, through `concord replay` as a user runs it: what each expects is what comes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from streams.cli.replay import replay
from tests.support.expectations import differences

SHARED = Path(__file__).parents[3] / "shared" / "scenarios"
GROUPS = ("payments", "refunds", "intake", "reconciliation", "faults")


def scenarios() -> list[Any]:
    if not SHARED.is_dir():
        reason = "there is no shared folder with scenarios beside this checkout"
        return [pytest.param({}, marks=pytest.mark.skip(reason=reason), id="no-scenarios")]
    lines = [line for group in GROUPS for line in (SHARED / f"{group}.jsonl").read_text().splitlines()]
    found = [json.loads(line) for line in lines]
    return [pytest.param(one, id=f"{one['id']} {one['title']}") for one in found]


def outcomes(tmp_path: Path, *cases: dict[str, Any]) -> list[dict[str, Any]]:
    """What `concord replay` prints about these scenarios, none of which it may judge by what they expect."""
    file = tmp_path / "cases.jsonl"
    file.write_text("".join(json.dumps(case) + "\n" for case in cases))
    result = CliRunner().invoke(replay, [str(file), "--format", "json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.mark.parametrize("scenario", scenarios())
def test_a_scenario_ends_as_it_expects(scenario: dict[str, Any], tmp_path: Path) -> None:
    blind = {name: value for name, value in scenario.items() if name != "expect"}
    outcome = outcomes(tmp_path, blind)[0]
    assert outcome["id"] == scenario["id"]
    assert differences(scenario["expect"], outcome) == {}


@pytest.mark.parametrize("scenario", scenarios())
def test_a_scenario_ends_the_same_if_everything_is_delivered_twice(scenario: dict[str, Any], tmp_path: Path) -> None:
    """R-072, R-079: a second delivery of every event, at once, after a restart, changes no state, no money and no item.

    That a file came again is told, and is all that comes of it.
    """
    everything = {"redeliver_from": 0}
    numbered = [
        {"offset": place, **event, **(everything if "redeliver_from" in event else {})}
        for place, event in enumerate(scenario["events"])
    ]
    last = numbered[-1]["recv_time"]
    again = {"type": "FAULT", "fault": "KILL", "redeliver_from": 0, "recv_time": last}
    outcome = outcomes(tmp_path, {"id": scenario["id"], "given": scenario["given"], "events": [*numbered, again]})[0]
    batches = {event["batch"] for event in scenario["events"] if event["type"] == "FILE"}
    again_told = [{"type": "DUPLICATE_FILE", "severity": "info", "ref": batch} for batch in batches]
    known = [one for one in scenario["expect"].get("discrepancies", []) if one in again_told]
    outcome["discrepancies"] = known + [one for one in outcome["discrepancies"] if one not in again_told]
    stable = (
        "ops",
        "success_events",
        "refund_events",
        "ledger",
        "discrepancies",
        "captured",
        "refunded",
        "hold",
        "resolved",
    )
    wanted = {key: value for key, value in scenario["expect"].items() if key in stable}
    assert differences(wanted, outcome) == {}
