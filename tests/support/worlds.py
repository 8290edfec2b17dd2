"""A world without a broker: one order, a hand-wound clock, and the law as the engine calls it.

`World.row` plays one line of a text table and tells what came of it in one line per decision, so that a test is the table itself:

    +5 callback P1 SUCCESS e=E1 t=X1          ->  applied success PAYING>SUCCESS announced

Words of our side: `create`, `start`, `retry`, `give-up`, `capture C1 of=P1`, `void V1 of=P1`, `back R1 of=P1` (a refund), and
`decide refund about=KIND` (two people on the open discrepancy of a kind). Of channels: `callback`, `submit`, `query`, `close`,
`captured`, `voided`, `returned` (answers to a capture, void or refund, named as `C1 of=P1`), `notice R1 of=P1 SUCCESS` (a refund;
`notice - of=P1` without our number), `layer R1 of=P1 merchant COMPLETED`, `release`, `dispute`; of cards `purchase`, `refunded`; `tick`.
`+N` winds the clock N seconds first, firing what falls due. Amount and currency are 1000 USD unless `a=` and `c=` say otherwise
(`a=-` leaves both out); `e=` is the event id, `t=` the channel transaction, `r=` the refund's, and any other `name=value` a field.
Every state the world holds has passed through the codec, and no turn may change the state it was given.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from streams.codec import dump, load
from streams.domain.converge import converge
from streams.domain.decisions import (
    KINDS,
    ChannelRequest,
    Decision,
    Discrepancy,
    Message,
    Movement,
    PaymentSuccess,
    message_id,
)
from streams.domain.events import (
    Answer,
    Callback,
    CapturePayment,
    CardPosting,
    ClosePayment,
    CreatePayment,
    Dispute,
    Event,
    RefundLayer,
    RefundNotice,
    RefundPayment,
    Release,
    Resolve,
    RetryPayment,
    StartPayment,
    VoidPayment,
)
from streams.domain.identity import discrepancy_id
from streams.domain.implied import implied
from streams.domain.moment import parsed
from streams.domain.order import Order, due

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streams.domain.contract import Contract

START: Final = parsed("2025-03-03T10:00:00Z") or 0
NUMBERS: Final = {"sequence", "version", "fee", "net_amount", "settle_amount", "order_total", "cumulative_refunded"}
ALIASES: Final = {"e": "event_id", "t": "transaction", "r": "refund_transaction"}
TO_OPERATION: Final = {"captured": "capture", "voided": "void", "returned": "refund"}
ASKS: Final = {
    "capture": (CapturePayment, "capture_no"),
    "void": (VoidPayment, "void_no"),
    "back": (RefundPayment, "refund_no"),
}


@dataclass
class World:
    """One order under `contracts`, with everything it has said."""

    contracts: Mapping[str, Contract] = field(default_factory=dict)
    at: int = START
    order: Order | None = None
    said: list[Message] = field(default_factory=list)

    def tell(self, event: Event | None, at: int | None = None) -> list[Message]:
        """One call of the law; None for a due time."""
        before = None if self.order is None else dump(self.order)
        after, messages = converge(self.order, event, self.at if at is None else at, self.contracts)
        assert before is None or (self.order is not None and dump(self.order) == before), "the law changed its argument"
        self.order = after if after is None else load(dump(after))
        assert self.order == after, "the codec lost something"
        self.said += messages
        return messages

    def wind(self, seconds: int) -> list[Message]:
        """Move the clock; everything that falls due on the way fires at its own moment."""
        end = self.at + seconds * 1000
        messages: list[Message] = []
        while self.order is not None and (moment := due(self.order)) is not None and moment <= end:
            self.at = max(self.at, moment)
            messages += self.tell(None, moment)
        self.at = end
        return messages

    def row(self, text: str) -> list[str]:
        """Play one line; one line of outcome per decision."""
        words = text.split()
        messages: list[Message] = []
        if words[0].startswith("+"):
            messages = self.wind(int(words.pop(0)[1:]))
        if words[0] == "decide":
            messages += self.tell(self.decision(words))
        elif words[0] != "tick":
            messages += self.tell(event(words, self.at))
        return outcomes(messages)

    def decision(self, words: list[str]) -> Resolve:
        """Two people settle the first open discrepancy of a kind."""
        given = dict(word.split("=", 1) for word in words[2:])
        assert self.order is not None
        about = given.pop("about")
        known = next(one for one in self.order.conflicts if one.kind == about)
        fields: dict[str, Any] = {
            "command_id": f"decide-{len(self.said)}", "order_id": "O1", "discrepancy": discrepancy_id(self.order, known.id),
            "revision": known.revision, "action": words[1], "evidence": "ticket 7", "proposer": "ann", "approver": "bob",
        }  # fmt: skip
        return Resolve(**fields | {name: int(value) if name == "revision" else value for name, value in given.items()})

    def state(self, number: int = 0) -> str:
        assert self.order is not None
        return self.order.payments[number].state

    def told_all_that_it_implies(self) -> bool:
        """Whether the messages sent over the whole life are those that the state implies, each once."""
        sent = [(KINDS[type(message)], message_id(message)) for message in self.said]
        return self.order is not None and sorted(sent) == sorted(implied(self.order))

    def open_conflicts(self) -> set[bytes]:
        return set() if self.order is None else {one.id for one in self.order.conflicts if one.open}

    def items(self) -> set[tuple[str, str, str]]:
        """Open discrepancies as (kind, severity, ref)."""
        return (
            set()
            if self.order is None
            else {(one.kind, one.severity, one.ref) for one in self.order.conflicts if one.open}
        )


def event(words: list[str], at: int) -> Event:
    """The event that the words of a row describe."""
    what, *rest = words
    given = dict(word.split("=", 1) for word in rest if "=" in word)
    plain = [word for word in rest if "=" not in word]
    fields: dict[str, Any] = {"order_id": "O1", "payment_no": plain[0] if plain else None}
    amount, currency = given.pop("a", "1000"), given.pop("c", "USD")
    money = {} if amount == "-" else {"amount": int(amount), "currency": currency}
    if given.pop("expires_at", None):
        fields["expires_at"] = datetime(9999, 1, 1, tzinfo=UTC)
    if lapses := given.pop("auth_expires_at", None):
        fields["auth_expires_at"] = datetime.fromisoformat(lapses)
    fields |= {
        ALIASES.get(name, name): int(value) if name in NUMBERS else value == "yes" if value in {"yes", "no"} else value
        for name, value in given.items()
    }
    if what == "create":
        return CreatePayment(
            **{"command_id": f"create-{plain[0]}", "biz_code": "trade", "channel": "chA"} | fields | money
        )
    if what in {"start", "retry", "give-up"}:
        kind = {"start": StartPayment, "retry": RetryPayment, "give-up": ClosePayment}[what]
        return kind(**{"command_id": f"{what}-{plain[0]}"} | fields)
    if what in ASKS:
        kind, name = ASKS[what]
        fields |= {
            "command_id": fields.get("command_id", f"{what}-{plain[0]}"),
            name: plain[0],
            "payment_no": fields.pop("of"),
        }
        return kind(**fields | ({} if what == "void" else money))
    if what in {"purchase", "refunded"}:
        status = "PURCHASE" if what == "purchase" else "REFUND"
        return CardPosting(**{"channel": "issuer", "status": status} | fields | money)
    return evidence(what, plain, {"channel": "chA"} | fields, money)


def evidence(what: str, plain: list[str], fields: dict[str, Any], money: dict[str, Any]) -> Event:
    """What a channel says."""
    parent = fields.pop("of", None)
    fields["status"] = plain[-1]
    if what == "callback":
        return Callback(**fields | money)
    if what == "notice":
        number = None if plain[0] == "-" else plain[0]
        return RefundNotice(**fields | money | {"payment_no": parent, "refund_no": number})
    if what == "layer":
        return RefundLayer(**fields | {"payment_no": parent, "refund_no": plain[0], "layer": plain[1]})
    if what in {"release", "dispute"}:
        return (Release if what == "release" else Dispute)(**fields | money)
    if parent is not None:
        fields |= {"payment_no": parent, "operation_no": plain[0]}
    return Answer(request=TO_OPERATION.get(what, what), **fields | money)


def outcomes(messages: list[Message]) -> list[str]:
    """One line per decision: verdict, rule, state, then what it caused in order."""
    lines: list[str] = []
    caused: list[str] = []
    for message in messages:
        if isinstance(message, Decision):
            state = message.after or "-"
            if message.before and message.before != message.after:
                state = f"{message.before}>{message.after}"
            lines.append(" ".join([message.verdict, message.rule, state, *caused]))
            caused = []
        elif isinstance(message, PaymentSuccess):
            caused.append("announced")
        elif isinstance(message, ChannelRequest):
            caused.append(message.verb)
        elif isinstance(message, Movement):
            caused.append(f"{message.kind}:{message.amount}")
        elif isinstance(message, Discrepancy):
            caused.append(f"{message.kind}:{message.severity}:{message.ref}:{message.status}")
    assert not caused, "a message without a decision"
    return lines
