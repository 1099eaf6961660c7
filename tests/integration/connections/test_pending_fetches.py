"""Readers that share a connection get their own answers, in whatever order they ask for them."""

from __future__ import annotations

import pytest

from kafka_ferry.batches.record_format.split import first_past
from kafka_ferry.errors import ClusterUnreachable
from kafka_ferry.model import TopicPartition
from kafka_ferry.wire import WireCluster
from kafka_ferry.wire.partitions.fetch import PendingFetch, send_fetch
from tests.support.records.builders import Record, produce
from tests.support.runs.pair import Pair


def first_of(pending: PendingFetch) -> tuple[TopicPartition, int]:
    """The partition of an answer, and its first offset."""
    (fetched,) = pending.answers()
    batch = first_past(fetched.records, 0)
    assert batch
    return fetched.partition, batch.header.base_offset


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (1, 3, 0, 2)])
def test_each_fetch_gets_its_own_answer(pair: Pair, order: tuple[int, ...]) -> None:
    topic = pair.topic("shared", partitions=2)
    for number in range(6):
        records = [Record(value=b"%d" % number, partition=partition) for partition in (0, 1)]
        produce(pair.primary.bootstrap, topic, records)
    places = [(TopicPartition(topic, number), offset) for number in (0, 1) for offset in (1, 4)]
    settings = {"bootstrap_servers": pair.primary.bootstrap.split(",")}
    with WireCluster("primary", settings) as cluster:
        node = cluster.leaders([tp for tp, _ in places])[places[0][0]].node
        pending = [
            send_fetch(cluster, node, {tp: offset}, max_bytes=1, partition_max_bytes=1, number=1)
            for tp, offset in places
        ]
        assert [first_of(pending[at]) for at in order] == [places[at] for at in order]

        lost = [
            send_fetch(cluster, node, dict([it]), max_bytes=1, partition_max_bytes=1)
            for it in places
        ]
        lost[0].connection.close()
        for one in reversed(lost):
            with pytest.raises(ClusterUnreachable):
                first_of(one)
