"""`concord route simulate` and `replay`: a book on a day of its own, and on what was really decided."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from stores import route_books, route_decisions
from streams.cli.database import end, using
from streams.cli.exits import WRONG_SETTING
from streams.cli.route_place import A_FILE, A_TIME, CODES, as_format, from_file, known, say, say_json
from streams.domain.remarks import percent
from streams.domain.score import MILLION
from streams.routes import counterfactual
from streams.routes.day import DAY, Failing, Tally, compared, favourite

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from streams.domain.score import Book
    from streams.routes.counterfactual import Replayed


@click.command(epilog=CODES)
@click.argument("file", type=A_FILE, required=False)
@click.option("--payments", type=click.IntRange(1, 1_000_000), default=10_000, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True, help="The same seed is the same day.")
@click.option("--currency", help="By default the first that the book takes.")
@click.option(
    "--failing", metavar="CHANNEL", help="By default the channel that the plain score uses most; `none` fails none."
)
@click.option("--starts", type=click.IntRange(0, DAY - 1), default=720, show_default=True, help="Minute of the day.")
@click.option("--minutes", type=click.IntRange(1, DAY), default=20, show_default=True, help="How long it fails.")
@as_format
def simulate(
    *,
    file: Path | None,
    payments: int,
    seed: int,
    currency: str | None,
    failing: str | None,
    starts: int,
    minutes: int,
    form: str,
) -> None:
    """Play a seeded day under four policies side by side, while one channel fails for a while.

    FILE is a book; without it, the one that holds. Its assumed success rates are taken for the true ones.
    """
    book = known(file, datetime.now(UTC)).book
    money = currency or next((name for one in book.offers for name in one.limits), "")
    names = [one.channel for one in book.offers if money in one.limits]
    if not names:
        end("route", WRONG_SETTING, f"--currency: no channel of the book takes {money or 'any'}")
    if failing not in {None, "none", *names}:
        end("route", WRONG_SETTING, f"--failing: {failing} takes no {money} in this book; it has {', '.join(names)}")
    fails = None
    if failing != "none":
        fails = Failing(channel=failing or favourite(book, money, seed), starts=starts, minutes=minutes)
    tallies = compared(book, count=payments, seed=seed, currency=money, failing=fails)
    if form == "json":
        say_json({"currency": money, "seed": seed, "failing": fails, "policies": tallies})
    else:
        say(_table(tallies, money, fails))


def _table(tallies: dict[str, Tally], currency: str, failing: Failing | None) -> Iterator[str]:
    one = next(iter(tallies.values()))
    if failing is None:
        yield f"{one.payments} payments in {currency}; no channel fails"
    else:
        when = f"{_clock(failing.starts)} to {_clock(failing.starts + failing.minutes)}"
        yield f"{one.payments} payments in {currency}; {failing.channel} fails from {when}, in which {one.hit_payments} fall"
    yield _row("policy", "at once", "in the end", "attempts", "fees", "of volume", "then: at once", "in the end")
    for name, each in tallies.items():
        yield _row(
            name,
            _share(each.at_once, each.payments),
            _share(each.succeeded, each.payments),
            str(each.attempts),
            str(each.fees),
            percent(each.fee_ppm // 100 * 100),
            _share(each.hit_at_once, each.hit_payments),
            _share(each.hit_succeeded, each.hit_payments),
        )


def _row(name: str, *cells: str) -> str:
    return f"{name:<16}" + "".join(f"{cell:>14}" for cell in cells)


def _clock(minute: int) -> str:
    return f"{minute // 60 % 24:02}:{minute % 60:02}"


def _share(part: int, whole: int) -> str:
    """Two places of a per cent, cut."""
    return percent(part * 10_000 // whole * 100) if whole else "-"


@click.command(epilog=CODES)
@click.option("--from", "since", type=A_TIME, required=True, help="UTC; the first decision.")
@click.option("--to", "until", type=A_TIME, required=True, help="UTC; the end, not part of it.")
@click.option("--book", "file", type=A_FILE, required=True, help="The other book.")
@as_format
def replay(since: datetime, until: datetime, file: Path, form: str) -> None:
    """Route recorded decisions again under another book, and say what differs: choices, fees, expected successes."""
    book = from_file(file)
    begin, finish = since.replace(tzinfo=UTC), until.replace(tzinfo=UTC)
    if finish <= begin:
        end("route", WRONG_SETTING, "--to: not after --from; give a later time")
    found = using("route", lambda connection: _replayed(connection, begin, finish, book))
    if form == "json":
        say_json(found)
    else:
        say(_differences(found))


async def _replayed(connection: Any, since: datetime, until: datetime, book: Book) -> Replayed:
    sums = counterfactual.begun()
    recorded: dict[int, Book] = {}
    async for one in route_decisions.between(connection, since, until):
        number = one.routing.book
        if number not in recorded:
            kept = await route_books.version(connection, number)
            assert kept is not None  # a decision refers to its book by key
            recorded[number] = kept.book
        counterfactual.take(sums, one, book, recorded)
    return sums


def _differences(found: Replayed) -> Iterator[str]:
    yield f"{found.decisions} decisions, {found.changed} would differ"
    for move, times in sorted(found.moves.items(), key=lambda each: (-each[1], each[0])):
        yield f"  {times:>8}  {move}"
    for currency in sorted(found.was.fees.keys() | found.would.fees.keys()):
        was, would = found.was.fees.get(currency, 0), found.would.fees.get(currency, 0)
        yield f"fees in {currency} minor units: {was} as decided, {would} by the other book ({would - was:+})"
    was, would = found.was.successes_ppm, found.would.successes_ppm
    more = f"{'+' if would >= was else '-'}{_count(abs(would - was))}"
    yield f"expected successes: {_count(was)} as decided, {_count(would)} by the other book ({more})"
    yield f"without a channel: {found.was.without} as decided, {found.would.without} by the other book"


def _count(ppm: int) -> str:
    """Three places, cut."""
    return f"{ppm // MILLION}.{ppm % MILLION // 1000:03}"
