"""A simulated cluster: its brokers, topics, leaders and coordinators."""

from __future__ import annotations

import random
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from kafka_ferry.batches import for_producer, split_batches
from kafka_ferry.batches.record_format.content import Content
from kafka_ferry.batches.record_format.records import dense_batch
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.wire.partition_leader import topic_id_text
from tests.simulation.brokers.coordinators import Groups, Offsets, Transaction, Transactions
from tests.simulation.brokers.log import Log
from tests.simulation.world import World

NOT_LEADER: Final = 6
UNKNOWN_TOPIC: Final = 3
DEFAULTS: Final[Mapping[str, str]] = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "max.message.bytes": "1048588",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": "9223372036854775807",
    "message.timestamp.after.max.ms": "3600000",
    "min.insync.replicas": "1",
    "retention.ms": "604800000",
    "retention.bytes": "-1",
    "delete.retention.ms": "86400000",
    "segment.bytes": "1073741824",
    "segment.ms": "604800000",
    "remote.storage.enable": "false",
    "unclean.leader.election.enable": "false",
}


@dataclass
class Topic:
    """A topic: its id, its own configs, and a log for each partition."""

    id: uuid.UUID
    logs: list[Log]
    leaders: list[int]
    configs: dict[str, str] = field(default_factory=dict)

    def config(self, name: str) -> str:
        """A config's value in effect."""
        return self.configs.get(name, DEFAULTS[name])


class SimCluster:
    """A cluster of some brokers, all in sync.

    Args:
        alias: its name.
        world: the world.
        seed: decides ids and who leads what.

    Attributes:
        frozen: by broker, until when it answers nothing.
        leaderless: partitions that no broker leads, each until when; a group's positions are of the partition of its
            name.
        moves: how often a coordinator has moved.
        on_delete: called with the name of a topic that a client is about to delete.
        cut_off: old coordinators that know of no other one yet, until when, and the offsets that they have.
        isolated: brokers that hear nothing from the others, until when, and the logs that they led as they have them.
        answer_bytes: ``fetch.max.bytes``; 0 for all that is asked for.
        distance_s: how long a request takes at least.
        as_source: as of ``Log``.
        offset_bytes: ``max.message.bytes`` of the groups' topic.
    """

    def __init__(self, alias: str, world: World, seed: int, brokers: int = 2) -> None:
        self.alias = alias
        self.world = world
        self.random = random.Random(f"{alias}{seed}")
        self.id = f"cluster-{alias}"
        self.brokers = {node: (f"{alias}-{node}", 9092) for node in range(1, brokers + 1)}
        self.topics: dict[str, Topic] = {}
        self.transactions = Transactions(self)
        self.groups = Groups()
        self.groups.now = lambda: world.now
        self.frozen: dict[int, float] = {}
        self.leaderless: dict[TopicPartition, float] = {}
        self.skipped_markers: list[TopicPartition] = []
        self.moves: Counter[str] = Counter()
        self.on_delete: Callable[[str], None] = lambda _: None
        self.cut_off: dict[tuple[int, str], tuple[float, dict[str, Offsets] | None]] = {}
        self.isolated: dict[int, tuple[float, dict[TopicPartition, Log]]] = {}
        self.longest_transaction_ms = 900_000
        self.answer_bytes, self.distance_s, self.offset_bytes = 0, 0.0, 1_048_576
        self.as_source: Callable[[bytes | None], bytes | None] | None = None
        self._producers = 1000

    @property
    def bootstrap(self) -> str:
        """The bootstrap servers."""
        return ",".join(f"{host}:{port}" for host, port in self.brokers.values())

    def now_ms(self) -> int:
        """The time by the brokers' clocks."""
        return int((self.world.wall() - self.world.clock_off) * 1000)

    def new_producer(self) -> int:
        """A producer id that was never given before."""
        self._producers += 1
        return self._producers

    def create(
        self, name: str, partitions: int, configs: Mapping[str, str | None] | None = None
    ) -> Topic:
        """Create a topic."""
        nodes = [*self.brokers]
        topic = Topic(
            uuid.UUID(int=self.random.getrandbits(127) | 1),
            [Log(as_source=self.as_source) for _ in range(partitions)],
            [self.random.choice(nodes) for _ in range(partitions)],
            {key: value for key, value in (configs or {}).items() if value is not None},
        )
        self.topics[name] = topic
        return topic

    def grow(self, name: str, count: int) -> None:
        """Give a topic more partitions."""
        topic = self.topics[name]
        more = range(len(topic.logs), count)
        topic.logs += [Log(as_source=self.as_source) for _ in more]
        topic.leaders += [self.random.choice([*self.brokers]) for _ in more]

    def delete(self, name: str) -> None:
        """Delete a topic; the groups lose their offsets of it."""
        topic = self.topics.pop(name)
        for number in range(len(topic.logs)):
            for offsets in self.groups.offsets.values():
                offsets.pop(TopicPartition(name, number), None)

    def name_of(self, topic_id: uuid.UUID) -> str:
        """The name of a topic by its id; "" for none."""
        return next((name for name, it in self.topics.items() if it.id == topic_id), "")

    def topic_id(self, name: str) -> str:
        """A topic's id as Kafka prints it; "" for none."""
        return topic_id_text(self.topics[name].id) if name in self.topics else ""

    def log(self, tp: TopicPartition) -> Log | None:
        """A partition's log."""
        topic = self.topics.get(tp.topic)
        return topic.logs[tp.partition] if topic and tp.partition < len(topic.logs) else None

    def partitions(self) -> list[TopicPartition]:
        """All partitions."""
        return [
            TopicPartition(name, number)
            for name, topic in sorted(self.topics.items())
            for number in range(len(topic.logs))
        ]

    def leader(self, tp: TopicPartition) -> int:
        """The broker that leads a partition; -1 for none."""
        if self.leaderless.get(tp, 0.0) > self.world.now:
            return -1
        return self.topics[tp.topic].leaders[tp.partition]

    def lacks_leader(self, group: str) -> bool:
        """Whether no broker leads the partition with a group's offsets."""
        return self.leaderless.get(TopicPartition(group, -1), 0.0) > self.world.now

    def isolate(self, node: int, seconds: float) -> None:
        """Cut a broker off from the others, but not from clients: it hears nothing of the leaders that they elect."""
        if any(map(self.is_away, self.brokers)):
            # Of two, one has to be there.
            return
        led = {
            tp: it for tp in self.partitions() if self.leader(tp) == node and (it := self.log(tp))
        }
        self.isolated[node] = (
            self.world.now + seconds,
            {tp: log.as_now() for tp, log in led.items()},
        )
        for tp in led:
            self.move_leader(tp)

    def is_away(self, node: int) -> bool:
        """Whether a broker is none to the others: frozen, or cut off."""
        return bool(self.frozen.get(node)) or self.isolated.get(node, (0.0,))[0] > self.world.now

    def stale_log(self, node: int, tp: TopicPartition) -> Log | None:
        """The log that a broker which is cut off believes to lead, as it has it."""
        until, logs = self.isolated.get(node, (0.0, {}))
        return logs.get(tp) if until > self.world.now else None

    def led(self, node: int, tp: TopicPartition) -> Log | int:
        """The log, if that broker leads it, or believes so; else Kafka's error code."""
        if stale := self.stale_log(node, tp):
            return stale
        log = self.log(tp)
        if log is None:
            return UNKNOWN_TOPIC
        return log if self.leader(tp) == node else NOT_LEADER

    def move_leader(self, tp: TopicPartition, *, lose_from: int | None = None) -> None:
        """Let another broker lead a partition; unclean where it lacks the log from an offset on."""
        topic = self.topics[tp.topic]
        leader, now = topic.leaders[tp.partition], self.world.now
        fit = [it for it in self.brokers if self.isolated.get(it, (now,))[0] <= now]
        topic.leaders[tp.partition] = self.random.choice([it for it in fit if it != leader] or fit)
        topic.logs[tp.partition].elect(lose_from=lose_from)
        if lose_from is None:
            topic.logs[tp.partition].index_as_follower()

    def coordinator(self, key: str) -> int:
        """The node that coordinates a group or a transactional id."""
        nodes = sorted(self.brokers)
        return nodes[(sum(key.encode()) + self.moves[key]) % len(nodes)]

    def move_coordinator(self, key: str, stale_s: float) -> None:
        """Let another broker coordinate a group or a transactional id; the old one notices some seconds later."""
        before = self.coordinator(key)
        self.moves[key] += 1
        self.cut_off.pop((self.coordinator(key), key), None)
        if stale_s and key in self.groups.offsets:
            groups = {key: {**self.groups.offsets[key]}}
            self.cut_off[before, key] = self.world.now + stale_s, groups

    def stale_offsets(self, node: int, group: str) -> dict[str, Offsets] | None:
        """The offsets that a group's old coordinator still has; None where it knows that it is none."""
        until, offsets = self.cut_off.get((node, group), (0.0, None))
        return offsets if until > self.world.now else None

    def write_marker(
        self, tp: TopicPartition, transaction: Transaction, coordinator_epoch: int, *, commit: bool
    ) -> int:
        """Write a transaction's marker; none where no broker leads the partition, as Kafka does it."""
        log = self.log(tp)
        if log is None:
            return 0
        if self.leader(tp) < 0:
            self.skipped_markers.append(tp)
            return 0
        return log.mark(
            transaction.producer,
            transaction.epoch,
            commit=commit,
            coordinator_epoch=coordinator_epoch,
            now_ms=self.now_ms(),
        )

    # --- what other clients do

    def produce(
        self,
        tp: TopicPartition,
        values: Iterable[tuple[bytes | None, bytes | None]],
        *,
        codec: int = 0,
        producer: tuple[int, int, int] | None = None,
    ) -> list[int]:
        """Append records as one batch; gives their offsets.

        Args:
            tp: the partition.
            values: keys and values.
            codec: compresses them.
            producer: id, epoch and sequence where it is part of a transaction.
        """
        log, now = self.topics[tp.topic].logs[tp.partition], self.now_ms()
        records = [
            (at, now + at, b"\0", Content(key, value).encode())
            for at, (key, value) in enumerate(values)
        ]
        batch = dense_batch(records, codec)
        if producer:
            producer_id, epoch, sequence = producer
            encoded = for_producer(batch, producer_id=producer_id, epoch=epoch, sequence=sequence)
            (batch,) = split_batches(encoded)
        code, base = log.append(batch, now)
        assert not code, code
        return [base + at for at in range(len(records))]
