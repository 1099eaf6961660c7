"""Where the reading of ranges stands, and what their next batches become."""

from __future__ import annotations

import math
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kafka_ferry.batches import (
    AbortFilter,
    BatchFilter,
    ConvertedBatch,
    MalformedBatch,
    TopicLimits,
    TransactionFates,
    converted_batches,
)
from kafka_ferry.batches.epochs import UNKNOWN_EPOCH, EpochHistory
from kafka_ferry.clock import now_ms
from kafka_ferry.copy.source.read_replicas import ReadReplicas
from kafka_ferry.model.positions import Position
from kafka_ferry.model.ranges import Range, TopicPartition
from kafka_ferry.model.results.failures import Failure
from kafka_ferry.plan.schedule.priority import waves
from kafka_ferry.retry import RETRY_S, back_off_s, is_over
from kafka_ferry.wire import Expected, Fetched
from kafka_ferry.wire.partitions.read_ahead import Reach, first_epoch, joins

# A batch begins with the offset of its first record.
_OFFSET_BYTES: Final = 8
_LONGEST_BACK_OFF_S: Final = 1.0
# Back-off ends at multiples of it: silent brokers that are connected to side by side take their time once.
_TOGETHER_S: Final = 0.1
LookAhead = Callable[[int, Mapping[int, int]], Mapping[int, bool]]
"""See ``TransactionFates.decide``."""


@dataclass(frozen=True, slots=True)
class Read:
    """What was read of one range.

    Attributes:
        range: the range.
        converted_batches: what its next batches become, in order; they join what was read before.
        failure: why nothing more will come of it, if so.
        set_aside: by source offset, why a record in the converted batches goes to the dead letter topic.
    """

    range: Range
    converted_batches: tuple[ConvertedBatch, ...] = ()
    failure: Failure | None = None
    set_aside: Mapping[int, str] = field(default_factory=dict)

    def set_aside_by_epoch(self) -> dict[int, dict[int, str]]:
        """``set_aside``, by the leader epochs of the batches: another branch of the log has other records there."""
        by_epoch: dict[int, dict[int, str]] = {}
        starts = [converted.start for converted in self.converted_batches]
        for at, why in self.set_aside.items():
            # A later filter may have dropped the batch.
            if number := bisect_right(starts, at):
                epoch = self.converted_batches[number - 1].leader_epoch
                by_epoch.setdefault(epoch, {})[at] = why
        return by_epoch


@dataclass(frozen=True, slots=True)
class ReadRules:
    """How ranges are read.

    Attributes:
        max_bytes: soft bound of one fetch response, in bytes.
        wait_s: how long a partition may give nothing while leaders move and brokers restart.
        committed: whether only committed records are copied.
        skip_lost: go on at the log's start where records were deleted before they were copied.
        rewind: go back to where the source's log parts from the one that was copied.
        epochs: the leader epochs of what was copied of a range up to a position, for that.
        limits_by_topic: what each remote topic takes.
        filters: by source partition, what leaves records of it out.
    """

    max_bytes: int
    wait_s: float = RETRY_S
    committed: bool = True
    skip_lost: bool = False
    rewind: bool = False
    epochs: Callable[[Range], EpochHistory] = lambda _: EpochHistory()
    limits_by_topic: Mapping[str, TopicLimits] = field(default_factory=dict)
    filters: Mapping[TopicPartition, Sequence[BatchFilter]] = field(default_factory=dict)


@dataclass(slots=True)
class Cursor:
    """Where the reading of one range stands.

    Attributes:
        range: the range.
        at: the next source offset to account for.
        leader_epoch: of the last batch before it, -1 where none is known.
        newest_epoch: the newest one that its leader is known to have reached; -1 where none is known.
        begun: whether the broker has confirmed that the log is the one that was copied before.
        transient_failures: how many there were in a row.
        failing_since: when the first of them was, by the monotonic clock.
        not_before: when to ask again after one.
        asked: how many requests for it are in flight.
        asked_to: up to which offset the last of these reaches, most likely; 0 where nothing is known.
        must_be_alone: whether the next request has to be for it alone.
        wave: how urgent it is; the least comes first.
        fates: what is known of its producers' transactions.
        reach: how far answers about it reach.
        log_end: the furthest end that its log is known to have had.
        remote_to: where its log begins on its broker's own disk, if that was asked; else 0.
        remote_asked_at: when that was asked last, because the log seemed to lack offsets.
        skips_holes: whether what remote storage does not give is taken for lost, since it was waited for once.
    """

    range: Range
    at: int
    leader_epoch: int
    begun: bool = False
    transient_failures: int = 0
    failing_since: float = 0.0
    not_before: float = 0.0
    asked: int = 0
    asked_to: int = 0
    must_be_alone: bool = False
    wave: int = 0
    fates: TransactionFates = field(default_factory=TransactionFates)
    reach: Reach = field(default_factory=Reach)
    log_end: int = 0
    remote_to: int = 0
    remote_asked_at: float = -math.inf
    skips_holes: bool = False
    newest_epoch: int = UNKNOWN_EPOCH

    @property
    def identity(self) -> Expected:
        """The topic and the leader epoch that the partition must still have."""
        return Expected(self.range.topic_id, self.leader_epoch)

    @property
    def next_to_ask(self) -> int | None:
        """From where on to ask next: a guess while requests are in flight, None while there is none."""
        if not self.asked:
            return self.at
        return self.asked_to if 0 < self.asked_to < self.range.end else None

    def is_continued_by(self, fetched: Fetched, guess: int) -> bool:
        """Whether the answer for a guessed offset has what comes next, in the log that was read."""
        if guess > self.at:
            self.reach.forget()
            return False
        return joins(fetched, self.at, self.leader_epoch)

    def why_another_log(self, fetched: Fetched) -> str:
        """Why an answer seems to be of another topic of that name, "" if it does not.

        Only where topics have no ids (before Kafka 2.8): a log's end and its leader epochs never go back, but
        for a moment after its leader has changed, while the new one does not know how far it is replicated.
        """
        if self.range.topic_id:
            return ""
        known = max(self.log_end, self.range.end)
        if fetched.end < known:
            return f"the source's log ends at {fetched.end}, and it did at {known} before"
        self.log_end = fetched.end
        epoch = first_epoch(fetched.records, self.at)
        if epoch is not None and 0 <= epoch < self.leader_epoch:
            return f"the source's log has leader epoch {epoch} after {self.leader_epoch}"
        return ""

    def newer_branch(self, batches: Iterable[ConvertedBatch]) -> str:
        """Why a backfill's batches are of a branch that the flow's own runs copy, "" if they are not.

        An unclean leader election has replaced what lies below the flow's position; its next run sets that back.
        """
        newest = self.range.backfill.leader_epoch if self.range.backfill else -1
        epoch = max((it.leader_epoch for it in batches), default=-1)
        if epoch <= newest or newest < 0:
            return ""
        return (
            f"the source's log was replaced below the flow's position: it has leader epoch {epoch} there, and had at "
            f"most {newest} (an unclean leader election?)."
        )

    def learn(self, fetched: Fetched, results: Sequence[ConvertedBatch], max_bytes: int) -> None:
        """Note how far an answer has reached, whose batches became ``results``."""
        if results and fetched.records:
            first = int.from_bytes(fetched.records[:_OFFSET_BYTES], "big")
            largest = max(converted.end - converted.start for converted in results)
            self.reach.learn(self.at - first, largest, max_bytes)

    def convert(
        self, fetched: Fetched, rules: ReadRules, room: int, look_ahead: LookAhead
    ) -> tuple[list[ConvertedBatch], str]:
        """What an answer's batches become, up to one that is malformed, and what is wrong with that one.

        Batches that grow when they are rebuilt end it when they are more than ``room`` bytes.
        """
        topic_limits = rules.limits_by_topic.get(self.range.remote_topic, TopicLimits())
        filters = rules.filters.get(self.range.source, ())

        def convert(aborted: AbortFilter) -> tuple[list[ConvertedBatch], str]:
            batches, left = list[ConvertedBatch](), room
            try:
                for converted in converted_batches(
                    fetched.records, aborted, self.at, self.range.end, topic_limits, filters
                ):
                    batches.append(converted)
                    left -= converted.batch.header.size if converted.batch else 0
                    if left < 0:
                        break
            except MalformedBatch as error:
                return batches, str(error)
            return batches, ""

        if not rules.committed:
            return convert(AbortFilter(()))
        return self.fates.decide(fetched.aborted, convert, look_ahead)


class Cursors:
    """The cursors of one reader.

    Args:
        starts: the next offset to read of each range, and the leader epoch before it.
        replicas: whom to ask for each partition; what fails may have moved.
        wait_s: how long a partition may give nothing before its range fails.

    Attributes:
        by_source: those of the ranges that have not ended, by source partition.
    """

    def __init__(
        self, starts: Mapping[Range, Position], replicas: ReadReplicas, wait_s: float
    ) -> None:
        turns = waves(starts, now_ms())
        self.by_source = {
            range_.source: Cursor(
                range_, position.offset, position.leader_epoch, wave=turns[range_.source]
            )
            for range_, position in starts.items()
        }
        self._replicas, self._wait_s = replicas, wait_s
        self._failed: list[Read] = []

    def pop_failures(self) -> list[Read]:
        """The ranges that have failed since the last call."""
        failed, self._failed = self._failed, []
        return failed

    def end(self, cursor: Cursor) -> None:
        """Read no more of a range."""
        self.by_source.pop(cursor.range.source, None)

    def pause_s(self, longest_s: float) -> float:
        """Seconds until a cursor that backs off may be asked for again; ``longest_s`` where none does."""
        now = time.monotonic()
        backing_off = (
            cursor.not_before - now for cursor in self.by_source.values() if cursor.not_before > now
        )
        return min(backing_off, default=longest_s)

    def move(self, cursor: Cursor, last: ConvertedBatch) -> None:
        """Go on after a converted batch."""
        cursor.at, cursor.leader_epoch, cursor.begun = last.end, last.leader_epoch, True
        cursor.transient_failures, cursor.must_be_alone = 0, False
        # A partition with data goes to the end of the request, since brokers fill responses in order.
        self.by_source[cursor.range.source] = self.by_source.pop(cursor.range.source)

    def try_again(
        self,
        cursors: Iterable[Cursor],
        why: str,
        wait_s: float | None = None,
        *,
        began: float | None = None,
    ) -> None:
        """Try again after a while, or give up after ``wait_s``, by default the one of all ranges.

        A request that was waited for has failed since it ``began``, any other since now.
        """
        now, wait_s = time.monotonic(), self._wait_s if wait_s is None else wait_s
        for cursor in {cursor.range.source: cursor for cursor in cursors}.values():
            if not cursor.transient_failures:
                cursor.failing_since = now if began is None else began
            cursor.transient_failures += 1
            self._replicas.forget(cursor.range.source)
            if is_over(now - cursor.failing_since, wait_s):
                self.fail(cursor, f"{why.rstrip('.')}.", transient=True)
            else:
                until = now + back_off_s(cursor.transient_failures, _LONGEST_BACK_OFF_S)
                cursor.not_before = math.ceil(until / _TOGETHER_S) * _TOGETHER_S

    def fail(self, cursor: Cursor, message: str, *, transient: bool, advice: str = "") -> None:
        """Read no more of a range, and say why."""
        self.end(cursor)
        failure = Failure.of(cursor.range, cursor.at, message, transient, advice=advice)
        self._failed.append(Read(cursor.range, failure=failure))
