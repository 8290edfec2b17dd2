"""`rebuild`: the books once more from the topic of decisions, while the projector goes on writing the old ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from stores import offsets, projection, rebuilding
from streams.agents.feed import BeginningLostError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stores.offsets import Place
    from stores.schema import Connection
    from streams.agents.feed import Feed

BATCH: Final = 4000
WAIT_MS: Final = 100


class Rebuilt(NamedTuple):
    """How many records were read again, and how the books differed from what they say. `swapped`: the new ones are the books now."""

    records: int
    differences: list[str]
    swapped: bool


class Rebuild:
    """One rebuild. `books` and `look` are connections to the database, `shadow` one whose names are looked up in the shadow schema."""

    def __init__(
        self,
        feed: Feed,
        topic: str,
        *,
        books: Connection,
        look: Connection,
        shadow: Connection,
        tell: Callable[[str], None],
    ) -> None:
        self._feed, self._topic = feed, topic
        self._books, self._look, self._shadow = books, look, shadow
        self._tell = tell
        self._records = 0

    async def run(self, *, swap: bool = True) -> Rebuilt:
        """Write the shadow, compare, and take the place of the books. Raises `BeginningLostError` where the topic has lost its beginning.

        Differences do not keep it from swapping: what the topic says is what the books shall say.
        """
        await rebuilding.make(self._books)
        await self._begin(await rebuilding.live_offsets(self._books, self._topic))
        await self._follow(await rebuilding.live_offsets(self._books, self._topic))
        self._tell(f"{self._records} decisions written; comparing")
        async with rebuilding.snapshot(self._look):
            await self._follow(await rebuilding.live_offsets(self._look, self._topic))
            differences = await rebuilding.compare(self._look, self._shadow)
        if not swap:
            await rebuilding.drop(self._books)
            return Rebuilt(self._records, differences, swapped=False)
        await self._follow(await rebuilding.live_offsets(self._books, self._topic))
        async with rebuilding.swapping(self._books):
            await self._follow(await rebuilding.live_offsets(self._books, self._topic))
        await rebuilding.drop(self._books, rebuilding.FORMER)
        return Rebuilt(self._records, differences, swapped=True)

    async def _begin(self, live: Mapping[Place, int]) -> None:
        beginnings = await self._feed.beginnings(list(live))
        if lost := {place: first for place, first in beginnings.items() if first > 0}:
            place, first = min(lost.items())
            raise BeginningLostError(
                f"{place[0]}/{place[1]} begins at offset {first}: retention has deleted decisions that the books still hold, and a "
                "rebuild would forget them; restore the topic from its archive first, or keep the books"
            )
        await offsets.begin(self._shadow, beginnings)
        await self._feed.seek(beginnings, beginnings)

    async def _follow(self, until: Mapping[Place, int]) -> None:
        """Bring the shadow to these offsets, exactly. What was begun since is followed from its beginning."""
        if new := [place for place in until if place not in self._feed.next]:
            first = await self._feed.beginnings(new)
            await offsets.begin(self._shadow, first)
            at = {**self._feed.next, **first}
            await self._feed.seek(at, dict.fromkeys(at, 0))
        while any(offset < until.get(place, 0) for place, offset in self._feed.next.items()):
            batch = await self._feed.read(BATCH, WAIT_MS, until)
            if batch is not None:
                self._records += len(batch.told)
                await projection.write(self._shadow, batch)
