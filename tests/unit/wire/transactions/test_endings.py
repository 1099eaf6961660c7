"""How a producer's last transaction ended, and that what goes on only to repeat a commit is committed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kafka_ferry.errors import BrokerError, ClusterUnreachable
from kafka_ferry.model import TopicPartition
from kafka_ferry.wire import WireCluster
from kafka_ferry.wire.transactions import endings
from kafka_ferry.wire.transactions.endings import Ending, TransactionOutcome, learn_ending
from kafka_ferry.wire.transactions.producer import TransactionalProducer, is_mend

COMMITTED, ABORTED, UNKNOWN = (
    TransactionOutcome.COMMITTED,
    TransactionOutcome.ABORTED,
    TransactionOutcome.UNKNOWN,
)
NOWHERE = cast("WireCluster", SimpleNamespace(alias="backup"))
WRITES, MENDS = 60_000, 59_999
FENCED, CONCURRENT = 90, 51


def state(name: str, timeout_ms: int, epoch: int = 1, topics: tuple[Any, ...] = ()) -> Any:
    return SimpleNamespace(
        transactional_id="ferry.a->b.0",
        transaction_state=name,
        transaction_timeout_ms=timeout_ms,
        producer_id=7,
        producer_epoch=epoch,
        topics=topics,
    )


@pytest.fixture
def learn(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Learns the ending where the coordinator describes ``states`` one after the other; with the epochs it commits."""

    def learn(*states: Any, code: int = 0) -> tuple[Ending, list[int]]:
        left, epochs = [*states], list[int]()

        def commit(_: WireCluster, of: Any) -> int:
            epochs.append(of.producer_epoch)
            return code

        monkeypatch.setattr(endings, "_state", lambda *_: left.pop(0))
        monkeypatch.setattr(endings, "_commit", commit)
        return learn_ending(NOWHERE, "ferry.a->b.0"), epochs

    return learn


@pytest.mark.parametrize(
    ("name", "timeout_ms", "outcome"),
    [
        ("Empty", WRITES, UNKNOWN),
        ("Ongoing", WRITES, ABORTED),
        ("PrepareCommit", WRITES, COMMITTED),
        ("CompleteCommit", WRITES, COMMITTED),
        ("CompleteAbort", WRITES, ABORTED),
        # Its producer has begun to mend, and its task died before it could.
        ("Empty", MENDS, COMMITTED),
        ("CompleteCommit", MENDS, COMMITTED),
    ],
)
def test_the_outcome_is_that_of_the_transaction_that_has_written(
    name: str, timeout_ms: int, outcome: TransactionOutcome, learn: Any
) -> None:
    assert learn(state(name, timeout_ms)) == (Ending(outcome), [])


def test_a_mend_that_no_writer_came_to_end_may_have_lost_positions(learn: Any) -> None:
    """The coordinator has aborted it after its time-out; what it has left open was to be committed still."""
    assert learn(state("CompleteAbort", MENDS)) == (Ending(COMMITTED, has_lost=True), [])


def test_nothing_is_known_of_a_producer_that_the_coordinator_does_not_know(learn: Any) -> None:
    assert learn(None) == (Ending(UNKNOWN), [])


def test_a_mend_that_goes_on_is_committed_in_its_own_epoch(learn: Any) -> None:
    topics = (SimpleNamespace(topic="orders", partitions=[1]),)
    after = state("PrepareCommit", MENDS, topics=topics)
    orders = frozenset({TopicPartition("orders", 1)})
    assert learn(state("Ongoing", MENDS, epoch=4), after) == (
        Ending(COMMITTED, orders, is_mended=True),
        [4],
    )


def test_a_mend_whose_task_lives_and_goes_on_to_write_is_left_to_it(learn: Any) -> None:
    """It has ended the mend itself: the commit was refused for its epoch, and what it writes now is not committed."""
    found, epochs = learn(
        state("Ongoing", MENDS, epoch=4), state("Ongoing", WRITES, epoch=5), code=FENCED
    )
    assert (found.outcome, epochs) == (ABORTED, [4])


def test_a_mend_that_cannot_be_committed_now_is_not_given_up(learn: Any) -> None:
    going_on = state("Ongoing", MENDS)
    with pytest.raises(BrokerError) as error:
        learn(going_on, going_on, code=CONCURRENT)
    assert error.value.transient


@pytest.mark.parametrize(
    ("longest_ms", "writes_ms", "mends_ms"),
    [(900_000, 65_000, 899_999), (65_000, 65_000, 64_999), (40_000, 32_500, 32_499)],
)
@pytest.mark.parametrize("timeout_ms", [65_000, 65_001])
def test_the_time_out_says_whether_a_producer_mends(
    longest_ms: int,
    writes_ms: int,
    mends_ms: int,
    timeout_ms: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A mend is given all the time that brokers allow by default, or as much as they allow."""
    taken = []

    def ask(_: TransactionalProducer, request: Any, *__: Any) -> Any:
        asked = request().transaction_timeout_ms
        if asked > longest_ms:
            raise BrokerError(
                "Too long.", code=50, name="INVALID_TRANSACTION_TIMEOUT", transient=False
            )
        taken.append(asked)
        return SimpleNamespace(producer_id=7, producer_epoch=len(taken))

    monkeypatch.setattr(TransactionalProducer, "_ask", ask)
    producer = TransactionalProducer(NOWHERE, "ferry.a->b.0", timeout_ms=timeout_ms)
    producer.start()
    producer.start_mend()
    assert producer.is_mending
    producer.start_over()
    assert not producer.is_mending

    assert taken == [writes_ms, mends_ms, writes_ms]
    assert [is_mend(ms) for ms in taken] == [False, True, False]


def test_a_mend_that_goes_on_however_often_it_is_ended_is_not_asked_about_for_ever(
    learn: Any,
) -> None:
    with pytest.raises(ClusterUnreachable, match="goes on, however often"):
        learn(*(state("Ongoing", MENDS, epoch=n) for n in range(100)))
