"""A command that cannot do its work ends with one line and the exit code that its `--help` names."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from aiokafka.errors import KafkaConnectionError, TopicAuthorizationFailedError
from click.testing import CliRunner

from streams.__main__ import main
from streams.cli.differences import paragraphs, sentence
from streams.cli.exits import PATIENCE_S, FirstWords, exits
from streams.codec import StateVersionError
from streams.demo import traces
from streams.settings import SettingsError
from streams.topics import Difference, Severity, Topics, TopicsError, compare

if TYPE_CHECKING:
    from pathlib import Path

NOBODY = "127.0.0.1:1"


def run(folder: Path, *command: str, **env: str) -> subprocess.CompletedProcess[str]:
    root = os.getcwd()  # noqa: PTH109
    return subprocess.run(
        [sys.executable, "-W", "default::ResourceWarning", "-m", "streams", *command],
        env={**os.environ, "CONCORD_KAFKA": NOBODY, "PYTHONPATH": root, **env},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("explain O1", 4),
        ("audit stream", 4),
        ("audit stream --follow", 4),
        ("topics check", 4),
        ("topics create", 4),
        ("demo", 2),
        ("demo --delete demo-1.", 2),
    ],
)
def test_without_a_broker_a_command_says_so_once_and_ends(command, code, tmp_path: Path):
    ran = run(tmp_path, *command.split())
    assert ran.returncode == code, ran.stderr
    assert ran.stderr.count("\n") == 1
    assert f"no broker answers at {NOBODY}: " in ran.stderr
    assert "refused" in ran.stderr or "Connect call failed" in ran.stderr
    assert "set CONCORD_KAFKA" in ran.stderr


@pytest.mark.parametrize("command", ["explain O1", "audit stream", "topics check", "demo"])
def test_a_wrong_setting_is_one_line_before_anything_is_started(command, tmp_path: Path):
    ran = run(tmp_path, *command.split(), CONCORD_BATCH="many")
    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (2, "", 1)
    assert "CONCORD_BATCH='many'" in ran.stderr


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (SettingsError("CONCORD_X: wrong"), 2, "CONCORD_X: wrong"),
        (TopicsError("payments.state is missing"), 2, "payments.state is missing"),
        (StateVersionError("layout 9"), 4, "another release: layout 9"),
        (KafkaConnectionError("away"), 4, "no broker answers"),
        (TopicAuthorizationFailedError("not yours"), 4, "the broker refused: TopicAuthorizationFailedError"),
        (TimeoutError(), 4, "no broker answers"),
        (KeyboardInterrupt(), 130, "stopped"),
    ],
)
def test_each_failure_has_its_code_and_its_words(error, code, words, capsys):
    with pytest.raises(SystemExit) as ended, exits("explain"):
        raise error
    assert ended.value.code == code
    said = capsys.readouterr().err
    assert said.startswith("concord explain: ")
    assert words in said


def test_a_reader_that_went_away_is_no_failure_of_the_broker():
    with pytest.raises(BrokenPipeError), exits("explain"):
        raise BrokenPipeError


def test_the_clients_chatter_is_kept_back_at_first_and_shown_if_it_goes_on():
    words = FirstWords()
    record = logging.LogRecord("aiokafka", logging.ERROR, "", 0, "cannot connect to %s", ("b1",), None)
    assert not words.filter(record)
    assert words.last == "cannot connect to b1"
    record.created += PATIENCE_S + 1
    assert words.filter(record)
    assert words.filter(logging.LogRecord("streams.cli.audit", logging.ERROR, "", 0, "difference", (), None))


def test_logging_is_as_it_was_after_a_command():
    root = logging.getLogger()
    before = (root.handlers[:], root.level)
    with exits("explain"):
        assert root.level == logging.ERROR
    assert (root.handlers[:], root.level) == before


@pytest.mark.parametrize(
    "command",
    [
        "audit stream",
        "demo",
        "dev down",
        "dev status",
        "dev up",
        "docs check",
        "docs write",
        "explain",
        "ingest",
        "topics check",
        "topics create",
        "topics diff",
    ],
)
def test_every_command_lists_its_exit_codes(command):
    shown = CliRunner().invoke(main, [*command.split(), "--help"])
    assert shown.exit_code == 0
    assert "Exit codes: 0 " in shown.output


def test_differences_fit_a_terminal_and_no_name_or_value_is_cut():
    topics = Topics.load(prefix="a-long-prefix-of-an-environment.")
    found = [Difference(Severity.BREAKS, topics.all[0].topic, "min.compaction.lag.ms", "0", "604800000", "why " * 40)]
    found += compare(topics, {})
    lines = list(paragraphs(found, 80))
    assert max(map(len, lines)) <= 80
    assert lines[0] == topics.all[0].topic
    assert lines[1] == "  breaks: min.compaction.lag.ms is 0, not 604800000"
    assert "    run `concord topics create`" in lines
    for topic in topics.all:
        assert topic.topic in lines


def test_a_missing_topic_is_missing_on_the_broker():
    [first, *_] = compare(Topics.load(), {})
    assert sentence(first) == "breaks: payments.commands is missing on the broker: run `concord topics create`"


@pytest.mark.parametrize("prefix", ["", "payments.", "demo-", "demo-1", "demo-x.", "demo-1.payments."])
async def test_nothing_but_a_demonstrations_topics_can_be_deleted(prefix):
    with pytest.raises(ValueError, match="not the prefix of a demonstration"):
        await traces.remove({"bootstrap_servers": NOBODY}, prefix)


def test_every_demonstration_has_a_prefix_of_its_own_that_can_be_deleted():
    assert traces.PREFIX.fullmatch(traces.prefix())
