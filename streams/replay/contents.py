"""The content of a FILE event as the lines of the product: parsed rows and entries as they are, text and camt as the readers read them.

What a scenario calls `raw_lines` becomes bytes first, and the reader is told nothing but the layout. Generated content is made while it is
read.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
from typing import TYPE_CHECKING, Any, Final

from streams.domain.lines import Balances, BankDetail, BankEntry, BillRow, Line, SettlementRow
from streams.replay.shapes import NotUnderstoodError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

Fields = dict[str, Any]
ENCODINGS: Final = {
    "UTF-8": "utf-8",
    "UTF-8-BOM": "utf-8-sig",
    "GBK": "gbk",
    "ISO-8859-1": "iso8859-1",
    "ISO-8859-15": "iso8859-15",
}
BILL: Final = frozenset({"line", "txn", "op", "kind", "amount", "ccy", "status", "fee", "funds", "local_time"})
SETTLEMENT: Final = frozenset({"line", "kind", "txn", "op", "amount", "fee", "net"})
BANK: Final = frozenset({"line", "amount", "ccy", "text", "ref", "key"})
ENTRY: Final = frozenset({"amount", "ccy", "ind", "sts", "acct_ref", "rvsl", "e2e", "remittance", "tx"})
DETAIL: Final = frozenset({"amount", "ccy", "e2e", "remittance", "charges", "instructed", "rate"})
CONTENTS: Final = ("rows", "entries", "statements", "raw_lines", "generate")


def raw_bytes(event: Fields) -> bytes:
    """The bytes of a file that is given as text lines."""
    name = event.get("encoding", "UTF-8")
    if name not in ENCODINGS:
        raise NotUnderstoodError(f"encoding of FILE is {name!r}")
    body = "\r\n".join(event["raw_lines"]).encode(ENCODINGS[name])
    compression = event.get("compression")
    if compression is None:
        return body
    if compression != "gzip":
        raise NotUnderstoodError(f"compression of FILE is {compression!r}")
    return gzip.compress(body, mtime=0)


def content_hash(event: Fields) -> str:
    """The label that is given, else of the bytes, else of the parsed content."""
    if event.get("sha256"):
        return str(event["sha256"])
    if "raw_lines" in event:
        return hashlib.sha256(raw_bytes(event)).hexdigest()
    content = {name: event[name] for name in (*CONTENTS, "opening", "closing", "payout") if name in event}
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def lines(event: Fields) -> Iterator[Line]:
    """The lines of a file that is given parsed, or generated."""
    kind = event["file_kind"]
    for name in ("rows", "entries", "statements"):
        if not all(isinstance(one, dict) for one in event.get(name, ())):
            raise NotUnderstoodError(f"{name} of FILE are objects")
    if "generate" in event:
        yield from _generated(event)
    elif "rows" in event:
        reader: Callable[[Fields, int, Fields], Line] = BUILDERS.get(kind, _bank_row)
        for number, row in enumerate(event["rows"], 1):
            yield reader(row, number, event)
    else:
        statements = event.get("statements") or [{"id": None, "account": None, "entries": event.get("entries", [])}]
        for statement in statements:
            _only(statement, frozenset({"id", "account", "entries"}))
            for number, entry in enumerate(statement["entries"], 1):
                yield _entry(entry, number, statement)
    if "opening" in event or "closing" in event:
        yield Balances(
            statement=None,
            account=None,
            currency=event.get("account_ccy"),
            opening=event.get("opening"),
            closing=event.get("closing"),
        )


def stream(event: Fields) -> io.BytesIO:
    return io.BytesIO(raw_bytes(event))


def _only(fields: Mapping[str, Any], known: frozenset[str]) -> None:
    for name in fields:
        if name not in known:
            raise NotUnderstoodError(f"unknown field {name!r} in the content of FILE")


def _need(fields: Mapping[str, Any], name: str) -> Any:
    if name not in fields:
        raise NotUnderstoodError(f"{name} is missing in the content of FILE")
    return fields[name]


def _text(value: Any) -> str | None:
    """An id, whose digits may have come as a number; an empty one is absent."""
    return str(value) if value is not None and value != "" else None


def _bill_row(row: Fields, number: int, _event: Fields) -> BillRow:
    _only(row, BILL)
    return BillRow(
        line=row.get("line", number),
        kind=row.get("kind", "PAY"),
        amount=_need(row, "amount"),
        currency=_need(row, "ccy"),
        status=row.get("status", "SUCCESS"),
        transaction=_text(row.get("txn")),
        operation_no=_text(row.get("op")),
        funds=row.get("funds"),
        fee=row.get("fee"),
        local_time=row.get("local_time"),
    )


def _settlement_row(row: Fields, number: int, event: Fields) -> SettlementRow:
    _only(row, SETTLEMENT)
    return SettlementRow(
        line=row.get("line", number),
        kind=_need(row, "kind"),
        amount=_need(row, "amount"),
        currency=_need(event.get("payout") or {}, "ccy"),
        transaction=_text(row.get("txn")),
        operation_no=_text(row.get("op")),
        fee=row.get("fee"),
        net=row.get("net"),
    )


def _bank_row(row: Fields, number: int, _event: Fields) -> BankEntry:
    _only(row, BANK)
    return BankEntry(
        line=row.get("line", number),
        amount=abs(_need(row, "amount")),
        currency=_need(row, "ccy"),
        direction="CRDT" if _need(row, "amount") >= 0 else "DBIT",
        key=_text(row.get("key")),
        references=_references(row.get("ref")),
        text=row.get("text"),
    )


def _entry(entry: Fields, number: int, statement: Fields) -> BankEntry:
    _only(entry, ENTRY)
    return BankEntry(
        line=number,
        amount=_need(entry, "amount"),
        currency=_need(entry, "ccy"),
        direction=_need(entry, "ind"),
        status=_need(entry, "sts"),
        reversal=bool(entry.get("rvsl", False)),
        account_ref=_text(entry.get("acct_ref")),
        references=_references(entry.get("e2e"), entry.get("remittance")),
        statement=_text(statement.get("id")),
        account=_text(statement.get("account")),
        details=tuple(_detail(detail, entry) for detail in entry.get("tx", ())),
    )


def _detail(detail: Fields, entry: Fields) -> BankDetail:
    _only(detail, DETAIL)
    instructed = detail.get("instructed") or {}
    return BankDetail(
        amount=_need(detail, "amount"),
        currency=str(detail.get("ccy", _need(entry, "ccy"))),
        references=_references(detail.get("e2e"), detail.get("remittance")),
        charges=detail.get("charges"),
        instructed_amount=instructed.get("amount"),
        instructed_currency=instructed.get("ccy"),
        rate=detail.get("rate"),
    )


BUILDERS: Final[dict[str, Callable[[Fields, int, Fields], Line]]] = {
    "CHANNEL_BILL": _bill_row,
    "SETTLEMENT": _settlement_row,
}


def _references(*values: Any) -> tuple[str, ...]:
    found = [text for value in values if (text := _text(value)) is not None and text != "NOTPROVIDED"]
    return tuple(dict.fromkeys(found))


def _generated(event: Fields) -> Iterator[Line]:
    wanted = event["generate"]
    if event["file_kind"] != "CHANNEL_BILL":
        _only(wanted, frozenset({"transactions", "amount", "ccy"}))
        detail = BankDetail(amount=wanted["amount"], currency=wanted["ccy"])
        count = wanted["transactions"]
        yield BankEntry(
            line=1, amount=count * wanted["amount"], currency=wanted["ccy"], direction="CRDT", details=(detail,) * count
        )  # fmt: skip
        return
    _only(wanted, frozenset({"rows", "amount_off", "missing", "extra", "duplicate"}))
    off, missing, double = (frozenset(wanted.get(name, ())) for name in ("amount_off", "missing", "duplicate"))
    line = 0
    for number in range(1, wanted["rows"] + wanted.get("extra", 0) + 1):
        if number in missing:
            continue
        for _ in range(2 if number in double else 1):
            line += 1
            yield BillRow(
                line=line,
                kind="PAY",
                amount=1 + number % 997 + (number in off),
                currency=event.get("ccy", "USD"),
                transaction=f"GX{number}",
                operation_no=f"G{number}",
            )
