"""Hostile notices by the million: every adapter accepts or refuses with a named reason, and never raises anything else.

    python -m tests.fuzz.run --inputs 1000000 --seed 1

Starts from genuine notices of each channel's dialect and damages them: bytes, headers, and values inside JSON and forms; half of the time
inside what the channel seals, if it does, sealed and signed again. Each input is
verified, and mapped as if a live key had signed it, which is where a hostile content would reach the mapping. The same seed gives the
same inputs; a failure prints what repeats it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple, get_args
from urllib.parse import parse_qsl, urlencode

import msgspec

from streams.channels.adapter import AnyAdapter, Received
from streams.channels.contracts import shipped
from streams.channels.registry import CHANNELS, adapter, dialect
from streams.channels.verification import Refused
from streams.domain.events import Unmapped
from streams.simulator.dialect import Delivery, Fact, Word
from tests.fuzz.sealed import inside

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from streams.domain.contract import Contract
    from tests.fuzz.sealed import Inside

AT: Final = datetime(2026, 3, 3, 10, 0, 5, tzinfo=UTC)
ACCOUNT: Final = "shop"
ABOUT: Final = ("payment", "capture", "void", "refund", "dispute", "card")
YUAN: Final = frozenset({"alipay", "wechatpay", "unionpay"})
HOSTILE: Final[tuple[Any, ...]] = (
    None, True, False, 0, -1, 1.5, 10**30, -(2**63), "", " ", "\x00", "null", "NaN", "1e999", "9" * 400, "9" * 5000, "é单😀", "a:b&c=d",
    "../..", "\r\nx: y", [], {}, [[]], {"a": {}}, ["x"] * 50,
)  # fmt: skip
BYTES: Final = (
    b"",
    b"\x00",
    b"\xff",
    b'"',
    b"{",
    b"[" * 2000,
    b"\xed\xa0\x80",
    b"\\ud800",
    b"=",
    b"&",
    b"%",
    b"%ff",
    b"\xef\xbb\xbf",
    b"\n",
)
# Headers hold what HTTP can carry: one character a byte.
TEXTS: Final = (
    "",
    " ",
    "0",
    "-1",
    "1e9",
    "9" * 30,
    "v1,",
    "t=,v1=",
    "é",
    "\xff",
    "\x00",
    "a" * 9000,
    "Basic ",
    "Basic %%%",
    "==",
)


class Target(NamedTuple):
    """One channel's adapter with keys of the test's own, and genuine notices to damage."""

    adapter: AnyAdapter
    keys: Any
    contract: Contract
    seeds: tuple[Delivery, ...]
    inside: Inside | None


class SurpriseError(AssertionError):
    """An adapter raised what it may not raise, or mapped to what nobody can route."""


def target(channel: str) -> Target:
    """The channel, ready to be attacked."""
    ours, theirs, contract = adapter(channel), dialect(channel), shipped()[channel]
    secrets, file = theirs.secrets(1)
    keys = ours.keys(msgspec.convert(file, ours.credentials))
    seeds = tuple(theirs.notice(secrets, fact, ACCOUNT, AT, contract) for fact in facts(channel))
    return Target(ours, keys, contract, seeds, inside(channel, secrets, AT))


def facts(channel: str) -> Iterator[Fact]:
    """Something of every kind and with every word."""
    for about in ABOUT:
        for word in get_args(Word):
            own = {} if about in {"payment", "card"} else {"operation_no": "N1", "operation_transaction": "X1"}
            yield Fact(
                about=about,
                word=word,
                event_id=f"E-{about}-{word}",
                order_id="O1",
                payment_no="P1",
                transaction="T1",
                amount=1999,
                currency="CNY" if channel in YUAN else "USD",
                at=AT,
                **own,
            )


# -- damage


def damaged(chance: Random, delivery: Delivery) -> Delivery:
    """The notice with one to three kinds of damage."""
    body, headers = delivery.body, dict(delivery.headers)
    for _ in range(chance.randrange(1, 4)):
        kind = chance.randrange(8)
        if kind < 3:
            body = _bytes(chance, body)
        elif kind < 7:
            body = _values(chance, body)
        elif headers:
            _header(chance, headers)
    return Delivery(headers=headers, body=body)


def _content(chance: Random, plain: bytes) -> bytes:
    return chance.choice((_bytes, _values, _values))(chance, plain)


def _bytes(chance: Random, body: bytes) -> bytes:
    place = chance.randrange(len(body) + 1)
    kind = chance.randrange(4)
    if kind == 0:
        return body[:place]
    if kind == 1:
        return body[:place] + bytes([chance.randrange(256)]) + body[place + 1 :]
    if kind == 2:
        return body[:place] + body[place + chance.randrange(1, 20) :]
    return body[:place] + chance.choice(BYTES) + body[place:]


def _values(chance: Random, body: bytes) -> bytes:
    """One value inside replaced, whatever form the body has."""
    with suppress(ValueError, RecursionError):
        found = json.loads(body)
        if isinstance(found, dict | list):
            _replace(chance, found)
            return json.dumps(found).encode("utf-8", "surrogatepass")
    pairs = parse_qsl(body.decode("latin-1"), keep_blank_values=True, encoding="latin-1")
    if not pairs:
        return body
    place = chance.randrange(len(pairs))
    value = chance.choice(HOSTILE)
    pairs[place] = (pairs[place][0], value if isinstance(value, str) else json.dumps(value))
    return urlencode(pairs).encode()


def _replace(chance: Random, found: Any) -> None:
    while True:
        places = list(found) if isinstance(found, dict) else list(range(len(found)))
        if not places:
            return
        place = chance.choice(places)
        inner = found[place]
        if not isinstance(inner, dict | list) or not inner or chance.random() < 0.15:
            break
        found = inner
    if isinstance(found, dict) and chance.random() < 0.2:
        del found[place]
        return
    found[place] = chance.choice(HOSTILE)


def _header(chance: Random, headers: dict[str, str]) -> None:
    name = chance.choice(list(headers))
    if chance.random() < 0.3:
        del headers[name]
        return
    value, place = headers[name], chance.randrange(len(headers[name]) + 1)
    headers[name] = chance.choice([chance.choice(TEXTS), value[:place], value[:place] + "x" + value[place + 1 :]])


# -- the claim


def judged(attacked: Target, delivery: Delivery) -> str:
    """What became of one input. Raises `SurpriseError` for anything but acceptance and a refusal that names its field and fix."""
    received = Received(headers=delivery.headers, body=delivery.body, account=ACCOUNT, at=AT)
    verdict = _named(lambda: attacked.adapter.verify(attacked.keys, received)) or "accepted"
    mapped: list[Any] = []
    mapping = _named(lambda: mapped.extend(attacked.adapter.events(attacked.keys, received, attacked.contract)))
    for one in mapped:
        if not isinstance(one.event, Unmapped) and not (one.event.order_id or one.references):
            raise SurpriseError("an event that names neither an order nor a reference")
        msgspec.json.decode(msgspec.json.encode(one.event), type=type(one.event))
    outcome = mapping or ("unmapped" if all(isinstance(one.event, Unmapped) for one in mapped) else "mapped")
    return f"{verdict}, {outcome}"


def _named(step: Callable[[], None]) -> str:
    """The kind of refusal, or empty text."""
    try:
        step()
    except Refused as refused:
        if not (refused.field and refused.problem and refused.fix):
            raise SurpriseError("a refusal without its field, problem and fix") from refused
        return type(refused).__name__
    return ""


def attack(channel: str, inputs: int, seed: int) -> Counter[str]:
    """How often each outcome came. Raises `SurpriseError` naming what repeats the failure."""
    attacked, outcomes = target(channel), Counter[str]()
    for number in range(inputs):
        chance = Random(f"{channel}/{seed}/{number}")  # each input by itself, so that one can be repeated alone
        genuine = chance.choice(attacked.seeds)
        if attacked.inside is not None and chance.random() < 0.5:
            delivery = attacked.inside(chance, genuine, _content)
        else:
            delivery = damaged(chance, genuine)
        try:
            outcomes[judged(attacked, delivery)] += 1
        except Exception as error:  # any exception is the finding that this program is for
            raise SurpriseError(f"{channel}, seed {seed}, input {number}: {error!r}\n{delivery.body!r}") from error
    return outcomes


def main(arguments: list[str]) -> int:
    """The command; 0 if nothing surprised."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.run", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--inputs", type=int, default=1_000_000, help="in all, shared out among the channels")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--channel", action="append", choices=CHANNELS, help="only these")
    given = parser.parse_args(arguments)
    channels = given.channel or CHANNELS
    for channel in channels:
        begun = time.monotonic()
        outcomes = attack(channel, -(-given.inputs // len(channels)), given.seed)
        took = time.monotonic() - begun
        print(f"{channel}: {outcomes.total()} inputs in {took:.0f} s")
        for outcome, count in outcomes.most_common():
            print(f"  {count:>9}  {outcome}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
