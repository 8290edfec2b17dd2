"""What an escaping exception means: the engine's one place that turns errors into a policy.

A client error says little about a transaction: whatever was raised, the transaction may have committed. So there are three
verdicts only. RETRY drops the producer and opens the partition again, which finds out. FENCED means that another worker owns the
partition: this process must stop before it does harm. FATAL means that opening again would not help, or would lose data.

aiokafka hides causes behind `AssertionError`, `IllegalOperation` and re-wrapped texts, and keeps some in its sender task and in
the transaction's waiter. The whole chain is looked at, and the worst finding wins.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

from aiokafka import errors as kafka

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Exit(enum.IntEnum):
    """Exit codes of a worker, for supervisors: each needs another reaction."""

    FENCED = 3
    STATE_UNKNOWN = 4
    TOPICS = 5
    MEMBERSHIP = 6
    SHUTDOWN_DEADLINE = 8


ADVICE: Final = {
    Exit.FENCED: "another worker owns the partition, or a transaction outlived its timeout; restart this worker, it will rejoin the group",
    Exit.STATE_UNKNOWN: "nothing was lost by stopping; read the reason, repair what it names, then restart",
    Exit.TOPICS: "run `concord topics create`, or `concord topics diff` to see what differs",
    Exit.MEMBERSHIP: "the consumer group refused this worker; check the group's name, its members and the topics' partition counts",
    Exit.SHUTDOWN_DEADLINE: "open transactions will be aborted by the next owner; restart when needed",
}


class Verdict(enum.Enum):
    RETRY = "retry"
    FENCED = "fenced"
    FATAL = "fatal"


class Fenced(Exception):  # noqa: N818  a verdict, named as Kafka names it
    """Another producer with our transactional id has begun."""


class Refused(Exception):  # noqa: N818  a verdict
    """The state of the partition cannot be known, or is known to be damaged. The text says which data, and what to do."""


class Stuck(Exception):  # noqa: N818  a verdict
    """A transaction was committed and is still not visible: its marker is late or lost. Opening again rolls it forward."""


FENCED: Final = (Fenced, kafka.ProducerFenced, kafka.InvalidProducerEpoch)
FATAL: Final = (
    Refused,
    kafka.MessageSizeTooLargeError,
    kafka.OffsetOutOfRangeError,
    kafka.TopicAuthorizationFailedError,
    kafka.GroupAuthorizationFailedError,
    kafka.ClusterAuthorizationFailedError,
    kafka.TransactionalIdAuthorizationFailed,
    kafka.SaslAuthenticationFailed,
)
RETRIABLE: Final = (
    Stuck,
    TimeoutError,
    ConnectionError,
    kafka.KafkaTimeoutError,
    kafka.KafkaConnectionError,
    kafka.KafkaUnavailableError,
    kafka.NoBrokersAvailable,
    kafka.NodeNotReadyError,
    kafka.ConcurrentTransactions,
    kafka.InvalidTxnState,
    kafka.InvalidProducerIdMapping,
    kafka.UnknownProducerId,
    kafka.OutOfOrderSequenceNumber,
    kafka.CorruptRecordException,
    kafka.ProducerClosed,
    kafka.ConsumerStoppedError,
    kafka.NotEnoughReplicasError,
    kafka.NotEnoughReplicasAfterAppendError,
    kafka.UnknownError,
)


def chain(error: BaseException) -> Iterator[BaseException]:
    """The error and everything that it was raised from, or while handling."""
    seen: set[int] = set()
    todo: list[BaseException | None] = [error]
    while todo:
        at = todo.pop()
        if at is None or id(at) in seen:
            continue
        seen.add(id(at))
        yield at
        todo += (at.__cause__, at.__context__)
        if isinstance(at, BaseExceptionGroup):
            todo += at.exceptions


def classify(error: BaseException, hidden: Iterable[BaseException] = ()) -> Verdict:
    """The verdict on an error; `hidden` are the errors that the producer keeps in its own tasks."""
    found = [cause for root in (error, *hidden) for cause in chain(root)]
    if any(isinstance(cause, FENCED) for cause in found):
        return Verdict.FENCED
    if any(isinstance(cause, FATAL) for cause in found):
        return Verdict.FATAL
    if any(
        isinstance(cause, RETRIABLE) or (isinstance(cause, kafka.KafkaError) and cause.retriable) for cause in found
    ):
        return Verdict.RETRY
    return Verdict.FATAL
