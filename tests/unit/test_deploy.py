"""What `deploy/` tells Prometheus and Grafana: it parses, and names only metrics that some process serves."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
RULES = sorted((ROOT / "deploy" / "prometheus").glob("*.yaml"))
BOARDS = sorted((ROOT / "deploy" / "grafana").glob("*.json"))
NAME = re.compile(r"\bconcord_[a-z_]+\b")
SUFFIXES = ("", "_total", "_bucket", "_sum", "_count")


def served() -> set[str]:
    """Every name that the code gives to a family, with what the client library appends."""
    quoted = re.compile(r'"(concord_[a-z_]+)"')
    names = {name for path in (ROOT / "streams").rglob("*.py") for name in quoted.findall(path.read_text())}
    return {name + suffix for name in names for suffix in SUFFIXES}


def rules(path: Path):
    return [rule for group in yaml.safe_load(path.read_text())["groups"] for rule in group["rules"]]


def test_there_are_rules_and_a_dashboard():
    assert RULES
    assert BOARDS


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.name)
def test_every_alert_names_what_is_served_and_says_what_to_do(path):
    found = rules(path)
    assert len({rule["alert"] for rule in found}) == len(found)
    for rule in found:
        names = set(NAME.findall(rule["expr"]))
        assert names, rule["alert"]
        assert names <= served(), rule["alert"]
        assert rule["labels"]["severity"] in {"page", "warn"}
        assert rule["annotations"]["summary"]
        assert set(NAME.findall(rule["annotations"]["action"])) <= served()


@pytest.mark.parametrize("path", BOARDS, ids=lambda path: path.name)
def test_every_panel_shows_what_is_served(path):
    panels = json.loads(path.read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        for target in panel["targets"]:
            names = set(NAME.findall(target["expr"]))
            assert names, panel["title"]
            assert names <= served(), panel["title"]
