"""`concord channels check`: whether the accounts file can be used, end to end, before a gateway or a connector is started with it.

For each account: its credentials are read and its keys parsed, its contract is found, a notice that is made with test keys passes with
these test keys, and the account's own keys refuse it. A sample of the channel shows that the account's own keys are the right ones;
a simulator, that its requests are understood.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

import click
import httpx

from streams.channels import credentials, registry
from streams.channels.accounts import Accounts
from streams.channels.adapter import Received
from streams.channels.requests import Reply
from streams.channels.verification import Refused, parse_headers
from streams.cli.printable import printable
from streams.domain.decisions import ChannelRequest
from streams.settings import Settings, SettingsError
from streams.simulator.dialect import Fact

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streams.channels.accounts import Live

UNUSABLE: Final = 1
TEST_SEED: Final = 20_260_101
NUMBER: Final = "concord-check"
WITHIN_S: Final = 10.0
CODES: Final = "Exit codes: 0 everything can be used, 1 something cannot, 2 wrong usage."


class CheckError(Exception):
    """What an account did not pass; the text says the fix."""


@click.group()
def channels() -> None:
    """The channel accounts of the accounts file (CONCORD_CHANNELS)."""


@channels.command("check", epilog=CODES)
@click.option(
    "--channels", "path", type=click.Path(dir_okay=False, path_type=Path), help="The accounts file (CONCORD_CHANNELS)."
)
@click.option("--account", help="Check only this account, as stripe:acct_1.")
@click.option("--headers", type=click.File("rb"), help="The sample's headers: a JSON object, or the lines as received.")
@click.option("--at", help="The sample's time of receipt, RFC 3339; now, if it is not given.")
@click.option("--simulator", help="Address of a `concord simulate`: http://127.0.0.1:8700.")
@click.argument("sample", type=click.File("rb"), required=False)
def check(
    *,
    path: Path | None,
    account: str | None,
    headers: BinaryIO | None,
    at: str | None,
    simulator: str | None,
    sample: BinaryIO | None,
) -> None:
    """Check every account; with a SAMPLE (the body of a notice) and its headers, that --account's keys verify it."""
    if (sample is None) != (headers is None) or (sample is not None and account is None):
        raise click.UsageError("a sample needs SAMPLE, --headers and --account")
    try:
        accounts = Accounts(path or Settings.from_env().channels, registry.adapter)
    except SettingsError as error:
        raise click.UsageError(str(error)) from error
    accounts.refresh()
    problems = [text for name, text in accounts.problems.items() if account in (None, name) or ":" not in name]
    chosen = [live for live in accounts.all if account in (None, live.account.name)]
    if account is not None and not chosen and not problems:
        raise click.UsageError(f"--account: {account} is not in the accounts file")
    for live in chosen:
        try:
            for passed in _checks(live, headers, at, sample, simulator):
                click.echo(f"{live.account.name}: {passed}")
        except CheckError as error:
            problems.append(f"{live.account.name}: {error}")
    for problem in problems:
        click.echo(printable(problem), err=True)
    click.echo(f"{len(chosen)} accounts, {len(problems)} problems")
    if problems:
        sys.exit(UNUSABLE)


def _checks(
    live: Live, headers: BinaryIO | None, at: str | None, sample: BinaryIO | None, simulator: str | None
) -> Iterator[str]:
    yield "its credentials and its contract can be used"
    yield _own_sample(live)
    if sample is not None and headers is not None:
        yield _given_sample(live, headers.read(), at, sample.read())
    if simulator is not None:
        yield _asked(live, simulator.rstrip("/"))


def _own_sample(live: Live) -> str:
    """A notice that we sign with test keys: the adapter takes it with those, and the account's own keys do not."""
    now = datetime.now(UTC)
    dialect = registry.dialect(live.account.channel)
    secrets, plain = dialect.secrets(TEST_SEED)
    fact = Fact(
        about="card" if live.contract.role == "cards" else "payment",
        word="SUCCESS",
        event_id=NUMBER,
        order_id=NUMBER,
        payment_no=NUMBER,
        transaction=NUMBER,
        amount=100,
        currency="CNY",
        at=now,
    )
    made = dialect.notice(secrets, fact, live.account.account, now, live.contract)
    received = Received(made.headers, made.body, live.account.account, now)
    test_keys = credentials.keys(live.adapter, json.dumps(plain))
    try:
        live.adapter.verify(test_keys, received)
        live.adapter.events(test_keys, received, live.contract)
    except Refused as refusal:
        raise CheckError(f"a notice made with test keys is refused: {refusal}") from refusal
    try:
        live.adapter.verify(live.keys, received)
    except Refused:
        return "its notices are verified: one that was signed with other keys is refused"
    raise CheckError(
        "it accepts a notice that was signed with public test keys; put the channel's own keys into the credentials"
    )


def _given_sample(live: Live, headers: bytes, at: str | None, body: bytes) -> str:
    try:
        moment = datetime.now(UTC) if at is None else datetime.fromisoformat(at)
        found = json.loads(headers) if headers.lstrip().startswith(b"{") else parse_headers(headers)
        given = {str(name).lower(): str(value) for name, value in dict(found).items()}
    except (ValueError, TypeError) as error:
        raise CheckError(f"the sample's headers or time cannot be read: {error}") from error
    if moment.tzinfo is None:
        raise CheckError("--at has no zone; write 2026-01-01T10:00:00Z")
    received = Received(given, body, live.account.account, moment.astimezone(UTC))
    try:
        live.adapter.verify(live.keys, received)
        events = live.adapter.events(live.keys, received, live.contract)
    except Refused as refusal:
        raise CheckError(f"the sample is refused: {type(refusal).__name__}: {refusal}") from refusal
    kinds = ", ".join(str(type(one.event).__struct_config__.tag) for one in events) or "nothing to keep"
    return f"the sample is verified; it says {kinds}"


def _asked(live: Live, simulator: str) -> str:
    """Ask for a payment that is not there: an answer shows that the request was signed and understood."""
    channel = live.account.channel
    if channel not in registry.ASKED:
        return "it is not asked, so there is nothing to try at the simulator"
    ours, now = registry.requests(channel), datetime.now(UTC)
    request = ChannelRequest(
        id=NUMBER,
        verb="QUERY",
        order_id=NUMBER,
        payment_no=NUMBER,
        merchant=None,
        channel=live.account.name,
        amount=100,
        currency="CNY",
        idempotency_key=NUMBER,
        transaction=NUMBER,
        why="check",
        decision=NUMBER,
        decided_at=now,
    )
    try:
        call = ours.build(request, live.keys, live.account.account, f"{simulator}/{channel}", now, live.contract)
        reply = httpx.request(call.method, call.url, headers=call.headers, content=call.body, timeout=WITHIN_S)
    except ValueError as error:
        raise CheckError(f"a query cannot be built: {error}") from error
    except httpx.HTTPError as error:
        raise CheckError(f"the simulator does not answer: {type(error).__name__}; start `concord simulate`") from error
    headers = {name.lower(): value for name, value in reply.headers.items()}
    found = Reply(status=reply.status_code, headers=headers, body=reply.content)
    said = ours.classify(request, found, live.keys, live.contract)
    if reply.status_code in (401, 403) or {said.status, said.error_class} & set(live.contract.failures.not_accepted):
        fix = "give the account the credentials that `concord simulate` wrote"
        raise CheckError(f"the simulator refuses its query ({reply.status_code}, {said.status}); {fix}")
    return f"the simulator answers its query: {said.status}"
