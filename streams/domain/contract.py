"""What a channel promises, as far as the law, the adapters and reconciliation ask. A channel without a contract has the defaults.

One contract is one merchant account at one channel. Durations are whole seconds, amounts integer minor units, percentages whole.
Nothing here is inferred from another channel's behaviour (R-035): a promise that is absent was not made. The files are
`streams/channels/*.yaml`; what they say beyond the types is held by `streams.channels.contracts`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

Seconds: TypeAlias = Annotated[int, Meta(ge=0, le=366 * 86_400)]
Positive: TypeAlias = Annotated[int, Meta(ge=1, le=366 * 86_400)]
Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=128)]
Text: TypeAlias = Annotated[str, Meta(max_length=256)]
Code: TypeAlias = Annotated[str, Meta(pattern="^[A-Z]{3}$", description="ISO 4217, three capital letters")]
Exponent: TypeAlias = Annotated[int, Meta(ge=0, le=4)]
Percent: TypeAlias = Annotated[int, Meta(ge=0, le=1000)]
HttpStatus: TypeAlias = Annotated[int, Meta(ge=200, le=599)]
Character: TypeAlias = Annotated[str, Meta(min_length=1, max_length=1)]
Operation: TypeAlias = Literal["submit", "capture", "void", "refund"]
Unit: TypeAlias = Literal["minor", "major"]


class Idempotency(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """What the channel does with a request that it has had before (R-034)."""

    key: Name
    """The header or field that carries our idempotency key."""
    scope: Literal["account", "endpoint", "operation"]
    """Where two equal keys meet: anywhere in the account, at one endpoint, or among operations of one kind."""
    life_s: Seconds | None
    """How long a key is remembered from its first use; it must be stated. None: as long as the operation itself."""
    checks_parameters: bool = False
    """True: the same key with other parameters is refused. False: do not count on it."""
    duplicate_answer: Literal["first", "current", "refused"] = "current"
    """The same request again gets the first answer (an error included), the operation as it is now, or a refusal to be queried."""
    operations: tuple[Operation, ...] = ("submit", "refund")


class Query(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """How a lost answer is found again (R-050)."""

    key: Literal["merchant_number", "transaction", "either"]
    """What we must know to ask: our own number, the channel's, or either. Only our own finds a submit without an answer."""
    consistency: Literal["strong", "eventual"] = "eventual"
    not_found_after_s: Seconds | None = None
    """The age of the last request from which "not found" witnesses that it was not accepted. None: it never does."""
    operations: tuple[Operation, ...] = ("submit", "refund")

    @property
    def finds_lost_submits(self) -> bool:
        """Whether a submit whose answer was lost can be asked for."""
        return self.key != "transaction" and "submit" in self.operations


class Ack(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """The answer that tells the channel that its notice is kept (R-077)."""

    status: HttpStatus = 200
    body: Text = ""
    headers: dict[Name, Text] = {}
    within_s: Positive | None = None
    refuse_status: HttpStatus = 400
    """For a notice that is not authentic or too old; one that could not be stored is always answered with 503."""
    refuse_body: Text = ""


class Redelivery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """When the channel sends a notice again that was not acknowledged."""

    after_s: tuple[Positive, ...] = ()
    """The distances between deliveries; beyond the last one the channel's own rule is not known to us."""
    life_s: Positive | None = None
    most: Annotated[int, Meta(ge=1, le=1000)] | None = None
    """Deliveries in all, the first included."""


class Notice(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """A callback: what identifies it (R-072), what orders it (R-075), how long it is fresh, how it is answered."""

    event_id: tuple[Name, ...] = ()
    """The fields that make the event id together, in order. None: transaction, event type, status and version stand in."""
    event_time: Name | None = None
    sequence: Name | None = None
    """The field that orders the notices of one operation."""
    version: Name | None = None
    """The field that counts the versions of the channel's object."""
    signature: Name | None = None
    window_s: Positive | None = None
    """How far the signed time may be from ours, both ways. None: no time is signed, so dedupe is the only defence."""
    proves_money: bool = True
    """False: the signature can be forged or covers too little; a success counts only when a query says so too."""
    ack: Ack = Ack()
    redelivery: Redelivery = Redelivery()


class Failures(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """The channel's words and error codes by what they prove (R-003, R-006). A word that is in no list is unknown."""

    final: tuple[Name, ...] = ()
    """The operation did not complete and never will."""
    not_accepted: tuple[Name, ...] = ()
    """This request was not accepted: a new attempt may be made, if the rest of the contract allows it."""
    unknown: tuple[Name, ...] = ()
    """Looks like a failure and is none."""
    exists: tuple[Name, ...] = ()
    """An earlier request exists: ask for it."""


class Refunds(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """How far the channel's word about a refund reaches."""

    success_is_final: bool = False
    """False: a refund may still fail after its success."""
    partial: bool = True
    several: bool = True
    after_payment_s: Seconds | None = None
    """How long after the payment a refund may be asked for. None: not stated."""
    poll_after_s: Annotated[tuple[Positive, ...], Meta(min_length=1)] = (120, 600, 1800)
    poll_window_s: Positive = 604_800
    """How long a refund is asked about before a person is."""
    fee_returned: bool | None = None
    """Whether the payment's fee comes back. None: not stated."""


class Differences(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """The differences that reconciliation may explain by itself; any other waits for a person (R-189)."""

    fees: tuple[Name, ...] = ()
    """The kinds of fees that the channel's files state beside a row."""
    fee_rounding: Annotated[int, Meta(ge=0, le=100)] = 0
    """Minor units by which a stated fee may miss the computed one, per row."""
    fx: Literal["never", "stated_rate", "instructed_amount"] = "never"
    """What may explain an amount in another currency: a rate on the row, or the amount in our currency beside it."""
    rounding: Annotated[int, Meta(ge=0, le=100)] = 0
    """Minor units by which the total of a batch may miss its rows."""


Field: TypeAlias = Literal[
    "op", "txn", "kind", "amount", "ccy", "status", "fee", "net", "funds", "local_time", "time", "text", "ref", "key",
    "refund_txn", "refund_op", "refund_amount", "refund_status",
]  # fmt: skip


class Layout(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """A text file of the channel: how its bytes become rows."""

    columns: dict[Name, Field]
    """header -> field"""
    encodings: Annotated[tuple[Name, ...], Meta(min_length=1)] = ("UTF-8",)
    """Tried strictly, in this order; a byte order mark is dropped."""
    delimiter: Character = ","
    lead: Character | None = None
    """One character dropped from the start of each field."""
    decimal: Character = "."
    group: Character | None = None
    """The thousands separator."""
    amount_unit: Unit = "major"
    ccy: Code | None = None
    """The currency where no column states it."""
    preamble_lines: Annotated[int, Meta(ge=0, le=1000)] = 0
    control_columns: dict[Name, Literal["count", "amount", "fee"]] = {}
    """header -> total; the first one starts the control totals."""


class Contract(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """One merchant account at one channel."""

    role: Literal["payments", "cards", "bank"] = "payments"
    """cards: an issuer, which tells of card entries. bank: statements. Neither takes payments from us."""

    # what a payment may do
    idempotency: Idempotency | None = None
    """None: every submit is a new one, so there is at most one (R-050)."""
    query: Query | None = None
    """None: no promise is known of what a query finds."""
    asks: bool = True
    """False: the channel has nothing that can be asked; only its own word, its files and people settle what is open."""
    isolation: Literal["none", "manual"] = "none"
    """manual: nothing is submitted again or asked by itself; people and reconciliation settle it (R-051)."""
    failures: Failures = Failures()
    decline_is_final: bool = True
    """False: a declined attempt may still be authorised, so DECLINED_RETRYABLE is no failure."""
    payment_return_status: Name | None = None
    """The callback word that means: a successful payment came back."""
    refund_return_status: Name | None = None
    """The refund word that means: a successful refund came back."""
    refunds: Refunds = Refunds()
    overcapture_pct: dict[Name, Percent] = {}
    """Merchant category -> percent above the hold that may be captured, inclusive."""
    auth_expiry_s: Positive | None = None
    """The life of an authorisation where the channel states none with it. It plans; only the channel's own expiry ends one."""
    card_posting_window_s: Seconds | None = None
    """How long after its start a refund's card posting may stay out. None: not watched."""

    # when we ask, and when we stop
    init_expiry_s: Positive = 900
    qr_expiry_s: Positive = 1800
    """How long a payment may stay INIT (R-062)."""
    query_after_s: Annotated[tuple[Positive, ...], Meta(min_length=1)] = (120, 600, 1800)
    """The first queries, counted from the start (R-058, R-059); later ones double the last distance."""
    query_jitter_pct: Percent = 12
    """Of a doubled distance, added in a share derived from the operation's number (R-053)."""
    query_max_delay_s: Positive = 21_600
    query_window_s: Seconds = 86_400
    """How long we ask by ourselves before a person is asked (R-056)."""
    silence_is_stuck: bool = True
    """Whether a request that nobody says a word about goes to a person at the end of the window, too, and not only a doubt."""
    most_queries: Annotated[int, Meta(ge=1, le=1000)] = 32
    submit_retry_window_s: Seconds = 0
    """How long after the first submit the same key may be sent again. 0: never."""
    most_submits: Annotated[int, Meta(ge=1, le=100)] = 1
    lease_s: Positive = 60
    """How long a request may stay without an answer before it is asked for again (R-064)."""
    concurrency: Annotated[int, Meta(ge=1, le=10_000)] = 16
    """Requests of one account in flight (R-054)."""
    rate_per_s: Annotated[int, Meta(ge=1, le=100_000)] | None = None
    """Requests of one account a second. None: no bound of its own."""
    park_window_s: Seconds = 86_400
    """How long evidence waits for its payment before it becomes UNKNOWN_ORDER (R-081)."""
    life_days: Annotated[int, Meta(ge=1, le=3660)] = 400
    """How long an order whose operations are final is kept whole."""

    # how it talks
    notice: Notice = Notice()
    hmac_sha256_key: Annotated[str, Meta(min_length=1)] | None = None
    """Raw callbacks carry `signature`, the hex HMAC-SHA256 of the body. For replays: a contract file holds no key."""
    amount_unit: Unit = "minor"
    """In callbacks; major is decimal text. Conversion happens once, in the adapter (`streams.channels.amounts`)."""
    exponents: dict[Code, Exponent] = {}
    """Where the channel's minor unit is not ISO 4217's."""

    # what its files say
    tz: Name = "UTC"
    cutoff: Annotated[str, Meta(pattern="^([01][0-9]|2[0-3]):[0-5][0-9]$")] = "00:00"
    """Zone and local start of the business day."""
    hold_days: Annotated[int, Meta(ge=0, le=366)] = 0
    """Business days a missing operation is held before LOCAL_ONLY."""
    failure_fee: Annotated[int, Meta(ge=0, le=10**9)] | None = None
    """What a failed operation may cost."""
    differences: Differences = Differences()
    file: Layout | None = None
    match: bool = True
    """False: lines of this bank are imported and not matched."""
    reversal: Literal["indicator_is_actual_direction", "indicator_is_original_direction"] = (
        "indicator_is_actual_direction"
    )

    def __hash__(self) -> int:
        """By content, so that what is derived from a contract can be kept by it."""
        return hash(msgspec.json.encode(self, order="deterministic"))

    @property
    def resubmits(self) -> bool:
        """Whether the same key may be sent again at all."""
        return self.idempotency is not None and self.most_submits > 1 and self.submit_retry_window_s > 0


DEFAULT: Final = Contract()

Contracts: TypeAlias = Mapping[str, Contract]
"""By channel. The law only calls `get`."""
