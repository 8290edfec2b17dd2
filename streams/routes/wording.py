"""A routing decision in words: the choice, each candidate with the terms of its score, and why the others were dropped."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from streams.domain.moment import moment
from streams.domain.remarks import percent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streams.domain.routing import Ask, Dropped, Routing
    from streams.domain.score import Book, Scored

POINT: Final = 1_000_000_000
"""Billionths in a point of the plain score."""
MINOR: Final = 1_000_000_000_000
"""Millionths of millionths in a minor unit of the expected value."""
WHY: Final = {
    "disabled": "is disabled",
    "account": "is another merchant's",
    "currency": "does not take the currency",
    "method": "does not take the method",
    "below_minimum": "does not take so little",
    "above_maximum": "does not take so much",
    "maintenance": "is in maintenance",
    "downgraded": "is passed over for some minutes",
    "no_rule": "has no rule for it",
    "tried": "was tried",
    "unhealthy": "fails too often now",
}
FAILURES: Final = {
    "no_channel_after_filters": "no channel can take it",
    "all_channel_failed": "no further channel may be tried",
}
_MS: Final = re.compile(r"(\d+) ms")


def lines(ask: Ask, routing: Routing, book: Book) -> Iterator[str]:
    """The decision, line by line."""
    what = f"{ask.amount} {ask.currency} minor units at {moment(ask.at):%Y-%m-%dT%H:%M:%SZ}"
    extras = [f"method {ask.method}" if ask.method else "", f"buyer tag {ask.buyer_tag}" if ask.buyer_tag else ""]
    tried = f"tried: {', '.join(ask.tried)}" if ask.tried else ""
    yield ", ".join(filter(None, (what, *extras, tried)))
    if routing.channel is not None:
        yield f"-> {routing.channel}, by {f'book {routing.book}' if routing.book else 'this book'}, {book.by}"
    elif routing.failure is not None:
        yield f"-> {routing.failure}: {FAILURES[routing.failure]}"
    if routing.waived:
        yield "   no candidate is healthy, so the health filter stands aside"
    for one in routing.candidates:
        yield from _candidate(one, book)
    for each in routing.dropped:
        yield f"   - {each.channel} {WHY[each.reason]} ({each.reason}): {_dated(each)}"


def _candidate(one: Scored, book: Book) -> Iterator[str]:
    unit = POINT if book.by == "plain" else MINOR
    terms = ", ".join(f"{name} {decimal(value, unit)}" for name, value in one.terms.items())
    named = "minor units" if book.by != "plain" else "points"
    yield f"   + {one.channel} {decimal(one.total, unit)} {named}: {terms}"
    heard = f"{one.succeeded} of {one.observed} succeeded, {one.unknown} unknown" if one.observed else "not heard of"
    rule = f"rule {one.rule}" if one.rule else "no rule"
    yield f"     success {percent(one.success_ppm)} ({heard}), fee {one.fee} minor units, {rule}"


def decimal(value: int, unit: int, places: int = 4) -> str:
    """`value` over `unit`, exactly cut after so many places."""
    whole, rest = divmod(abs(value), unit)
    fraction = str(rest * 10**places // unit).rjust(places, "0").rstrip("0")
    sign = "-" if value < 0 and (whole or fraction) else ""
    return f"{sign}{whole}" + (f".{fraction}" if fraction else "")


def _dated(one: Dropped) -> str:
    """Its detail, with times that people can read."""
    return _MS.sub(lambda found: f"{moment(int(found[1])):%Y-%m-%dT%H:%M:%SZ}", one.detail)
