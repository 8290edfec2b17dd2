"""How connectors that run side by side share a channel account's concurrency: its contract's number is never exceeded in sum.

The leader of the consumer group knows how many members there are, so it tells each, with its partitions, its rank and their number.
An account that allows C requests at once gives every one of N members C // N, and one more to the first C % N. Members beyond the
smallest C get no partitions at all and stand by: with fewer requests allowed than connectors there is nothing to share out. All
members give up their partitions, and finish what is in flight, before the next shares begin. Two of one account's connectors must
be of one group, or each group takes the whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MOST: Final = 10_000
"""As much as a contract may allow."""


class Sharing(AbstractPartitionAssignor):  # type: ignore[misc]  # the client publishes no types
    """One member's assignor. `limit` is the smallest concurrency among its accounts; `rank` of `members` is its place, or it stands by."""

    name = "concord-connector"
    version = 0

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.rank = 0
        self.members = 0

    def share(self, concurrency: int) -> int:
        """This member's part of an account's concurrency; 0 while it stands by."""
        if not self.members:
            return 0
        return concurrency // self.members + (self.rank < concurrency % self.members)

    # -- as the client calls it

    def metadata(self, topics: Iterable[str]) -> Any:
        """What this member tells the leader."""
        return ConsumerProtocolMemberMetadata(self.version, list(topics), str(self.limit).encode())

    def assign(self, cluster: Any, members: Mapping[str, Any]) -> dict[str, Any]:
        """What the leader tells everybody."""
        topics = sorted({topic for member in members.values() for topic in member.subscription})
        partitions = {topic: sorted(cluster.partitions_for_topic(topic) or ()) for topic in topics}
        widest = max((len(numbers) for numbers in partitions.values()), default=0)
        limit = min((_limit(member.user_data) for member in members.values()), default=MOST)
        working = sorted(members)[: max(1, min(limit, widest))]
        told = {member: ConsumerProtocolMemberAssignment(self.version, [], b"") for member in members}
        for rank, member in enumerate(working):
            parts = [(topic, numbers[rank :: len(working)]) for topic, numbers in partitions.items()]
            told[member] = ConsumerProtocolMemberAssignment(self.version, parts, f"{rank}/{len(working)}".encode())
        return told

    def on_assignment(self, assignment: Any) -> None:
        """What this member was told."""
        rank, _, members = (assignment.user_data or b"").decode("ascii").partition("/")
        self.rank, self.members = (int(rank), int(members)) if members else (0, 0)


def _limit(told: bytes | None) -> int:
    text = (told or b"").decode("ascii", "replace")
    return int(text) if text.isascii() and text.isdigit() and int(text) else MOST
