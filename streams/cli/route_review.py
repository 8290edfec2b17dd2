"""`concord route review`: what the weekly look at a book needs: hits, downgrades, and costs beside the contract (R-163, R-164)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from stores import channel_costs, route_decisions, route_downgrades
from streams.cli.database import using
from streams.cli.route_place import CODES, as_format, say, say_json
from streams.domain.remarks import percent
from streams.domain.score import MILLION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stores.channel_costs import Cost
    from stores.route_decisions import Hits


@click.command(epilog=CODES)
@click.option("--days", type=click.IntRange(1, 90), default=7, show_default=True)
@as_format
def review(days: int, form: str) -> None:
    """Print how often which channel was chosen by which rule, how often channels were downgraded, and what they took."""
    until = datetime.now(UTC)
    since = until - timedelta(days=days)
    hits, triggers, costs = using("route", lambda connection: _read(connection, since, until))
    if form == "json":
        passed = [{"channel": name, "why": why, "times": times} for (name, why), times in triggers.items()]
        say_json({"since": since, "until": until, "hits": hits, "downgrades": passed, "costs": costs})
    else:
        say(_lines(hits, triggers, costs))


async def _read(
    connection: Any, since: datetime, until: datetime
) -> tuple[list[Hits], dict[tuple[str, str], int], list[Cost]]:
    hits = await route_decisions.hits(connection, since, until)
    triggers = await route_downgrades.triggers(connection, since)
    return hits, triggers, await channel_costs.of_days(connection, since.date(), until.date())


def _lines(hits: list[Hits], triggers: dict[tuple[str, str], int], costs: list[Cost]) -> Iterator[str]:
    total = sum(one.times for one in hits)
    yield f"{total} decisions"
    for one in hits:
        what = one.failure or f"{one.channel}, {f'rule {one.rule}' if one.rule else 'no rule'}"
        yield f"  {one.times:>8}  {percent(one.times * 10_000 // total * 100):>8}  {one.purpose:<8}  {what}"
    yield f"{sum(triggers.values())} downgrades"
    for (channel, why), times in triggers.items():
        yield f"  {times:>8}  {channel}, {why}"
    yield "costs, minor units" if costs else "no costs were reckoned; is `concord channel-health` running?"
    for each in costs:
        taken = percent(each.fees * MILLION // each.success_volume // 100 * 100) if each.success_volume else "-"
        terms = (
            "not in the book"
            if each.contract_ppm is None
            else f"{percent(each.contract_ppm)} and {each.contract_fixed}"
        )
        yield f"  {each.day} {each.channel} {each.currency}: {each.succeeded} paid, took {each.fees}, {taken}; contract {terms}"
