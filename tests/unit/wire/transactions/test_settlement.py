"""When a transaction counts as ended: once consumers see it, but for partitions that no broker leads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast
from unittest.mock import ANY, Mock, call

import pytest

from kafka_ferry.model import TopicPartition
from kafka_ferry.wire import WireCluster
from kafka_ferry.wire.error_codes import UNSTABLE_OFFSET_COMMIT
from kafka_ferry.wire.transactions import settlement
from kafka_ferry.wire.transactions.committed_offsets import GroupOffsets
from kafka_ferry.wire.transactions.endings import Ending, TransactionOutcome
from kafka_ferry.wire.transactions.producer import TransactionalProducer
from kafka_ferry.wire.transactions.settlement import Settlement, Unsettled

COMMITTED = Ending(TransactionOutcome.COMMITTED)
UNKNOWN = Ending(TransactionOutcome.UNKNOWN)
HERE, LOST = TopicPartition("orders", 0), TopicPartition("orders", 1)


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Settles a commit on a cluster of which each look finds the next of ``looks``; counts them."""
    monkeypatch.setattr(settlement, "_GRACE_S", 0.0)
    with WireCluster("backup", {"bootstrap_servers": ["127.0.0.1:1"]}) as cluster:

        def settle(*looks: settlement._Seen) -> tuple[frozenset[TopicPartition], int]:
            left = list(looks)
            monkeypatch.setattr(Settlement, "_look", lambda *_: left.pop(0))
            producer = TransactionalProducer(cluster, "ferry", timeout_ms=60_000)
            found = Settlement(cluster, cluster, producer).settle(COMMITTED, [HERE, LOST], [])
            return found.leaderless, len(looks) - len(left)

        yield settle


def test_an_end_that_is_not_replicated_yet_is_waited_for(settled: Any) -> None:
    waiting, done = (settlement._Seen(replicated) for replicated in (False, True))
    assert settled(waiting, waiting, waiting, done) == (frozenset(), 4)


def test_a_partition_without_a_leader_is_not_waited_for(settled: Any) -> None:
    waiting = settlement._Seen(False, leaderless=frozenset({LOST}))
    left, looks = settled(waiting, waiting, waiting)
    assert left == {LOST}
    assert looks < 3


@pytest.mark.parametrize(
    ("open_", "advice"), [({HERE: 3}, "ferry repair --topic"), ({}, "on.position.moved: ledger")]
)
def test_what_stays_open_with_an_unknown_end_is_named_with_the_way_out(
    open_: dict[TopicPartition, int], advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settlement, "_GRACE_S", 0.0)
    pending = GroupOffsets(0, {}, {HERE: UNSTABLE_OFFSET_COMMIT})
    seen = settlement._Seen(True, open_, group=pending)
    monkeypatch.setattr(Settlement, "_look", lambda *_: seen)
    with WireCluster("backup", {"bootstrap_servers": ["127.0.0.1:1"]}) as cluster:
        producer = TransactionalProducer(cluster, "ferry", timeout_ms=60_000)
        with pytest.raises(Unsettled) as raised:
            Settlement(cluster, cluster, producer, "group").settle(UNKNOWN, [HERE], [HERE])
    assert ("orders-0" if open_ else "the group group") in str(raised.value)
    assert advice in str(raised.value)


@pytest.mark.parametrize("last", [TransactionOutcome.COMMITTED, TransactionOutcome.ABORTED])
def test_the_last_outcome_comes_first_and_each_commit_has_an_epoch_of_its_own(
    last: TransactionOutcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a task that dies in between leaves another outcome with the coordinator than that of the group's offsets."""
    other = (
        TransactionOutcome.ABORTED
        if last == TransactionOutcome.COMMITTED
        else TransactionOutcome.COMMITTED
    )
    outcomes = {HERE: last, LOST: other}
    monkeypatch.setattr(settlement, "_GRACE_S", 0.0)
    looks = [
        settlement._Seen(True, dict.fromkeys(open_, 3)) for open_ in ([HERE, LOST], [LOST], [])
    ]
    monkeypatch.setattr(Settlement, "_look", lambda *_: looks.pop(0))
    producer = Mock(spec=TransactionalProducer, is_mending=False, transactional_id="ferry")
    producer.start_mend.side_effect = lambda: setattr(producer, "is_mending", True)
    producer.start_over.side_effect = lambda: setattr(producer, "is_mending", False)

    Settlement(cast("WireCluster", None), cast("WireCluster", None), producer).settle(
        Ending(last), [HERE, LOST], [], lambda open_, _: {tp: outcomes[tp] for tp in open_}
    )

    commit = [call.start_mend(), call.add_partitions([ANY], ""), call.end(commit=True)]
    abort = [call.add_partitions([ANY], ""), call.end(commit=False)]
    before = [call.start_over()]
    is_commit = last == TransactionOutcome.COMMITTED
    assert producer.mock_calls == (
        commit + before + abort if is_commit else abort + commit + before
    )
    assert not producer.is_mending
