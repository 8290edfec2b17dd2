"""The topics as an AsyncAPI document: every channel, who writes it, its messages by their schemas, how records are keyed."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from streams.codec import schemas

if TYPE_CHECKING:
    from streams.topics import Topic, Topics

TITLE: Final = "Concord"
ABOUT: Final = "Payment results as Kafka topics, keyed by the merchant order id. Records carry CloudEvents attributes in binary mode."
READ: Final = frozenset({"input"})
"""Directions that Concord receives; every other topic is written by it."""


def document(topics: Topics) -> dict[str, Any]:
    """AsyncAPI 3.0. Messages refer to `schemas/*.json` beside it; a table of our own has no published message."""
    published = schemas()
    kept = [topic for topic in topics.all if topic.direction != "changelog"]
    return {
        "asyncapi": "3.0.0",
        "info": {"title": TITLE, "version": version("concord"), "description": ABOUT},
        "defaultContentType": "application/json",
        "channels": {topic.name: _channel(topic, published) for topic in kept},
        "operations": {
            f"{'receive' if topic.direction in READ else 'send'}-{topic.name}": _operation(topic, published)
            for topic in kept
        },
        "components": {
            "messages": {
                name: {
                    "name": name,
                    "headers": {"$ref": "#/components/schemas/headers"},
                    "payload": {"$ref": f"schemas/{name}.json"},
                }
                for name in sorted(published)
            },
            "schemas": {"headers": _headers()},
        },
    }


def _messages(topic: Topic, published: dict[str, Any]) -> list[str]:
    return [name for name in topic.messages if name in published]


def _channel(topic: Topic, published: dict[str, Any]) -> dict[str, Any]:
    return {
        "address": topic.topic,
        "description": topic.about,
        "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in _messages(topic, published)},
        "bindings": {
            "kafka": {"topic": topic.topic, "partitions": topic.partitions, "replicas": topic.replication, "bindingVersion": "0.5.0"}
        },
        "x-key": topic.key,
    }  # fmt: skip


def _operation(topic: Topic, published: dict[str, Any]) -> dict[str, Any]:
    where = f"#/channels/{topic.name}"
    return {
        "action": "receive" if topic.direction in READ else "send",
        "channel": {"$ref": where},
        "messages": [{"$ref": f"{where}/messages/{name}"} for name in _messages(topic, published)],
    }


def _headers() -> dict[str, Any]:
    names = ("ce_specversion", "ce_id", "ce_type", "ce_source", "ce_time", "traceparent")
    return {"type": "object", "properties": {name: {"type": "string"} for name in names}}
