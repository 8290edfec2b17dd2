"""Logs: one JSON object a line, UTC, with secrets and card numbers kept out, whoever wrote them."""

from __future__ import annotations

import io
import json
import logging
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from streams import log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CARD = "4242424242424242"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def lines() -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """Configures logging on a stream of its own; call it for what was written."""
    root, former = logging.getLogger(), (logging.getLogger().handlers[:], logging.getLogger().level)
    stream = io.StringIO()
    log.configure(level="info", stream=stream)
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    root.handlers[:], root.level = former[0], former[1]
    structlog.reset_defaults()


def fail(why: str) -> None:
    """Logs an exception as the product does."""
    try:
        int(why)
    except ValueError:
        structlog.get_logger("a").exception("failed")


def redacted(**event: Any) -> dict[str, Any]:
    return dict(log.redact(None, "info", event))


class TestLines:
    def test_a_line_is_one_object_with_time_level_logger_and_fields(self, lines):
        structlog.get_logger("streams.engine").info("opened", partition=3, order="订单-1", topic="t", offset=7)
        [line] = lines()
        assert line.pop("timestamp").endswith("Z")
        assert line == {
            "event": "opened",
            "level": "info",
            "logger": "streams.engine",
            "partition": 3,
            "order": "订单-1",
            "topic": "t",
            "offset": 7,
        }

    def test_what_is_below_the_level_is_left_out(self, lines):
        structlog.get_logger("a").debug("no")
        structlog.get_logger("a").warning("yes")
        assert [line["event"] for line in lines()] == ["yes"]

    def test_libraries_write_the_same_lines(self, lines):
        logging.getLogger("aiokafka.producer").warning("cannot reach %s", "broker:9092")
        [line] = lines()
        assert (line["event"], line["level"], line["logger"]) == (
            "cannot reach broker:9092",
            "warning",
            "aiokafka.producer",
        )

    def test_a_traceback_stays_in_its_line(self, lines):
        fail("broken")
        [line] = lines()
        assert "ValueError: invalid literal" in line["exception"]

    def test_bound_context_is_in_every_line(self, lines):
        with structlog.contextvars.bound_contextvars(trace="00-ab"):
            structlog.get_logger("a").info("x")
            logging.getLogger("b").warning("y")
        assert [line["trace"] for line in lines()] == ["00-ab", "00-ab"]

    def test_the_clients_chatter_is_kept_down(self, lines):
        logging.getLogger("aiokafka.consumer.group_coordinator").info("joined")
        assert lines() == []

    def test_a_library_that_repeats_itself_is_hushed(self, lines):
        for _ in range(500):
            logging.getLogger("aiokafka.client").error("cannot connect")
        logging.getLogger("aiokafka.client").error("something else")
        assert [line["event"] for line in lines()] == ["cannot connect", "something else"]

    def test_our_own_lines_are_never_hushed(self, lines):
        for _ in range(3):
            structlog.get_logger("streams.engine").warning("reopening")
        assert len(lines()) == 3

    def test_a_terminal_gets_text(self, lines):
        terminal = Terminal()
        log.configure(stream=terminal)
        structlog.get_logger("a").info("opened", partition=3)
        assert "opened" in terminal.getvalue()
        with pytest.raises(ValueError, match=r"Expecting value|Extra data"):
            json.loads(terminal.getvalue())


class TestRedaction:
    @pytest.mark.parametrize("name", sorted(log.SECRET_FIELDS))
    def test_a_secret_field_is_hidden_whatever_it_holds(self, name):
        assert redacted(**{name: "hunter2"}) == {name: "[redacted]"}
        assert redacted(**{name: b"hunter2"}) == {name: "[redacted]"}

    @pytest.mark.parametrize("digits", range(13, 20))
    def test_a_card_number_keeps_its_last_four_digits(self, digits):
        number = "5" * (digits - 4) + "1234"
        assert redacted(order=number) == {"order": "[card …1234]"}

    @pytest.mark.parametrize("digits", [1, 12, 20, 30])
    def test_a_shorter_or_longer_number_is_no_card_number(self, digits):
        assert redacted(order="5" * digits) == {"order": "5" * digits}

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            (f"card {CARD} was declined", "card [card …4242] was declined"),
            (f"pan={CARD};exp=12", "pan=[card …4242];exp=12"),
            (f"{CARD},{CARD}", "[card …4242],[card …4242]"),
            (f'{{"pan":"{CARD}"}}', '{"pan":"[card …4242]"}'),
            (f"x{CARD}y", "x[card …4242]y"),
        ],
    )
    def test_a_card_number_inside_a_text_is_hidden(self, text, expected):
        assert redacted(event=text) == {"event": expected}

    @pytest.mark.parametrize("field", sorted(log.ACCOUNT_FIELDS))
    def test_a_configured_account_that_is_numbered_stays_readable(self, field):
        name = "alipay:2021000000000000"
        assert redacted(**{field: name}) == {field: name}
        assert redacted(**{field: [name]}) == {field: [name]}

    @pytest.mark.parametrize("field", sorted(log.ACCOUNT_FIELDS))
    @pytest.mark.parametrize(
        "number", [CARD, "2221000000000009", "2200000000000004", "202100000000000", "20210000000000000"]
    )
    def test_a_card_number_is_hidden_where_an_account_should_be(self, field, number):
        assert redacted(**{field: f"alipay:{number}"}) == {field: f"alipay:[card …{number[-4:]}]"}

    @pytest.mark.parametrize("field", ["order", "event", "why", "trace", "orders"])
    def test_no_other_field_keeps_sixteen_digits(self, field):
        assert "2021000000000000" not in str(redacted(**{field: "2021000000000000"}))

    def test_a_card_number_in_a_librarys_message_is_hidden(self, lines):
        logging.getLogger("lib").warning("got %s", CARD)
        [line] = lines()
        assert line["event"] == "got [card …4242]"

    def test_a_secret_in_a_line_is_hidden(self, lines):
        structlog.get_logger("a").info("login", password="hunter2")
        assert "hunter2" not in json.dumps(lines())

    def test_a_card_number_in_an_exception_is_hidden(self, lines):
        fail(f"bad card {CARD}")
        assert CARD not in json.dumps(lines())

    @pytest.mark.parametrize("value", [[CARD], {"pan": CARD}, (CARD, 1), {"deep": [{"pan": CARD}]}, CARD.encode()])
    def test_a_card_number_inside_a_value_is_hidden(self, lines, value):
        structlog.get_logger("a").info("seen", value=value)
        assert CARD not in json.dumps(lines())

    def test_a_secret_inside_a_value_is_hidden(self, lines):
        structlog.get_logger("a").info("config", kafka={"sasl_plain_password": "hunter2"})
        assert "hunter2" not in json.dumps(lines())

    def test_a_card_number_as_a_whole_number_is_hidden(self):
        assert redacted(value=int(CARD)) == {"value": "[card …4242]"}

    def test_numbers_are_left_as_they_are(self):
        assert redacted(offset=1_700_000_000_000, amount=5) == {"offset": 1_700_000_000_000, "amount": 5}
