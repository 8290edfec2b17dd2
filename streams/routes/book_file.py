"""A route book from a file, YAML or JSON. What cannot be meant is refused by the name of its field, with the fix."""

from __future__ import annotations

import re
from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
import yaml

from streams.domain.moment import milliseconds
from streams.domain.score import Book, Limit, Offer, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CURRENCY: Final = re.compile("[A-Z]{3}")
FIXES: Final = {
    "Expected `str`, got `int`": "put it in quotes, as YAML reads 0600 as a number",
    "Object contains unknown field": "take it out, or spell it as docs/routing.md does",
    "Object missing required field": "add it",
    "Expected `int`, got `float`": "use a whole number: parts per million, minor units, milliseconds",
}
"""Beginning of msgspec's own words -> what to do."""


class BookError(ValueError):
    """A book that cannot be used; the text names the field and the fix."""


def read(path: Path) -> Book:
    """The book in a file. Raises `BookError`."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BookError(f"{path}: cannot be read: {error}; give a YAML or JSON file") from error
    try:
        plain = _plain(yaml.safe_load(text))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f" line {mark.line + 1}"
        raise BookError(f"{path}:{where} is neither YAML nor JSON: {getattr(error, 'problem', error)}") from error
    try:
        book = msgspec.convert(plain, Book)
    except msgspec.ValidationError as error:
        raise BookError(f"{path}: {_worded(str(error))}") from error
    if faults := list(wrong(book)):
        raise BookError(f"{path}: " + "; ".join(faults))
    return book


def _plain(value: Any) -> Any:
    """As JSON would have it. YAML's own times become milliseconds UTC."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise BookError(f"{value}: a time without an offset; write 2026-01-01T02:00:00Z, or milliseconds UTC")
        return milliseconds(value)
    return value


def _worded(text: str) -> str:
    """msgspec's words, the field first."""
    what, _, where = text.partition(" - at `")
    fix = next((fix for begins, fix in FIXES.items() if what.startswith(begins)), "see docs/routing.md")
    field = where.rstrip("`").removeprefix("$").lstrip(".") or "the book"
    return f"{field}: {what[0].lower()}{what[1:]}; {fix}"


def wrong(book: Book) -> Iterator[str]:
    """What is of the right shape and still cannot be meant."""
    try:
        ZoneInfo(book.zone)
    except (ZoneInfoNotFoundError, ValueError):
        yield f"zone: there is no time zone {book.zone!r}; use a name such as Asia/Shanghai or UTC"
    if not book.offers:
        yield "offers: empty; list at least one channel account"
    yield from _twice("offers", "channel", [one.channel for one in book.offers])
    yield from _twice("rules", "name", [one.name for one in book.rules])
    for number, offer in enumerate(book.offers):
        yield from _offer(f"offers[{number}]", offer)
    for number, rule in enumerate(book.rules):
        yield from _rule(f"rules[{number}]", rule)


def _twice(listed: str, field: str, names: list[str]) -> Iterator[str]:
    for name, times in Counter(names).items():
        if times > 1:
            yield f"{listed}: {field} {name!r} stands there {times} times; give each one once"


def _offer(at: str, offer: Offer) -> Iterator[str]:
    if not offer.limits:
        yield f"{at}.limits: empty; name at least one currency"
    for currency, limit in offer.limits.items():
        yield from _currency(f"{at}.limits", currency)
        yield from _limit(f"{at}.limits.{currency}", limit)
    for number, window in enumerate(offer.maintenance):
        if window.ends <= window.starts:
            yield f"{at}.maintenance[{number}].ends: not after its start; give a later time"


def _limit(at: str, limit: Limit) -> Iterator[str]:
    if limit.most and limit.most < limit.least:
        yield f"{at}.most: below least, so nothing fits; raise it, or use 0 for no bound"


def _rule(at: str, rule: Rule) -> Iterator[str]:
    if rule.currency is not None:
        yield from _currency(f"{at}.currency", rule.currency)
    if rule.amount_max and rule.amount_max < rule.amount_min:
        yield f"{at}.amount_max: below amount_min, so nothing fits; raise it, or use 0 for no bound"


def _currency(at: str, currency: str) -> Iterator[str]:
    if not CURRENCY.fullmatch(currency):
        yield f"{at}: {currency!r} is no currency; use three capital letters, as CNY"
