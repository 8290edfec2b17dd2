"""How a command ends when it cannot do its work: one line on standard error that says why and what to do, and an exit code.

The Kafka client logs every attempt to connect. Its last word is kept for that line, and its log is shown only if the trouble lasts.
"""

from __future__ import annotations

import logging
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click
from aiokafka.errors import KafkaConnectionError, KafkaError

from streams import log
from streams.cli.printable import printable
from streams.codec import StateVersionError
from streams.settings import SettingsError
from streams.topics import TopicsError

if TYPE_CHECKING:
    from collections.abc import Iterator

WRONG_SETTING: Final = 2
CANNOT_READ: Final = 4
INTERRUPTED: Final = 130
PATIENCE_S: Final = 5.0


class FirstWords(logging.Filter):
    """Keeps what the Kafka client says in the first seconds to itself, and remembers the last of it."""

    def __init__(self) -> None:
        super().__init__()
        self.last = ""
        self._began: float | None = None

    def filter(self, record: logging.LogRecord) -> bool:
        if not record.name.startswith("aiokafka"):
            return True
        self.last = record.getMessage()
        self._began = self._began or record.created
        return record.created - self._began > PATIENCE_S


@contextmanager
def quiet() -> Iterator[FirstWords]:
    """Log errors only, for the length of a block, and the Kafka client's only if they go on."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    words = FirstWords()
    log.configure(level="error")
    for handler in root.handlers:
        handler.addFilter(words)
    try:
        yield words
    finally:
        root.handlers[:] = before
        root.setLevel(level)


@contextmanager
def exits(name: str) -> Iterator[None]:
    """Ends the command `name` with 2 for a wrong setting or unusable topics, 4 for what cannot be reached or read, 130 for Ctrl-C."""
    with quiet() as words:
        try:
            yield
        except (SettingsError, TopicsError) as error:
            raise _exit(name, str(error), WRONG_SETTING) from error
        except StateVersionError as error:
            problem = f"the state was written by another release: {error}; use that release, or a later one"
            raise _exit(name, problem, CANNOT_READ) from error
        except KeyboardInterrupt as stop:
            raise _exit(name, "stopped", INTERRUPTED) from stop
        except BrokenPipeError:
            raise  # whoever read our output has gone
        except (KafkaError, OSError, TimeoutError) as error:
            raise _exit(name, unreachable(error, words.last), CANNOT_READ) from error


def unreachable(error: Exception, last: str = "") -> str:
    """In words: no broker, or a broker that refuses. `last` is the Kafka client's own last word."""
    if isinstance(error, KafkaConnectionError | OSError | TimeoutError):
        at = os.environ.get("CONCORD_KAFKA") or "localhost:9092"
        why = printable(last or str(error) or type(error).__name__)
        return f"no broker answers at {at}: {why}; set CONCORD_KAFKA, or run `concord dev up`"
    return f"the broker refused: {type(error).__name__}: {printable(str(error))}"


def _exit(name: str, message: str, code: int) -> SystemExit:
    click.echo(f"concord {name}: {message}", err=True)
    return SystemExit(code)
