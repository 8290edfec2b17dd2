"""The tables are whole: every word has a meaning, every rule a sentence, every end is an end."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from streams.domain import tables
from streams.domain.tables import CLOSE_WORDS, KINDS, MACHINE, OPEN, RULES, UNPAID, WORDS, mermaid

LAW = Path(tables.__file__).parent


def test_every_move_leads_to_a_state_of_the_machine():
    for state, moves in MACHINE.items():
        assert set(moves.values()) <= MACHINE.keys(), state


def test_terminal_states_have_no_moves():
    assert {state for state, moves in MACHINE.items() if not moves} == {"SUCCESS", "FAIL", "CLOSED"}
    assert MACHINE.keys() > UNPAID


def test_success_and_failure_are_entered_only_while_a_request_is_out():
    """R-013, R-016."""
    for state, moves in MACHINE.items():
        if {"SUCCESS", "FAIL"} & set(moves.values()):
            assert state in OPEN


def test_only_a_payment_never_asked_for_ends_by_the_clock():
    assert [state for state, moves in MACHINE.items() if "expire" in moves] == ["INIT"]


def test_unknown_words_are_the_only_ones_that_leave_a_payment_open():
    """R-001: three outcomes and nothing between; R-005: timeouts and absence are unknown."""
    for meaning in WORDS.values():
        ends = MACHINE["PAYING"][meaning.input] not in OPEN
        assert ends == (meaning.outcome != "unknown")
    assert {WORDS[word].outcome for word in ("TIMEOUT", "NOT_FOUND", "PROCESSING")} == {"unknown"}
    assert CLOSE_WORDS.keys() == WORDS.keys()


def test_every_rule_and_kind_that_the_law_names_is_in_its_table():
    source = "\n".join(path.read_text() for path in LAW.glob("*.py"))
    rules = set(re.findall(r'Ruling\(\s*"\w+",\s*"([a-z-]+)"', source))
    assert len(rules) > 20
    assert rules <= RULES.keys()
    kinds = set(re.findall(r'"([A-Z]+(?:_[A-Z]+)+)",?\n', source)) & KINDS.keys()
    assert kinds


def test_the_picture_is_drawn_from_the_table():
    picture = mermaid()
    assert picture.startswith("stateDiagram-v2\n    [*] --> INIT: create\n")
    assert "    PAYING --> UNKNOWN: doubt\n" in picture
    assert "    SUCCESS --> [*]\n" in picture
    assert "UNKNOWN --> UNKNOWN" not in picture


def test_the_law_has_no_float_and_asks_no_clock():
    for path in LAW.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            assert not (isinstance(node, ast.Constant) and isinstance(node.value, float)), path
            assert not (isinstance(node, ast.Name) and node.id == "float"), path
            assert not (isinstance(node, ast.Attribute) and node.attr in {"now", "utcnow", "today"}), path
            assert not isinstance(node, ast.Div), path
