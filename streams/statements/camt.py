"""ISO 20022 camt.052, .053 and .054, every version: what a bank booked, entry by entry (R-187).

Versions differ in places, not in meaning: the container of .001.01 has another name, `Sts` is text up to .001.07 and an element from
.001.08 on, details carry their amount in two places. The bank's guide decides what a file covers; that it is of the kind that was said is
checked. No document type is read, no entity expanded, nothing fetched. Elements are dropped as they are read, so memory is that of one
entry.
"""

from __future__ import annotations

import re
from datetime import date
from typing import IO, TYPE_CHECKING, Final, Literal
from xml.etree.ElementTree import ParseError

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import iterparse

from streams.domain.lines import Balances, BankDetail, BankEntry, Line, RejectedRow
from streams.statements import figures, opened
from streams.statements.figures import FigureError
from streams.statements.refusal import Refused

if TYPE_CHECKING:
    from collections.abc import Iterator
    from xml.etree.ElementTree import Element

Kind = Literal["CAMT052", "CAMT053", "CAMT054"]
NAMESPACE: Final = re.compile(r"urn:iso:std:iso:20022:tech:xsd:camt\.(05[234])\.001\.([0-9]{2})")
STATEMENTS: Final = frozenset({"Stmt", "Rpt", "Ntfctn"})
NONE: Final = "NOTPROVIDED"
STATUSES: Final = frozenset({"BOOK", "PDNG", "INFO", "FUTR"})
BROKEN: Final = (*opened.BROKEN, ParseError, DefusedXmlException, ValueError, LookupError)
"""What the parser raises for bytes that are no XML, or more than XML: declarations of types and entities, an encoding that does not fit."""


def read(stream: IO[bytes], kind: Kind | None = None) -> Iterator[Line]:
    """Entries in their order, and the balances of each statement after its entries. Raises `Refused`, perhaps only at the end."""
    try:
        yield from _Reading(kind).lines(opened.plain(stream))
    except BROKEN as wrong:
        raise Refused(
            "xml", f"{type(wrong).__name__} {wrong}; a statement has no document type and is whole"
        ) from wrong


def _name(element: Element) -> str:
    return element.tag.rpartition("}")[2]


def _find(element: Element | None, path: str) -> Element | None:
    """The first descendant at a path of local names, whatever the version's namespace."""
    for step in path.split("/"):
        if element is None:
            return None
        element = next((child for child in element if _name(child) == step), None)
    return element


def _text(element: Element | None, path: str) -> str | None:
    found = _find(element, path)
    text = None if found is None or found.text is None else found.text.strip()
    return text or None


def _all(element: Element, name: str) -> list[Element]:
    return [child for child in element if _name(child) == name]


class _UnreadableError(ValueError):
    def __init__(self, field: str, why: str) -> None:
        self.field, self.why = field, why
        super().__init__(f"{field}: {why}")


class _Reading:
    """One document under way."""

    def __init__(self, kind: Kind | None) -> None:
        self._kind = kind
        self._statement: str | None = None
        self._number = 0
        self._known = False

    def lines(self, stream: IO[bytes]) -> Iterator[Line]:
        path: list[Element] = []
        for event, element in iterparse(stream, events=("start", "end"), forbid_dtd=True):
            if event == "start":
                if not path:
                    self._check(element)
                path.append(element)
                continue
            path.pop()
            name = _name(element)
            if name == "Id" and path and _name(path[-1]) in STATEMENTS:
                self._statement = (element.text or "").strip() or None
            elif name == "Ntry":
                self._number += 1
                yield self._entry(element)
                _drop(path, element)
            elif name in STATEMENTS:
                yield self._balances(element)
                self._statement = None
                _drop(path, element)
        if not self._known:
            raise Refused("structure", "there is no statement, report or notification in it")

    def _check(self, root: Element) -> None:
        namespace = root.tag[1:].partition("}")[0] if root.tag.startswith("{") else ""
        match = NAMESPACE.fullmatch(namespace)
        if match is None or _name(root) != "Document":
            raise Refused("structure", f"{namespace or root.tag!r} is no camt.052, .053 or .054")
        if self._kind is not None and self._kind != f"CAMT{match[1]}":
            raise Refused("structure", f"this is a camt.{match[1]}, not a {self._kind}")

    # -- entries

    def _entry(self, element: Element) -> BankEntry | RejectedRow:
        try:
            return self._read_entry(element)
        except _UnreadableError as wrong:
            return RejectedRow(line=self._number, field=wrong.field, reason=wrong.why)

    def _read_entry(self, element: Element) -> BankEntry:
        amount, currency = _money(_find(element, "Amt"), "Amt")
        direction = _direction(_text(element, "CdtDbtInd"))
        status = _text(element, "Sts/Cd") or _text(element, "Sts") or "BOOK"
        if status not in STATUSES:
            raise _UnreadableError("Sts", f"{status!r} is none of {', '.join(sorted(STATUSES))}")
        return BankEntry(
            line=self._number,
            amount=amount,
            currency=currency,
            direction=direction,
            status=status,  # type: ignore[arg-type]
            reversal=_text(element, "RvslInd") in {"true", "1"},
            account_ref=_text(element, "AcctSvcrRef"),
            statement=self._statement,
            text=_text(element, "AddtlNtryInf"),
            booked_on=_date(element, "BookgDt"),
            value_on=_date(element, "ValDt"),
            references=_single(element),
            details=_details(element, amount, currency, direction),
        )

    def _balances(self, element: Element) -> Balances:
        self._known = True
        found: dict[str, int] = {}
        currency = _text(element, "Acct/Ccy")
        for one in _all(element, "Bal"):
            kind = _text(one, "Tp/CdOrPrtry/Cd")
            try:
                amount, stated = _money(_find(one, "Amt"), "Bal/Amt")
                sign = 1 if _direction(_text(one, "CdtDbtInd")) == "CRDT" else -1
            except _UnreadableError as wrong:
                raise Refused("structure", f"balance {kind}: {wrong}", f"statement {self._statement}") from wrong
            if kind:
                found.setdefault(kind, sign * amount)
                currency = currency or stated
        opening = found.get("OPBD", found.get("PRCD"))
        account = _text(element, "Acct/Id/IBAN") or _text(element, "Acct/Id/Othr/Id")
        return Balances(
            statement=_text(element, "Id"), account=account, currency=currency, opening=opening, closing=found.get("CLBD")
        )  # fmt: skip


def _drop(path: list[Element], element: Element) -> None:
    """Forget what was read."""
    element.clear()
    if path:
        path[-1].remove(element)


def _money(element: Element | None, field: str) -> tuple[int, str]:
    """Minor units and currency of an `Amt`; it is never negative."""
    if element is None or element.text is None:
        raise _UnreadableError(field, "is absent")
    currency = element.get("Ccy", "")
    try:
        amount = figures.minor(figures.canonical(element.text), currency)
    except FigureError as wrong:
        raise _UnreadableError(field, str(wrong)) from wrong
    if amount < 0:
        raise _UnreadableError(field, f"{amount} is negative; the direction is CdtDbtInd's")
    return amount, currency


def _direction(text: str | None) -> Literal["CRDT", "DBIT"]:
    if text == "CRDT":
        return "CRDT"
    if text == "DBIT":
        return "DBIT"
    raise _UnreadableError("CdtDbtInd", f"{text!r} is neither CRDT nor DBIT")


def _date(element: Element, name: str) -> date | None:
    text = _text(element, f"{name}/Dt") or _text(element, f"{name}/DtTm")
    if text is None:
        return None
    try:
        return date.fromisoformat(text[:10])
    except ValueError as wrong:
        raise _UnreadableError(name, f"{text!r} is no date") from wrong


# -- details


def _transactions(entry: Element) -> list[Element]:
    return [one for details in _all(entry, "NtryDtls") for one in _all(details, "TxDtls")]


def _single(entry: Element) -> tuple[str, ...]:
    """What an entry without amounts in its details may be known by: its only detail's references."""
    transactions = _transactions(entry)
    return _references(transactions[0]) if len(transactions) == 1 else ()


def _details(entry: Element, amount: int, currency: str, direction: str) -> tuple[BankDetail, ...]:
    """The details with their amounts; none where they state no amounts, and the entry is then one line."""
    transactions = _transactions(entry)
    made = [_detail(one, direction) for one in transactions]
    if len(made) == 1 and made[0] is None:
        made = [_detail(transactions[0], direction, (amount, currency))]
    return tuple(one for one in made if one is not None) if None not in made else ()


def _detail(element: Element, direction: str, default: tuple[int, str] | None = None) -> BankDetail | None:
    stated = _find(element, "Amt")
    stated = stated if stated is not None else _find(element, "AmtDtls/TxAmt/Amt")
    if stated is None and default is None:
        return None
    amount, currency = default if stated is None and default is not None else _money(stated, "TxDtls/Amt")
    own = _text(element, "CdtDbtInd")
    instructed = _find(element, "AmtDtls/InstdAmt/Amt")
    ours, theirs = (None, None) if instructed is None else _money(instructed, "InstdAmt")
    return BankDetail(
        amount=amount if own in {None, direction} else -amount,
        currency=currency,
        references=_references(element),
        charges=_charges(element, currency),
        instructed_amount=ours,
        instructed_currency=theirs,
        rate=_text(element, "AmtDtls/TxAmt/CcyXchg/XchgRate") or _text(element, "AmtDtls/InstdAmt/CcyXchg/XchgRate"),
    )


def _charges(element: Element, currency: str) -> int | None:
    """What the bank took for this transaction, in the currency of the detail."""
    found = [one for charges in _all(element, "Chrgs") for one in (_all(charges, "Rcrd") or [charges])]
    amounts = [_find(one, "Amt") for one in found]
    stated = [_money(one, "Chrgs/Amt") for one in amounts if one is not None]
    same = [amount for amount, each in stated if each == currency]
    return sum(same) if same else None


def _references(element: Element) -> tuple[str, ...]:
    """End-to-end id, structured reference, unstructured remittance: whole, each once."""
    unstructured = _find(element, "RmtInf")
    texts = [] if unstructured is None else [(one.text or "").strip() for one in _all(unstructured, "Ustrd")]
    found = (_text(element, "Refs/EndToEndId"), _text(element, "RmtInf/Strd/CdtrRefInf/Ref"), "".join(texts) or None)
    return tuple(dict.fromkeys(one for one in found if one is not None and one != NONE))
