"""MirrorMaker 2's own topics in tests: groups to tell of, and what became of them."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ConfluentPartition

from kafka_ferry.clock import now_ms
from kafka_ferry.config import Flow
from kafka_ferry.groups.mirrormaker2.connect_offsets import key_of, offsets_topic, value_of
from kafka_ferry.groups.mirrormaker2.record_formats import Checkpoint, Heartbeat, OffsetSync
from kafka_ferry.groups.moves import GroupMoves
from kafka_ferry.ledger import VerificationEntry, append_entry
from kafka_ferry.model import TopicPartition
from kafka_ferry.model.groups import Committed, Group
from kafka_ferry.runs.sync_groups.mm2_topics import emit
from kafka_ferry.runs.sync_groups.sync import translate_groups
from kafka_sandbox.cluster import KafkaCluster
from tests.support.records.builders import Record, create_topic, produce, read_all
from tests.support.runs.flows import ledger_of

Commits = Mapping[TopicPartition, int]


def commit(broker: KafkaCluster, group: str, offsets: Commits, metadata: str = "") -> None:
    """Commits offsets for a group without members."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    partitions = [
        ConfluentPartition(tp.topic, tp.partition, offset, metadata)
        for tp, offset in offsets.items()
    ]
    consumer.commit(offsets=partitions, asynchronous=False)
    consumer.close()


def positions_of_mirrormaker_2(
    target: KafkaCluster, flow: Flow, copied: Mapping[str, int | None]
) -> None:
    """Writes where MirrorMaker 2 would go on in partition 0 of each topic, None for a tombstone."""
    positions = offsets_topic(flow.source.alias)
    create_topic(target.bootstrap, positions, partitions=2, cleanup_policy="compact")
    records = [
        Record(key_of(TopicPartition(topic, 0), flow.source.alias), value_of(offset or 0))
        for topic, offset in copied.items()
    ]
    produce(target.bootstrap, positions, records)


def trust(flow: Flow) -> None:
    """Lets the ledger say that all that was copied is verified, without a look at it."""
    through = ledger_of(flow).next_offset
    entry = VerificationEntry(
        flow=flow.name, run="run", at=now_ms(), through=through, ranges=0, records=0
    )
    append_entry(flow, entry)


def moves_of(flow: Flow, groups: Mapping[str, Commits], metadata: str = "") -> GroupMoves:
    """The translations of what groups have committed on the source."""
    offsets = {
        Group(name): {tp: Committed(offset, metadata=metadata) for tp, offset in commits.items()}
        for name, commits in groups.items()
    }
    at = now_ms()
    return GroupMoves(at, translate_groups(flow, ledger_of(flow), offsets))


def emit_now(flow: Flow, moves: GroupMoves) -> list[str]:
    """Writes MirrorMaker 2's topics; gives what could not be written."""
    return emit(flow, ledger_of(flow), moves, run="run")[0]


def records_in(broker: KafkaCluster, topic: str) -> list[tuple[bytes, bytes]]:
    """Keys and values of a topic of one partition, none of them a tombstone."""
    (records,) = read_all(broker.bootstrap, topic).values()
    assert all(record.key and record.value for record in records)
    return [(record.key or b"", record.value or b"") for record in records]


def checkpoints_in(broker: KafkaCluster, topic: str) -> list[Checkpoint]:
    """All checkpoints in a topic."""
    return [Checkpoint.read(key, value) for key, value in records_in(broker, topic)]


def heartbeats_in(broker: KafkaCluster, topic: str, source_alias: str) -> list[Heartbeat]:
    """Heartbeats in a topic, but only those of flows from one cluster: tests share brokers."""
    found = [Heartbeat.read(key, value) for key, value in records_in(broker, topic)]
    return [heartbeat for heartbeat in found if heartbeat.source_alias == source_alias]


def offset_syncs_in(broker: KafkaCluster, topic: str) -> list[OffsetSync]:
    """All offset syncs in a topic."""
    return [OffsetSync.read(key, value) for key, value in records_in(broker, topic)]
