"""What others wrote cannot steer a terminal: no id forges a line, moves the cursor or turns the text around."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from streams.cli.explain import tell
from streams.cli.printable import json_text, printable, styled
from streams.domain.order import Order
from streams.domain.story import story
from tests.support.worlds import World

FORGED = "E1\nnothing is awaited\x1b[2K\x07\u202e [red]x[/] :bomb: \\"


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("订单-1 é", "订单-1 é"),
        ("a\nb\tc", "a\\x0ab\\x09c"),
        ("\x1b[31m\x07\x7f\x9b", "\\x1b[31m\\x07\\x7f\\x9b"),
        ("\u202e\u2066\u2028\ufeff", "\\u202e\\u2066\\u2028\\ufeff"),
        ("\U000e0001\ud800", "\\U000e0001\\ud800"),
        ("", ""),
    ],
)
def test_every_character_that_is_not_printable_is_shown_by_its_number(raw, shown):
    assert printable(raw) == shown


@given(st.text())
def test_whatever_was_written_becomes_one_printable_line(text):
    assert printable(text).isprintable()
    assert len(printable(text).splitlines()) <= 1


@given(st.text(alphabet=st.characters(codec="utf-8")))
def test_json_says_the_same_and_holds_nothing_that_steers_a_terminal(text):
    written = json_text({"id": text})
    assert json.loads(written) == {"id": text}
    assert written.isprintable()


def test_indented_json_keeps_its_lines():
    assert json_text({"a": "\u202e", "b": 1}, indent=2).splitlines() == ["{", '  "a": "\\u202e",', '  "b": 1', "}"]


@given(st.text())
def test_no_text_becomes_markup_or_an_emoji(text):
    console = Console(file=io.StringIO(), highlight=False, emoji=False, soft_wrap=True, width=80)
    console.print(styled(text, (text, "bold")), end="")
    assert console.file.getvalue() == printable(text) * 2


def test_a_story_has_no_line_that_an_id_has_made():
    world = World()
    for row in ("create P1", "start P1", "submit P1 TIMEOUT a=-"):
        world.row(row)
    told = story(world.order or Order("O1"), world.at)
    honest, forged = io.StringIO(), io.StringIO()
    tell(told, Console(file=honest, highlight=False, emoji=False, soft_wrap=True))
    pieces = [
        type(piece)(**{**fields(piece), "ref": FORGED, "source": FORGED, "word": FORGED}) for piece in told.evidence
    ]
    payments = [type(each)(**{**fields(each), "payment": FORGED, "channel": FORGED}) for each in told.payments]
    lie = type(told)(**{**fields(told), "order_id": FORGED, "evidence": tuple(pieces), "payments": tuple(payments)})
    tell(lie, Console(file=forged, highlight=False, emoji=False, soft_wrap=True))
    assert len(forged.getvalue().split("\n")) == len(honest.getvalue().split("\n"))
    assert forged.getvalue().replace("\n", "").isprintable()
    assert "[red]x[/] :bomb: \\" in forged.getvalue()
    assert "\nnothing is awaited" not in forged.getvalue()


def fields(struct: object) -> dict[str, object]:
    return {name: getattr(struct, name) for name in struct.__struct_fields__}
