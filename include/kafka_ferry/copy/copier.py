"""Copies one writer's ranges from the source to the target: read, write, commit, again.

Promises:
(a) when ``copy_ranges`` returns, every range is at its end or has a failure that says why not;
(b) a failure of one range does not stop the others;
(c) the writer commits whenever its bounds in bytes and time are reached, so that committed
    consumers of the target never wait longer than that, however slow the copying is.
"""

from __future__ import annotations

import logging
import math
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Protocol

from kafka_ferry.batches import ConvertedBatch
from kafka_ferry.clock import now_ms
from kafka_ferry.copy.latency import RangeAges
from kafka_ferry.copy.outcome import Outcome
from kafka_ferry.copy.rate_limit import RateLimit
from kafka_ferry.copy.source.cursor import Read
from kafka_ferry.copy.source.reader import Reader
from kafka_ferry.copy.target.produce.pipeline import FAR_S
from kafka_ferry.copy.target.writer import StartOver, Writer
from kafka_ferry.errors import Fenced, FerryError
from kafka_ferry.model.positions import Position
from kafka_ferry.model.ranges import Range, TopicPartition
from kafka_ferry.model.results.failures import Failure
from kafka_ferry.model.waits import NO_WAITS, Waits
from kafka_ferry.retry import RETRY_S, back_off_s, is_over, limit_since

log = logging.getLogger(__name__)

# A transaction lasts at least this many times as long as its commit takes, which is long where the target is far away.
_LEAST_LASTING = 12
# The last answers, the ledger's record with the positions, the end, and a look at it.
_TRIPS_OF_A_COMMIT = 4
# Retries of the target follow after 0.1, 0.2, 0.4 ... s; each also waits for its coordinators.
_LONGEST_BACK_OFF_S = 2.0
# Tasks of one worker that follow within this many seconds share what is known of an outage.
_STILL_S = 5.0
_SOURCE, _TARGET, _LIMIT = "source", "target", "limit"


@dataclass(frozen=True, slots=True)
class Limits:
    """When to commit, which positions to accept, and how long to retry.

    Attributes:
        transaction_bytes: commit after so many bytes, or later where commits take long.
        transaction_ms: commit after so many milliseconds.
        append_recreated: whether a topic recreated on the source is appended to the old one's copy.
        rewind: whether a position beyond the range's end may be set back by the reader.
        wait_s: how long the target may accept nothing before unfinished ranges fail.
    """

    transaction_bytes: int
    transaction_ms: int
    append_recreated: bool = False
    rewind: bool = False
    wait_s: float = RETRY_S


@dataclass(slots=True)
class Outage:
    """A time in which the target accepts nothing, shared by copies that follow each other.

    The first one waits as long as it may; what begins right after it tries once.

    Attributes:
        since: when it began; None while the target accepts what it gets.
        gave_up_at: when a copy last gave up.
    """

    since: float | None = None
    gave_up_at: float = -math.inf

    def enter(self) -> None:
        """Begin to copy: an outage of long ago says nothing."""
        if time.monotonic() - self.gave_up_at > _STILL_S:
            self.since = None


class Source(Protocol):
    """Opens readers of the source."""

    def __call__(self, starts: Mapping[Range, Position]) -> Reader:
        """A reader of the ranges from the given positions to their ends."""


def copy_ranges(
    ranges: Sequence[Range],
    source: Source,
    writer: Writer,
    limits: Limits,
    rate: RateLimit | None = None,
    outage: Outage | None = None,
) -> list[Outcome]:
    """Copy ``ranges`` from their positions on the target, or else their starts, to their ends.

    Args:
        ranges: ranges of one writer, at most one of a partition.
        source: opens a reader of the source.
        writer: the writer that the ranges' target partitions belong to.
        limits: when to commit.
        rate: how fast to send; None for no limit.
        outage: that of copies before, and for those after it; None where none follow each other.

    Returns:
        An outcome for each range, in the order given.
    """
    began_at, outage = now_ms(), outage or Outage()
    outage.enter()
    copy = _Copy(ranges, source, writer, limits, rate or RateLimit(), outage, time.monotonic())
    copy.run()
    ended_at, waits = now_ms(), copy.waits()
    return [
        replace(outcome, began_at=began_at, ended_at=ended_at, waits=waits)
        for outcome in copy.outcomes()
    ]


@dataclass(slots=True)
class _Copy:
    ranges: Sequence[Range]
    source: Source
    writer: Writer
    limits: Limits
    rate: RateLimit
    outage: Outage
    began: float
    committed: dict[TopicPartition, int] = field(default_factory=dict)
    failures: dict[TopicPartition, Failure] = field(default_factory=dict)
    ages: dict[TopicPartition, RangeAges] = field(default_factory=lambda: defaultdict(RangeAges))
    done: set[TopicPartition] = field(default_factory=set)
    # Committed, by partitions that show it to consumers only when they have a leader again.
    hidden: set[TopicPartition] = field(default_factory=set)
    voids: int = 0
    # When the call of the writer began that is waited for, or that has failed.
    asked_at: float | None = None
    uncommitted_since: float | None = None
    commit_s: float = 0.0
    waited: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    source_round_trip_s: float = 0.0
    recorded: Waits = NO_WAITS

    def run(self) -> None:
        while turn := self._turn():
            try:
                self._copy(self._starts(turn))
                self.done |= {range_.source for range_ in turn} - self.hidden
            except StartOver as error:
                self._start_over(error, excludes=error.excludes)
            except FerryError as error:
                if error.transient:
                    self._start_over(error)
                else:
                    fenced = isinstance(error, Fenced)
                    self._fail_all(error.message, error.advice, transient=False, fenced=fenced)

    def _turn(self) -> list[Range]:
        """The ranges to copy next; those that are set aside for retry only when nothing else is left."""
        left = [range_ for range_ in self._pending_ranges() if range_.source not in self.done]
        return [range_ for range_ in left if range_.source not in self.writer.waiting] or left

    def _start_over(self, error: FerryError, *, excludes: bool = False) -> None:
        """Prepare a retry, or fail the unfinished ranges if retries have not helped for too long."""
        log.warning("Writing again from the last committed positions: %s", error)
        any_left = any(range_.source not in self.writer.waiting for range_ in self._turn())
        self.voids += not (excludes and any_left)
        now = time.monotonic()
        if not excludes:
            # What has failed may have kept its caller waiting for long.
            began = now if self.asked_at is None else self.asked_at
            self.outage.since = began if self.outage.since is None else self.outage.since
            if is_over(now - self.outage.since, self.limits.wait_s):
                self.outage.gave_up_at = now
                waited_s = now - self.outage.since
                message = f"gave up after {waited_s:.0f} s and {self.voids} tries: {error.message}"
                self._fail_all(message, error.advice, transient=True)
                return
        time.sleep(back_off_s(self.voids, _LONGEST_BACK_OFF_S))

    def outcomes(self) -> list[Outcome]:
        outcomes = []
        for range_ in self.ranges:
            position = self.committed.get(range_.source, range_.start)
            failure = self._failure(range_)
            if failure is None and position < range_.end:
                failure = Failure.of(
                    range_, position, "it ended early without a reason; please report this.", True
                )
            ages = self.ages[range_.source]
            outcomes.append(
                Outcome(range_, position, failure, read_ages=ages.read, stored_ages=ages.stored)
            )
        return outcomes

    def waits(self) -> Waits:
        """What was waited for so far."""
        return Waits(
            time.monotonic() - self.began,
            self.waited[_SOURCE],
            self.waited[_TARGET],
            self.waited[_LIMIT],
            self.source_round_trip_s,
            self.writer.round_trip_s,
        )

    @contextmanager
    def _count_wait(self, what: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            with self._ask_since() if what == _TARGET else nullcontext():
                yield
        finally:
            self.waited[what] += time.monotonic() - began

    @contextmanager
    def _ask_since(self) -> Iterator[None]:
        """Remember since when the writer is waited for, if it fails."""
        self.asked_at = time.monotonic()
        yield
        self.asked_at = None

    def _failure(self, range_: Range) -> Failure | None:
        return self.failures.get(range_.source) or self.writer.failures.get(range_.source)

    def _pending_ranges(self) -> list[Range]:
        return [range_ for range_ in self.ranges if range_.source not in self.failures]

    def _fail_all(
        self, message: str, advice: str, *, transient: bool, fenced: bool = False
    ) -> None:
        for range_ in self._pending_ranges():
            at = self.committed.get(range_.source, range_.start)
            is_there = at >= range_.end and range_.source in self.committed and len(range_) > 0
            if not is_there or range_.source in self.hidden:
                failure = Failure.of(range_, at, message, transient, fenced, advice)
                self.failures[range_.source] = failure
            else:
                self.done.add(range_.source)

    def _starts(self, pending: Sequence[Range]) -> dict[Range, Position]:
        """Where each range continues, once the writer has taken over."""
        self.uncommitted_since = None
        for ages in self.ages.values():
            ages.void()
        with self._count_wait(_TARGET), limit_since(self.outage.since):
            positions = self.writer.take_over(pending)
        self.hidden -= {range_.source for range_ in pending}
        starts = {}
        for range_ in pending:
            position = positions.get(range_.source)
            if position and position.topic_id not in ("", range_.topic_id):
                if message := self._why_not_appended(range_, position):
                    failure = Failure.of(range_, position.offset, message, transient=False)
                    self.failures[range_.source] = failure
                    continue
                position = None
            start = position or Position(range_.start, leader_epoch=range_.start_epoch)
            self.committed[range_.source] = start.offset
            if start.offset < range_.end or self._may_rewind(range_, start):
                starts[range_] = start
                if position is None and not range_.backfill:
                    # Whatever becomes of its first records: the next run may not begin after those that the source
                    # deletes until then.
                    self._record(range_, start, is_new=True)
            elif not len(range_) and range_.source not in self.writer.failures:
                self._record(range_, start, is_new=position is None)
            elif start.origin == "ledger" and range_.source not in self.writer.failures:
                # All of it was copied, and the group does not have its position any more.
                self.writer.refresh(range_, start)
        return starts

    def _why_not_appended(self, range_: Range, position: Position) -> str:
        """Why a range does not follow what was copied of another topic of that name; "" if it may."""
        why = f"the source's topic {range_.topic} was deleted and recreated since it was"
        if not self.limits.append_recreated:
            return f"{why} last copied."
        if position.topic_id != range_.replaces:
            # An old plan would set the position back, and the next run would copy all of the newest topic again.
            return f"{why} planned, and another run has copied on: the next run handles it."
        return ""

    def _record(self, range_: Range, start: Position, *, is_new: bool) -> None:
        """Commit where a range begins on the target."""
        if is_new:
            # In the ledger too: without an entry, the partition would start over.
            begin = ConvertedBatch(start.offset, start.offset, leader_epoch=start.leader_epoch)
            self.writer.write(range_, begin)
        else:
            self.writer.refresh(range_, start)

    def _may_rewind(self, range_: Range, start: Position) -> bool:
        return self.limits.rewind and len(range_) > 0 and start.leader_epoch >= 0

    def _copy(self, starts: Mapping[Range, Position]) -> None:
        reader = self.source(starts)
        try:
            while (reads := self._read(reader)) is not None:
                for read in reads:
                    self._take(read)
                with self._count_wait(_TARGET):
                    self.writer.send()
                for source in self.writer.failures:
                    reader.drop(source)
                if self._time_left() <= 0:
                    self._commit()
            self._commit()
        finally:
            reader.close()

    def _read(self, reader: Reader) -> Sequence[Read] | None:
        with self._count_wait(_SOURCE):
            reads = reader.next(self._time_left())
        self.source_round_trip_s = reader.round_trip_s
        return reads

    def _take(self, read: Read) -> None:
        if read.failure:
            self.failures[read.range.source] = read.failure
        for epoch, errors in read.set_aside_by_epoch().items() if read.set_aside else ():
            self.writer.set_aside(read.range, epoch, errors)
        ages = self.ages[read.range.source]
        ages.came(read.converted_batches)
        for converted in read.converted_batches:
            self._hold_back()
            if converted.batch:
                self.rate.spend(converted.batch.header)
            self.uncommitted_since = self.uncommitted_since or time.monotonic()
            ages.note_write(converted)
            with self._ask_since():
                self.writer.write(read.range, converted)
            if self._is_full() or self.writer.must_commit:
                self._commit()

    def _is_full(self) -> bool:
        """Whether the transaction has its bytes, and has lasted long enough to be worth its end."""
        if self.writer.uncommitted_bytes < self.limits.transaction_bytes:
            return False
        lasted = time.monotonic() - (self.uncommitted_since or 0.0)
        return lasted >= _LEAST_LASTING * (self.commit_s or self._first_commit_s)

    @property
    def _first_commit_s(self) -> float:
        """How long the first commit will take, where that is long."""
        round_trip_s = self.writer.round_trip_s
        return _TRIPS_OF_A_COMMIT * round_trip_s if round_trip_s >= FAR_S else 0.0

    def _hold_back(self) -> None:
        """Wait until the rate limit allows more, but not past the time of the next commit."""
        while (wait_s := self.rate.wait_s) > 0:
            with self._count_wait(_TARGET):
                self.writer.send()
            if self._time_left() <= 0:
                self._commit()
            with self._count_wait(_LIMIT):
                time.sleep(min(wait_s, max(self._time_left(), 0.001)))

    def _time_left(self) -> float:
        """Seconds until the writer must commit; a default while everything is committed."""
        if self.uncommitted_since is None:
            return 1.0
        return self.uncommitted_since + self.limits.transaction_ms / 1000 - time.monotonic()

    def _commit(self) -> None:
        began, waits = time.monotonic(), self.waits()
        with self._count_wait(_TARGET):
            committed = self.writer.commit(waits.since(self.recorded))
        if committed:
            self.commit_s = time.monotonic() - began
            self.recorded = waits
        self.committed.update(committed)
        self.hidden |= committed.keys() & self.writer.waiting
        for source in committed:
            self.ages[source].note_commit()
        self.uncommitted_since = self.outage.since = None
        self.voids = 0
