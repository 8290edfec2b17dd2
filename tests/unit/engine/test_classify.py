"""What an error means: the whole cause chain is looked at, and the worst finding wins."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka import errors as kafka

from streams.engine import failures
from streams.engine.failures import ADVICE, Exit, Fenced, Refused, Stuck, Verdict, chain, classify

FENCED = (Fenced, kafka.ProducerFenced, kafka.InvalidProducerEpoch)
RETRIABLE = (
    Stuck,
    TimeoutError,
    asyncio.TimeoutError,
    ConnectionError,
    ConnectionResetError,
    BrokenPipeError,
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
    # anything that the client itself calls retriable:
    kafka.LeaderNotAvailableError,
    kafka.NotLeaderForPartitionError,
    kafka.RequestTimedOutError,
    kafka.GroupLoadInProgressError,
    kafka.GroupCoordinatorNotAvailableError,
    kafka.NotCoordinatorForGroupError,
    kafka.UnknownTopicOrPartitionError,
    kafka.KafkaStorageError,
    kafka.StaleMetadata,
)
FATAL = (
    Refused,
    kafka.MessageSizeTooLargeError,
    kafka.RecordListTooLargeError,
    kafka.OffsetOutOfRangeError,
    kafka.TopicAuthorizationFailedError,
    kafka.GroupAuthorizationFailedError,
    kafka.ClusterAuthorizationFailedError,
    kafka.TransactionalIdAuthorizationFailed,
    kafka.SaslAuthenticationFailed,
    kafka.AuthenticationFailedError,
    kafka.UnsupportedSaslMechanismError,
    kafka.InvalidTransactionTimeout,
    kafka.IllegalStateError,
    kafka.KafkaError,
    AssertionError,
    KeyError,
    ValueError,
    ZeroDivisionError,
)


def wrapped(cause: BaseException, wrapper: BaseException) -> BaseException:
    """`wrapper` raised from `cause`."""
    try:
        raise wrapper from cause
    except type(wrapper) as error:
        return error


def while_handling(first: BaseException, then: BaseException) -> BaseException:
    """`then` raised in the handler of `first`, without saying so."""
    try:
        try:
            raise first
        except type(first):
            raise then  # noqa: B904  that is the case
    except type(then) as error:
        return error


@pytest.mark.parametrize("kind", FENCED, ids=lambda kind: kind.__name__)
def test_another_producers_beginning_is_fencing(kind):
    assert classify(kind()) is Verdict.FENCED


@pytest.mark.parametrize("kind", RETRIABLE, ids=lambda kind: kind.__name__)
def test_what_may_pass_is_tried_again(kind):
    assert classify(kind()) is Verdict.RETRY


@pytest.mark.parametrize("kind", FATAL, ids=lambda kind: kind.__name__)
def test_anything_else_is_fatal(kind):
    assert classify(kind()) is Verdict.FATAL


def test_no_class_is_in_two_lists():
    lists = failures.FENCED, failures.FATAL, failures.RETRIABLE
    named = [kind for each in lists for kind in each]
    assert len(named) == len(set(named))


@pytest.mark.parametrize("wrap", [wrapped, while_handling], ids=["cause", "context"])
class TestChain:
    @pytest.mark.parametrize("wrapper", [AssertionError(), kafka.IllegalStateError(), kafka.KafkaError("Unexpected")])
    def test_a_retriable_cause_is_found_behind_the_clients_wrappers(self, wrap, wrapper):
        assert classify(wrap(kafka.KafkaConnectionError(), wrapper)) is Verdict.RETRY

    def test_a_fencing_is_found_three_levels_down(self, wrap):
        error = wrap(kafka.ProducerFenced(), AssertionError())
        error = wrap(wrap(error, kafka.KafkaError("again")), TimeoutError())
        assert classify(error) is Verdict.FENCED

    def test_fatal_beats_retriable(self, wrap):
        assert classify(wrap(kafka.MessageSizeTooLargeError(), kafka.KafkaTimeoutError())) is Verdict.FATAL

    def test_fenced_beats_fatal(self, wrap):
        assert classify(wrap(Refused("no"), kafka.InvalidProducerEpoch())) is Verdict.FENCED


class TestHidden:
    """The client keeps the real cause in its sender task or in the transaction's waiter."""

    def test_a_hidden_fencing_decides(self):
        assert classify(TimeoutError(), [kafka.ProducerFenced()]) is Verdict.FENCED

    def test_a_hidden_error_makes_an_assertion_retriable(self):
        assert classify(AssertionError(), [kafka.KafkaConnectionError()]) is Verdict.RETRY

    def test_the_chain_of_a_hidden_error_counts_too(self):
        assert classify(AssertionError(), [wrapped(kafka.InvalidProducerEpoch(), RuntimeError())]) is Verdict.FENCED

    def test_nothing_hidden_leaves_the_error_as_it_is(self):
        assert classify(AssertionError(), []) is Verdict.FATAL


class TestGroups:
    def test_every_error_of_a_group_is_looked_at(self):
        group = ExceptionGroup("two", [TimeoutError(), ExceptionGroup("inner", [kafka.ProducerFenced()])])
        assert classify(group) is Verdict.FENCED

    def test_a_group_inside_a_chain_is_opened(self):
        assert classify(wrapped(ExceptionGroup("g", [ConnectionError()]), AssertionError())) is Verdict.RETRY


def test_a_circular_chain_ends():
    one, two = ValueError("one"), ValueError("two")
    one.__cause__, two.__cause__ = two, one
    assert list(chain(one)) == [one, two]
    assert classify(one) is Verdict.FATAL


def test_every_exit_code_is_distinct_from_pythons_own_and_has_advice():
    assert {int(code) for code in Exit}.isdisjoint({0, 1, 2})
    assert set(ADVICE) == set(Exit)
    assert (Exit.FENCED, Exit.STATE_UNKNOWN, Exit.MEMBERSHIP, Exit.SHUTDOWN_DEADLINE) == (3, 4, 6, 8)
