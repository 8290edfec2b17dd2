"""Each notice has its line: complete, in order, without cards, and written before the loop rests."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from datetime import datetime

import pytest

from streams.gateway.journal import INFO, WARNING, Journal, Line

CARD = "4111111111111111"


class Target(io.StringIO):
    """A stream that counts how often it was written to."""

    writes = 0

    def write(self, text: str) -> int:
        self.writes += 1
        return super().write(text)

    @property
    def lines(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.getvalue().splitlines()]


@pytest.fixture
def target():
    level = logging.getLogger("streams.gateway.journal")
    level.setLevel(INFO)
    yield Target()
    level.setLevel(logging.NOTSET)


async def test_the_lines_of_one_turn_are_written_together_and_in_order(target):
    journal = Journal(target)
    for number in range(3):
        journal.tell(INFO, Line("stored", orders=[f"order-{number}"], events=1))
    assert target.lines == []
    await asyncio.sleep(0)
    assert [line["orders"] for line in target.lines] == [["order-0"], ["order-1"], ["order-2"]]
    assert target.writes == 1


async def test_a_line_has_the_fields_of_every_other_line(target):
    journal = Journal(target)
    journal.tell(WARNING, Line("stale", channel="stripe", account="a", trace="0a", field="Stripe-Signature"))
    journal.flush()
    [line] = target.lines
    at = datetime.fromisoformat(str(line.pop("timestamp")))
    assert at.utcoffset() is not None
    assert line == {
        "event": "notice", "level": "warning", "logger": "streams.gateway.journal", "outcome": "stale",
        "channel": "stripe", "account": "a", "trace": "0a", "field": "Stripe-Signature",
    }  # fmt: skip


async def test_a_line_below_the_level_is_not_made(target):
    logging.getLogger("streams.gateway.journal").setLevel(WARNING)
    journal = Journal(target)
    journal.tell(INFO, Line("stored"))
    journal.flush()
    assert target.writes == 0


async def test_no_field_shows_what_may_be_a_card_number(target):
    journal = Journal(target)
    ids = [CARD, f"order-{CARD}", f"12345-{CARD}"]
    journal.tell(INFO, Line("stored", account=CARD, trace=f"{CARD}{'a' * 16}", why=f"for {CARD}", orders=ids))
    journal.flush()
    assert CARD not in target.getvalue()
    assert target.lines[0]["account"] == "[card …1111]"


async def test_the_account_of_a_line_is_readable_and_a_card_in_its_place_is_not(target):
    journal = Journal(target)
    journal.tell(INFO, Line("stored", channel="alipay", account="2021000000000000", orders=["2021000000000000"]))
    journal.tell(INFO, Line("stored", channel="alipay", account=CARD))
    journal.flush()
    assert [line["account"] for line in target.lines] == ["2021000000000000", "[card …1111]"]
    assert target.lines[0]["orders"] == ["[card …0000]"]
