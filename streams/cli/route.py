"""`concord route`: the book by which channels are chosen, what it would choose and why, and trials of another one."""

from __future__ import annotations

import getpass
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from stores import route_books
from stores.route_knowledge import Knowledge
from streams.cli.database import end, using
from streams.cli.exits import WRONG_SETTING
from streams.cli.route_place import A_FILE, A_TIME, CODES, NOT_DONE, as_format, from_file, known, say, say_json
from streams.cli.route_review import review
from streams.cli.route_trials import replay, simulate
from streams.domain.remarks import Remark, percent, remarks
from streams.domain.routing import route as choose
from streams.domain.score import MILLION, Health
from streams.routes.asks import ask
from streams.routes.wording import lines

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from stores.route_books import Kept
    from streams.domain.score import Rule


@click.group()
def route() -> None:
    """Which channel a payment goes to: filter first, then score."""


route.add_command(simulate)
route.add_command(replay)
route.add_command(review)


@route.command(epilog=CODES)
@click.argument("file", type=A_FILE)
@click.option("--by", default=getpass.getuser, help="Who loads it; by default who you are here.")
@click.option("--why", default="", help="What for, in words.")
@click.option("--yes", is_flag=True, help="Although there are warnings.")
@as_format
def load(file: Path, by: str, why: str, form: str, *, yes: bool) -> None:
    """Check a book, say what it can and cannot do, and make it hold as the next version. Gateways follow within a minute."""
    book = from_file(file)
    said = remarks(book)
    warned = any(one.warning for one in said)
    if form == "text":
        say(map(_remark, said))
    if warned and not yes:
        asked = form == "text" and sys.stdin.isatty() and click.confirm("Load it all the same?")
        if not asked:
            end("route", NOT_DONE, "not loaded: there are warnings; change the book, or give --yes")
    at = datetime.now(UTC)
    version, new = using("route", lambda connection: route_books.load(connection, book, at=at, by=by, why=why))
    if form == "json":
        say_json({"version": version, "new": new, "remarks": said})
    else:
        say([f"book {version} holds" if new else f"book {version} holds already; nothing was changed"])


@route.command(epilog=CODES)
@click.argument("version", type=click.IntRange(1))
@click.option("--by", default=getpass.getuser, help="Who does it; by default who you are here.")
@click.option("--why", default="", help="What for, in words.")
def activate(version: int, by: str, why: str) -> None:
    """Make an earlier version hold again."""
    at = datetime.now(UTC)
    if not using("route", lambda connection: route_books.activate(connection, version, at=at, by=by, why=why)):
        end("route", NOT_DONE, f"there is no book {version}; see `concord route show`")
    say([f"book {version} holds"])


@route.command(epilog=CODES)
@click.option("--version", type=click.IntRange(1), help="This one instead of the one that holds.")
@as_format
def show(version: int | None, form: str) -> None:
    """Print a book, what it can and cannot do, what is known of its channels, and the versions before it."""
    at = datetime.now(UTC)
    kept, before = using("route", lambda connection: _versions(connection, version))
    if kept is None:
        end("route", NOT_DONE, f"there is no book {version or 'yet'}; use `concord route load FILE`")
    now = known(None, at) if version is None else Knowledge(book=kept.book)
    said = remarks(kept.book)
    if form == "json":
        say_json(
            {"book": kept, "remarks": said, "health": now.health, "downgrades": now.downgrades}
            | {
                "versions": [
                    {"version": one.version, "loaded_at": one.loaded_at, "by": one.loaded_by} for one in before
                ]
            }
        )
        return
    say(_shown(kept, now))
    say(map(_remark, said))
    say(
        f"book {one.version} of {one.loaded_at:%Y-%m-%dT%H:%M:%SZ} by {one.loaded_by}: {one.reason or '-'}"
        for one in before
    )


async def _versions(connection: Any, version: int | None) -> tuple[Kept | None, list[Kept]]:
    kept = await (route_books.active(connection) if version is None else route_books.version(connection, version))
    return kept, await route_books.listed(connection)


def _shown(kept: Kept, now: Knowledge) -> Iterator[str]:
    book = kept.book
    since = f"holds since {kept.active_since:%Y-%m-%dT%H:%M:%SZ}" if kept.active_since else "never held"
    yield f"book {book.version}, {since}; scored by {book.by}, hours of {book.zone}"
    for offer in book.offers:
        limits = ", ".join(f"{name} {one.least} to {one.most or 'any'}" for name, one in sorted(offer.limits.items()))
        heard = now.health.get(offer.channel, Health())
        rate = (
            f"{percent(heard.succeeded * MILLION // heard.observed)} of {heard.observed}"
            if heard.observed
            else "not heard of"
        )
        off = "" if offer.enabled else "  disabled"
        yield f"channel {offer.channel}{off}: {limits}; {', '.join(offer.methods) or 'any payment without a method'}"
        assumed = percent(offer.assumed_ppm)
        yield f"  fee {percent(offer.fee_ppm)} and {offer.fee_fixed}; success {rate}, assumed {assumed}; {heard.unknown} unknown"
    for rule in book.rules:
        name = rule.name if rule.active else f"{rule.name} (off)"
        yield f"rule {name}: {_condition(rule)} => {rule.channel}, priority {rule.priority}"
    for one in now.downgrades:
        yield f"passed over: {one.channel} for {one.why}, {one.currency or 'everything'} from {one.amount_from} on"


def _condition(rule: Rule) -> str:
    parts = (
        rule.currency or "",
        f"from {rule.amount_min}" if rule.amount_min else "",
        f"up to {rule.amount_max}" if rule.amount_max else "",
        f"buyer {rule.buyer_tag}" if rule.buyer_tag else "",
        f"{rule.hours.start} to {rule.hours.end}" if rule.hours else "",
    )
    return ", ".join(filter(None, parts)) or "always"


@route.command(epilog=CODES)
@click.option("--amount", type=click.IntRange(1), required=True, help="Integer minor units.")
@click.option("--currency", required=True)
@click.option("--method", help="Such as card.")
@click.option("--buyer-tag")
@click.option("--at", type=A_TIME, help="UTC; now, if none is given.")
@click.option("--tried", multiple=True, help="A channel that did not accept it; several times for several.")
@click.option("--health", "heard", multiple=True, metavar="CHANNEL=SUCCEEDED/FAILED", help="Instead of what was seen.")
@click.option("--book", "file", type=A_FILE, help="A book in a file, without Postgres.")
@as_format
def explain(
    *,
    amount: int,
    currency: str,
    method: str | None,
    buyer_tag: str | None,
    at: datetime | None,
    tried: tuple[str, ...],
    heard: tuple[str, ...],
    file: Path | None,
    form: str,
) -> None:
    """Say which channel a payment would go to, and why: the terms of each score, or the reason a channel was dropped."""
    moment = at.replace(tzinfo=UTC) if at else datetime.now(UTC)
    now = known(file, moment)
    health = now.health | dict(map(_heard, heard))
    asked = ask(now.book, moment, amount=amount, currency=currency, method=method, buyer_tag=buyer_tag, tried=tried)
    routing = choose(asked, now.book, health, now.downgrades)
    if form == "json":
        say_json({"ask": asked, "health": health, "downgrades": now.downgrades, "routing": routing})
    else:
        say(lines(asked, routing, now.book))
    sys.exit(0 if routing.channel else NOT_DONE)


def _heard(text: str) -> tuple[str, Health]:
    channel, _, counts = text.rpartition("=")
    succeeded, _, failed = counts.partition("/")
    if not (channel and succeeded.isdecimal() and failed.isdecimal()):
        end("route", WRONG_SETTING, f"--health {text}: write CHANNEL=SUCCEEDED/FAILED, as simulator:a=19/1")
    return channel, Health(succeeded=int(succeeded), failed=int(failed))


def _remark(one: Remark) -> str:
    return f"{'warning: ' if one.warning else ''}{one.text}"
