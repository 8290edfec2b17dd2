"""The cashier: what a merchant asks becomes a command on Kafka, and the answer is what the worker decides about it.

Nothing is decided here. A command's id derives from the merchant, the payment and the Idempotency-Key, and so do the numbers that
are minted, so a repeated request is the same command and the law finds it so (R-031, R-037). Postgres is not needed to write.
"""

from __future__ import annotations

import hashlib
import hmac
from datetime import UTC, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
from msgspec import structs

from streams.channels.adapter import PAYMENT, Reference
from streams.cloudevents import attributes
from streams.domain.events import (
    CapturePayment,
    ClosePayment,
    CreatePayment,
    RefundPayment,
    StartPayment,
    VoidPayment,
)
from streams.domain.number import CHANCE_BYTES, is_number, operation_number, payment_number
from streams.gateway.problems import CODES, Refused
from streams.gateway.routes import Wanted
from streams.gateway.store import Stored, Unavailable, Unstorable
from streams.gateway.verdicts import Place, scoped

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import date, datetime

    from stores.route_decisions import Routed
    from streams.domain.consult import Method
    from streams.domain.decisions import Decision
    from streams.domain.events import Command
    from streams.domain.number import Kind
    from streams.gateway.cashier_shapes import Consultation, NewPayment, Share, Start
    from streams.gateway.keys import Caller
    from streams.gateway.links import Links
    from streams.gateway.routes import Routes
    from streams.gateway.store import Store
    from streams.gateway.verdicts import Verdicts

DECIDED_S: Final = 5.0
"""How long an answer waits for its decision; then it is 202."""
ACTION_S: Final = 4.0
"""How long a start waits for what the payer needs."""
PLACE_S: Final = 0.5
"""How long a number that is not known yet is waited for: another gateway may just have made it."""
LONGEST: Final = timedelta(days=1)

_encode: Final = msgspec.json.Encoder().encode


class Asked(NamedTuple):
    """Who asks, under which Idempotency-Key (empty: none), in which trace, and 10 bytes of chance."""

    caller: Caller
    key: str
    trace: str
    chance: bytes

    @property
    def merchant(self) -> str:
        return self.caller.merchant.merchant


class Done(NamedTuple):
    """A command and its decision; None: it is stored, and not decided in time.

    `again`: it had been decided before. Then `decision` says how things stand now, and `first` what was decided, where it is remembered.
    """

    command: Command
    decision: Decision | None
    again: bool = False
    first: Decision | None = None
    action: str = ""


class Opening(NamedTuple):
    """A payment to be created at `wanted.channel`; `routed`: routing chose that."""

    wanted: NewPayment
    routed: bool


class Cashier:
    """Turns requests into commands. `may_use(channel, merchant)` says whose a channel account is; `now` is UTC."""

    def __init__(
        self,
        *,
        topic: str,
        store: Store,
        verdicts: Verdicts,
        links: Links,
        may_use: Callable[[str, str], bool],
        routes: Routes,
        now: Callable[[], datetime],
    ) -> None:
        self._topic, self._store, self._verdicts, self._links = topic, store, verdicts, links
        self._may_use, self._routes, self._now = may_use, routes, now

    # -- payments

    async def create(self, asked: Asked, wanted: NewPayment) -> Done:
        """Open a payment, or find the one there is for this order and business code (R-037)."""
        self._check(asked, wanted)
        today = self._now().astimezone(UTC).date()
        number = self._minted(asked, wanted, today)
        routed = None if wanted.channel is not None else self._route(asked, wanted, number)
        if routed is not None:
            wanted = structs.replace(wanted, channel=routed.routing.channel)
        opening = Opening(wanted, routed is not None)
        done = await self._create(asked, opening, number)
        rule = "" if done.decision is None else done.decision.rule
        if rule == "command-reused":  # the key may have been used before midnight, for another number
            done = await self._create(asked, opening, self._minted(asked, wanted, today - timedelta(days=1)))
        elif rule == "one-payment":
            done = await self._existing(asked, opening, done)
        if routed is not None:
            done = self._routed(asked, routed, done)
        return _ruled(done)

    def _route(self, asked: Asked, wanted: NewPayment, number: str) -> Routed:
        """A channel for it, or a refusal by routing's own name (R-159); either is remembered, the choice once its payment is created."""
        need = self._needed(asked, wanted.amount, wanted.currency, wanted.method, wanted.buyer_tag)
        routed = self._routes.choose(need, order_id=wanted.order_id, payment_no=number)
        failure = routed.routing.failure
        if failure is not None:
            name = command_id("route", asked.merchant, wanted.order_id, asked.chance.hex())
            self._routes.remember(structs.replace(routed, id=name))
            ours = (one for one in routed.routing.dropped if one.reason != "account")
            raise Refused(failure.upper(), "; ".join(f"{one.channel}: {one.reason}" for one in ours))
        return routed

    def _routed(self, asked: Asked, routed: Routed, done: Done) -> Done:
        """Remember the choice of a new payment; of one that was there, say the channel it has, where that was heard."""
        decision, command = done.decision, done.command
        assert type(command) is CreatePayment
        created = decision is None or any(
            (one.number, one.channel) == (command.payment_no, command.channel) for one in decision.operations
        )
        if created:  # else another gateway was first, with the same request
            self._routes.remember(structs.replace(routed, id=command.command_id))
            return done
        place = self._verdicts.places.recent.get(scoped(asked.merchant, command.payment_no))
        return done._replace(command=structs.replace(command, channel="" if place is None else place.channel))

    def _needed(self, asked: Asked, amount: int, currency: str, method: str | None, buyer_tag: str | None) -> Wanted:
        merchant = asked.merchant
        return Wanted(merchant, amount, currency, method, buyer_tag, lambda channel: self._may_use(channel, merchant))

    def consult(self, asked: Asked, wanted: Consultation) -> tuple[int, tuple[Method, ...]]:
        """Which methods the payer can use now, in order, and why not the others (R-140); with the version of the book."""
        self._check_amount(asked, wanted.biz_code, wanted.amount, wanted.currency)
        return self._routes.consult(self._needed(asked, wanted.amount, wanted.currency, None, wanted.buyer_tag))

    async def _existing(self, asked: Asked, opening: Opening, lost: Done) -> Done:
        """Ask for the payment there is by its own number: the law says whether its facts are the same."""
        assert lost.decision is not None
        found = existing(lost.decision.detail, asked.merchant)
        if found is None:
            return lost
        ours = command_id("again", asked.merchant, found, repr(opening.wanted))
        command = self._creation(asked, opening, found, ours)
        return await self._ask(asked, command)

    async def _create(self, asked: Asked, opening: Opening, number: str) -> Done:
        wanted, name = opening.wanted, asked.key or number
        ours = command_id("create", asked.merchant, wanted.order_id, wanted.biz_code, name)
        return await self._ask(asked, self._creation(asked, opening, number, ours))

    @staticmethod
    def _creation(asked: Asked, opening: Opening, number: str, ours: str) -> CreatePayment:
        wanted = opening.wanted
        return CreatePayment(
            command_id=ours,
            order_id=wanted.order_id,
            payment_no=number,
            biz_code=wanted.biz_code,
            channel=wanted.channel or "",
            amount=wanted.amount,
            currency=wanted.currency,
            merchant=asked.merchant,
            expires_at=wanted.expires_at,
            qr=wanted.qr,
            routed=opening.routed,
        )

    @staticmethod
    def _minted(asked: Asked, wanted: NewPayment, day: date) -> str:
        return payment_number(wanted.biz_code, day, _chance(asked, "create", wanted.order_id, wanted.biz_code))

    def _check(self, asked: Asked, wanted: NewPayment) -> None:
        """Business line, amount, channel account and expiry (R-133)."""
        self._check_amount(asked, wanted.biz_code, wanted.amount, wanted.currency)
        self._check_channel(asked, wanted.channel)
        now = self._now()
        if wanted.expires_at is not None and not now < wanted.expires_at <= now + LONGEST:
            raise Refused("EXPIRY_INVALID", "expires_at: send a time within the next 24 hours")

    @staticmethod
    def _check_amount(asked: Asked, biz_code: str, amount: int, currency: str) -> None:
        limit = asked.caller.merchant.limits.get((biz_code, currency))
        if limit is None:
            raise Refused("BIZ_CODE_UNKNOWN", f"biz_code: {biz_code} has no limit in {currency}")
        if not 0 < amount <= limit:
            raise Refused("PAY_AMOUNT_INVALID", f"amount: send 1 to {limit} minor units of {currency}")

    def _check_channel(self, asked: Asked, channel: str | None) -> None:
        if channel is not None and not self._may_use(channel, asked.merchant):
            raise Refused("CHANNEL_UNKNOWN", "channel: send `channel:account` of an account of yours")

    async def start(self, asked: Asked, number: str, wanted: Start) -> Done:
        """Charge it: only the winner of INIT to PAYING submits (R-017)."""
        self._check_channel(asked, wanted.channel)
        place = await self._place(asked, number)
        command = StartPayment(
            command_id=self._id(asked, "start", number),
            order_id=place.order_id,
            payment_no=number,
            merchant=asked.merchant,
            channel=wanted.channel,
            details=wanted.details,
        )
        name = scoped(asked.merchant, number)
        with self._verdicts.actions.expect(name) as action:
            done = _ruled(await self._ask(asked, command))
            if done.decision is None:
                return done
            known = self._verdicts.actions.recent.get(name)
            told = known or await action.within(0 if done.again else ACTION_S)
            return done._replace(action=told or "")

    async def close(self, asked: Asked, number: str) -> Done:
        """Give it up: at once while nothing of it was accepted, else the channel is asked to close it."""
        place = await self._place(asked, number)
        command = ClosePayment(
            command_id=self._id(asked, "close", number),
            order_id=place.order_id,
            payment_no=number,
            merchant=asked.merchant,
        )
        return _ruled(await self._ask(asked, command))

    # -- operations, each with a number of its own

    async def capture(self, asked: Asked, number: str, wanted: Share) -> Done:
        """Take some or all of a hold."""
        place = await self._place(asked, number)
        command = CapturePayment(
            command_id=self._id(asked, "capture", number),
            order_id=place.order_id,
            payment_no=number,
            capture_no=_operation(asked, "CP", number),
            amount=wanted.amount,
            currency=wanted.currency,
            merchant=asked.merchant,
        )
        return _ruled(await self._ask(asked, command))

    async def void(self, asked: Asked, number: str) -> Done:
        """Let a hold go."""
        place = await self._place(asked, number)
        command = VoidPayment(
            command_id=self._id(asked, "void", number),
            order_id=place.order_id,
            payment_no=number,
            void_no=_operation(asked, "VD", number),
            merchant=asked.merchant,
        )
        return _ruled(await self._ask(asked, command))

    async def refund(self, asked: Asked, number: str, wanted: Share) -> Done:
        """Give money back (R-222)."""
        place = await self._place(asked, number)
        command = RefundPayment(
            command_id=self._id(asked, "refund", number),
            order_id=place.order_id,
            payment_no=number,
            refund_no=_operation(asked, "RF", number),
            amount=wanted.amount,
            currency=wanted.currency,
            merchant=asked.merchant,
        )
        return _ruled(await self._ask(asked, command))

    # -- the way there and back

    def _id(self, asked: Asked, act: str, number: str) -> str:
        return command_id(act, asked.merchant, number, asked.key or asked.chance.hex())

    async def _place(self, asked: Asked, number: str) -> Place:
        """The order of a payment of this merchant. Another's is as one that is not there."""
        if not is_number(number):
            raise Refused("PAYMENT_NOT_FOUND")
        name = scoped(asked.merchant, number)
        with self._verdicts.places.expect(name) as waiter:
            found = self._verdicts.places.recent.get(name) or self._linked(asked.merchant, number)
            found = found or await waiter.within(PLACE_S) or self._linked(asked.merchant, number)
        if found is None or found.payment_no != number:
            raise Refused("PAYMENT_NOT_FOUND")
        return found

    def _linked(self, merchant: str, number: str) -> Place | None:
        link = self._links.find([Reference(PAYMENT, number)])
        if link is None or link.merchant != merchant:
            return None
        return Place(link.order_id, link.payment_no, link.merchant)

    async def _ask(self, asked: Asked, command: Command) -> Done:
        """Store a command and wait for its decision; a repetition gets what was decided first, where that is remembered."""
        with self._verdicts.decided.expect(command.command_id) as waiter:
            try:
                await self._store.put([self._record(command, asked.trace)])
            except Unavailable as error:
                raise Refused("NOT_STORED", retry_after=2) from error
            except Unstorable as error:
                raise Refused("BODY_TOO_LARGE", "details: the command does not fit its topic") from error
            decision = await waiter.within(DECIDED_S)
        if decision is not None and decision.rule == "same-command":
            first = self._verdicts.decided.recent.get(command.command_id)
            return Done(command, decision, again=True, first=first)
        return Done(command, decision)

    def _record(self, command: Command, trace: str) -> Stored:
        kind = str(type(command).__struct_config__.tag)
        headers = attributes(command.command_id, kind, "cashier", self._now().isoformat())
        headers.append(("traceparent", trace.encode()))
        return Stored(self._topic, command.order_id.encode(), _encode(command), tuple(headers))


def command_id(*parts: str) -> str:
    """A name for these facts, in this order: 128 bits, so that nobody meets another's."""
    return hashlib.blake2b(msgspec.msgpack.encode(parts), digest_size=16).hexdigest()


def existing(detail: str, merchant: str) -> str | None:
    """The number of the payment that a refusal by `one-payment` names (`payment merchant/number is STATE`), if it is one of ours."""
    for word in detail.split(" "):
        if word.startswith(f"{merchant}/") and is_number(number := word.removeprefix(f"{merchant}/")):
            return number
    return None


def _chance(asked: Asked, *parts: str) -> bytes:
    """Chance for a number: derived from the key and the merchant's own secret, so that a repetition mints the same; else fresh."""
    if not asked.key:
        return asked.chance
    packed = msgspec.msgpack.encode((*parts, asked.key))
    return hmac.digest(asked.caller.merchant.numbering, packed, "sha256")[:CHANCE_BYTES]


def _operation(asked: Asked, kind: Kind, number: str) -> str:
    return operation_number(kind, _chance(asked, kind, number))


def _ruled(done: Done) -> Done:
    """The same, unless the law refused it, now or when it was decided first."""
    if done.decision is None:
        return done
    decision = done.first or done.decision
    if decision.verdict == "refused":
        raise _refusal(done.command, decision)
    if done.decision.verdict == "duplicate" and done.decision.after is None:
        raise Refused("REFUSED_BEFORE")
    return done


def _refusal(command: Command, decision: Decision) -> Refused:
    """The law's own words, which name numbers of this merchant only."""
    creates = isinstance(command, CreatePayment)
    code = CODES.get(decision.rule, "REFUSED")
    if decision.rule == "number-reused" and not creates:
        code = "IDEMPOTENCY_KEY_REUSED"
    number = decision.payment_no if creates and decision.rule == "number-reused" else None
    return Refused(code, decision.detail or decision.rule, payment_no=number or "")
