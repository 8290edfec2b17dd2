"""How the outcome of a scenario is compared with what it expects: key by key, as its format says. `1`, `"1"` and `true` differ."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, Final


def differences(expected: dict[str, Any], outcome: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Every key that differs: (expected, got). A key that is not expected is not compared."""
    if "error" in outcome:
        return {"error": (None, outcome["error"])}
    return {
        key: (wanted, outcome.get(key, "absent"))
        for key, wanted in expected.items()
        if not (key in outcome and _agree(key, wanted, outcome[key]))
    }


def _agree(key: str, wanted: Any, got: Any) -> bool:
    compare = COMPARED.get(key)
    assert compare is not None, f"the format has no key {key!r}"
    return compare(wanted, got)


def _equal(wanted: Any, got: Any) -> bool:
    return _text(wanted) == _text(got)


def _bag(wanted: list[Any], got: list[Any]) -> bool:
    return Counter(map(_text, wanted)) == Counter(map(_text, got))


def _set(wanted: list[Any], got: list[Any]) -> bool:
    return {_text(one) for one in wanted} == {_text(one) for one in got}


def _listed(wanted: dict[str, Any], got: dict[str, Any]) -> bool:
    return all(name in got and _text(got[name]) == _text(value) for name, value in wanted.items())


def _or_zero(wanted: dict[str, Any], got: dict[str, Any]) -> bool:
    return all(_text(got.get(name, 0)) == _text(value) for name, value in wanted.items())


def _fields(wanted: dict[str, Any], got: dict[str, Any]) -> bool:
    return all(_listed(item, got.get(name, {})) for name, item in wanted.items())


def _candidates(wanted: dict[str, Any], got: dict[str, Any]) -> bool:
    return all(set(got.get(name, ())) == set(value) for name, value in wanted.items())


def _emitted(wanted: list[dict[str, Any]], got: list[dict[str, Any]]) -> bool:
    kinds = {record["type"] for record in wanted}
    shown = [record for record in got if record["type"] in kinds]
    return len(shown) == len(wanted) and all(
        all(_text(record.get(field)) == _text(value) for field, value in one.items())
        for one, record in zip(wanted, shown, strict=True)
    )


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


RECON_SETS: Final = frozenset({"matched", "held", "attached", "refs"})
RECON_EQUAL: Final = frozenset({"lines", "entries", "sum"})


def _recon(wanted: dict[str, Any], got: dict[str, Any]) -> bool:
    return all(_recon_key(name, value, got.get(name)) for name, value in wanted.items())


def _recon_key(name: str, wanted: Any, got: Any) -> bool:
    if name in RECON_SETS:
        return _set(wanted, got)
    return _equal(wanted, got) if name in RECON_EQUAL else _listed(wanted, got)


COMPARED: Final = {
    "recon": _recon,
    **dict.fromkeys(("ops", "success_events", "refund_events", "acks"), _equal),
    **dict.fromkeys(("discrepancies", "ledger"), _bag),
    **dict.fromkeys(("rejected_ops", "resolved", "flags"), _set),
    **dict.fromkeys(("captured", "refunded", "other_events", "commands"), _or_zero),
    **dict.fromkeys(
        ("orders", "refundable_remaining", "hold", "disputes", "layers", "transitions", "balances", "payouts"), _listed
    ),
    "fields": _fields,
    "candidates": _candidates,
    "emitted": _emitted,
}
