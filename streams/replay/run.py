"""One scenario, from scratch: the clock, the timers, the deliveries, around the law that the workers call.

The shell is in memory and asks nobody anything. Every event goes through `converge`; raw records of the product's own events would go
through the codec as well, and a restart sends the whole state through it.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

import msgspec

from streams import codec
from streams.domain import cards
from streams.domain.converge import converge
from streams.domain.decisions import Decision, Message
from streams.domain.events import Event
from streams.domain.order import due
from streams.domain.reporting import keyed
from streams.domain.reports import PayoutNotice
from streams.replay import given, mapping, raw
from streams.replay.files import Files
from streams.replay.shapes import DELIVERIES, NotUnderstoodError, understood

if TYPE_CHECKING:
    from collections.abc import Sequence

_convert = msgspec.json.Decoder(Event).decode
_encode = msgspec.json.Encoder().encode
LOSING_NOTHING = frozenset({"RESTART", "KILL", "REWRITE_STATE"})
"""Faults after which everything that lives on has been stored and read again."""
NOT_CHARGED = frozenset({"already-paid", "another-in-flight", "over-total"})


class Run:
    """A scenario under way, and what came of it so far."""

    def __init__(self, start: Any, events: Sequence[Any]) -> None:
        self.given = given.read({} if start is None else start)
        self.contracts = given.Contracts(given.contracts(self.given))
        self.events = [understood(event) for event in events]
        self.begun = given.begin(self.given, self.contracts, self._orders_of_events())
        self.orders = self.begun.orders
        self.at = given.instant(self.given.now, "given.now")
        self.messages: list[Message] = []
        self.acks: list[str] = []
        self.rejected: dict[str, None] = {}
        self.dead: dict[str, str] = {}
        self.candidates: dict[str, list[str]] = {}
        self.strays: dict[str, list[int]] = {}
        self.dues: list[tuple[int, str]] = []
        self.files = Files(self)
        for name in self.orders:
            self._watch(name)

    def _orders_of_events(self) -> dict[str, str]:
        return {event["event_id"]: event["order"] for event in self.events if "event_id" in event and "order" in event}

    def play(self) -> Run:
        for number in range(len(self.events)):
            self.step(number)
        return self

    def step(self, number: int) -> None:
        """The event in this place of the file, at its time."""
        event = self.events[number]
        self._wind(given.instant(str(event.get("recv_time", "")), f"event {number + 1}: recv_time"))
        if event["type"] == "FAULT":
            self._fault(event, number)
        else:
            self._deliver(event, number)

    # -- time

    def _watch(self, name: str) -> None:
        moment = due(self.orders[name])
        if moment is not None:
            heapq.heappush(self.dues, (moment, name))

    def _wind(self, until: int) -> None:
        """Every due time up to then fires, in due order, each seeing its own moment."""
        while self.dues and self.dues[0][0] <= until:
            moment, name = heapq.heappop(self.dues)
            if name in self.orders and due(self.orders[name]) == moment:
                self._decide(name, None, moment)
        self.at = max(self.at, until)

    def _decide(self, name: str, event: Event | None, at: int) -> list[Message]:
        order, messages = converge(self.orders.get(name), event, at, self.contracts)
        assert order is not None
        self.orders[name] = order
        self._watch(name)
        self.messages += messages
        return messages

    # -- events

    def _deliver(self, event: dict[str, Any], number: int) -> None:
        """A channel's delivery is acknowledged when it comes in; what a fault delivers again comes from the log."""
        kind = event["type"]
        if kind == "RAW_RECORD":
            self._record(event, number)
        elif kind == "RAW_CALLBACK":
            self._callback(event, number)
        elif kind == "FILE":
            self.files.hear(event)
        elif kind == "PAYOUT":
            self._payout(event)
        elif kind != "TICK":
            self._hear(event, number)
            if kind in DELIVERIES:
                self.acks.append("OK")

    def _record(self, event: dict[str, Any], number: int) -> None:
        try:
            inner = raw.record(event, self.contracts)
        except raw.UndecodableError as wrong:
            self.dead[f"{event.get('partition', 0)}:{event.get('offset', 0)}"] = str(wrong)
        else:
            if inner["type"] != "TICK":
                self._hear(inner, number)

    def _callback(self, event: dict[str, Any], number: int) -> None:
        """Refused only if its signature is not right; whatever else is wrong with it, it is kept."""
        body = raw.bytes_of(event, "body")
        if body is None:
            raise NotUnderstoodError("RAW_CALLBACK has neither body_utf8 nor body_hex")
        contract = self.contracts.get(event["channel"])
        if not raw.verified(event, body, contract):
            self.acks.append("REJECT")
            return
        self.acks.append("OK")
        try:
            inner = raw.callback(event, body, contract)
        except raw.UndecodableError as wrong:
            self.dead[event["delivery_id"]] = str(wrong)
        else:
            self._hear(inner, number)

    def _hear(self, event: dict[str, Any], number: int) -> None:
        """One event through the law, as the events of the product that it stands for."""
        if event["type"] == "CARD_POSTING":
            event = self._addressed(event, number)
        name = event["order"]
        contract = self.contracts.get(event["channel"])
        total = self.given.orders.get(name)
        made = mapping.product_events(
            event, number, self.orders.get(name), contract, None if total is None else total.total
        )
        for fields in made:
            self.tell(name, fields, event)
        if event["type"] == "SUBMIT":
            self._call_strays(event)

    def tell(self, name: str, fields: dict[str, Any], event: dict[str, Any]) -> None:
        """One event of the product's own, made of an event of the scenario, about the order of this name."""
        present = {field: value for field, value in fields.items() if value is not None}
        try:
            parsed: Event = _convert(_encode(present))
        except msgspec.ValidationError as wrong:
            raise NotUnderstoodError(f"{event['type']}: {wrong}") from wrong
        messages = self._decide(name, parsed, self.at)
        ruling = messages[-1] if event["type"] not in DELIVERIES else None
        for message in messages:
            if type(message) is Decision and message.source == "command":
                ruling = message
                break
        if type(ruling) is Decision and ruling.source == "command" and ruling.verdict == "refused":
            self.refuse(name, ruling, event)

    def report(self, event: Event) -> None:
        """What reconciliation found, about the order that it is keyed by."""
        self._decide(event.order_id, event, self.at)

    def _payout(self, event: dict[str, Any]) -> None:
        """A channel's word about a payout; the bank's lines are what is posted."""
        told = PayoutNotice(
            order_id=keyed("payout", event["channel"], event["ref"]),
            channel=event["channel"],
            status=event["status"],
            ref=event["ref"],
            event_id=event["event_id"],
            amount=event["amount"],
            currency=event["ccy"],
        )
        self.report(told)
        self.acks.append("OK")

    def refuse(self, name: str, ruling: Decision, event: dict[str, Any]) -> None:
        """Our own request was refused: it is rejected, unless it only repeats what is there."""
        key = f"{event['merchant']}/{event['op']}" if event.get("merchant") else event["op"]
        exists = mapping.target_of(self.orders.get(name), event["op"], event.get("merchant")) is not None
        unknown_start = ruling.rule in {"payment-not-found", "not-init"}
        if not unknown_start and (not exists or ruling.rule in NOT_CHARGED):
            self.rejected[key] = None

    # -- card entries, which name no order

    def _addressed(self, event: dict[str, Any], number: int) -> dict[str, Any]:
        """The order of the payment that the entry names; one that names none is kept under its own source and reference."""
        wanted = event.get("authorization")
        for name, order in self.orders.items():
            if wanted and mapping.target_of(order, wanted) is not None:
                return {**event, "order": name}
            if not wanted and mapping.linked(order, event) is not None:
                return {**event, "order": name}
        if wanted:
            self.strays.setdefault(wanted, []).append(number)
            return {**event, "order": f"card:{wanted}"}
        own = f"{event['channel']}:{event.get('event_id', number)}"
        if event["status"] == "REFUND":
            self._propose(event, own)
        return {**event, "order": own}

    def _propose(self, event: dict[str, Any], own: str) -> None:
        fields = mapping.product_events({**event, "order": own}, 0, None, self.contracts.get(event["channel"]), None)[0]
        entry = _convert(_encode(fields))
        found = [key for order in self.orders.values() for key in cards.candidates(order, entry)]  # type: ignore[arg-type]
        self.candidates.setdefault(str(event.get("event_id", own)), found)

    def _call_strays(self, event: dict[str, Any]) -> None:
        """The payment that card entries named has appeared: they are heard in its order, and nowhere else."""
        for key in {event["op"], f"{event.get('merchant')}/{event['op']}"} & self.strays.keys():
            gone = f"card:{key}"
            self.orders.pop(gone, None)
            self.messages = [message for message in self.messages if message.order_id != gone]
            for number in self.strays.pop(key):
                self._hear(self.events[number], number)

    # -- faults

    def _fault(self, event: dict[str, Any], number: int) -> None:
        """Nothing crashes here; but what is stored goes through the codec, and what is not acknowledged comes again."""
        if event["fault"] in LOSING_NOTHING:
            self.orders = {name: codec.load(codec.dump(order)) for name, order in self.orders.items()}
        first = event.get("redeliver_from")
        if first is not None:
            for earlier, again in enumerate(self.events[:number]):
                if again["type"] != "FAULT" and again.get("offset", -1) >= first:
                    given_before = len(self.acks)
                    self._deliver(again, earlier)
                    del self.acks[given_before:]
