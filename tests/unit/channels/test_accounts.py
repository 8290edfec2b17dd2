"""The accounts file: strict at the start, and what worked stays when it is read again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from streams.channels import registry
from streams.channels.accounts import Accounts, AccountsError

if TYPE_CHECKING:
    from pathlib import Path

SECRET, NEXT = "test_secret_of_today", "test_secret_of_tomorrow"


def listed(folder: Path, *accounts: dict[str, object]) -> Path:
    path = folder / "channels.yaml"
    path.write_text(json.dumps({"accounts": list(accounts)}))
    return path


def simulated(where: str = "file:keys.json", **more: object) -> dict[str, object]:
    return {"channel": "simulator", "account": "acct_1", "credentials": where, **more}


def written(folder: Path, *secrets: str) -> None:
    (folder / "keys.json").write_text(json.dumps({"secrets": list(secrets)}))


def test_an_account_has_its_adapter_its_contract_and_its_keys(tmp_path: Path):
    written(tmp_path, SECRET)
    accounts = Accounts(listed(tmp_path, simulated(merchant="m1")), registry.adapter)
    accounts.load()
    live = accounts.get("simulator", "acct_1")
    assert live is not None
    assert (live.account.name, live.account.merchant, live.adapter.channel) == ("simulator:acct_1", "m1", "simulator")
    assert live.credentials.secrets == [SECRET]
    assert accounts.get("simulator", "another") is None


def test_credentials_may_come_from_the_environment(tmp_path: Path):
    environment = {"KEYS": json.dumps({"secrets": [SECRET]})}
    accounts = Accounts(listed(tmp_path, simulated("env:KEYS")), registry.adapter, environment=environment)
    accounts.load()
    assert accounts.all[0].credentials.secrets == [SECRET]


@pytest.mark.parametrize(
    ("account", "words"),
    [
        (simulated("env:ABSENT"), ["simulator:acct_1", "ABSENT", "is empty"]),
        (simulated("file:absent.json"), ["simulator:acct_1", "absent.json", "cannot be read"]),
        (simulated(channel="nobody"), ["channels.yaml", "'nobody'", "is not known"]),
        (simulated("vault:somewhere"), ["channels.yaml", "credentials", "file:PATH or env:NAME"]),
        (simulated(secret="x"), ["channels.yaml", "unknown field `secret`"]),
    ],
)
def test_at_the_start_whatever_cannot_be_used_is_refused_with_its_field(tmp_path: Path, account, words):
    with pytest.raises(AccountsError) as refused:
        Accounts(listed(tmp_path, account), registry.adapter, environment={}).load()
    assert [word for word in words if word not in str(refused.value)] == []


def test_an_account_that_is_listed_twice_is_refused(tmp_path: Path):
    written(tmp_path, SECRET)
    with pytest.raises(AccountsError, match="simulator:acct_1 is there twice"):
        Accounts(listed(tmp_path, simulated(), simulated()), registry.adapter).load()


def test_a_rotated_key_is_taken_without_a_restart(tmp_path: Path):
    written(tmp_path, SECRET)
    accounts = Accounts(listed(tmp_path, simulated()), registry.adapter)
    accounts.load()
    before = accounts.all[0]
    assert accounts.refresh() == []
    assert accounts.all[0] is before
    written(tmp_path, SECRET, NEXT)
    assert accounts.refresh() == ["simulator:acct_1: its keys were read"]
    assert accounts.all[0].credentials.secrets == [SECRET, NEXT]


@pytest.mark.parametrize("damage", ["keys", "list", "no list"])
def test_what_cannot_be_read_again_leaves_the_last_good_keys_and_says_why_once(tmp_path: Path, damage: str):
    written(tmp_path, SECRET)
    path = listed(tmp_path, simulated())
    accounts = Accounts(path, registry.adapter)
    accounts.load()
    if damage == "keys":
        (tmp_path / "keys.json").write_text('{"secrets": [17]}')
    elif damage == "list":
        path.write_text("accounts: 3")
    else:
        path.unlink()
    [news] = accounts.refresh()
    assert news.startswith("kept as it was: ")
    assert SECRET not in news
    assert accounts.refresh() == []
    assert accounts.all[0].credentials.secrets == [SECRET]


def test_an_account_that_is_taken_off_the_list_is_gone(tmp_path: Path):
    written(tmp_path, SECRET)
    accounts = Accounts(listed(tmp_path, simulated()), registry.adapter)
    accounts.load()
    listed(tmp_path)
    assert accounts.refresh() == ["simulator:acct_1: removed"]
    assert accounts.all == []
