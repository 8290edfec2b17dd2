"""`concord replay`: what it understands it plays, what it does not it refuses by name, and it never looks at what is expected."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from streams.cli.explain import explain
from streams.cli.replay import replay
from streams.cli.why import why

if TYPE_CHECKING:
    from pathlib import Path

PAYING = {"op": "P1", "kind": "PAY", "order": "O1", "channel": "chA", "amount": 1000, "ccy": "USD", "state": "PAYING"}
PAID = PAYING | {"state": "SUCCESS", "txn": "X1"}
HELD = PAYING | {"state": "AUTHORIZED"}
REFUND = PAYING | {"op": "R1", "kind": "REFUND", "parent": "P1", "amount": 300, "state": "REFUNDING"}


def at(time: str) -> str:
    return f"2025-03-03T{time}Z"


def event(kind: str, time: str = "10:00:05", **fields: Any) -> dict[str, Any]:
    """An event about P1 of O1 at chA."""
    base: dict[str, Any] = {"type": kind, "recv_time": at(time)}
    if kind not in {"TICK", "FAULT", "RAW_RECORD"}:
        base |= {"channel": "chA", "order": "O1", "op": "P1"}
    if kind in {"CALLBACK", "SUBMIT"}:
        base |= {"amount": 1000, "ccy": "USD"}
    return {name: value for name, value in (base | fields).items() if value is not ...}


def success(**fields: Any) -> dict[str, Any]:
    return event("CALLBACK", **{"status": "SUCCESS", "txn": "X1", "event_id": "E1"} | fields)


def run(file: Path, *cases: Any, form: str = "json") -> Any:
    file.write_text("".join(case if isinstance(case, str) else json.dumps(case) + "\n" for case in cases))
    return CliRunner().invoke(replay, [str(file), "--format", form], catch_exceptions=False)


def play(tmp_path: Path, given: Any = None, *events: dict[str, Any]) -> dict[str, Any]:
    result = run(tmp_path / "case.jsonl", {"id": "S", "given": {} if given is None else given, "events": list(events)})
    assert result.exit_code == 0
    return json.loads(result.stdout)


def test_every_key_is_there_even_if_nothing_happened(tmp_path: Path):
    assert play(tmp_path) == {
        "id": "S", "ops": {}, "success_events": 0, "refund_events": 0, "discrepancies": [], "ledger": [], "rejected_ops": [],
        "resolved": [], "flags": [], "orders": {}, "captured": {}, "refunded": {}, "refundable_remaining": {}, "hold": {},
        "disputes": {}, "layers": {}, "other_events": {}, "commands": {}, "transitions": {}, "fields": {}, "emitted": [],
        "candidates": {}, "acks": [], "balances": {}, "payouts": {},
    }  # fmt: skip


def test_what_a_scenario_expects_is_never_read(tmp_path: Path):
    result = run(tmp_path / "f", {"id": "S", "events": [], "expect": {"ops": 5}, "notes": []})
    assert json.loads(result.stdout)["ops"] == {}


def test_a_line_that_is_no_scenario_is_told_and_the_next_one_runs(tmp_path: Path):
    result = run(tmp_path / "f", "{broken\n", "\n", {"id": "S", "events": []}, '{"id": 5}\n')
    told = [json.loads(line) for line in result.stdout.splitlines()]
    assert [one["id"] for one in told] == [None, "S", None]
    assert ["error" in one for one in told] == [True, False, True]
    assert result.exit_code == 0


def test_a_file_that_cannot_be_read_is_an_error_of_its_own(tmp_path: Path):
    result = CliRunner().invoke(replay, [str(tmp_path / "nothing"), "--format", "json"])
    assert result.exit_code == 2
    assert result.stdout == ""


FILE = {
    "type": "FILE", "recv_time": at("10:00:00"), "file_kind": "CHANNEL_BILL", "source": "s", "channel": "chA", "batch": "B1",
    "business_date": "2025-03-03",
}  # fmt: skip

NOT_UNDERSTOOD = {
    "event type": ({}, [event("CALLBCK")]),
    "type": ({}, [event("PARCEL")]),
    "source of FILE": ({}, [{key: value for key, value in FILE.items() if key != "source"}]),
    "file_kind of FILE": ({}, [FILE | {"file_kind": "CAMT099"}]),
    "amount is missing": ({}, [FILE | {"rows": [{"line": 1, "ccy": "USD"}]}]),
    "rows of FILE are objects": ({}, [FILE | {"rows": [1]}]),
    "unknown field 'colour' in the content": ({}, [FILE | {"rows": [{"line": 1, "amount": 1, "ccy": "USD", "colour": 1}]}]),
    "encoding of FILE": ({}, [FILE | {"raw_lines": ["a"], "encoding": "EBCDIC"}]),
    "field": ({"ops": [PAYING]}, [success(colour="red")]),
    "contract key": ({"contract": {"chA": {"colour": 1}}}, []),
    "contract of chA": ({"contract": {"chA": {"query_window_s": "long"}}}, []),
    "given: ": ({"ops": [PAYING | {"colour": 1}]}, []),
    "expected": ({"expected": [{}]}, []),
    "no state of REFUND": ({"ops": [PAID, REFUND | {"state": "PAYING"}]}, []),
    "recv_time": ({}, [event("TICK", recv_time=...)]),
    "given.now": ({"now": "today"}, []),
    "expire_local": ({"ops": [PAYING | {"expire_local": "soon", "tz": "Mars/Olympus"}]}, []),
    "layers": ({"ops": [PAID, REFUND | {"layers": {"card": "SHINY"}}]}, []),
    "disputes": ({"disputes": [{"parent": "P9", "amount": 1, "status": "OPEN"}]}, []),
    "order of CALLBACK is missing": ({}, [success(order=...)]),
    "fault": ({}, [event("FAULT", fault="EARTHQUAKE")]),
    "layer of REFUND_LAYER": ({}, [event("REFUND_LAYER", layer="moon", parent="P1", status="X")]),
    "parent of DISPUTE": ({}, [event("DISPUTE", op=..., status="OPEN", amount=1, ccy="USD")]),
    "amount of CALLBACK": ({}, [success(amount=[1])]),
    "livemode": ({}, [success(livemode="no")]),
    "version": ({}, [success(version="2")]),
    "for_s": ({}, [event("FAULT", fault="PAUSE", for_s="long")]),
    "status": ({}, [success(status=5)]),
    "body": ({}, [event("RAW_CALLBACK", delivery_id="D", content_type="text/xml", order=..., op=...)]),
    "body_hex": ({}, [event("RAW_CALLBACK", delivery_id="D", content_type="a", body_hex="zz", order=..., op=...)]),
    "an event is a JSON object": ({}, [[1]]),
    "CARD_POSTING": ({}, [event("CARD_POSTING", op=..., order=..., status="SHINY", amount=1, ccy="USD")]),
}  # fmt: skip


@pytest.mark.parametrize("what", NOT_UNDERSTOOD)
def test_what_is_not_understood_is_refused_by_name(tmp_path: Path, what: str):
    given, events = NOT_UNDERSTOOD[what]
    outcome = play(tmp_path, given, *events)
    assert outcome.keys() == {"id", "error"}
    assert what in outcome["error"]


def test_the_output_for_people_shows_what_happened_only(tmp_path: Path):
    result = run(tmp_path / "f", {"id": "S[1]", "given": {"ops": [PAYING]}, "events": [success()]}, form="text")
    assert "S[1]" in result.output
    assert "'P1': 'SUCCESS'" in result.output
    assert "refund_events" not in result.output


# -- what is given


def test_generated_operations_are_there_and_not_listed(tmp_path: Path):
    given = {"generate_ops": {"count": 1000, "channel": "chA", "ccy": "USD"}}
    refund = event("REFUND_REQUEST", order="GO998", op="R1", parent="G998", amount=2, ccy="USD")
    outcome = play(tmp_path, given, refund)
    assert outcome["ops"] == {"R1": "REFUNDING"}
    assert (outcome["captured"]["GO998"], outcome["captured"]["GO997"]) == (2, 1)


def test_a_refund_without_its_payment_is_kept_by_itself(tmp_path: Path):
    contract = {"chA": {"refund_return_status": "BACK", "card_posting_window_s": 60}}
    shown = REFUND | {"parent": "P7", "layers": {"merchant": "COMPLETED"}, "started_at": at("09:59:30")}
    result = event("REFUND_RESULT", op="R1", parent="P7", refund_txn="RX", amount=300, ccy="USD", status="SUCCESS")
    again = result | {"refund_txn": "RY"}
    back = event(
        "REFUND_CALLBACK",
        "10:01:00",
        op="R1",
        parent="P7",
        refund_txn="RX",
        amount=300,
        ccy="USD",
        status="BACK",
        event_id="B",
    )
    outcome = play(tmp_path, {"ops": [shown], "contract": contract}, result, again, back)
    assert outcome["ops"] == {"R1": "RETURNED"}
    kinds = {(one["type"], one["ref"]) for one in outcome["discrepancies"]}
    assert kinds == {("CHANNEL_ONLY", "RY"), ("STATUS_MISMATCH", "R1")}
    assert [entry["ref"] for entry in outcome["ledger"]] == ["R1", "R1-return"]


def test_a_void_and_a_capture_without_their_payment_do_no_harm(tmp_path: Path):
    capture = PAYING | {"op": "C1", "kind": "CAPTURE", "parent": "P7", "amount": 300}
    done = event("CAPTURE_RESULT", op="C1", parent="P7", amount=300, ccy="USD", status="SUCCESS")
    outcome = play(tmp_path, {"ops": [capture]}, done)
    assert outcome["ops"] == {"C1": "PAYING"}
    assert [one["type"] for one in outcome["discrepancies"]] == ["LATE_SUCCESS"]


def test_a_duplicate_is_neither_posted_nor_announced_whatever_happens_to_it(tmp_path: Path):
    """R13 of the scenarios: refunds, disputes and returns of it post nothing; its full refund settles it."""
    second = HELD | {"op": "P2", "txn": "X2"}
    third = PAYING | {"op": "P3", "state": "FAIL"}
    contract = {"chA": {"payment_return_status": "BACK", "refund_return_status": "BACK"}}
    given = {"ops": [PAID, second, third], "contract": contract}
    request = event("CAPTURE_REQUEST", op="C1", parent="P2", amount=600, ccy="USD")
    events = [
        request,
        event("CAPTURE_RESULT", op="C1", parent="P2", amount=600, ccy="USD", status="SUCCESS"),
        request | {"op": "C2", "amount": 400},
        event("CAPTURE_RESULT", op="C2", parent="P2", amount=400, ccy="USD", status="SUCCESS"),
        event("DISPUTE", op=..., parent="P2", event_id="D1", amount=100, ccy="USD", status="OPEN"),
        event("DISPUTE", op=..., parent="P2", event_id="D2", amount=100, ccy="USD", status="WON"),
        event("REFUND_REQUEST", op="R1", parent="P2", amount=400, ccy="USD"),
        event("REFUND_RESULT", op="R1", parent="P2", refund_txn="RX1", amount=400, ccy="USD", status="SUCCESS"),
        event("REFUND_REQUEST", op="R2", parent="P2", amount=600, ccy="USD"),
    ]
    last = event("REFUND_RESULT", op="R2", parent="P2", refund_txn="RX2", amount=600, ccy="USD", status="SUCCESS")
    outcome = play(tmp_path, given, *events)
    assert [(one["type"], one["ref"]) for one in outcome["discrepancies"]] == [("DUPLICATE_PAYMENT", "P2")]
    outcome = play(tmp_path, given, *events, last)
    assert (outcome["ledger"], outcome["discrepancies"], outcome["success_events"]) == ([], [], 0)
    assert outcome["orders"] == {"O1": "PAID"}
    back = event(
        "REFUND_CALLBACK", op="R1", parent="P2", refund_txn="RX1", amount=400, ccy="USD", status="BACK", event_id="B"
    )
    outcome = play(tmp_path, given, *events, back)
    assert (outcome["ledger"], outcome["other_events"]) == ([], {"REFUND_RETURNED": 1})
    returned = event("CALLBACK", op="P2", status="BACK", event_id="B", txn="X2")
    outcome = play(tmp_path, given, *events[:4], returned)
    assert (outcome["ledger"], outcome["other_events"]) == ([], {"PAYMENT_REVERSED": 1})


def test_a_leg_beyond_the_total_is_a_duplicate_and_its_failure_leaves_nothing_short(tmp_path: Path):
    legs = [PAID | {"amount": 400}, PAYING | {"op": "P2", "amount": 600}, PAYING | {"op": "P3", "amount": 600}]
    given = {"ops": legs, "orders": {"O1": {"total": 1000}}}
    last = success(op="P3", amount=600, event_id="E3", txn="X3")
    second = success(op="P2", amount=600, txn="X2")
    outcome = play(tmp_path, given, second, last)
    assert [(one["type"], one["ref"]) for one in outcome["discrepancies"]] == [("DUPLICATE_PAYMENT", "P3")] * 1
    assert (outcome["success_events"], outcome["captured"], outcome["orders"]) == (1, {"O1": 1600}, {"O1": "PAID"})
    assert [entry["ref"] for entry in outcome["ledger"]] == ["P2"]
    outcome = play(tmp_path, given, second, last | {"status": "FAILED"})
    assert outcome["discrepancies"] == []


def test_two_paid_operations_of_one_order_are_a_duplicate_also_by_one_transaction(tmp_path: Path):
    """R-040: the second is neither announced nor posted, so nothing else needs a person."""
    given = {"ops": [PAYING, PAYING | {"op": "P2"}]}
    outcome = play(tmp_path, given, success(), success(op="P2", event_id="E2"))
    assert [(one["type"], one["ref"]) for one in outcome["discrepancies"]] == [("DUPLICATE_PAYMENT", "P2")]
    assert (outcome["success_events"], [entry["ref"] for entry in outcome["ledger"]]) == (1, ["P1"])


def test_a_given_hold_of_nothing_ends_without_a_release(tmp_path: Path):
    outcome = play(tmp_path, {"ops": [HELD | {"hold": 0}]}, event("CALLBACK", status="FAILED", event_id="F", txn="X1"))
    assert (outcome["ops"], outcome["other_events"]) == ({"P1": "VOIDED"}, {})


def test_items_that_stood_at_the_start_are_settled_or_left_and_never_repeated(tmp_path: Path):
    late = {"type": "LATE_SUCCESS", "severity": "high", "ref": "E1"}
    stuck = {"type": "STUCK_UNKNOWN", "severity": "high", "ref": "P2"}
    other = {"type": "CHANNEL_ONLY", "severity": "high", "ref": "nowhere"}
    legs = {"type": "PARTIAL_TENDER", "severity": "high", "ref": "O1"}
    closed = PAYING | {"state": "CLOSED", "order": "O0"}
    unknown = PAYING | {"op": "P2", "state": "UNKNOWN"}
    given = {"ops": [closed, unknown], "discrepancies": [late, stuck, other], "orders": {"O9": {"total": 5}}}
    outcome = play(tmp_path, given, success(order="O0"), success(op="P2"))
    assert outcome["discrepancies"] == []
    assert outcome["resolved"] == ["STUCK_UNKNOWN:P2"]
    assert outcome["orders"] == {"O0": "UNPAID", "O1": "PAID", "O9": "UNPAID"}
    part = [
        PAID | {"amount": 400},
        PAYING | {"op": "P2", "amount": 600, "state": "FAIL"},
        PAYING | {"op": "P3", "amount": 600},
    ]
    given = {"ops": part, "orders": {"O1": {"total": 1000}}, "discrepancies": [legs]}
    assert play(tmp_path, given)["orders"] == {"O1": "PARTIALLY_PAID"}
    outcome = play(tmp_path, given, success(op="P3", amount=600, txn="X3"))
    assert (outcome["resolved"], outcome["success_events"]) == (["PARTIAL_TENDER:O1"], 1)


def test_an_item_about_evidence_that_waits_is_settled_when_it_is_heard(tmp_path: Path):
    item = {"type": "UNKNOWN_ORDER", "severity": "high", "ref": "E1"}
    outcome = play(tmp_path, {"ops": [PAYING], "discrepancies": [item]}, success())
    assert outcome["resolved"] == ["UNKNOWN_ORDER:E1"]


def test_a_local_expiry_uses_the_offset_of_its_zone_at_the_expiry(tmp_path: Path):
    op = PAYING | {"state": "INIT", "expire_local": "2025-03-30 03:30", "tz": "Europe/Berlin"}
    early = event("TICK", recv_time="2025-03-30T01:29:59Z")
    assert play(tmp_path, {"ops": [op]}, early)["ops"] == {"P1": "INIT"}
    assert play(tmp_path, {"ops": [op]}, event("TICK", recv_time="2025-03-30T01:30:00Z"))["ops"] == {"P1": "CLOSED"}


def test_opening_balances_move_with_the_ledger(tmp_path: Path):
    outcome = play(tmp_path, {"ops": [PAYING], "balances": {"chan_recv:chA": 5}}, success())
    assert outcome["balances"] == {"chan_recv:chA": 1005, "order_clearing": -1000}


# -- time


def test_past_its_expiry_a_payment_is_queried_and_asked_to_close_and_the_clock_closes_nothing(tmp_path: Path):
    op = PAYING | {"expire_at": at("10:15:00")}
    outcome = play(tmp_path, {"ops": [op]}, event("TICK", "10:31:00"))
    assert outcome["ops"] == {"P1": "PAYING"}
    assert outcome["commands"] == {"QUERY:P1": 4, "CLOSE:P1": 1}
    closed = event("CLOSE_RESULT", "10:32:00", status="SUCCESS")
    assert play(tmp_path, {"ops": [op]}, closed)["ops"] == {"P1": "CLOSED"}


def test_due_times_of_all_orders_fire_in_due_order(tmp_path: Path):
    ops = [
        PAYING | {"op": f"P{n}", "order": f"O{n}", "state": "INIT", "expire_at": at(f"10:0{9 - n}:00")}
        for n in range(5)
    ]
    outcome = play(tmp_path, {"ops": ops}, event("TICK", "10:10:00"))
    assert set(outcome["ops"].values()) == {"CLOSED"}


# -- our side


def test_a_refused_submit_leaves_no_operation_and_a_known_one_does_nothing(tmp_path: Path):
    outcome = play(
        tmp_path, {"ops": [PAYING]}, event("SUBMIT", op="P2"), event("SUBMIT"), event("SUBMIT", op="P3", amount=0),
        event("SUBMIT", op="P4", merchant="M1"), event("SUBMIT", op="P5", merchant="M1"), event("SUBMIT", op="P6", order="O2"),
    )  # fmt: skip
    assert outcome["ops"] == {"P1": "PAYING", "M1/P4": "PAYING", "P6": "PAYING"}
    assert outcome["rejected_ops"] == ["P2", "P3", "M1/P5"]
    assert outcome["commands"] == {"SUBMIT:M1/P4": 1, "SUBMIT:P6": 1}
    assert outcome["transitions"]["P6"] == ["INIT", "PAYING"]


def test_a_given_payment_may_be_started(tmp_path: Path):
    assert play(tmp_path, {"ops": [PAYING | {"state": "INIT"}]}, event("SUBMIT"))["ops"] == {"P1": "PAYING"}


def test_answers_find_the_operation_of_the_only_merchant(tmp_path: Path):
    ops = [PAYING | {"merchant": "M1"}, REFUND | {"merchant": "M1"}]
    answer = event("QUERY_RESULT", status="SUCCESS", txn="X1", amount=1000, ccy="USD")
    refund = event("REFUND_RESULT", op="R1", parent="P1", refund_txn="RX", amount=300, ccy="USD", status="SUCCESS")
    outcome = play(tmp_path, {"ops": ops}, answer, refund)
    assert outcome["ops"] == {"M1/P1": "SUCCESS", "M1/R1": "SUCCESS"}


def test_words_about_an_operation_that_was_never_asked_for_wait(tmp_path: Path):
    ops = [PAID, REFUND | {"state": "INIT"}, REFUND | {"op": "C1", "kind": "CAPTURE", "state": "INIT"}]
    refund = event("REFUND_RESULT", op="R1", parent="P1", refund_txn="RX", amount=300, ccy="USD", status="SUCCESS")
    capture = event("CAPTURE_RESULT", op="C1", parent="P1", amount=300, ccy="USD", status="SUCCESS")
    outcome = play(tmp_path, {"ops": ops}, refund, capture)
    assert outcome["ops"] == {"P1": "SUCCESS", "R1": "INIT", "C1": "INIT"}
    assert outcome["discrepancies"] == []


def test_an_answer_before_its_operation_waits(tmp_path: Path):
    early = event("REFUND_RESULT", op="R1", parent="P1", refund_txn="RX", amount=300, ccy="USD", status="SUCCESS")
    request = event("REFUND_REQUEST", op="R1", parent="P1", amount=300, ccy="USD")
    outcome = play(tmp_path, {"ops": [PAID]}, early, request)
    assert (outcome["ops"]["R1"], outcome["refund_events"], outcome["discrepancies"]) == ("SUCCESS", 1, [])


# -- cards


def posting(**fields: Any) -> dict[str, Any]:
    return event("CARD_POSTING", op=..., order=..., event_id="L1", amount=1000, ccy="USD", **fields)


def test_a_card_entry_of_a_payment_that_appears_later_is_heard_there(tmp_path: Path):
    early = posting(status="PURCHASE", authorization="P1") | {"amount": 999}
    late = event("TICK", recv_time="2025-03-05T10:00:00Z")
    assert [one["type"] for one in play(tmp_path, None, early, late)["discrepancies"]] == ["UNKNOWN_ORDER"]
    outcome = play(tmp_path, None, early, event("SUBMIT"), success())
    assert [(one["type"], one["ref"]) for one in outcome["discrepancies"]] == [("AMOUNT_MISMATCH", "L1")]
    assert outcome["acks"] == ["OK", "OK"]


def test_a_card_refund_with_the_reference_of_a_refund_is_its_posting(tmp_path: Path):
    done = REFUND | {"state": "SUCCESS", "refund_txn": "RX"}
    outcome = play(tmp_path, {"ops": [PAID, done]}, posting(status="REFUND", txn="RX") | {"amount": 300})
    assert outcome["layers"] == {"R1": {"merchant": None, "processor": None, "card": "POSTED"}}
    assert outcome["discrepancies"] == []
    outcome = play(tmp_path, {"ops": [PAID, done]}, posting(status="REFUND", txn="X1") | {"amount": 300})
    assert (outcome["layers"]["R1"]["card"], outcome["discrepancies"]) == (None, [])


def test_a_card_refund_without_a_link_proposes_what_could_be_meant_and_matches_nothing(tmp_path: Path):
    small = PAID | {"op": "P2", "order": "O2", "amount": 999, "txn": "X2"}
    outcome = play(
        tmp_path,
        {"ops": [PAID, small]},
        posting(status="REFUND", txn="Z"),
        posting(status="PURCHASE") | {"event_id": "L2"},
    )
    assert outcome["candidates"] == {"L1": ["P1"]}
    assert [one["type"] for one in outcome["discrepancies"]] == ["UNLINKED_REFUND"]


# -- faults


def test_a_redelivery_after_a_kill_changes_nothing_and_finds_the_state_it_stored(tmp_path: Path):
    first = success() | {"offset": 7}
    other = event("QUERY_RESULT", status="FAILED", offset=8)
    kill = event("FAULT", fault="KILL", redeliver_from=7)
    outcome = play(tmp_path, {"ops": [PAYING]}, first, other, kill, event("FAULT", fault="RESTART"))
    assert (outcome["success_events"], len(outcome["ledger"]), len(outcome["discrepancies"])) == (1, 1, 1)
    assert outcome["acks"] == ["OK"], "a redelivery comes from the log, not from the channel"


# -- from a file


def test_an_order_of_a_scenario_can_be_explained(tmp_path: Path):
    file = tmp_path / "cases.jsonl"
    run(
        file,
        {"id": "A", "given": {"ops": [PAYING]}, "events": []},
        {"id": "B", "given": {"ops": [PAYING]}, "events": [success()]},
    )
    first = CliRunner().invoke(why, ["O1", "--file", str(file)])
    assert "payment P1 is PAYING" in first.output
    second = CliRunner().invoke(explain, ["O1", "--file", str(file), "--scenario", "B"])
    assert "PAYING → SUCCESS, witness E1" in second.output
    assert CliRunner().invoke(why, ["O9", "--file", str(file)]).exit_code == 1
    assert json.loads(CliRunner().invoke(why, ["O1", "--json", "--file", str(file)]).output)["order_id"] == "O1"


def recorded(time: str, **fields: Any) -> str:
    return json.dumps({"at": at(time), "event": fields}) + "\n"


def test_an_order_of_recorded_events_can_be_explained(tmp_path: Path):
    file = tmp_path / "events.jsonl"
    base = {"order_id": "O1", "payment_no": "P1"}
    file.write_text(
        recorded(
            "10:00:00",
            type="create_payment",
            command_id="c",
            biz_code="b",
            channel="chA",
            amount=5,
            currency="USD",
            **base,
        )
        + "\n"
        + recorded("10:00:01", type="start_payment", command_id="s", **base)
        + recorded(
            "10:20:00", type="callback", channel="chA", order_id="O2", payment_no="P9", status="SUCCESS", event_id="E"
        )
    )
    told = CliRunner().invoke(why, ["O1", "--file", str(file)])
    assert "payment P1 is PAYING" in told.output
    assert "next at 2025-03-03 10:30:01Z" in told.output
    assert CliRunner().invoke(explain, ["O1", "--json", "--file", str(file)]).exit_code == 0
    assert CliRunner().invoke(explain, ["O3", "--file", str(file)]).exit_code == 1


@pytest.mark.parametrize("text", ["{", '{"at": "noon", "event": null}', '{"event": {"type": "odd"}}'])
def test_a_file_that_is_neither_is_refused_by_its_line(tmp_path: Path, text: str):
    file = tmp_path / "f"
    file.write_text(text)
    result = CliRunner().invoke(why, ["O1", "--file", str(file)])
    assert result.exit_code == 2
    assert "line 1" in result.output
    assert CliRunner().invoke(why, ["O1", "--file", str(tmp_path / "none")]).exit_code == 2
