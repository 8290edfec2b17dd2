"""What starts Concord's roles for us, by Docker or Kubernetes: each command is one that there is, and nothing runs as root."""

from __future__ import annotations

import importlib
from pathlib import Path

import click
import pytest
import yaml

from streams.__main__ import COMMANDS

ROOT = Path(__file__).parents[2]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
MANIFESTS = [one for one in yaml.safe_load_all((ROOT / "deploy" / "kubernetes" / "concord.yaml").read_text()) if one]
ROLES = {"worker", "gateway", "connector", "projector", "notifier", "router", "channel-health"}


def containers():
    for one in MANIFESTS:
        spec = one.get("spec", {})
        spec = spec.get("jobTemplate", {}).get("spec", spec)
        pod = spec.get("template", {}).get("spec")
        if pod is not None:
            for container in (*pod["containers"], *pod.get("initContainers", ())):
                yield container, pod


COMMANDED = [one["command"] for one in COMPOSE.values() if one.get("command", [""])[0] == "concord"]
COMMANDED += [container["command"] for container, _ in containers()]


@pytest.mark.parametrize("command", COMMANDED, ids=" ".join)
def test_every_command_is_one_with_such_options(command):
    module, attribute = COMMANDS[command[1]].split(":")
    found = getattr(importlib.import_module(module), attribute)
    rest = command[2:]
    while isinstance(found, click.Group) and rest and not rest[0].startswith("-"):
        inner = found.get_command(click.Context(found), rest[0])
        assert inner is not None, rest[0]
        found, rest = inner, rest[1:]
    found.make_context(command[1], list(rest), resilient_parsing=True)
    known = {option for parameter in found.params for option in parameter.opts}
    assert {one for one in rest if one.startswith("--")} <= known


def test_every_role_is_there_in_both():
    assert COMPOSE.keys() >= ROLES
    names = {one["metadata"]["name"].removeprefix("concord-") for one in MANIFESTS if one["kind"] == "Deployment"}
    assert names == ROLES


def test_nothing_is_published_beyond_this_machine_and_nothing_runs_as_root():
    for name, service in COMPOSE.items():
        assert all(str(port).startswith("127.0.0.1:") for port in service.get("ports", ())), name
    assert "USER concord" in (ROOT / "Dockerfile").read_text()
    for container, pod in containers():
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_what_is_waited_for_is_a_service():
    for name, service in COMPOSE.items():
        assert set(service.get("depends_on", ())) <= COMPOSE.keys(), name


def test_prometheus_asks_every_role():
    scraped = yaml.safe_load((ROOT / "deploy" / "prometheus" / "prometheus.yml").read_text())
    targets = {
        one.split(":")[0]
        for job in scraped["scrape_configs"]
        for static in job["static_configs"]
        for one in static["targets"]
    }
    assert targets == ROLES
