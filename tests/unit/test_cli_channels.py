"""`concord channels check`: what can be used, what cannot, and why, without showing a value."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from streams.channels import registry
from streams.channels.contracts import shipped
from streams.cli.channels import TEST_SEED, channels
from streams.simulator.dialect import Fact

if TYPE_CHECKING:
    from pathlib import Path

AT = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def check(tmp_path: Path):
    def run(plain: object, *arguments: str, account: str = "acct_1"):
        (tmp_path / "keys.json").write_text(json.dumps(plain))
        listed = {"channel": "simulator", "account": account, "credentials": "file:keys.json"}
        (tmp_path / "channels.yaml").write_text(json.dumps({"accounts": [listed]}))
        result = CliRunner().invoke(channels, ["check", "--channels", str(tmp_path / "channels.yaml"), *arguments])
        return result.exit_code, result.output

    return run


def keys(seed: int) -> object:
    return registry.dialect("simulator").secrets(seed)[1]


def test_an_account_with_keys_of_its_own_can_be_used(check):
    code, output = check(keys(1))
    assert code == 0
    assert "one that was signed with other keys is refused" in output
    assert output.endswith("1 accounts, 0 problems\n")


def test_public_test_keys_are_no_keys(check):
    code, output = check(keys(TEST_SEED))
    assert (code, "public test keys" in output) == (1, True)


def test_credentials_that_cannot_be_read_are_named_and_not_shown(check):
    code, output = check({"secrets": [], "of_mine": "hidden-value"})
    assert code == 1
    assert "simulator:acct_1: keys.json" in output
    assert "hidden-value" not in output


@pytest.mark.parametrize(("seed", "code", "words"), [(1, 0, "it says callback"), (2, 1, "refused: BadSignature")])
def test_a_sample_is_held_against_the_accounts_own_keys(check, tmp_path: Path, seed: int, code: int, words: str):
    dialect = registry.dialect("simulator")
    fact = Fact(
        about="payment", word="SUCCESS", event_id="e1", order_id="o1", payment_no="p1", transaction="t1", amount=1,
        currency="USD", at=AT,
    )  # fmt: skip
    made = dialect.notice(dialect.secrets(seed)[0], fact, "acct_1", AT, shipped()["simulator"])
    (tmp_path / "body").write_bytes(made.body)
    (tmp_path / "headers").write_text(json.dumps(made.headers))
    sample = ["--account", "simulator:acct_1", "--headers", str(tmp_path / "headers"), "--at", AT.isoformat()]
    found, output = check(keys(1), *sample, str(tmp_path / "body"))
    assert (found, words in output) == (code, True), output


def test_without_a_simulator_its_check_fails(check):
    code, output = check(keys(1), "--simulator", "http://127.0.0.1:1")
    assert (code, "start `concord simulate`" in output) == (1, True)
