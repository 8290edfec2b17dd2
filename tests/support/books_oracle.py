"""What every table must hold, computed from the topics by somebody else: plain JSON and dictionaries, one record after the other.

Nothing of `stores` is used, and nothing is folded by batch: each decision is read as it stands, each table is a dictionary.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections import defaultdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import asyncpg

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Rows = dict[tuple[Any, ...], dict[str, Any]]

FLAGS = ("announced",)
MONEY = {"captured": 0, "held": 0, "returned": 0, "disputed": 0, "dispute": None, "duplicate": False, "fulfilled": False,
         "finished": False, "order_total": None}  # fmt: skip
ASKED = {"attempts": 0, "queries": 0, "closes": 0, "next_query_at": None, "lease_ends_at": None, "window_ends_at": None}
PAYMENT = (
    "channel",
    "amount",
    "currency",
    "state",
    "transaction",
    "evidence",
    "success_at",
    "sequence",
    "version",
    "fee",
)
OPERATION = (
    "kind",
    "payment_no",
    "channel",
    "amount",
    "currency",
    "state",
    "transaction",
    "evidence",
    "success_at",
    "sequence",
)
SAID = {"channel_event_id": "event_id", "channel_transaction_id": "transaction", "event_version": "version", "sequence": "sequence",
        "event_time": "event_time", "amount": "amount", "currency": "currency", "amount_text": "amount_text", "fee": "fee",
        "cumulative_refunded": "cumulative_refunded", "reason": "reason", "error_class": "error_class", "request_id": "request_id",
        "raw_sha256": "sha256"}  # fmt: skip


class Oracle:
    """Tables by name, each a dictionary of rows by key."""

    def __init__(self, decisions: str, dead_letters: str) -> None:
        self.decisions, self.dead_letters = decisions, dead_letters
        self.tables: dict[str, Rows] = defaultdict(dict)
        self.claims: dict[tuple[str, str], dict[str, dict[str, Any]]] = defaultdict(dict)

    def read(self, records: Iterable[Any]) -> dict[str, Rows]:
        """The records of all topics, each partition in its order."""
        for record in records:
            if record.topic == self.decisions:
                self._decided(record)
            elif record.topic == self.dead_letters:
                self._died(record)
            else:
                self._delivered(record)
        self._claimed()
        return self.tables

    def _decided(self, record: Any) -> None:
        one = _clean(json.loads(record.value))
        headers = {name: value.decode() for name, value in record.headers}
        order, seq, at = one["order_id"], one["seq"], _time(one["decided_at"])
        self.tables["orders"][order,] = {"order_id": order, "seq": seq, "updated_at": at}
        self.tables["decisions"][order, seq] = {
            "order_id": order, "seq": seq, "id": one["id"], "verdict": one["verdict"], "rule": one["rule"],
            "source": one["source"], "word": one.get("word", ""), "evidence": one["evidence"], "merchant": one.get("merchant", ""),
            "number": one.get("payment_no") or None, "before": one.get("before"), "after": one.get("after"),
            "detail": one.get("detail", ""), "marks": one.get("marks", []), "messages": one.get("messages", []),
            "event_key": one.get("key", ""), "payload": one.get("payload", ""), "cause": headers.get("cause"),
            "trace": headers.get("traceparent"), "decided_at": at,
        }  # fmt: skip
        for standing in one.get("operations", ()):
            self._stands(standing, order, seq, at)
        for line, entry in enumerate(one.get("ledger", ())):
            self._posted(one, line, entry, at)
        for step in one.get("discrepancies", ()):
            self._stepped(step)
        self._said(one, headers.get("cause"), at)

    def _stands(self, one: Mapping[str, Any], order: str, seq: int, at: datetime) -> None:
        asked, merchant, number = one.get("asked", {}), one.get("merchant", ""), one["number"]
        table = self.tables["payments" if one["kind"] == "PAY" else "operations"]
        known = table.get((merchant, number, order), {})
        row = {
            "merchant": merchant,
            "order_id": order,
            "seq": seq,
            "updated_at": at,
            "created_at": known.get("created_at", at),
        }
        if one["kind"] == "PAY":
            row |= {name: one.get(name) for name in PAYMENT} | {
                "payment_no": number,
                "biz_code": one.get("biz_code", ""),
            }
            row |= {"announced": one.get("announced", False)}
            row |= {name: one.get("money", {}).get(name, default) for name, default in MONEY.items()}
            row |= {name: asked.get(name, default) for name, default in ASKED.items()}
            row["expires_at"] = one.get("expires_at") or known.get("expires_at")
        else:
            row |= {name: one.get(name) for name in OPERATION} | {"number": number, "late": one.get("late", False)}
            row |= {
                name: asked.get(name, ASKED[name])
                for name in ("attempts", "queries", "next_query_at", "window_ends_at")
            }
        table[merchant, number, order] = _times(row)
        if one["kind"] == "REFUND":
            self._shown(one, order, seq, at)
        if asked.get("attempts"):
            self._attempted(one, asked, order, seq, at)
        if one.get("transaction") is not None:
            claim = {"order_id": order, "merchant": merchant, "number": number, "claimed_at": at}
            self.claims[one["channel"], one["transaction"]].setdefault(order, claim)

    def _shown(self, one: Mapping[str, Any], order: str, seq: int, at: datetime) -> None:
        shown, key = one.get("shown", {}), (one.get("merchant", ""), one["number"], order)
        row = {
            "merchant": key[0],
            "refund_no": key[1],
            "order_id": order,
            "seq": seq,
            "updated_at": at,
            "currency": one["currency"],
        }
        layers = {f"{layer}_status": shown.get(layer) for layer in ("merchant", "processor", "card")}
        about = {"payment_no": one["payment_no"], "requested_amount": one["amount"], "state": one["state"]}
        self.tables["refunds"][key] = row | layers | about
        if shown.get("wallet"):
            self.tables["wallet_legs"][key] = row | {"status": shown["wallet"], "amount": one["amount"]}

    def _attempted(self, one: Mapping[str, Any], asked: Mapping[str, Any], order: str, seq: int, at: datetime) -> None:
        key = (one.get("merchant", ""), one["number"], order, asked["attempts"])
        known = self.tables["attempts"].get(
            key, {"first_sent_at": at, "last_sent_at": at, "sends": asked.get("sends", 0)}
        )
        sends = asked.get("sends", 0)
        self.tables["attempts"][key] = {
            "merchant": key[0], "number": key[1], "order_id": order, "attempt": key[3], "kind": one["kind"],
            "channel": one["channel"], "amount": one["amount"], "currency": one["currency"],
            "idempotency_key": asked.get("idempotency_key") or known.get("idempotency_key"), "transaction": one.get("transaction"),
            "state": one["state"], "sends": sends, "refused_by": asked.get("refused_by"), "first_sent_at": known["first_sent_at"],
            "last_sent_at": at if sends > known["sends"] else known["last_sent_at"], "seq": seq,
        }  # fmt: skip

    def _posted(self, one: Mapping[str, Any], line: int, entry: Mapping[str, Any], at: datetime) -> None:
        key = {"order_id": one["order_id"], "seq": one["seq"], "line": line}
        self.tables["ledger_entries"][tuple(key.values())] = key | {
            "ref": entry["ref"], "currency": entry["currency"], "decision": one["id"], "posted_at": at,
        }  # fmt: skip
        for account, amount in ((entry["dr"], entry["amount"]), (entry["cr"], -entry["amount"])):
            self.tables["postings"][(*key.values(), account)] = key | {"account": account, "amount": amount}

    def _stepped(self, step: Mapping[str, Any]) -> None:
        row = {name: step.get(name) for name in (
            "id", "revision", "status", "kind", "severity", "ref", "order_id", "payment_no", "evidence", "owner", "detail", "deadline",
        )}  # fmt: skip
        at = _time(step["decided_at"])
        self.tables["discrepancy_steps"][step["id"], step["revision"]] = _times(
            row | {"decision": step["decision"], "decided_at": at}
        )
        opened = self.tables["discrepancies"].get((step["id"],), {}).get("opened_at", at)
        self.tables["discrepancies"][step["id"],] = _times(row | {"opened_at": opened, "updated_at": at})

    def _said(self, one: Mapping[str, Any], cause: str | None, at: datetime) -> None:
        said, order = one.get("said"), one["order_id"]
        inbox = self.tables["inbox"]
        if said is None:
            key = (order, one.get("key", ""), one.get("payload", ""))
            if one["rule"] == "same-key-same-payload" and key[1] and key in inbox:
                inbox[key]["repeats"] += 1
            return
        received = _time(said["received_at"]) if said.get("received_at") else at
        key = (order, one.get("key") or f"@{received.isoformat()}", one.get("payload", ""))
        judged = {"number": one.get("payment_no") or None, "process_status": one["verdict"], "process_rule": one["rule"],
                  "process_error": one.get("detail") or None, "processed_at": at, "seq": one["seq"]}  # fmt: skip
        if key not in inbox:
            inbox[key] = {
                "order_id": order, "event_key": key[1], "payload_hash": key[2], "source": one["source"], "channel": said["channel"],
                "event_type": said.get("event_type", ""), "word": one.get("word", ""), "cause": cause, "signature_valid": True,
                "repeats": 0, "received_at": received, **judged, **{column: said.get(name) for column, name in SAID.items()},
            }  # fmt: skip
        elif inbox[key]["process_status"] == "parked":
            inbox[key] |= judged
        self._carded(one, said, received)

    def _carded(self, one: Mapping[str, Any], said: Mapping[str, Any], received: datetime) -> None:
        heard = one["verdict"] in ("applied", "conflict", "stale", "illegal")
        if one["source"] != "card" or not heard or one["rule"] in ("same-key-other-payload", "test-mode"):
            return
        key = (said["channel"], said["event_id"], one["order_id"])
        self.tables["card_entries"].setdefault(key, {
            "channel": key[0], "event_id": key[1], "order_id": key[2], "status": one["word"], "amount": said["amount"],
            "currency": said["currency"], "transaction": said.get("transaction"), "authorization": said.get("authorization"),
            "number": one.get("payment_no") or None, "posted_at": said.get("event_time"), "received_at": received, "seq": one["seq"],
        })  # fmt: skip

    def _claimed(self) -> None:
        for (channel, transaction), orders in self.claims.items():
            about = {"channel": channel, "transaction": transaction}
            first = min(orders.values(), key=lambda claim: (claim["claimed_at"], claim["order_id"]))
            self.tables["transactions"][channel, transaction] = about | first
            if len(orders) > 1:
                for order, claim in orders.items():
                    self.tables["shared_transactions"][channel, transaction, order] = about | claim

    def _died(self, record: Any) -> None:
        headers = {name: value.decode("utf-8", "replace") for name, value in record.headers}
        self.tables["dead_letters"][_place(record)] = {
            "topic": record.topic, "partition": record.partition, "offset": record.offset,
            "cause": f"{headers['dead-topic']}/{headers['dead-partition']}/{headers['dead-offset']}",
            "order_id": (record.key or b"").decode("utf-8", "replace"), "kind": headers["dead-kind"],
            "reason": headers["dead-reason"], "sha256": hashlib.sha256(record.value or b"").hexdigest(),
            "died_at": datetime.fromtimestamp(record.timestamp / 1000, UTC),
        }  # fmt: skip

    def _delivered(self, record: Any) -> None:
        try:
            event = _clean(json.loads(record.value))
            raw = event["raw"]
        except (ValueError, KeyError, TypeError):
            return
        body = base64.b64decode(raw["body"])
        clear, hidden = re.subn(rb'("card_number":\s*")[^"]*', rb"\1[redacted]", body)
        self.tables["raw_messages"][_place(record)] = {
            "topic": record.topic, "partition": record.partition, "offset": record.offset, "order_id": event["order_id"],
            "channel": event["channel"], "content_type": raw["content_type"], "sha256": raw["sha256"], "redactions": hidden,
            "body": clear, "received_at": datetime.fromtimestamp(record.timestamp / 1000, UTC),
        }  # fmt: skip


def _place(record: Any) -> tuple[str, int, int]:
    return record.topic, record.partition, record.offset


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _times(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _time(value) if name.endswith(("_at", "deadline")) and isinstance(value, str) else value
        for name, value in row.items()
    }


def _clean(value: Any) -> Any:
    """Postgres holds no NUL."""
    if isinstance(value, str):
        return value.replace("\0", "\ufffd")
    if isinstance(value, list):
        return [_clean(one) for one in value]
    return {name: _clean(one) for name, one in value.items()} if isinstance(value, dict) else value


TABLES = ("orders", "decisions", "payments", "operations", "refunds", "wallet_legs", "attempts", "card_entries", "inbox",
          "raw_messages", "dead_letters", "ledger_entries", "postings", "discrepancies", "discrepancy_steps", "transactions",
          "shared_transactions")  # fmt: skip
KEYS = {
    "orders": ("order_id",), "decisions": ("order_id", "seq"), "payments": ("merchant", "payment_no", "order_id"),
    "operations": ("merchant", "number", "order_id"), "refunds": ("merchant", "refund_no", "order_id"),
    "wallet_legs": ("merchant", "refund_no", "order_id"), "attempts": ("merchant", "number", "order_id", "attempt"),
    "card_entries": ("channel", "event_id", "order_id"), "inbox": ("order_id", "event_key", "payload_hash"),
    "raw_messages": ("topic", "partition", "offset"), "dead_letters": ("topic", "partition", "offset"),
    "ledger_entries": ("order_id", "seq", "line"), "postings": ("order_id", "seq", "line", "account"),
    "discrepancies": ("id",), "discrepancy_steps": ("id", "revision"), "transactions": ("channel", "transaction"),
    "shared_transactions": ("channel", "transaction", "order_id"),
}  # fmt: skip


async def differences(dsn: str, expected: Mapping[str, Rows], open_raw: Any) -> list[str]:
    """Every row that is missing, too much or different. `open_raw` opens a sealed message: (sealed, place, key id) to bytes."""
    connection = await asyncpg.connect(dsn, timeout=10, server_settings={"search_path": "books", "timezone": "UTC"})
    try:
        wrong: list[str] = []
        for table in TABLES:
            rows = [dict(row) for row in await connection.fetch(f"SELECT * FROM {table}")]
            if table == "raw_messages":
                rows = [_opened(row, open_raw) for row in rows]
            found = {tuple(row[name] for name in KEYS[table]): row for row in rows}
            wrong += _compare(table, found, expected.get(table, {}))
        return wrong
    finally:
        await connection.close()


def _opened(row: dict[str, Any], open_raw: Any) -> dict[str, Any]:
    place = f"{row['topic']}/{row['partition']}/{row['offset']}"
    sealed, key_id = row.pop("sealed"), row.pop("key_id")
    return row if sealed is None else {**row, "body": open_raw(sealed, place, key_id)}


def _compare(table: str, found: Rows, expected: Rows) -> list[str]:
    wrong = [f"{table} {key}: missing" for key in expected.keys() - found.keys()]
    wrong += [f"{table} {key}: too much" for key in found.keys() - expected.keys()]
    for key in expected.keys() & found.keys():
        one, other = found[key], expected[key]
        names = {name for name in one.keys() | other.keys() if one.get(name, "absent") != other.get(name, "absent")}
        wrong += [
            f"{table} {key} {name}: {one.get(name, 'absent')!r}, not {other.get(name, 'absent')!r}"
            for name in sorted(names)
        ]
    return wrong
