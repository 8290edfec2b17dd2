"""The accounts file that `concord simulate` writes."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from streams.channels import registry
from streams.channels.accounts import Accounts
from streams.cli.simulate import simulate
from streams.simulator import accounts_file
from streams.simulator.faults import Rates
from streams.simulator.server import play

BASE = "http://127.0.0.1:8700"
OURS = "accounts: []\n"


def live(path):
    """What gateway and connector would have."""
    found = Accounts(path, registry.adapter)
    found.load()
    return {one.account.name: one.account for one in found.all}


@pytest.fixture
def played():
    return [play(f"{name}:one", 7, Rates()) for name in registry.CHANNELS]


def test_gateway_and_connector_can_read_what_was_written_for_every_channel(played, tmp_path):
    path = tmp_path / "made" / "channels.yaml"
    accounts_file.write(path, played, tmp_path / "keys", BASE)
    found = live(path)
    assert set(found) == {f"{name}:one" for name in registry.CHANNELS}
    assert {one.endpoint for one in found.values()} == {f"{BASE}/{name}" for name in registry.CHANNELS}


def test_files_that_lie_together_can_be_moved_together(played, tmp_path):
    accounts_file.write(tmp_path / "a" / "channels.yaml", played[:1], tmp_path / "a" / "keys", BASE)
    (tmp_path / "a").rename(tmp_path / "b")
    assert live(tmp_path / "b" / "channels.yaml")


def test_its_own_file_is_written_anew_and_holds_no_secret(played, tmp_path):
    path = tmp_path / "channels.yaml"
    accounts_file.write(path, played, tmp_path, BASE)
    accounts_file.write(path, played[:1], tmp_path, BASE, "shop")
    [one] = live(path).values()
    assert one.merchant == "shop"
    assert not any(str(secret) in path.read_text() for secret in played[0].credentials.values())


def test_a_file_of_somebody_else_is_never_written_over(played, tmp_path):
    path = tmp_path / "channels.yaml"
    path.write_text(OURS)
    with pytest.raises(accounts_file.ForeignError, match="name another file"):
        accounts_file.write(path, played, tmp_path / "keys", BASE)
    assert path.read_text() == OURS
    assert not (tmp_path / "keys").exists()


def test_the_command_refuses_a_foreign_file_as_wrong_usage(tmp_path):
    path = tmp_path / "channels.yaml"
    path.write_text(OURS)
    found = CliRunner().invoke(simulate, ["--accounts", str(path), "--credentials", str(tmp_path / "keys")])
    assert (found.exit_code, path.read_text()) == (2, OURS)
    assert "move it away" in found.output
