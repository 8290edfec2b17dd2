"""`concord review`: the review desk from a terminal.

All but `admit` asks a gateway (CONCORD_REVIEW_URL) as the holder of a person's key (CONCORD_REVIEW_KEY).
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click
import httpx

from stores import reviewers
from streams.cli.database import using
from streams.cli.printable import printable
from streams.gateway.review import new_reviewer
from streams.gateway.review_shapes import handle_of
from streams.settings import Settings, SettingsError

if TYPE_CHECKING:
    from stores.reviewers import Role

REFUSED: Final = 1
WRONG_SETTING: Final = 2
UNREACHABLE: Final = 3
WITHIN_S: Final = 15.0
CODES: Final = "Exit codes: 0 done, 1 refused (the code says why), 2 a setting is wrong, 3 the gateway or Postgres does not answer."


@click.group()
def review() -> None:
    """Discrepancies, worked by people: one proposes an action on evidence, another approves, and the law judges it."""


@review.command("list", epilog=CODES)
@click.option("--severity", type=click.Choice(["high", "info"]))
@click.option("--kind", help="Such as LATE_SUCCESS.")
@click.option("--owner", help="Who has to work it.")
@click.option("--order", "order_id", help="Of this merchant order id.")
@click.option("--claimed-by", help="That this person works on.")
@click.option("--older-than-hours", type=click.IntRange(0))
@click.option("--overdue", is_flag=True, help="Past their deadline.")
@click.option("--resolved", is_flag=True, help="The resolved ones instead of the open ones.")
@click.option("--most", type=click.IntRange(1, 200), default=50, show_default=True)
def listed(**wish: Any) -> None:
    """List discrepancies: the gravest first, then what is due first, then the oldest."""
    asked = {name: str(value).lower() if value is True else value for name, value in wish.items() if value}
    for one in _ask("GET", "/reviews", params=asked)["items"]:
        due = f"due {one['deadline']}" if one["deadline"] else "no deadline"
        _say(f"{one['id']}  {one['severity']} {one['kind']}  {due}  {one['owner']}  {one['claimed_by'] or 'unclaimed'}")


@review.command(epilog=CODES)
@click.argument("discrepancy")
def show(discrepancy: str) -> None:
    """Print a discrepancy with what people said and proposed."""
    case = _ask("GET", f"/reviews/{handle_of(discrepancy)}")
    item = case["item"]
    _say(f"{item['id']}  revision {item['revision']}, {item['status']}")
    for name in ("kind", "severity", "order_id", "payment_no", "ref", "evidence", "owner", "detail", "deadline"):
        _say(f"  {name:<10} {item[name] or '-'}")
    _say(f"  {'opened':<10} {item['opened_at']}, claimed by {item['claimed_by'] or 'nobody'}")
    _say(f"  {'exits':<10} {', '.join(case['exits'])}")
    for one in case["comments"]:
        _say(f"  comment {one['number']} {one['said_at']} {one['author']}: {one['text']}")
    for one in case["proposals"]:
        ends = f" by {one['decider']}" if one["decider"] else ""
        _say(
            f"  proposal {one['number']} {one['action']} by {one['proposer']} on {one['evidence']}: {one['state']}{ends}"
        )
        if one["rule"]:
            _say(f"    {one['rule']} {one['detail']}")


@review.command(epilog=CODES)
@click.argument("discrepancy")
def claim(discrepancy: str) -> None:
    """Take it to work on."""
    _ask("POST", f"/reviews/{handle_of(discrepancy)}/claim")
    _say(f"{discrepancy} is yours")


@review.command(epilog=CODES)
@click.argument("discrepancy")
@click.argument("text")
def comment(discrepancy: str, text: str) -> None:
    """Say something about it; it is kept for ever."""
    done = _ask("POST", f"/reviews/{handle_of(discrepancy)}/comments", {"text": text})
    _say(f"comment {done['number']}")


@review.command(epilog=CODES)
@click.argument("discrepancy")
@click.argument("action", type=click.Choice(["refund", "fulfil", "book", "close"]))
@click.option("--evidence", required=True, help="What shows it: a statement, a ticket, the channel's answer.")
@click.option("--revision", type=click.IntRange(0), required=True, help="The revision that `show` printed.")
def propose(discrepancy: str, action: str, evidence: str, revision: int) -> None:
    """Propose an action; another person approves it."""
    body = {"action": action, "evidence": evidence, "revision": revision}
    done = _ask("POST", f"/reviews/{handle_of(discrepancy)}/proposals", body)
    _say(f"proposal {done['number']}")


@review.command(epilog=CODES)
@click.argument("discrepancy")
@click.argument("number", type=click.IntRange(1))
@click.option("--reason", default="", help="Why, in words.")
def approve(discrepancy: str, number: int, reason: str) -> None:
    """Approve what another person proposed. The law judges it at once, and may refuse."""
    _decide(discrepancy, number, "approve", reason)


@review.command(epilog=CODES)
@click.argument("discrepancy")
@click.argument("number", type=click.IntRange(1))
@click.option("--reason", default="", help="Why, in words.")
def reject(discrepancy: str, number: int, reason: str) -> None:
    """Reject a proposal, or take one's own back."""
    _decide(discrepancy, number, "reject", reason)


@review.command(epilog=CODES)
@click.argument("name")
@click.argument("role", type=click.Choice(reviewers.ROLES))
def admit(name: str, role: Role) -> None:
    """Let a person in by Postgres itself (CONCORD_POSTGRES), as the first admin is; prints the key, this once."""
    person, key = new_reviewer(name, role)
    now = datetime.now(UTC)
    if not using("review", lambda connection: reviewers.add(connection, person, now, "console")):
        _end(REFUSED, f"there is or was a person {name}; names stand in the log for ever, so take another one")
    click.echo(key)


def _decide(discrepancy: str, number: int, act: str, reason: str) -> None:
    done = _ask("POST", f"/reviews/{handle_of(discrepancy)}/proposals/{number}/{act}", {"reason": reason})
    _say(" ".join(filter(None, (done["state"], done.get("rule", ""), done.get("detail", "")))))
    if done["state"] == "refused":
        sys.exit(REFUSED)


def _ask(method: str, path: str, body: Any = None, params: dict[str, Any] | None = None) -> Any:
    """What the gateway answers. A refusal ends the command with its code and its words."""
    try:
        settings = Settings.from_env()
    except SettingsError as error:
        _end(WRONG_SETTING, str(error))
    if not settings.review_key:
        _end(
            WRONG_SETTING,
            "CONCORD_REVIEW_KEY is empty; it is the key that `concord review admit`, or an admin, has shown",
        )
    headers = {"Authorization": f"Bearer {settings.review_key}"}
    try:
        answer = httpx.request(
            method, f"{settings.review_url}/v1{path}", json=body, params=params, headers=headers, timeout=WITHIN_S
        )
        told = answer.json() if answer.content else {}
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        _end(
            UNREACHABLE, f"no gateway answers at {settings.review_url}: {type(error).__name__}; set CONCORD_REVIEW_URL"
        )
    if not answer.is_success:
        words = told.get("detail") or told.get("title", "")
        _end(UNREACHABLE if answer.status_code >= 500 else REFUSED, f"{told.get('code', answer.status_code)}: {words}")
    return told


def _say(text: str) -> None:
    click.echo(printable(text))


def _end(code: int, why: str) -> NoReturn:
    click.echo(f"concord review: {printable(why)}", err=True)
    sys.exit(code)
