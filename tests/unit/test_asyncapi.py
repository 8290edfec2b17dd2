"""The AsyncAPI document: every reference in it leads somewhere, and each topic stands in it once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from streams.cli.asyncapi import document
from streams.topics import Topics

DOCS = Path(__file__).parents[2] / "docs"


def references(node: Any) -> list[str]:
    if isinstance(node, dict):
        found = [node["$ref"]] if "$ref" in node else []
        return found + [one for value in node.values() for one in references(value)]
    return [one for value in node for one in references(value)] if isinstance(node, list) else []


def test_every_reference_leads_somewhere():
    made = document(Topics.load())
    for reference in references(made):
        if not reference.startswith("#/"):
            assert (DOCS / reference).is_file(), reference
            continue
        node = made
        for step in reference.removeprefix("#/").split("/"):
            node = node[step]


def test_every_topic_but_the_state_is_received_or_sent_once():
    topics = Topics.load()
    made = document(topics)
    wanted = {topic.topic: topic.direction for topic in topics.all if topic.direction != "changelog"}
    assert {one["address"] for one in made["channels"].values()} == wanted.keys()
    assert len(made["operations"]) == len(wanted)
    received = {name.partition("-")[2] for name, one in made["operations"].items() if one["action"] == "receive"}
    assert received == {topic.name for topic in topics.all if topic.direction == "input"}
