"""What a contract may promise: the rules between its fields that a type cannot hold.

Each rule is a function from a contract to its problems. Every problem names the field and the fix.
"""

from __future__ import annotations

import codecs
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from streams.channels.amounts import iso_exponents
from streams.domain.tables import WORDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from streams.domain.contract import Contract

DAY_S: Final = 86_400
MOST_QUERIES: Final = 1000
PAYS: Final = ("idempotency", "query", "submit_retry_window_s")
WITNESSES: Final = (
    ("idempotency.life_s", "decides how long a request may be sent again"),
    ("query.not_found_after_s", 'makes "not found" a witness'),
)
"""Promises that let money move again, so that they are confirmed or they are not there."""


class Problem(NamedTuple):
    """One thing that is wrong with one file."""

    file: str
    field: str
    problem: str
    fix: str

    def __str__(self) -> str:
        return f"{self.file}: {self.field}: {self.problem}; {self.fix}"


class Broken(NamedTuple):
    """A field that breaks a rule."""

    field: str
    problem: str
    fix: str


def broken(name: str, contract: Contract, unconfirmed: frozenset[str]) -> Iterator[Problem]:
    """Every rule that the contract breaks. `unconfirmed` are the paths that nobody has shown."""
    for rule in RULES:
        for found in rule(contract):
            yield Problem(name, f"contract.{found.field}", found.problem, found.fix)
    for found in _witnesses(contract, unconfirmed):
        yield Problem(name, f"contract.{found.field}", found.problem, found.fix)


def _found_again(contract: Contract) -> Iterator[Broken]:
    """A payment whose answer is lost must be found again, or a person looks after it (R-051)."""
    if contract.role != "payments":
        return
    asks = contract.query is not None and contract.query.finds_lost_submits
    keyed = contract.idempotency is not None and "submit" in contract.idempotency.operations
    if not asks and not keyed and contract.isolation != "manual":
        yield Broken(
            "isolation",
            "the channel has neither idempotency nor a query by our number for a submit",
            "state one of them, or write `isolation: manual`",
        )
    if keyed and contract.idempotency is not None and contract.idempotency.duplicate_answer == "refused" and not asks:
        yield Broken(
            "idempotency.duplicate_answer",
            "a refused duplicate tells no result, and there is no query by our number",
            "state `query`, or another answer",
        )


def _takes_payments(contract: Contract) -> Iterator[Broken]:
    """An issuer or a bank takes no payments, so it promises nothing about them."""
    if contract.role == "payments":
        return
    for field in PAYS:
        if getattr(contract, field):
            yield Broken(field, f"the role is {contract.role}, which takes no payments", "leave it out")
    if contract.isolation != "none":
        yield Broken("isolation", f"the role is {contract.role}, which takes no payments", "leave it out")


def _resubmits(contract: Contract) -> Iterator[Broken]:
    """The same key may be sent again only while the channel surely remembers it (R-031, R-050)."""
    window, key = contract.submit_retry_window_s, contract.idempotency
    if (window > 0) != (contract.most_submits > 1):
        fix = "state both `submit_retry_window_s` and `most_submits` above 1, or neither"
        yield Broken("most_submits", f"{contract.most_submits} submits in a retry window of {window} s", fix)
    if window == 0:
        return
    if contract.isolation == "manual":
        yield Broken(
            "submit_retry_window_s", "the channel is isolated: nothing is sent again by itself", "leave it out"
        )
    if key is None or "submit" not in key.operations:
        yield Broken(
            "submit_retry_window_s", "a submit has no idempotency here", "leave it out, or state `idempotency`"
        )
    elif key.life_s is not None and window + contract.lease_s >= key.life_s:
        yield Broken(
            "submit_retry_window_s",
            f"a request sent after {window} s and answered within {contract.lease_s} s outlives its key ({key.life_s} s)",
            f"make it less than {max(0, key.life_s - contract.lease_s)} s",
        )


def _asks_in_time(contract: Contract) -> Iterator[Broken]:
    """Queries come in order, end before their window does, and are as many as the bound allows (R-054, R-059)."""
    yield from _series("query_after_s", contract.query_after_s, "query_window_s", contract.query_window_s)
    yield from _series(
        "refunds.poll_after_s", contract.refunds.poll_after_s, "refunds.poll_window_s", contract.refunds.poll_window_s
    )
    if contract.query_max_delay_s < contract.query_after_s[-1]:
        fix = f"make it at least {contract.query_after_s[-1]} s"
        yield Broken("query_max_delay_s", "is shorter than the distance it bounds", fix)
    elif (count := queries(contract)) > contract.most_queries:
        fix = "raise it, shorten the window, or lengthen the distances"
        yield Broken("most_queries", f"the schedule asks {count} times in its window", fix)
    if contract.lease_s > contract.query_after_s[0]:
        fix = f"make it at most {contract.query_after_s[0]} s"
        yield Broken("lease_s", "a request would still be waited for when the first query is due", fix)
    query = contract.query
    if query is not None and query.not_found_after_s is not None:
        if query.not_found_after_s >= contract.query_window_s:
            fix = "make it shorter than `query_window_s`, or leave it out"
            yield Broken("query.not_found_after_s", "no query of the window is old enough to witness", fix)
        if query.consistency == "eventual" and query.not_found_after_s == 0:
            yield Broken("query.not_found_after_s", "an eventual answer needs an age", "state seconds above 0")


def _series(field: str, after: tuple[int, ...], window_field: str, window: int) -> Iterator[Broken]:
    if any(later <= earlier for earlier, later in pairwise(after)):
        yield Broken(
            field, f"{after} do not ascend", "write moments counted from the start, each later than the one before"
        )
    if after[-1] >= window:
        yield Broken(
            field, f"the last is not inside `{window_field}` ({window} s)", "shorten it, or lengthen the window"
        )


def queries(contract: Contract) -> int:
    """How often the schedule asks inside the window, jitter left out; it stops counting past what any contract may allow."""
    moment, distance, count = contract.query_after_s[-1], contract.query_after_s[-1], len(contract.query_after_s)
    while (moment := moment + distance) < contract.query_window_s and count <= MOST_QUERIES:
        distance = min(distance * 2, contract.query_max_delay_s)
        count += 1
    return count


def _words(contract: Contract) -> Iterator[Broken]:
    """A word means one thing."""
    places: dict[str, str] = {}
    for place in ("final", "not_accepted", "unknown", "exists"):
        for word in getattr(contract.failures, place):
            if word in places:
                yield Broken(f"failures.{place}", f"{word} is also under {places[word]}", "keep one")
            places[word] = place
    for field in ("payment_return_status", "refund_return_status"):
        word = getattr(contract, field)
        if word in WORDS:
            yield Broken(field, f"{word} already has a meaning", "take the adapter's word for a return")


def _refunds(contract: Contract) -> Iterator[Broken]:
    refunds = contract.refunds
    if refunds.success_is_final and contract.refund_return_status is not None:
        fix = "leave `refund_return_status` out, or write false"
        yield Broken("refunds.success_is_final", "a refund that may be returned is not final", fix)
    if refunds.several and not refunds.partial:
        yield Broken("refunds.several", "several refunds of one payment are partial ones", "write `partial: true`")
    if refunds.after_payment_s is not None and contract.life_days * DAY_S < refunds.after_payment_s:
        fix = f"make it at least {-(-refunds.after_payment_s // DAY_S)}"
        yield Broken("life_days", "an order would be forgotten while it can still be refunded", fix)


def _notices(contract: Contract) -> Iterator[Broken]:
    """A notice is acknowledged only by success, and refused only by an error (R-077)."""
    notice, ack, again = contract.notice, contract.notice.ack, contract.notice.redelivery
    if notice.window_s is not None and notice.signature is None:
        yield Broken("notice.window_s", "no signature vouches for the time", "state `signature`, or leave it out")
    if not 200 <= ack.status < 300:
        yield Broken("notice.ack.status", f"{ack.status} is no acknowledgement", "use a status of 2xx")
    if ack.refuse_status < 400:
        yield Broken("notice.ack.refuse_status", f"{ack.refuse_status} refuses nothing", "use a status of 4xx or 5xx")
    if ack.status == 204 and ack.body:
        yield Broken("notice.ack.body", "an answer with status 204 has no body", "use 200, or leave the body out")
    if again.most is not None and again.most <= len(again.after_s):
        yield Broken(
            "notice.redelivery.most", "there are more distances than redeliveries", "count the first delivery too"
        )
    if again.life_s is not None and again.life_s < sum(again.after_s):
        yield Broken("notice.redelivery.life_s", "is shorter than the sum of the distances", "correct one of them")
    if again.life_s is not None and contract.life_days * DAY_S < again.life_s:
        yield Broken("life_days", "an order would be forgotten while its notices still come", "lengthen it")
    if contract.hmac_sha256_key is not None:
        yield Broken("hmac_sha256_key", "a contract file holds no key", "put the key into the settings")


def _money(contract: Contract) -> Iterator[Broken]:
    """Exponents are stated only where they differ from ISO 4217."""
    for currency, exponent in contract.exponents.items():
        if currency not in iso_exponents():
            yield Broken(f"exponents.{currency}", "ISO 4217 has no such currency with minor units", "correct the code")
        elif iso_exponents()[currency] == exponent:
            yield Broken(f"exponents.{currency}", f"{exponent} is what ISO 4217 says", "leave it out")


def _days(contract: Contract) -> Iterator[Broken]:
    try:
        ZoneInfo(contract.tz)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        yield Broken("tz", f"{contract.tz!r} is no time zone", "use a name of the IANA list, as Asia/Shanghai")


def _file(contract: Contract) -> Iterator[Broken]:
    """A text file must be readable without a guess."""
    layout = contract.file
    if layout is None:
        return
    for encoding in layout.encodings:
        try:
            codecs.lookup(encoding)
        except LookupError:
            yield Broken("file.encodings", f"{encoding!r} is no encoding", "use a name such as UTF-8 or GBK")
    fields = list(layout.columns.values())
    if "amount" not in fields and "refund_amount" not in fields:
        yield Broken("file.columns", "no column holds the amount", "map one to `amount`")
    if not {"op", "txn", "ref", "key"} & set(fields):
        yield Broken("file.columns", "no column identifies a row", "map one to `op`, `txn`, `ref` or `key`")
    for field in sorted({field for field in fields if fields.count(field) > 1}):
        yield Broken("file.columns", f"two columns are mapped to `{field}`", "keep one")
    if ("ccy" in fields) == (layout.ccy is not None):
        fix = "map a column to `ccy`, or state `file.ccy`, not both"
        yield Broken("file.ccy", "the currency is stated twice or not at all", fix)
    marks = [layout.delimiter, layout.decimal, layout.lead, layout.group]
    if layout.amount_unit == "major" and layout.group == layout.decimal:
        yield Broken("file.group", "is the decimal mark too", "use another character, or leave it out")
    if '"' in marks or layout.delimiter == layout.lead:
        yield Broken(
            "file.delimiter", "a quote, or the same as `lead`, cannot separate fields", "use another character"
        )


def _witnesses(contract: Contract, unconfirmed: frozenset[str]) -> Iterator[Broken]:
    """What nobody has shown may not let money move twice."""
    for path, what in WITNESSES:
        steps = path.split(".")
        covered = any(".".join(steps[: count + 1]) in unconfirmed for count in range(len(steps)))
        applies = (
            contract.resubmits
            if steps[0] == "idempotency"
            else contract.query is not None and contract.query.not_found_after_s is not None
        )
        if covered and applies:
            field = "submit_retry_window_s" if steps[0] == "idempotency" else path
            yield Broken(field, f"{path} is unconfirmed and {what}", "confirm it with the channel, or leave it out")


RULES: Final[tuple[Callable[[Contract], Iterator[Broken]], ...]] = (
    _found_again,
    _takes_payments,
    _resubmits,
    _asks_in_time,
    _words,
    _refunds,
    _notices,
    _money,
    _days,
    _file,
)
