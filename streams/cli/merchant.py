"""`concord merchant`: who may ask the cashier, with which keys, and up to which amounts."""

from __future__ import annotations

import hashlib
import secrets
from datetime import UTC, datetime

import click

from stores import merchants, notifications
from streams.cli.database import end, using

NOT_DONE = 1
WRONG = 2
CODES = "Exit codes: 0 done, 1 there is no such merchant or key, or there is one already, 2 a setting is wrong, 4 Postgres does not answer."


@click.group()
def merchant() -> None:
    """Merchants of the cashier: their API keys and the limits of their business lines (CONCORD_POSTGRES)."""


@merchant.command(epilog=CODES)
@click.argument("name")
@click.option("--rate", type=click.IntRange(1, 100_000), default=50, show_default=True, help="Requests a second.")
def add(name: str, rate: int) -> None:
    """Add a merchant."""
    numbering, now = secrets.token_bytes(32), datetime.now(UTC)
    done = using("merchant", lambda connection: merchants.add(connection, name, numbering, rate, now))
    _say(done, f"merchant {name} added", f"there is a merchant {name} already")


@merchant.command(epilog=CODES)
@click.argument("name")
@click.option("--scope", "scopes", type=click.Choice(merchants.SCOPES), multiple=True, help="All, if none is given.")
@click.option("--revoke", metavar="ID", help="End this key instead of making one.")
def key(name: str, scopes: tuple[str, ...], revoke: str | None) -> None:
    """Make an API key and print it: it is shown this once, and only its SHA-256 is stored."""
    now = datetime.now(UTC)
    if revoke:
        ended = using("merchant", lambda connection: merchants.revoke(connection, name, revoke, now))
        _say(ended, f"key {revoke} ends within seconds", f"{name} has no live key {revoke}")
        return
    key_id, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
    hashed = hashlib.sha256(secret.encode()).digest()
    made = merchants.Key(key_id=key_id, merchant=name, secret_hash=hashed, scopes=frozenset(scopes or merchants.SCOPES))
    done = using("merchant", lambda connection: merchants.add_key(connection, made, now))
    _say(done, f"ck_{key_id}_{secret}", f"there is no merchant {name}; add it first")


@merchant.command(epilog=CODES)
@click.argument("name")
@click.argument("biz_code")
@click.argument("currency")
@click.argument("most", type=click.IntRange(1, 2**53 - 1))
def limit(name: str, biz_code: str, currency: str, most: int) -> None:
    """Let a business line take payments of a currency, each of at most MOST minor units."""
    done = using("merchant", lambda connection: merchants.set_limit(connection, name, biz_code, currency, most))
    _say(
        done,
        f"{name} {biz_code}: at most {most} minor units of {currency}",
        f"there is no merchant {name}; add it first",
    )


@merchant.command(epilog=CODES)
@click.argument("name")
@click.argument("url", required=False)
@click.option(
    "--secret",
    "secrets_at",
    multiple=True,
    help="env:NAME or file:PATH, up to 3: the newest first, former ones while merchants change.",
)
@click.option("--off", is_flag=True, help="Tell it nothing from now on.")
def notify(name: str, url: str | None, secrets_at: tuple[str, ...], *, off: bool) -> None:
    """Tell a merchant at URL what was decided, signed with the secrets that lie there (Standard Webhooks: whsec_ and base64)."""
    if off == bool(url and secrets_at):
        end("merchant", WRONG, "give URL and --secret, or --off")
    wrong = next((one for one in secrets_at if not one.startswith(("env:", "file:"))), None)
    if wrong is not None:
        end("merchant", WRONG, "--secret: give env:NAME or file:PATH, never the secret itself")
    done = using("merchant", lambda connection: notifications.set_address(connection, name, url, secrets_at))
    where = "is told nothing" if off else f"is told at {url}"
    _say(done, f"{name} {where}", f"there is no merchant {name}; add it first")


@merchant.command("list", epilog=CODES)
def listed() -> None:
    """Print merchants, keys (never their secrets) and limits."""
    found = using("merchant", merchants.register_of)
    for name, one in sorted(found.merchants.items()):
        click.echo(f"{name}  {one.rate_per_second} requests/s")
        for (biz_code, currency), most in sorted(one.limits.items()):
            click.echo(f"  limit {biz_code} {currency} {most}")
        for each in sorted(found.keys.values(), key=lambda each: each.key_id):
            if each.merchant == name:
                click.echo(f"  key   {each.key_id} {' '.join(sorted(each.scopes))}")


def _say(done: bool, yes: str, no: str) -> None:
    if not done:
        end("merchant", NOT_DONE, no)
    click.echo(yes)
