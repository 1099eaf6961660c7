"""The first record that a read_committed consumer gets from an offset on."""

from __future__ import annotations

from typing import Final

from kafka_ferry.batches import (
    OPENED_AT_ONCE,
    AbortFilter,
    Record,
    each_record,
    split_batches,
)
from kafka_ferry.batches.record_format.varint import decode_varint
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.wire.cluster import WireCluster
from kafka_ferry.wire.partitions.absence import LogAnswers
from kafka_ferry.wire.partitions.fetch import Fetched, corrupt_in, fetch_one
from kafka_ferry.wire.partitions.partition_log import leader_of

_LEAST_BYTES: Final = 1
_MOST_BYTES: Final = 16 * 1024 * 1024


def first_record(cluster: WireCluster, partition: TopicPartition, offset: int) -> Record | None:
    """The first committed record of a partition from ``offset`` on, None where there is none yet.

    One batch is enough, unless markers, gaps or aborted records come first.

    Raises:
        FerryError: if the partition cannot be read there.
    """
    with corrupt_in(partition, cluster.alias), cluster.forget_on_error():
        return _first_record(cluster, partition, offset)


def _first_record(cluster: WireCluster, partition: TopicPartition, offset: int) -> Record | None:
    leader = leader_of(cluster, partition, recent=True)
    at, size = offset, _LEAST_BYTES

    def ask(at: int, max_wait_ms: int) -> Fetched:
        return fetch_one(cluster, leader, partition, at, max_bytes=size, max_wait_ms=max_wait_ms)

    answers = LogAnswers(cluster, leader, partition, ask)
    while True:
        fetched, at = answers.at(at)
        if fetched.is_at_end(at):
            return None
        aborted = AbortFilter(fetched.aborted)
        for batch in split_batches(fetched.records):
            is_data = not (aborted.is_aborted(batch) or batch.header.is_control)
            is_wanted = is_data and batch.header.next_offset > at
            for record in each_record(batch, OPENED_AT_ONCE) if is_wanted else ():
                if record[0] >= offset:
                    return record
            at = max(at, batch.header.next_offset)
        size = min(size * 16, _MOST_BYTES)


def key_of(record: Record) -> bytes | None:
    """A record's key."""
    length, at = decode_varint(record[3], 0)
    return None if length < 0 else record[3][at : at + length]
