"""When a transaction counts as ended: once consumers see it, but for partitions that no broker leads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

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


@pytest.mark.parametrize(
    ("open_", "advice"), [({HERE: 3}, "ferry repair --topic"), ({}, "on.position.moved: ledger")]
)
def test_what_stays_open_with_an_unknown_end_is_named_with_the_way_out(
    open_: dict[TopicPartition, int], advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settlement, "_GRACE_S", 0.0)
    pending = GroupOffsets(0, {}, {HERE: UNSTABLE_OFFSET_COMMIT})
    seen = settlement._Seen(True, settlement._OpenParts(open_), pending)
    monkeypatch.setattr(Settlement, "_look", lambda *_: seen)
    with WireCluster("backup", {"bootstrap_servers": ["127.0.0.1:1"]}) as cluster:
        producer = TransactionalProducer(cluster, "ferry", timeout_ms=60_000)
        with pytest.raises(Unsettled) as raised:
            Settlement(cluster, cluster, producer, "group").settle(UNKNOWN, [HERE], [HERE])
    assert ("orders-0" if open_ else "the group group") in str(raised.value)
    assert advice in str(raised.value)
