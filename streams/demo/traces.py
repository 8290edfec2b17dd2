"""What a demonstration leaves on a broker, topics under a prefix of its own, and how to remove exactly that."""

from __future__ import annotations

import asyncio
import re
import time
from typing import TYPE_CHECKING, Any, Final

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import for_code

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX: Final = re.compile(r"demo-\d+\.")
UNKNOWN_TOPIC: Final = 3
WITHIN_S: Final = 20.0


class LeftoverError(RuntimeError):
    """Topics of a demonstration could not be deleted; the text names them."""


def prefix() -> str:
    """A new prefix. No other topics have one of this form, so that removing them can remove nothing else."""
    return f"demo-{time.time_ns() // 1_000_000}."


async def remove(kafka: Mapping[str, Any], under: str) -> list[str]:
    """Delete the topics under a demonstration's prefix, and return their names. Refuses any other prefix by `ValueError`."""
    if not PREFIX.fullmatch(under):
        raise ValueError(f"{under!r} is not the prefix of a demonstration, which reads demo-1700000000000.")
    client = AIOKafkaAdminClient(**kafka, request_timeout_ms=int(WITHIN_S * 1000))
    try:
        async with asyncio.timeout(WITHIN_S):
            await client.start()
            names = sorted(name for name in await client.list_topics() if name.startswith(under))
            left = (await client.delete_topics(names)).topic_error_codes if names else []
    finally:
        await client.close()
    refused = {name: for_code(code).__name__ for name, code in left if code not in (0, UNKNOWN_TOPIC)}
    if refused:
        raise LeftoverError(f"the broker keeps {', '.join(f'{name} ({why})' for name, why in refused.items())}")
    return names
