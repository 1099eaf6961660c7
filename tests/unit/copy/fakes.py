"""What is outside of the copier: a source that counts offsets, a target in memory, a clock."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kafka_ferry.batches import ConvertedBatch, gap
from kafka_ferry.copy.source.cursor import Read
from kafka_ferry.model import Position, Range, TopicPartition
from kafka_ferry.model.results.failures import Failure
from kafka_ferry.model.waits import NO_WAITS, Waits

STEP = 10


class Clock:
    """Stands for the module ``time``: it moves only when code waits."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@dataclass
class FakeSource:
    """Gives each range in converted batches of ten offsets, all ranges in turn.

    Attributes:
        clock: moved on by a wait in vain.
        failures: ranges that fail, once their offset is reached.
        breaks: raised by the reads with these numbers, counted over all readers from 0.
        silent: reads with these numbers bring nothing before their time is over.
        stops_short: readers that end before their ranges do.
        at_once: how many converted batches come in one read.
    """

    clock: Clock = field(default_factory=Clock)
    failures: Mapping[TopicPartition, Failure] = field(default_factory=dict)
    breaks: Mapping[int, Exception] = field(default_factory=dict)
    silent: Iterable[int] = ()
    stops_short: bool = False
    at_once: int = 1
    readers: list[FakeReader] = field(default_factory=list)
    reads: int = 0

    def __call__(self, starts: Mapping[Range, Position]) -> FakeReader:
        reader = FakeReader(self, dict(starts))
        self.readers.append(reader)
        return reader

    @property
    def starts(self) -> list[dict[TopicPartition, int]]:
        """Where each reader was told to begin."""
        return [
            {range_.source: position.offset for range_, position in reader.starts.items()}
            for reader in self.readers
        ]


@dataclass
class FakeReader:
    source: FakeSource
    starts: dict[Range, Position]
    closed: bool = False
    round_trip_s: float = 0.0
    dropped: set[TopicPartition] = field(default_factory=set)
    timeouts: list[float] = field(default_factory=list)
    _turns: deque[tuple[Range, int]] = field(init=False)

    def __post_init__(self) -> None:
        self._turns = deque((range_, start.offset) for range_, start in self.starts.items())

    def next(self, timeout_s: float) -> Sequence[Read] | None:
        assert not self.closed
        number, self.source.reads = self.source.reads, self.source.reads + 1
        self.timeouts.append(timeout_s)
        if number in self.source.breaks:
            raise self.source.breaks[number]
        if number in self.source.silent:
            self.source.clock.now += max(timeout_s, 0)
            return ()
        while self._turns and self._turns[0][0].source in self.dropped:
            self._turns.popleft()
        if not self._turns or (self.source.stops_short and number):
            return None
        range_, at = self._turns.popleft()
        failure = self.source.failures.get(range_.source)
        if failure and at >= failure.offset:
            return [Read(range_, failure=failure)]
        converted_batches = []
        while at < range_.end and len(converted_batches) < self.source.at_once:
            end = min(at + STEP, range_.end)
            converted_batches.append(gap(at, end))
            at = end
        if at < range_.end:
            self._turns.append((range_, at))
        return [Read(range_, tuple(converted_batches))]

    def drop(self, source: TopicPartition) -> None:
        self.dropped.add(source)

    def close(self) -> None:
        self.closed = True


@dataclass
class FakeWriter:
    """Keeps offsets in memory: an offset is a byte.

    Attributes:
        positions: what is on the target, by source partition.
        refuses: from which offset on the target does not take a partition.
        not_taken: failures that are known as soon as the writer takes over.
        on_send: what the sends with these numbers, from 0, raise.
        on_commit: the same for commits.
        on_take_over: the same for take-overs.
        waiting: ranges that are set aside until they are tried again.
        commit_after: ``must_commit`` after so many converted batches, whatever the limits say.
    """

    positions: dict[TopicPartition, Position] = field(default_factory=dict)
    refuses: Mapping[TopicPartition, int] = field(default_factory=dict)
    not_taken: Mapping[TopicPartition, Failure] = field(default_factory=dict)
    on_send: Callable[[int], Exception | None] = lambda _: None
    on_commit: Callable[[int], Exception | None] = lambda _: None
    on_take_over: Callable[[int], Exception | None] = lambda _: None
    commit_after: int = 10**9
    waiting: set[TopicPartition] = field(default_factory=set)
    failures: dict[TopicPartition, Failure] = field(default_factory=dict)
    committed: dict[TopicPartition, list[tuple[int, int]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    commits: list[dict[TopicPartition, int]] = field(default_factory=list)
    waits: list[Waits] = field(default_factory=list)
    refreshed: dict[TopicPartition, Position] = field(default_factory=dict)
    taken_over: list[list[TopicPartition]] = field(default_factory=list)
    round_trip_s: float = 0.0
    _uncommitted: list[tuple[Range, ConvertedBatch]] = field(default_factory=list)
    _refreshing: dict[TopicPartition, Position] = field(default_factory=dict)
    _sends: int = 0
    _tried_commits: int = 0

    @property
    def uncommitted_bytes(self) -> int:
        return sum(converted.end - converted.start for _, converted in self._uncommitted)

    @property
    def must_commit(self) -> bool:
        return len(self._uncommitted) >= self.commit_after

    def take_over(self, ranges: Sequence[Range]) -> Mapping[TopicPartition, Position]:
        self.taken_over.append([range_.source for range_ in ranges])
        self.waiting -= {range_.source for range_ in ranges}
        _raise(self.on_take_over(len(self.taken_over) - 1))
        self._uncommitted.clear()
        self._refreshing.clear()
        self.failures |= self.not_taken
        asked = {range_.source for range_ in ranges}
        return {tp: position for tp, position in self.positions.items() if tp in asked}

    def write(self, range_: Range, converted: ConvertedBatch) -> None:
        if range_.source in self.failures:
            return
        if converted.end > self.refuses.get(range_.source, 2**63):
            self.failures[range_.source] = Failure.of(
                range_, converted.start, "the target refused it.", transient=False
            )
            return
        self._uncommitted.append((range_, converted))

    def send(self) -> None:
        number, self._sends = self._sends, self._sends + 1
        _raise(self.on_send(number))

    def refresh(self, range_: Range, position: Position) -> None:
        self._refreshing[range_.source] = position

    def commit(self, waits: Waits = NO_WAITS) -> Mapping[TopicPartition, int]:
        self.waits.append(waits)
        number, self._tried_commits = self._tried_commits, self._tried_commits + 1
        _raise(self.on_commit(number))
        moved = {}
        for range_, converted in self._uncommitted:
            self.committed[range_.source].append((converted.start, converted.end))
            self.positions[range_.source] = Position(converted.end, range_.topic_id)
            moved[range_.source] = converted.end
        self.refreshed |= self._refreshing
        self._uncommitted.clear()
        self._refreshing.clear()
        if moved:
            self.commits.append(moved)
        return moved

    def close(self) -> None:
        """Nothing to let go of."""

    def copied(self, source: TopicPartition) -> tuple[int, int] | None:
        """The interval that is on the target, each offset of it once and in order."""
        intervals = self.committed[source]
        ends = [end for _, end in intervals]
        assert [start for start, _ in intervals[1:]] == ends[:-1]
        return (intervals[0][0], ends[-1]) if intervals else None


def _raise(error: Exception | None) -> None:
    if error:
        raise error
