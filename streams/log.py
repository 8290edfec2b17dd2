"""Structured logs: one JSON object a line (or coloured text on a terminal), UTC, with secrets and card numbers kept out.

Fields have fixed names: `order` for a merchant order id, `trace` for a trace id, `partition`, `topic`, `offset`.
"""

from __future__ import annotations

import logging
import re
import sys
from typing import TYPE_CHECKING, Any, Final, TextIO

import structlog

if TYPE_CHECKING:
    from structlog.typing import EventDict, Processor, WrappedLogger

SECRET_FIELDS: Final = frozenset(
    {"password", "secret", "sasl_plain_password", "authorization", "signature", "api_key", "key_material"}
)
CARD_NUMBER: Final = re.compile(r"(?<!\d)\d{6}\d{3,9}(\d{4})(?!\d)")
ACCOUNT_FIELDS: Final = frozenset({"account", "accounts", "channel", "news"})
"""Fields that hold names out of the accounts file, and nothing of a notice."""
ACCOUNT_NUMBER: Final = re.compile(r"20\d{14}")
"""Alipay numbers its applications and users so. Sixteen digits that begin with 20 are no card of any network."""

EVERY_S: Final = 5.0
LARGEST_PLAIN: Final = 10**14
"""Offsets, amounts and epoch milliseconds stay below; a longer whole number may be a card's."""


def redact(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Hide the values of secret fields, and all but the last four digits of what may be a card number, however deep."""
    return {name: _hidden(name, value) for name, value in event.items()}


def _hidden(name: object, value: Any) -> Any:
    if isinstance(name, str) and name.lower() in SECRET_FIELDS:
        return "[redacted]"
    if name in ("_record", "_from_structlog") or isinstance(value, bool | float | None):
        return value
    if isinstance(value, dict):
        return {inner: _hidden(inner, found) for inner, found in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_hidden(name, found) for found in value]
    if isinstance(value, int) and abs(value) < LARGEST_PLAIN:
        return value
    text = value if isinstance(value, str) else repr(value)
    return naming_accounts(text) if name in ACCOUNT_FIELDS else without_cards(text)


def without_cards(text: str) -> str:
    """The text, with only the last four digits of what may be a card number."""
    return CARD_NUMBER.sub(r"[card …\1]", text)


def naming_accounts(text: str) -> str:
    """The same for a text that names configured accounts: those that are numbered stay readable. Never for a text of a notice."""
    return CARD_NUMBER.sub(
        lambda found: found[0] if ACCOUNT_NUMBER.fullmatch(found[0]) else f"[card …{found[1]}]", text
    )


class Hush(logging.Filter):
    """Lets one line of a kind through in `EVERY_S` seconds, of one library: without a broker it says so a hundred times a second."""

    def __init__(self, library: str) -> None:
        super().__init__()
        self._library = library
        self._next: dict[tuple[str, int], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if not record.name.startswith(self._library):
            return True
        kind = (record.name, record.lineno)
        if record.created < self._next.get(kind, 0.0):
            return False
        self._next[kind] = record.created + EVERY_S
        return True


def configure(*, level: str = "info", stream: TextIO | None = None) -> None:
    """Configure structlog and the standard library's logging (aiokafka, Faust) to write the same lines to standard error."""
    target = stream or sys.stderr
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
        structlog.processors.format_exc_info,
        redact,
    ]
    is_terminal = target.isatty()
    renderer: Processor = (
        structlog.dev.ConsoleRenderer() if is_terminal else structlog.processors.JSONRenderer(ensure_ascii=False)
    )
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    chain: list[Processor] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    handler = logging.StreamHandler(target)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=[*chain, renderer]))
    handler.addFilter(Hush("aiokafka"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for noisy in ("aiokafka.consumer.group_coordinator", "aiokafka.consumer.subscription_state"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, root.level))
