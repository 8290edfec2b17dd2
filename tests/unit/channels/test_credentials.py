"""Credentials files: read as JSON or YAML, references followed, and no value ever shown."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import Struct

from streams.channels.adapter import Adapter
from streams.channels.credentials import CredentialsError, keys, load

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "a-secret-that-no-message-shows"


class Credentials(Struct, frozen=True, kw_only=True):
    secrets: list[str]
    platform: dict[str, str] = {}


def ready(credentials: Credentials) -> tuple[str, ...]:
    if not credentials.secrets:
        raise ValueError("secrets: it is empty; give at least one")
    return tuple(credentials.secrets)


ADAPTER: Any = Adapter(
    "own", Credentials, ready, verify=lambda _keys, _received: None, events=lambda _keys, _received, _contract: []
)


@pytest.mark.parametrize("text", [json.dumps({"secrets": [SECRET]}), f"secrets:\n  - {SECRET}\n"])
def test_json_and_yaml_say_the_same(text: str, tmp_path: Path):
    (tmp_path / "own.credentials").write_text(text)
    assert load(ADAPTER, text) == load(ADAPTER, tmp_path / "own.credentials") == Credentials(secrets=[SECRET])
    assert keys(ADAPTER, text) == (SECRET,)


def test_a_text_may_stand_for_a_variable_or_for_a_file_beside_the_credentials(tmp_path: Path):
    (tmp_path / "own.yaml").write_text("secrets: ['env:OLD', 'file:new.key']\nplatform: {ID_1: 'file:ID_1.pem'}\n")
    (tmp_path / "new.key").write_text(f"{SECRET}\n")
    (tmp_path / "ID_1.pem").write_text("-----BEGIN…\n")
    read = load(ADAPTER, tmp_path / "own.yaml", {"OLD": " first "})
    assert read == Credentials(secrets=["first", SECRET], platform={"ID_1": "-----BEGIN…"})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "missing required field `secrets`"),
        (json.dumps({"secrets": [SECRET], "secrte": [SECRET]}), "field `secrte` is not one of this channel's"),
        (json.dumps({"secrets": SECRET}), "Expected `array`, got `str` - at `$.secrets`"),
        ("secrets: [20250303]", "Expected `str`, got `int`"),
        (f'{{"secrets": ["{SECRET}"], "secrets": []}}', "field `secrets` is there twice"),
        (f"secrets: [{SECRET}]\nsecrets: []", "field `secrets` is there twice"),
        (f'{{"secrets": "{SECRET}', "line 1: it is not JSON"),
        (f"secrets: [{SECRET}", "it is not YAML"),
        (f"secrets: *{SECRET}", "it is not YAML"),
        (SECRET, "Expected `object`, got `str`"),
        ("secrets: []", "secrets: it is empty; give at least one"),
        ('{"secrets": ["env:NOBODY_SET_IT"]}', "the environment variable NOBODY_SET_IT is empty"),
        ('{"secrets": ["file:nobody-wrote-it"]}', "the file nobody-wrote-it cannot be read"),
    ],
)
def test_what_cannot_be_used_says_where_and_shows_no_value(text: str, said: str):
    with pytest.raises(CredentialsError) as error:
        keys(ADAPTER, text, {})
    assert said in str(error.value)
    assert SECRET not in str(error.value)


def test_a_file_that_is_no_text_or_is_not_there_is_named(tmp_path: Path):
    (tmp_path / "own.bin").write_bytes(b"\xff\xfe")
    for name, said in (("own.bin", "is not text"), ("absent", "cannot be read"), (".", "cannot be read")):
        with pytest.raises(CredentialsError, match=said):
            load(ADAPTER, tmp_path / name)
