"""The accounts file: which channel accounts there are, and where the credentials of each lie. It holds no secret itself.

    accounts:
      - channel: stripe
        account: acct_1
        credentials: file:stripe.acct_1.yaml      # beside this file, unless absolute; or env:NAME, with the same text

What is read again and cannot be used never takes a working account away: the last good keys stay, and the reason is told.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import msgspec
from msgspec import Meta, Struct

from streams.channels import credentials
from streams.channels.contracts import shipped
from streams.channels.credentials import CredentialsError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from streams.channels.adapter import AnyAdapter
    from streams.domain.contract import Contract, Contracts

MOST_BYTES: Final = 1 << 20
Known = Annotated[str, Meta(min_length=1, max_length=128)]


class Account(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One merchant or issuer account at one channel, as the file has it. `account` is the last part of the callback's address."""

    channel: Known
    account: Known
    credentials: Annotated[str, Meta(pattern="^(file|env):.")]
    merchant: str | None = None
    """Whose payments these are, where the payments of this product name a merchant; filled into what the account's notices say."""
    endpoint: str | None = None
    """Base address of the channel's API, where it is not the channel's own: a sandbox, a simulator."""

    @property
    def name(self) -> str:
        """`channel:account`, as events have it."""
        return f"{self.channel}:{self.account}"


class Listed(Struct, frozen=True, forbid_unknown_fields=True):
    """The file."""

    accounts: list[Account]


class Live(NamedTuple):
    """An account that can be used now. `keys` hold secrets: never logged."""

    account: Account
    adapter: AnyAdapter
    contract: Contract
    credentials: Any
    keys: Any


class AccountsError(ValueError):
    """Accounts that cannot be used; one line for each names the file or account, the field and the fix, never a value."""


class Accounts:
    """The live accounts of a file. `load` is strict, for a start; `refresh` keeps what worked, for a running process.

    `adapter` finds a channel's adapter (`registry.adapter`), and raises `KeyError` for a channel that is not there.
    """

    def __init__(
        self,
        path: Path,
        adapter: Callable[[str], AnyAdapter],
        *,
        contracts: Contracts | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.path = path
        self._adapter = adapter
        self._contracts = shipped() if contracts is None else contracts
        self._environment = os.environ if environment is None else environment
        self._live: dict[tuple[str, str], Live] = {}
        self.problems: dict[str, str] = {}
        """What kept an account or the file from being read the last time, by its name."""

    def get(self, channel: str, account: str) -> Live | None:
        """The account, if there is one and its keys could be read at least once."""
        return self._live.get((channel, account))

    @property
    def all(self) -> list[Live]:
        """Every live account, in the order of the file."""
        return list(self._live.values())

    def load(self) -> None:
        """Read everything. Raises `AccountsError` with all that is wrong."""
        self.refresh()
        if self.problems:
            raise AccountsError("\n".join(self.problems.values()))

    def refresh(self) -> list[str]:
        """Read everything again, credentials and what they refer to included, and say in a line each what is new or newly wrong.

        It reads files: call it outside an event loop. Whoever looks up an account meanwhile sees the former ones or the new ones.
        """
        before, old = self.problems, self._live
        self.problems = {}
        try:
            listed = self._listed()
        except AccountsError as error:
            self.problems[self.path.name] = str(error)
        else:
            self._live = self._ready(listed)
        news = [f"kept as it was: {text}" for name, text in self.problems.items() if before.get(name) != text]
        news += [
            f"{live.account.name}: its keys were read" for key, live in self._live.items() if old.get(key) is not live
        ]
        return news + [f"{live.account.name}: removed" for key, live in old.items() if key not in self._live]

    def _ready(self, listed: list[Account]) -> dict[tuple[str, str], Live]:
        ready: dict[tuple[str, str], Live] = {}
        for account in listed:
            key = (account.channel, account.account)
            former = self._live.get(key)
            try:
                ready[key] = self._one(account, former)
            except AccountsError as error:
                self.problems[account.name] = str(error)
                if former is not None:
                    ready[key] = former
        return ready

    def _one(self, account: Account, former: Live | None) -> Live:
        try:
            adapter = self._adapter(account.channel)
        except KeyError as error:
            raise AccountsError(
                f"{self.path.name}: channel {account.channel!r} is not known; see docs/channels"
            ) from error
        contract = self._contracts.get(account.channel)
        if contract is None:
            raise AccountsError(
                f"{account.name}: the channel has no contract; add {account.channel}.yaml beside its adapter"
            )
        try:
            read = credentials.load(adapter, self._source(account), self._environment)
            if former is not None and former.account == account and former.credentials == read:
                return former
            return Live(account, adapter, contract, read, adapter.keys(read))
        except (CredentialsError, ValueError) as error:
            raise AccountsError(f"{account.name}: {error}") from error

    def _source(self, account: Account) -> Path | str:
        kind, _, where = account.credentials.partition(":")
        if kind == "file":
            return self.path.parent / where
        text = self._environment.get(where, "")
        if not text.strip():
            raise AccountsError(
                f"{account.name}: credentials: the environment variable {where} is empty; put them there"
            )
        return text

    def _listed(self) -> list[Account]:
        name = self.path.name
        try:
            with self.path.open("rb") as file:
                listed = msgspec.yaml.decode(file.read(MOST_BYTES), type=Listed).accounts
        except OSError as error:
            fix = "set CONCORD_CHANNELS to the accounts file"
            raise AccountsError(f"{name}: cannot be read: {error.strerror}; {fix}") from error
        except msgspec.ValidationError as error:
            fix = "an account has channel, account, credentials (file:PATH or env:NAME), merchant, endpoint"
            raise AccountsError(f"{name}: {error}; {fix}") from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise AccountsError(f"{name}: it is not YAML with a list `accounts`; correct it") from error
        names = [account.name for account in listed]
        for twice in sorted({each for each in names if names.count(each) > 1}):
            raise AccountsError(f"{name}: account {twice} is there twice; keep one")
        return listed
