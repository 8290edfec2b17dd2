"""The events of a scenario: which fields each type has, and of which type. What is not understood is refused, never ignored.

In a scenario file an absent field is unknown; in a raw record, which came over the wire, the fields that its type needs are required.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping


class NotUnderstoodError(ValueError):
    """A scenario, or a raw record, says something that this release does not know. The message names it."""


def _shape(text: str) -> dict[str, bool]:
    """field -> whether it is required; a trailing ? marks the optional ones."""
    return {word.rstrip("?"): not word.endswith("?") for word in text.split()}


_RESULT: Final = "channel order op status txn? amount? ccy?"
SHAPES: Final[Mapping[str, Mapping[str, bool]]] = {
    "SUBMIT": _shape("order op channel amount ccy merchant?"),
    "SUBMIT_RESULT": _shape(_RESULT),
    "QUERY_RESULT": _shape(_RESULT),
    "CLOSE_RESULT": _shape(_RESULT),
    "CALLBACK": _shape(
        "channel order op status amount ccy txn? event_id? event_time? merchant? sequence? version? fee? net_amount? settle_amount? "
        "settle_ccy? livemode? subscription? captured_flag? cumulative_refunded? charged_back?"
    ),
    "TICK": _shape(""),
    "REFUND_REQUEST": _shape("channel order op parent amount ccy"),
    "REFUND_RESULT": _shape("channel order op parent refund_txn amount ccy status"),
    "REFUND_CALLBACK": _shape(
        "channel order op? parent refund_txn txn? event_id event_time? amount ccy status cumulative_refunded? reason?"
    ),
    "REFUND_LAYER": _shape("channel order op parent event_id amount ccy layer status"),
    "CAPTURE_REQUEST": _shape("channel order op parent amount ccy"),
    "CAPTURE_RESULT": _shape("channel order op parent amount ccy status txn?"),
    "AUTH_RELEASE": _shape("channel order op event_id amount ccy status"),
    "CARD_POSTING": _shape("channel event_id txn? amount ccy status authorization?"),
    "DISPUTE": _shape("channel order parent event_id amount ccy status"),
    "PAYOUT": _shape("channel event_id ref amount ccy status"),
    "FILE": _shape(
        "file_kind source channel batch business_date account? name? sha256? opening? closing? account_ccy? payout? rows? entries? "
        "statements? raw_lines? encoding? compression? generate?"
    ),
    "RAW_RECORD": _shape("key_utf8? key_hex? value_utf8? value_hex?"),
    "RAW_CALLBACK": _shape("channel delivery_id content_type body_utf8? body_hex? signature?"),
    "FAULT": _shape(
        "fault workers? delay_s? at? instance? to_instance? before_commit? for_s? to_offset? op? rows_persisted? redeliver_from?"
    ),
}
EVERYWHERE: Final = {"type", "recv_time", "partition", "offset"}
DELIVERIES: Final = frozenset({
    "CALLBACK", "REFUND_CALLBACK", "AUTH_RELEASE", "DISPUTE", "CARD_POSTING", "REFUND_LAYER", "RAW_CALLBACK", "PAYOUT",
})  # fmt: skip
"""What a channel delivers, and waits for an acknowledgement of."""
IN_RECORDS: Final = frozenset(SHAPES) - {"RAW_RECORD", "RAW_CALLBACK", "FAULT", "FILE", "PAYOUT"}
FAULTS: Final = frozenset({
    "PARALLEL", "SLOW_RECORD", "KILL", "RESTART", "REBALANCE", "PAUSE", "RESUME", "STORE_DOWN", "OUTPUT_FAIL_ONCE", "OFFSET_RESET",
    "REWRITE_STATE", "CRASH_IMPORT",
})  # fmt: skip
FILE_KINDS: Final = frozenset({
    "CHANNEL_BILL", "SETTLEMENT", "BANK_CSV", "OFX", "CAMT052", "CAMT053", "CAMT054",
})  # fmt: skip

MAY_BE_ABSENT: Final = frozenset({"event_id", "refund_txn"})
"""Required on the wire; a scenario that leaves one out says that the channel did."""
MONEY_MAY_BE_ABSENT: Final = frozenset({
    "CALLBACK", "REFUND_RESULT", "REFUND_CALLBACK", "REFUND_LAYER", "CAPTURE_RESULT", "AUTH_RELEASE",
})  # fmt: skip
IDS: Final = frozenset({
    "source", "batch", "account",
    "order", "op", "channel", "merchant", "txn", "event_id", "parent", "refund_txn", "authorization", "subscription", "delivery_id",
})  # fmt: skip
AMOUNTS: Final = frozenset({
    "amount", "fee", "net_amount", "settle_amount", "cumulative_refunded", "charged_back",
})  # fmt: skip
WHOLE: Final = frozenset({
    "sequence", "version", "partition", "offset", "workers", "instance", "to_instance", "to_offset", "rows_persisted", "redeliver_from",
    "opening", "closing",
})  # fmt: skip
FLAGS: Final = frozenset({"livemode", "captured_flag", "before_commit"})
CURRENCIES: Final = frozenset({"ccy", "settle_ccy"})
CURRENCY: Final = re.compile(r"[A-Z]{3}")
DURATIONS: Final = frozenset({"delay_s", "for_s"})
ONE_OF: Final[Mapping[str, frozenset[str]]] = {
    "layer": frozenset({"merchant", "processor", "card"}),
    "fault": FAULTS,
    "file_kind": FILE_KINDS,
}
TYPES: Final[Mapping[str, type]] = {
    **dict.fromkeys(FLAGS, bool),
    **dict.fromkeys(("payout", "generate"), dict),
    **dict.fromkeys(("rows", "entries", "statements", "raw_lines"), list),
}


def understood(event: Any) -> dict[str, Any]:
    """An event of a scenario file: a known type, known fields, values of their types. Absent and empty optional fields are left out."""
    fields = _object(event)
    kind = str(fields.get("type"))
    if kind not in SHAPES:
        raise NotUnderstoodError(f"unknown event type {kind!r}")
    for name in fields:
        if name not in SHAPES[kind] and name not in EVERYWHERE:
            raise NotUnderstoodError(f"unknown field {name!r} of {kind}")
    checked = {name: _value(kind, name, value) for name, value in fields.items() if value is not None}
    kept = {name: value for name, value in checked.items() if value != "" or name not in IDS}
    spared = MAY_BE_ABSENT | ({"amount", "ccy"} if kind in MONEY_MAY_BE_ABSENT else set())
    for name, required in SHAPES[kind].items():
        if required and name not in kept and name not in spared:
            raise NotUnderstoodError(f"{name} of {kind} is missing")
    return kept


def from_wire(value: Any, *, major: bool) -> dict[str, Any]:
    """The fields of a raw record: strict about what its type needs, blind to what it does not know."""
    fields = _object(value)
    kind = str(fields.get("type"))
    if kind not in IN_RECORDS:
        raise NotUnderstoodError(f"type {kind!r} is not known")
    shape = SHAPES[kind]
    known = {name: item for name, item in fields.items() if (name in shape or name == "type") and item is not None}
    checked = {name: _value(kind, name, item) for name, item in known.items()}
    for name in AMOUNTS & checked.keys():
        if isinstance(checked[name], str) != (major and kind == "CALLBACK"):
            raise NotUnderstoodError(
                f"{name} is {checked[name]!r}; send {'decimal text' if major else 'a JSON integer'}"
            )
    for name in CURRENCIES & checked.keys():
        if not CURRENCY.fullmatch(checked[name]):
            raise NotUnderstoodError(f"{name} is {checked[name]!r}; send three capital letters")
    kept = {name: item for name, item in checked.items() if item != "" or name not in IDS}
    for name, required in shape.items():
        if required and name not in kept:
            raise NotUnderstoodError(f"{name} is missing; {kind} needs it")
    return kept


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise NotUnderstoodError(f"an event is a JSON object, this is {type(value).__name__}")
    return value


def _value(kind: str, name: str, value: Any) -> Any:
    """The value, if it is one that the field may have; ids that came as numbers are kept as their digits."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    if name in IDS and whole:
        return str(value)
    if not _good(name, value, whole=whole):
        raise NotUnderstoodError(f"{name} of {kind} is {value!r}, which it cannot be")
    return value


def _good(name: str, value: Any, *, whole: bool) -> bool:
    if name in ONE_OF:
        return isinstance(value, str) and value in ONE_OF[name]
    if name in AMOUNTS:
        return whole or isinstance(value, str)
    if name in WHOLE:
        return whole
    if name in DURATIONS:
        return whole or isinstance(value, float)
    return isinstance(value, TYPES.get(name, str))
