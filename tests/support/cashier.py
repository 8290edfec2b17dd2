"""The cashier without a broker: the same routes, the law itself in place of the worker, and books that are kept from its decisions."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

import httpx
import msgspec

from stores.books import Entry
from stores.merchants import SCOPES, Key, Merchant, Register
from stores.pool import Unreachable
from streams import codec
from streams.channels.contracts import shipped
from streams.domain.converge import converge
from streams.domain.decisions import Decision
from streams.domain.events import Answer, Command
from streams.gateway import app
from streams.gateway.cashier import Cashier
from streams.gateway.cashier_http import OPENAPI, router
from streams.gateway.keys import Directory, Door
from streams.gateway.limits import Pool
from streams.gateway.links import Links
from streams.gateway.routes import Routes
from streams.gateway.store import Unavailable
from streams.gateway.verdicts import Verdicts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stores.route_decisions import Routed
    from stores.route_knowledge import Knowledge

LIMIT = 100_000
RATE = 100_000
CHANNEL = "simulator:sim"
_command = msgspec.json.Decoder(Command)


def secret_key(merchant: str, *scopes: str, key_id: str = "") -> tuple[Key, str]:
    """A key, and the header that shows it."""
    key_id, secret = key_id or secrets.token_hex(8), secrets.token_urlsafe(32)
    hashed = hashlib.sha256(secret.encode()).digest()
    key = Key(key_id=key_id, merchant=merchant, secret_hash=hashed, scopes=frozenset(scopes or SCOPES))
    return key, f"Bearer ck_{key_id}_{secret}"


class MemoryBooks:
    """The last standing of every operation, from decisions."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str | None, str], Entry] = {}
        self.down = False

    def take(self, decision: Decision) -> None:
        for one in decision.operations:
            row = Entry(order_id=decision.order_id, standing=one, as_of=decision.decided_at)
            self.rows[one.merchant, one.number] = row

    def _of(self, merchant: str, number: str, *kinds: str) -> Entry | None:
        if self.down:
            raise Unreachable("it was taken down")
        found = self.rows.get((merchant, number))
        return found if found is not None and found.standing.kind in kinds else None

    async def payment(self, merchant: str, payment_no: str) -> Entry | None:
        return self._of(merchant, payment_no, "PAY")

    async def payment_of_order(self, merchant: str, order_id: str, biz_code: str) -> Entry | None:
        for row in reversed(self.rows.values()):
            if (row.order_id, row.standing.merchant, row.standing.biz_code) == (order_id, merchant, biz_code):
                return await self.payment(merchant, row.standing.number)
        return None if not self.down else self._of(merchant, "")

    async def refund(self, merchant: str, refund_no: str) -> Entry | None:
        return self._of(merchant, refund_no, "REFUND")


@dataclass
class Shop:
    """One cashier with two merchants. `headers` are those of a key with every scope, by merchant."""

    now: datetime = datetime(2026, 5, 1, 12, tzinfo=UTC)
    silent: bool = False
    """Nothing is decided: the worker is away."""
    broken: bool = False
    """Nothing is stored: the broker is away."""
    orders: dict[str, Any] = field(default_factory=dict)
    commands: list[Any] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    said: list[Any] = field(default_factory=list)
    keys: dict[str, Key] = field(default_factory=dict)
    headers: dict[str, dict[str, str]] = field(default_factory=dict)
    merchants: dict[str, Merchant] = field(default_factory=dict)
    knowledge: Knowledge | None = None
    """What routing knows; None: no book was loaded."""
    places: int = 512
    clock: float = 0.0

    def __post_init__(self) -> None:
        for name in ("shop", "other"):
            limits = {("SALE", "USD"): LIMIT, ("SALE", "CNY"): LIMIT}
            self.merchants[name] = Merchant(
                merchant=name, numbering=secrets.token_bytes(32), rate_per_second=RATE, limits=limits
            )
            self.headers[name] = self.key(name)
        self.books, self.links, self.postgres_down = MemoryBooks(), Links(), False
        names = {"decisions": "decisions", "updates": "updates"}
        self.verdicts = Verdicts({}, names, 1)
        self.directory = Directory(self._register, lambda: self.clock)
        self.kept: list[Routed] = []
        self.routes = Routes(self._knowledge, self._keep, clock=lambda: self.clock, now=lambda: self.now)
        self.cashier = Cashier(
            topic="commands",
            store=self,
            verdicts=self.verdicts,
            links=self.links,
            may_use=self._owns,
            routes=self.routes,
            now=lambda: self.now,
        )
        self.pool = Pool(self.places)
        routes = router(self.cashier, self.books, Door(self.directory, lambda: self.clock), self.pool)
        self.app = app.application([routes], OPENAPI)

    async def __aenter__(self) -> Self:
        await self.directory.refresh()
        await self.routes.refresh()
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        self.client = httpx.AsyncClient(transport=transport, base_url="http://cashier")
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.client.aclose()

    def key(self, merchant: str, *scopes: str) -> dict[str, str]:
        key, header = secret_key(merchant, *scopes)
        self.keys[key.key_id] = key
        return {"Authorization": header}

    async def _register(self) -> Register:
        if self.postgres_down:
            raise Unreachable("it was taken down")
        return Register(dict(self.merchants), dict(self.keys))

    async def _knowledge(self) -> Knowledge | None:
        if self.postgres_down:
            raise Unreachable("it was taken down")
        return self.knowledge

    async def _keep(self, one: Routed) -> bool:
        if self.postgres_down:
            raise Unreachable("it was taken down")
        self.kept.append(one)
        return True

    @staticmethod
    def _owns(channel: str, merchant: str) -> bool:
        return (channel == CHANNEL and merchant in {"shop", "other"}) or channel == f"simulator:{merchant}"

    # -- in place of Kafka and the worker

    async def put(self, records: Iterable[Any]) -> None:
        if self.broken:
            raise Unavailable("it was taken down")
        await asyncio.sleep(0)
        for record in records:
            command = _command.decode(record.value)
            assert record.key == command.order_id.encode()
            self.commands.append(command)
            if not self.silent:
                self.hear(command)

    def hear(self, event: Any) -> None:
        at = int(self.now.timestamp() * 1000)
        order, says = converge(self.orders.get(event.order_id), event, at, shipped())
        self.orders[event.order_id] = order
        for message in says:
            self.said.append(message)
            topic = "decisions" if isinstance(message, Decision) else "updates"
            self.verdicts.take(topic, codec.encode(message))
            if isinstance(message, Decision):
                self.decisions.append(message)
                self.books.take(message)

    def answer(self, payment: dict[str, Any], request: str, status: str, **more: Any) -> None:
        """What the channel answers about a payment, as it was shown."""
        self.hear(
            Answer(
                request=request,  # type: ignore[arg-type]
                order_id=payment["order_id"],
                payment_no=payment["payment_no"],
                channel=CHANNEL,
                status=status,
                merchant="shop",
                **more,
            )
        )

    # -- as a merchant

    async def post(self, path: str, body: Any = None, key: str = "", merchant: str = "shop", **headers: str) -> Any:
        sent = {**self.headers[merchant], **({"Idempotency-Key": key} if key else {}), **headers}
        return await self.client.post(f"/v1{path}", json=body, headers=sent)

    async def get(self, path: str, merchant: str = "shop") -> Any:
        return await self.client.get(f"/v1{path}", headers=self.headers[merchant])

    async def create(self, order: str = "order-1", key: str = "", merchant: str = "shop", **fields: Any) -> Any:
        return await self.post("/payments", new(order, **fields), key, merchant)

    async def paid(self, order: str = "order-1", amount: int = 1000) -> dict[str, Any]:
        """A payment of the shop that succeeded."""
        payment = (await self.create(order, amount=amount)).json()
        assert (await self.post(f"/payments/{payment['payment_no']}/start", {}, "start")).status_code == 200
        self.answer(payment, "query", "SUCCESS", transaction=f"t-{order}", amount=amount, currency="USD")
        return dict(payment)


def new(order: str = "order-1", **fields: Any) -> dict[str, Any]:
    """The body of a create."""
    plain = {"order_id": order, "biz_code": "SALE", "channel": CHANNEL, "amount": 1000, "currency": "USD"}
    return plain | fields
