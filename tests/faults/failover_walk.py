"""A random walk of applications between two clusters, and a model of its own of what they have read.

Nothing here reads a ledger. The model knows which records each group has processed, and looks at the logs
as a consumer does: where a group continues, no record before its offset may be one that it has not
processed, and the records from there on must be new to it, as far as the docs promise.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka import TopicPartition as ConfluentPartition

from kafka_ferry.config import Flow
from kafka_ferry.groups.decisions import NOT_COPIED
from kafka_ferry.groups.outlook import GroupOutlook, Outlook
from kafka_ferry.groups.outlook_text import outlook_lines
from kafka_ferry.model import TopicPartition
from kafka_ferry.runs.failover.failback import failback
from kafka_ferry.runs.failover.failover import failover
from kafka_sandbox.cluster import KafkaCluster
from tests.support.records.groups import commit_alone, committed_alone

PARTITIONS: Final = 3
# Seldom written to: often nothing of it is copied.
_QUIET: Final = PARTITIONS - 1

Places = dict[TopicPartition, int]


class Logs:
    """What a ``read_committed`` consumer sees of some topics of a cluster, each record read once."""

    def __init__(self, broker: KafkaCluster, topics: list[str]) -> None:
        self.records: dict[TopicPartition, dict[int, str]] = {
            TopicPartition(topic, number): {} for topic in topics for number in range(PARTITIONS)
        }
        self._next: Places = dict.fromkeys(self.records, 0)
        self._consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap,
                "group.id": "walk",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 20,
                "isolation.level": "read_committed",
                "log_level": 0,
            }
        )

    def refresh(self) -> None:
        """Read what is new."""
        self._consumer.assign(
            [ConfluentPartition(tp.topic, tp.partition, at) for tp, at in self._next.items()]
        )
        left = set(self._next)
        while left:
            for message in self._consumer.consume(500, timeout=0.05):
                tp = TopicPartition(message.topic(), message.partition())
                if message.error() is None:
                    self.records[tp][message.offset()] = message.value().decode()
                    self._next[tp] = message.offset() + 1
                else:
                    assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                    self._next[tp] = max(self._next[tp], message.offset())
                    left.discard(tp)
        self._consumer.unassign()

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()


@dataclass
class Cluster:
    """One side of the walk.

    Attributes:
        name: A or B.
        broker: the cluster.
        topics: by the cluster where records are written, the topic here that has them.
        out: the flow to the other side.
        logs: what a consumer sees of its topics.
    """

    name: str
    broker: KafkaCluster
    topics: Mapping[str, str]
    out: Flow
    logs: Logs

    def __post_init__(self) -> None:
        settings = {"bootstrap.servers": self.broker.bootstrap, "log_level": 0}
        self.producer = Producer(settings | {"transactional.id": f"walk-{self.out.slug}"})
        self.producer.init_transactions()


@dataclass
class App:
    """An application: one group, on one cluster at a time.

    Attributes:
        group: its group.
        origins: the clusters whose records it reads.
        at: the cluster that it runs on.
        processed: how often it has processed each record.
        last_seen: the records before its offsets when a run last read them on that cluster; None if no
            run has since it came.
    """

    group: str
    origins: tuple[str, ...]
    at: Cluster
    processed: Counter[str] = field(default_factory=Counter)
    last_seen: set[str] | None = None

    def partitions(self, side: Cluster) -> list[TopicPartition]:
        """All that it reads on a cluster."""
        topics = sorted({side.topics[origin] for origin in self.origins})
        return [TopicPartition(topic, n) for topic in topics for n in range(PARTITIONS)]


class Walk:
    """The walk.

    Args:
        sides: both clusters, by name.
        apps: the applications.
        run: runs a flow, to its proof.
        chance: what decides everything.
    """

    def __init__(
        self,
        sides: Mapping[str, Cluster],
        apps: list[App],
        run: Callable[[Flow, str], None],
        chance: random.Random,
    ) -> None:
        self.story: list[str] = []
        self._sides, self._apps, self._run, self._chance = sides, apps, run, chance
        self._numbers, self._runs = count(), count()
        self._newest_run = ""
        self.again = 0

    def begin(self) -> None:
        """Some records on each side, each flow run, and each group with an offset in all partitions."""
        for side in self._sides.values():
            self._write(side)
        for name in ("A", "B", "A"):
            self._run(self._sides[name].out, f"first-{next(self._runs)}")
        for app in self._apps:
            commit_alone(app.at.broker, app.group, dict.fromkeys(app.partitions(app.at), 0))
        for side in self._sides.values():
            self._run_from(side)

    def round(self, number: int) -> None:
        """A few steps of writing, reading and copying, then some applications move.

        Raises:
            AssertionError: an application has lost a record, or reads one again without need.
        """
        self.story.append(f"--- round {number}")
        steps: list[Callable[[Cluster], None]] = [self._write, self._read, self._read]
        for _ in range(self._chance.randint(2, 6)):
            self._chance.choice(steps)(self._either())
        if self._chance.random() < 0.7:
            self._run_from(self._either())
        for step in self._chance.sample(steps, self._chance.randint(0, 2)):
            step(self._either())
        self._move(self._either())

    def end(self) -> None:
        """Close all clients."""
        for side in self._sides.values():
            side.logs.close()

    def _either(self) -> Cluster:
        return self._chance.choice(list(self._sides.values()))

    def _other(self, side: Cluster) -> Cluster:
        (other,) = (it for it in self._sides.values() if it is not side)
        return other

    def _write(self, side: Cluster) -> None:
        """Transactions of a producer, some of them aborted."""
        for _ in range(self._chance.randint(1, 2)):
            side.producer.begin_transaction()
            values = [
                f"{side.name}{next(self._numbers)}" for _ in range(self._chance.randint(1, 4))
            ]
            for value in values:
                number = self._chance.randrange(_QUIET)
                number = _QUIET if self._chance.random() < 0.03 else number
                side.producer.produce(side.topics[side.name], value.encode(), partition=number)
            # librdkafka may end what the broker has not seen begin: an error, fatal to the producer (its issue 4849).
            side.producer.flush()
            is_aborted = self._chance.random() < 0.15
            (side.producer.abort_transaction if is_aborted else side.producer.commit_transaction)()
            what = "aborts" if is_aborted else "writes"
            self.story.append(f"{side.name} {what} {' '.join(values)}")

    def _read(self, side: Cluster) -> None:
        """Each application there processes some records, and commits."""
        side.logs.refresh()
        for app in (app for app in self._apps if app.at is side):
            offsets = committed_alone(side.broker, app.group, app.partitions(side))
            for tp in app.partitions(side):
                assert tp in offsets, f"{app.group} has no offset of {tp} on {side.name}"
                unread = [(o, v) for o, v in side.logs.records[tp].items() if o >= offsets[tp]]
                for offset, value in unread[: self._chance.choice([0, 1, 2, 5, 50])]:
                    app.processed[value] += 1
                    self.again += app.processed[value] > 1
                    offsets[tp] = offset + 1
            commit_alone(side.broker, app.group, offsets)
            self.story.append(f"{app.group} reads on {side.name} to {_text(offsets)}")

    def _run_from(self, side: Cluster) -> None:
        name = f"run-{next(self._runs)}"
        self._run(side.out, name)
        self._newest_run = side.name
        for app in (app for app in self._apps if app.at is side):
            app.last_seen = self._before(app, side)
        self.story.append(f"{name}: {side.name} is copied to {self._other(side).name}")
        for app in self._apps:
            self._assert_nothing_lost(app)

    def _move(self, leaves: Cluster) -> None:
        """A failover or a failback of all applications on one side."""
        goes_to = self._other(leaves)
        moving = [app for app in self._apps if app.at is leaves]
        if not moving:
            return
        way = self._chance.choice(["failover", "source down", "failback"])
        if way == "failback" or any(app.last_seen is None for app in moving):
            self._run_from(leaves)
        read = {app.group: self._before(app, leaves) for app in moving}
        if way == "source down":
            read = {app.group: app.last_seen or set() for app in moving}
        names = [app.group for app in moving]
        if way == "failback":
            found = failback(goes_to.out, leaves.out, names)
        else:
            found = failover(leaves.out, names, source_down=way == "source down")
        self.story += [f"{way} from {leaves.name} to {goes_to.name}", *outlook_lines(found)]
        assert found.failures == ()
        goes_to.logs.refresh()
        leaves.logs.refresh()
        for app, group in self._reported(moving, found):
            if group.state == "stuck":
                self._assert_rightly_stuck(app, group, leaves)
                continue
            assert group.state == "ready", f"{app.group} is {group.state}"
            app.at, app.last_seen = goes_to, None
            self._assert_nothing_lost(app)
            # An offset of the application's own that is further ahead stays, whatever lies after it there; and of a
            # group that moves as one, all others with it.
            kept = {one.target for one in group.partitions if one.kind is None and one.target}
            self._assert_little_read_again(app, read[app.group], kept)

    def _reported(self, moving: list[App], found: Outlook) -> Iterator[tuple[App, GroupOutlook]]:
        groups = {group.name: group for group in found.groups}
        assert groups.keys() == {app.group for app in moving}, "a group is not in the report"
        for app in moving:
            yield app, groups[app.group]

    def _before(self, app: App, side: Cluster) -> set[str]:
        """The records before the group's offsets on a cluster: what it has read, as far as they say."""
        side.logs.refresh()
        offsets = committed_alone(side.broker, app.group, app.partitions(side))
        return {
            value
            for tp, end in offsets.items()
            for offset, value in side.logs.records[tp].items()
            if offset < end
        }

    def _assert_nothing_lost(self, app: App) -> None:
        app.at.logs.refresh()
        offsets = committed_alone(app.at.broker, app.group, app.partitions(app.at))
        for tp in app.partitions(app.at):
            assert tp in offsets, f"{app.group} has no offset of {tp} on {app.at.name}"
        lost = self._before(app, app.at) - app.processed.keys()
        assert not lost, f"{app.group} never gets {sorted(lost)} on {app.at.name}: {_text(offsets)}"

    def _assert_little_read_again(
        self, app: App, read: set[str], kept: AbstractSet[TopicPartition]
    ) -> None:
        """What it has read, as far as was known, comes again only after something that it has not read."""
        is_mixed = len(set(app.at.topics.values())) == 1
        if is_mixed and self._newest_run != app.at.name:
            # An offset that the opposite flow has not seen may be a record of an application.
            return
        offsets = committed_alone(app.at.broker, app.group, app.partitions(app.at))
        for tp, begin in offsets.items():
            if tp in kept:
                continue
            after = [v for o, v in sorted(app.at.logs.records[tp].items()) if o >= begin]
            again = [value for value in after if value in read]
            is_first = bool(after) and after[0] in read
            assert not again or (is_mixed and not is_first), (
                f"{app.group} reads {again} again in {tp} on {app.at.name} from {begin}: {after}"
            )

    def _assert_rightly_stuck(self, app: App, group: GroupOutlook, leaves: Cluster) -> None:
        """Only where a partition has records of which none is on the other side, or moves with such a one."""
        without = [one for one in group.partitions if one.offset is None]
        held = [one for one in without if "moves as one" not in one.reason]
        assert held, f"{app.group} is stuck: {group.reason}"
        for one in held:
            here = set(leaves.logs.records[one.source].values())
            assert one.target is not None
            there = set(self._other(leaves).logs.records[one.target].values())
            assert one.reason == NOT_COPIED, f"{app.group}: {one.reason}"
            assert here and not here & there, f"{app.group} is stuck: {group.reason}"


def _text(offsets: Places) -> str:
    return " ".join(f"{tp.topic[:12]}-{tp.partition}:{offset}" for tp, offset in offsets.items())
