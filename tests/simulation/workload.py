"""The clusters, and what clients of the source write and read: all that is true, whatever the product believes."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from kafka_ferry.model.ranges import TopicPartition
from tests.simulation.brokers.cluster import SimCluster
from tests.simulation.brokers.coordinators import Committed
from tests.simulation.case import LARGEST, Case, TopicCase
from tests.simulation.rule import Fate, as_source, fates
from tests.simulation.world import BEGAN, World

GROUP: Final = "application"
Shown = dict[TopicPartition, list[tuple[int, bytes | None]]]
"""By partition, offsets and values."""

_KEYS: Final = 12
_GOES_ON: Final = 0.7
_ELECTIONS: Final = 0.1
# So many records an application reads that stays behind.
_FEW: Final = 3
# Of records, so many are too large for a target that has a limit; compressed, some of them are not.
_LARGE: Final = 0.1
LETTERS: Final = TopicPartition("ferry-dead-letter.primary.internal", 0)


@dataclass
class Workload:
    """Both clusters, and what was written to the source.

    Attributes:
        removed: values that retention or compaction took, on either side.
        order: by value, its partition, the how manieth it is, and its offset on the source.
        aborted: values of aborted transactions.
        replaced: when a partition of the source last lost its log's end to another branch.
        ended_again: values of transactions whose marker was lost, and when they have ended once more.
        returned: partitions of the source of which a lost branch came back: the target may hold it twice.
        read: values that the application has read on the source.
        read_at: when it has last read of a partition.
        committed: where it has gone on since, by partition.
        seen: what consumers of the source saw when runs began, by the moment.
        lost_marks: whether the ledger may no longer say that the flow has created its topics: of others, records
            before the first that it has copied are not its own.
        grown: how many partitions topics have got since they began.
        sends_again: whether a copy is recreated, with its dead letters.
        left_out: values that the flow's rule leaves out.
        trace: what happened.
    """

    case: Case
    removed: set[bytes | None] = field(default_factory=set)
    order: dict[bytes, tuple[TopicPartition, int, int]] = field(default_factory=dict)
    aborted: set[bytes] = field(default_factory=set)
    replaced: dict[TopicPartition, float] = field(default_factory=dict)
    ended_again: dict[bytes, float] = field(default_factory=dict)
    returned: set[TopicPartition] = field(default_factory=set)
    read: set[bytes] = field(default_factory=set)
    read_at: dict[TopicPartition, float] = field(default_factory=dict)
    committed: dict[TopicPartition, int] = field(default_factory=dict)
    seen: list[tuple[float, Shown]] = field(default_factory=list)
    lost_marks: bool = False
    grown: Counter[str] = field(default_factory=Counter)
    sends_again: bool = False
    left_out: set[bytes | None] = field(default_factory=set)
    trace: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        seed, case = self.case.seed, self.case
        self.world = World(seed)
        self.random = random.Random(f"records {seed}")
        self.source = SimCluster("primary", self.world, seed)
        self.target = SimCluster("backup", self.world, seed)
        self.source.distance_s, self.target.offset_bytes = case.distance_s, case.offset_bytes
        self.source.answer_bytes = self.target.answer_bytes = case.answer_bytes
        if case.rule:
            self.target.as_source = partial(as_source, is_replaced=case.rule_until > 0)
        self.written_at: dict[bytes, int] = {}
        self._begin("")

    def _begin(self, mark: str) -> None:
        """Begin to write to the source: values with such a mark."""
        self._mark, self._numbers = mark, 0
        self._producers: dict[tuple[TopicPartition, str, int], int] = {}
        self._open: dict[tuple[TopicPartition, int], set[bytes]] = {}

    def note(self, what: str) -> None:
        """Add a line to the trace."""
        self.trace.append(f"{self.world.now:9.3f} {what}")

    def wall_ms(self, moment: float) -> int:
        """A moment of the brokers' clocks."""
        return int((BEGAN + moment) * 1000)

    def data_topics(self, cluster: SimCluster) -> set[str]:
        """The topics on a cluster that hold the flow's data."""
        prefix = "" if cluster is self.source else self.prefix
        return {prefix + it.name for it in self.case.topics} & cluster.topics.keys()

    @property
    def prefix(self) -> str:
        """What the names of the target's topics begin with."""
        is_same = "replication.policy.class" in self.case.options
        return "" if is_same else f"{self.source.alias}."

    def forget_topic(self, cluster: SimCluster, name: str) -> None:
        """Note that a topic's records go."""
        self.sends_again = True
        is_gone = cluster is self.source or self.case.both_ways
        for log in cluster.topics[name].logs if is_gone else ():
            self.removed |= {value for _, value in log.shown()}

    def pairs(self) -> Iterator[tuple[TopicPartition, TopicPartition]]:
        """The partitions of the source, each with its own on the target."""
        for topic in self.case.topics:
            for number in range(self.partitions(topic)):
                yield (
                    TopicPartition(topic.name, number),
                    TopicPartition(f"{self.prefix}{topic.name}", number),
                )

    def partitions(self, topic: TopicCase) -> int:
        """How many partitions a topic has by now."""
        return topic.partitions + self.grown[topic.name]

    def is_compacted(self, topic: str) -> bool:
        """Whether a topic of the source compacts."""
        return any(it.compacted for it in self.case.topics if it.name == topic)

    def fates(self, value: bytes | None) -> set[Fate]:
        """What the flow's rules may make of a record."""
        is_replaced = self.case.rule_until > 0
        return fates(value, is_replaced=is_replaced) if self.case.rule else set()

    def letters(self) -> list[bytes | None]:
        """The values of the dead letter topic."""
        log = self.target.log(LETTERS)
        return [value for _, value in log.shown()] if log else []

    def shown_by_source(self) -> Shown:
        """What a consumer of the source sees now."""
        logs = {source: self.source.log(source) for source, _ in self.pairs()}
        return {source: log.shown() for source, log in logs.items() if log}

    def read_on(self) -> None:
        """Let an application read some of what is new on the source."""
        before = self.source.groups.offsets.get(GROUP, {})
        offsets = {}
        for tp, _ in self.pairs():
            if log := self.source.log(tp):
                least = max(before[tp].offset if tp in before else 0, log.start)
                if least > log.stable or self.random.random() < 0.3:
                    continue
                any_ = self.random.randint(least, log.stable)
                if self.case.reads_slowly:
                    any_ = min(any_, least + _FEW)
                at = self.random.choice((any_, any_ if self.case.reads_slowly else log.stable))
                self.read |= {
                    value
                    for value, it in self.order.items()
                    if it[0] == tp and it[2] < at and not self.case.both_ways
                }
                self.read |= {value or b"" for it, value in log.shown() if least <= it < at}
                self.read_at[tp] = self.world.now
                offsets[tp] = Committed(at, -1, "")
                self.committed[tp] = at
        self.source.groups.commit(GROUP, offsets)

    def expire_first(self) -> None:
        """Let retention take the first records of the source's logs."""
        for source, _ in self.pairs():
            if log := self.source.log(source):
                to = self.random.randint(0, log.stable)
                self.removed |= {value for offset, value in log.records() if offset < to}
                log.move_start(to)

    def write_some(self, run: int) -> None:
        if run >= self.case.quiet_from:
            return
        for topic in self.case.topics:
            for number in range(self.partitions(topic)):
                tp = TopicPartition(topic.name, number)
                left = self.random.randint(0, self.case.records)
                moment = self.world.now
                while left > 0:
                    count = min(left, self.random.randint(1, self.case.batch))
                    left -= count
                    if self.random.random() < 0.3:
                        moment += self.random.random()
                        self.world.at(moment, lambda tp=tp, count=count: self._write(tp, count))  # type: ignore[misc]
                    else:
                        self._write(tp, count)

    def write_up_to(self, tp: TopicPartition, end: int) -> None:
        """Let the source's clients go on until a log ends there, or a little later."""
        while (log := self.source.log(tp)) and log.end < end:
            self._write(tp, min(end - log.end, self.random.randint(1, self.case.batch)))

    def write_all_keys(self, tp: TopicPartition) -> None:
        """Write each key once more, in a batch, and one record after it."""
        self._write(tp, _KEYS, in_turn=True)
        self._write(tp, 1)

    def _write(self, tp: TopicPartition, count: int, *, in_turn: bool = False) -> None:
        log = self.source.log(tp)
        if log is None:
            return
        values = []
        for at in range(count):
            self._numbers += 1
            value = b"%s%s/%d" % (self._mark.encode(), str(tp).encode(), self._numbers)
            if self.case.letters and self.random.random() < _LARGE:
                value += b"+" * LARGEST
            values.append((b"k%d" % (at if in_turn else self.random.randrange(_KEYS)), value))
        codec = self.random.choice((0, 0, 1, 4))
        producer, is_open = None, False
        if self.random.random() < self.case.transactions:
            producer, is_open = self._producer(tp)
        state = None if producer is None else (producer, 0, log.next_sequence(producer))
        if self.case.producers and self.random.random() < _ELECTIONS:
            self.source.move_leader(tp)
        offsets = self.source.produce(tp, values, codec=codec, producer=state)
        first = self._numbers - count + 1
        for at, (offset, (_, value)) in enumerate(zip(offsets, values, strict=True)):
            self.order[value] = tp, first + at, offset
            self.written_at[value] = self.source.now_ms() + at
            if "left out" in self.fates(value):
                self.left_out.add(value)
        if producer is None:
            return
        written = {value for _, value in values}
        if is_open:
            self._open[tp, producer] |= written
            return
        commit = self.random.random() < 0.6
        again = self._open.get((tp, producer), set[bytes]())
        self._open[tp, producer] = written | again

        def end() -> None:
            values, now = self._open.pop((tp, producer)), self.source.log(tp)
            is_known = now is not None and producer in now.producers
            # A branch that leads again meanwhile may have others of its records.
            others = {it or b"" for it in now.open_records(producer)} if now and is_known else set()
            self.ended_again |= dict.fromkeys(again | (others - values), self.world.now)
            values |= others
            self.aborted -= values
            if not commit:
                self.aborted |= values
            if now and is_known:
                now.mark(
                    producer, 0, commit=commit, coordinator_epoch=0, now_ms=self.source.now_ms()
                )
            elif now:
                # Its records are gone with the log's end.
                self.removed |= values

        self.world.at(self.world.now + self.random.choice((0.0, 0.1, 30.0)), end)

    def _producer(self, tp: TopicPartition) -> tuple[int, bool]:
        """Whose transaction is next in a partition, and whether it goes on with one that is open."""
        log = self.source.log(tp)
        if not self.case.producers or log is None:
            return self.source.new_producer(), False
        # Of topics that were recreated they are not known.
        key = tp, self.source.topic_id(tp.topic), self.random.randrange(self.case.producers)
        producer = self._producers.setdefault(key, self.source.new_producer())
        is_open = log.producers[producer].open_from >= 0 if producer in log.producers else False
        if is_open and (tp, producer) not in self._open and self.random.random() < _GOES_ON:
            # The log's end is lost, with its transaction's marker: the next one ends that too, its own way.
            self._open[tp, producer] = {value or b"" for value in log.open_records(producer)}
            return producer, False
        if is_open != ((tp, producer) in self._open):
            # With the marker, or the transaction's begin.
            producer = self._producers[key] = self.source.new_producer()
            is_open = False
        return producer, is_open
