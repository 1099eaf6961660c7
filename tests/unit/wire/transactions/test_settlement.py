"""When a transaction counts as ended: once consumers see it, but for partitions that no broker leads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kafka_ferry.model import TopicPartition
from kafka_ferry.wire import WireCluster
from kafka_ferry.wire.transactions import settlement
from kafka_ferry.wire.transactions.endings import Ending, TransactionOutcome
from kafka_ferry.wire.transactions.producer import TransactionalProducer
from kafka_ferry.wire.transactions.settlement import Settlement

COMMITTED = Ending(TransactionOutcome.COMMITTED)
HERE, LOST = TopicPartition("orders", 0), TopicPartition("orders", 1)
NOTHING_OPEN = settlement._OpenParts({})
SOME_LEADERLESS = settlement._OpenParts({}, frozenset({LOST}))


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
    waiting, done = (settlement._Seen(replicated, NOTHING_OPEN) for replicated in (False, True))
    assert settled(waiting, waiting, waiting, done) == (frozenset(), 4)


def test_a_partition_without_a_leader_is_not_waited_for(settled: Any) -> None:
    waiting = settlement._Seen(False, SOME_LEADERLESS)
    left, looks = settled(waiting, waiting, waiting)
    assert left == {LOST}
    assert looks < 3
