"""Which offset a log had at a time (KIP-79)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from kafka.protocol.consumer import ListOffsetsRequest

from kafka_ferry.batches import OPENED_AT_ONCE, each_record
from kafka_ferry.clock import moment_text
from kafka_ferry.errors import FerryError
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.wire.cluster import WireCluster
from kafka_ferry.wire.connections.questions import Question
from kafka_ferry.wire.error_codes import NONE, is_transient, read_fault
from kafka_ferry.wire.partitions.by_leader import ask_leaders
from kafka_ferry.wire.partitions.list_offsets import (
    EARLIEST,
    NEWEST,
    NEWEST_SINCE,
    offsets_question,
)
from kafka_ferry.wire.partitions.partition_log import PartitionLog, partition_log
from kafka_ferry.wire.partitions.scan import stored_batches

# Limits a request to so many partitions: a broker looks each time up in an index on disk.
_AT_ONCE: Final = 5_000
# So much of a log is read where its broker's answer is in doubt.
_MOST_BYTES: Final = 64 * 1024 * 1024


class Entry(NamedTuple):
    """The record that a lookup found: its offset, and its time in milliseconds since 1970."""

    offset: int
    timestamp: int


@dataclass(frozen=True, slots=True)
class LookedUp:
    """Brokers' answers to lookups of times; a partition whose leader moves is in neither.

    Attributes:
        entries: by partition, the first record at or after its time; None where all records are
            older.
        refused: by partition, why its broker gives no answer. Brokers open the batches around a time,
            and a damaged one only affects its own partition.
    """

    entries: dict[TopicPartition, Entry | None] = field(default_factory=dict)
    refused: dict[TopicPartition, FerryError] = field(default_factory=dict)


def offsets_at(
    cluster: WireCluster, nodes: Mapping[TopicPartition, int], times: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int | FerryError | None]:
    """The first offset of each partition with a timestamp at or after a time.

    Args:
        cluster: the cluster to ask.
        nodes: the broker that leads each partition.
        times: by partition, in milliseconds since 1970; a negative one, before 1970, is older than any record.

    Returns:
        The offset, None where all records are older, or why nothing says it; a partition whose leader moves is
        absent.

    Raises:
        ClusterUnreachable: if a broker does not answer, or not for every partition.
    """
    looked_up = look_up(cluster, nodes, times)
    offsets: dict[TopicPartition, int | FerryError | None] = dict(looked_up.refused)
    offsets |= {tp: entry.offset if entry else None for tp, entry in looked_up.entries.items()}
    without = {tp: times[tp] for tp, entry in looked_up.entries.items() if entry is None}
    for tp in _doubtful(cluster, nodes, without):
        try:
            offsets[tp] = _read_first(cluster, partition_log(cluster, tp), times[tp])
        except FerryError as error:
            offsets[tp] = error
    return offsets


def look_up(
    cluster: WireCluster, nodes: Mapping[TopicPartition, int], times: Mapping[TopicPartition, int]
) -> LookedUp:
    """The first record at or after a time in each partition, or why its broker gives none.

    Raises:
        ClusterUnreachable: as ``offsets_at``.
    """
    led = {tp: nodes[tp] for tp in times if tp in nodes}

    def question(node: int, some: list[TopicPartition]) -> Question[dict[TopicPartition, Any]]:
        # Negative times have meanings of their own there, and no record is older than the log's first.
        timestamps = {tp: times[tp] if times[tp] >= 0 else EARLIEST for tp in some}
        return offsets_question(cluster, node, timestamps)

    looked_up = LookedUp()
    for answers in ask_leaders(cluster, led, question, _AT_ONCE):
        for tp, entry in answers.items():
            code = entry.error_code
            if code == NONE:
                at = Entry(int(entry.offset), int(entry.timestamp))
                looked_up.entries[tp] = at if at.offset >= 0 else None
            elif not is_transient(code):
                doing = f"Looking a time up in {tp} on {cluster.alias}"
                looked_up.refused[tp] = read_fault(code, doing, tp.topic)
    return looked_up


def _doubtful(
    cluster: WireCluster, nodes: Mapping[TopicPartition, int], times: Mapping[TopicPartition, int]
) -> list[TopicPartition]:
    """Partitions whose newest record is not older than a time at or after which brokers have found none.

    A broker looks in the first segment that has had such a record. Where that lies before the log's start, it does
    not look in those after it, until the segment is deleted (``UnifiedLog.fetchOffsetByTimestamp``). Brokers before
    3.0 cannot be asked for the newest record.
    """
    led = {
        tp: nodes[tp]
        for tp in times
        if cluster.connection(nodes[tp]).offers(ListOffsetsRequest, version=NEWEST_SINCE)
    }

    def question(node: int, some: list[TopicPartition]) -> Question[dict[TopicPartition, Any]]:
        return offsets_question(cluster, node, dict.fromkeys(some, NEWEST))

    return [
        tp
        for answers in ask_leaders(cluster, led, question, _AT_ONCE)
        for tp, entry in answers.items()
        if entry.error_code != NONE or entry.timestamp >= times[tp]
    ]


def _read_first(cluster: WireCluster, log: PartitionLog, since: int) -> int | None:
    """What a lookup of ``since`` would give, by the log itself; like that, it takes any record.

    Raises:
        FerryError: the partition cannot be read, or has too many records before that one.
    """
    size = 0
    for batch in stored_batches(cluster, log, log.start, log.end):
        if batch.header.max_timestamp >= since:
            for offset, timestamp, *_ in each_record(batch, OPENED_AT_ONCE):
                if offset >= log.start and timestamp >= since:
                    return offset
        size += batch.header.size
        if size > _MOST_BYTES:
            raise FerryError(
                f"{cluster.alias} finds no record of {log.partition} at or after {moment_text(since)}, and has newer "
                "ones.",
                advice="Has DeleteRecords moved the log's start? Within log.retention.check.interval.ms, five minutes "
                "by default, brokers delete what lies before it, and answer again.",
            )
    return None
