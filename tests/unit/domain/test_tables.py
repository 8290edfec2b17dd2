"""The tables are whole: every word has a meaning, every rule a sentence, every end is an end."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from streams.domain import tables
from streams.domain.rules import RULES
from streams.domain.tables import (
    AUTHORIZED,
    CLOSE_WORDS,
    DISPUTE,
    KINDS,
    MACHINE,
    MACHINES,
    OF_PAYMENTS,
    OPEN,
    UNPAID,
    WORDS,
    mermaid,
)

LAW = Path(tables.__file__).parent


EVERY = {**MACHINES, "DISPUTE": DISPUTE}


@pytest.mark.parametrize("kind", EVERY)
def test_every_move_leads_to_a_state_of_the_machine(kind: str):
    for state, moves in EVERY[kind].items():
        assert set(moves.values()) <= EVERY[kind].keys(), state


def test_terminal_states_have_no_moves():
    ends = {kind: {state for state, moves in machine.items() if not moves} for kind, machine in EVERY.items()}
    assert ends == {
        "PAY": {"SUCCESS", "FAIL", "CLOSED", "VOIDED", "EXPIRED"},
        "CAPTURE": {"SUCCESS", "FAIL", "CLOSED"},
        "VOID": {"SUCCESS", "FAIL", "CLOSED"},
        "REFUND": {"FAIL", "RETURNED"},
        "DISPUTE": {"WON", "LOST"},
    }
    assert ends["PAY"] > UNPAID


def test_success_and_failure_are_entered_only_while_a_request_or_a_hold_is_out():
    """R-013, R-016."""
    for machine in MACHINES.values():
        for state, moves in machine.items():
            if {"SUCCESS", "FAIL"} & set(moves.values()):
                assert state in OPEN | {AUTHORIZED}


def test_only_what_was_never_asked_for_and_a_stated_lapse_end_by_the_clock():
    by_the_clock = {(state, word) for state, moves in MACHINE.items() for word in ("expire", "lapse") if word in moves}
    assert by_the_clock == {("INIT", "expire"), (AUTHORIZED, "lapse")}


def test_unknown_words_are_the_only_ones_that_leave_a_payment_open():
    """R-001: three outcomes and nothing between; R-005: timeouts and absence are unknown."""
    for meaning in WORDS.values():
        if meaning.input not in OF_PAYMENTS:
            ends = MACHINE["PAYING"][meaning.input] not in OPEN
            assert ends == (meaning.outcome != "unknown")
    assert {WORDS[word].outcome for word in ("TIMEOUT", "NOT_FOUND", "PROCESSING", "AUTHORIZED")} == {"unknown"}
    assert CLOSE_WORDS.keys() == WORDS.keys()


def test_no_machine_leads_back_to_a_state_it_has_left():
    """An operation enters each state at most once: ids of updates rely on it."""
    for machine in MACHINES.values():
        rank = {state: place for place, state in enumerate(machine)}
        for state, moves in machine.items():
            assert all(rank[after] >= rank[state] for after in moves.values()), state


def test_every_rule_and_kind_that_the_law_names_is_in_its_table():
    source = "\n".join(path.read_text() for path in LAW.glob("*.py"))
    rules = set(re.findall(r'Ruling\(\s*"\w+",\s*"([a-z-]+)"', source))
    rules |= set(re.findall(r'_close\([^"]*"\w+",\s*"([a-z-]+)"', source))
    assert len(rules) > 60
    assert rules <= RULES.keys()
    formed = {f"decided-{one}" for one in ("refund", "fulfil", "book", "close")}
    formed |= {f"dispute-{one}" for one in ("open", "won", "lost")} | {
        f"{one}-asked" for one in ("capture", "void", "refund")
    }
    formed |= {"start", "retry", "amount-differs", "currency-differs", "amount-invalid"}
    assert RULES.keys() - rules <= formed
    kinds = set(re.findall(r'"([A-Z]+(?:_[A-Z]+)+)",?\n', source)) & KINDS.keys()
    assert kinds


def test_the_picture_is_drawn_from_the_table():
    picture = mermaid()
    assert picture.startswith("stateDiagram-v2\n    [*] --> INIT: create\n")
    assert "    PAYING --> UNKNOWN: doubt\n" in picture
    assert "    SUCCESS --> [*]\n" in picture
    assert "UNKNOWN --> UNKNOWN" not in picture
    assert "    SUCCESS --> RETURNED: returned\n" in mermaid(MACHINES["REFUND"])


def test_no_timer_writes_a_final_state_but_the_two():
    """R-005, R-056: read from the source, so that no new path can slip in."""
    tree = ast.parse((LAW / "timers.py").read_text())
    writers = {
        function.name
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "enter"
    }
    assert writers == {"_expire", "_lapse"}
    assigned = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)]
    assert not {node.attr for node in assigned} & {"state", "path"}
    assert not {"succeed", "fail"} & {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    scheduled = ast.parse((LAW / "schedule.py").read_text())
    assert not [node for node in ast.walk(scheduled) if isinstance(node, ast.Attribute) and node.attr == "enter"]


def test_the_law_has_no_float_and_asks_no_clock():
    for path in LAW.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            assert not (isinstance(node, ast.Constant) and isinstance(node.value, float)), path
            assert not (isinstance(node, ast.Name) and node.id == "float"), path
            assert not (isinstance(node, ast.Attribute) and node.attr in {"now", "utcnow", "today"}), path
            assert not isinstance(node, ast.Div), path
