"""How a broker's topics differ from the list, in words: a sentence for a log, lines that fit a terminal, and what a reader refuses."""

from __future__ import annotations

import textwrap
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from streams.topics import Severity, TopicsError, check

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from streams.settings import Settings
    from streams.topics import Difference, Topics

UNREADABLE: Final = ("topic", "partitions")


def sentence(difference: Difference) -> str:
    """One difference on one line."""
    return f"{difference.severity}: {_place(difference)} {_found(difference)}: {difference.why}"


def paragraphs(differences: Sequence[Difference], width: int) -> Iterator[str]:
    """Lines of at most `width` characters, a topic's differences together; a name or a value is never cut."""
    for topic, found in groupby(differences, attrgetter("topic")):
        yield topic
        for difference in found:
            for text, indent in ((f"{difference.severity}: {_found(difference)}", 2), (difference.why, 4)):
                yield from textwrap.wrap(
                    text,
                    width,
                    initial_indent=" " * indent,
                    subsequent_indent=" " * (indent + 2),
                    break_long_words=False,
                    break_on_hyphens=False,
                )


async def require_readable(settings: Settings, topics: Topics, names: Collection[str]) -> None:
    """Refuse before a client waits for topics that are not there. Raises `TopicsError` for the first that cannot be read.

    Other differences do not matter to a reader: an audit is wanted most where the topics are not what they should be.
    """
    for difference in await check(settings.kafka, topics):
        unreadable = difference.severity is Severity.BREAKS and difference.field in UNREADABLE
        if unreadable and difference.topic in names:
            prefix = f"CONCORD_TOPIC_PREFIX is {settings.topic_prefix!r}"
            raise TopicsError(f"{_place(difference)} {_found(difference)}; {prefix}; see `concord topics diff`")


def _place(difference: Difference) -> str:
    return difference.topic if difference.field == "topic" else f"{difference.topic}:"


def _found(difference: Difference) -> str:
    if difference.field == "topic":
        return "is missing on the broker"
    return f"{difference.field} is {difference.found}, not {difference.wanted}"
