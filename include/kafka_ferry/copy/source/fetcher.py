"""Fetches ranges from the source's brokers, and interprets their answers."""

from __future__ import annotations

import math
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from types import MappingProxyType
from typing import Final

from kafka_ferry.batches import (
    ConvertedBatch,
    gap,
    left_out,
    lost_batch,
)
from kafka_ferry.batches.epochs import EpochEnd, branch_end
from kafka_ferry.clock import now_ms
from kafka_ferry.copy.source.cursor import Cursor, Read, ReadRules
from kafka_ferry.copy.source.fetch_pipeline import PendingRequests, SentFetch
from kafka_ferry.copy.source.read_replicas import ReadReplica, ReadReplicas
from kafka_ferry.copy.source.remote_reads import RemoteReads
from kafka_ferry.copy.source.request_order import most_urgent, next_offsets
from kafka_ferry.errors import ClusterUnreachable, FerryError
from kafka_ferry.model.positions import Position
from kafka_ferry.model.ranges import Range, TopicPartition
from kafka_ferry.model.results.failures import Failure
from kafka_ferry.plan.schedule.priority import waves
from kafka_ferry.retry import back_off_s, is_over
from kafka_ferry.wire import (
    Expected,
    Fetched,
    PartitionLeader,
    WireCluster,
    log_start,
    send_fetch,
)
from kafka_ferry.wire.error_codes import (
    NONE,
    OFFSET_OUT_OF_RANGE,
    UNKNOWN_TOPIC_OR_PARTITION,
    error_name,
    is_transient_read,
    read_fault,
)
from kafka_ferry.wire.partitions.absence import REMOTE_WAIT_MS, next_batch, silence
from kafka_ferry.wire.partitions.epochs import epoch_ends_on
from kafka_ferry.wire.partitions.lookahead import fates_after
from kafka_ferry.wire.partitions.read_ahead import Depth, answer_bytes

# A topic that no broker knows for three seconds was not just created.
_MAX_UNKNOWN: Final = 6
_LONGEST_BACK_OFF_S: Final = 1.0
# How soon a dropped range or a stopped reader is noticed.
_LONGEST_PAUSE_S: Final = 0.25
# Back-off ends at multiples of it: silent brokers that are connected to side by side take their time once.
_TOGETHER_S: Final = 0.1
_LEAST_SHARE: Final = 256 * 1024
_WAIT_MS: Final = 250
# Fewer offsets are read with their neighbours, rather than skipped with another request.
_JUMP_RECORDS: Final = 1_000


def _exact(cursors: Iterable[Cursor], guessed: Set[TopicPartition]) -> list[Cursor]:
    """The cursors that were not asked for ahead: a request's failure says something only about these."""
    return [cursor for cursor in cursors if cursor.range.source not in guessed]


def _wait_ms(cursor: Cursor) -> int:
    """How long a broker may wait before it answers, in milliseconds: longer for what it had nothing of."""
    is_silent = cursor.must_be_alone and cursor.transient_failures
    return REMOTE_WAIT_MS if is_silent else _WAIT_MS


class RangeFetcher:
    """Reads ranges from their given positions to their ends, from all brokers at once.

    Each broker has requests of its own in flight, so that a stalled broker blocks only its own
    partitions: one, or so many ahead that a distant one always has some to answer. Of several answers,
    one at a time is in memory.

    Args:
        cluster: the source, for this thread only.
        aside: the source again, for what must be asked while fetches are in flight.
        starts: the next offset to read of each range, and the leader epoch before it.
        rules: how to read.
        rack: where this process runs (``client.rack``), "" to read from leaders alone.
        leaders: those that were looked up just before, as far as they were.
    """

    def __init__(
        self,
        cluster: WireCluster,
        aside: WireCluster,
        starts: Mapping[Range, Position],
        rules: ReadRules,
        rack: str = "",
        leaders: Mapping[TopicPartition, PartitionLeader] = MappingProxyType({}),
    ) -> None:
        self.dropped: set[TopicPartition] = set()
        self._cluster = cluster
        self._aside = aside
        self._rules = rules
        turns = waves(starts, now_ms())
        self._cursors = {
            range_.source: Cursor(
                range_, position.offset, position.leader_epoch, wave=turns[range_.source]
            )
            for range_, position in starts.items()
        }
        self._given = {tp: leader for tp, leader in leaders.items() if leader.node >= 0}
        self._replicas = ReadReplicas(rack)
        self._pending = PendingRequests(cluster)
        self._depth = Depth()
        self._round_trips: dict[int, float] = {}
        self._failed: list[Read] = []
        self._remote_reads = RemoteReads(aside, rules.wait_s)
        # The brokers whose last request was for a partition that has to be alone.
        self._asked_alone: set[int] = set()

    @property
    def round_trip_s(self) -> float:
        """The least time that an answer of a broker took, in seconds; 0 where that is not known."""
        known = [seconds for seconds in self._round_trips.values() if math.isfinite(seconds)]
        return min(known, default=0.0)

    def responses(self, stopped: threading.Event) -> Iterator[list[Read]]:
        """The content of each response, until every range has ended or ``stopped`` is set."""
        while not stopped.is_set():
            for source in self.dropped & self._cursors.keys():
                del self._cursors[source]
            if not self._cursors:
                return
            self._ask()
            if not self._pending:
                stopped.wait(self._pause())
            for sent in self._pending.take_answers(min(self._pause(), _LONGEST_PAUSE_S)):
                began = time.monotonic()
                if reads := self._receive(sent):
                    yield reads
                    self._depth.took(time.monotonic() - began)
            for requests, why in self._pending.take_overdue():
                unanswered = [cursor for sent in requests for cursor in self._cursors_of(sent)]
                self._try_again(unanswered, why, began=requests[0].since)
            if jumps := self._jumps():
                yield jumps
            if self._failed:
                yield self._failed
                self._failed = []

    def _ask(self) -> None:
        """Send each broker as many requests as are to be in flight, for all that may be read from it."""
        now = time.monotonic()
        ready = [cursor for cursor in self._cursors.values() if cursor.not_before <= now]
        by_replica = self._by_replica(most_urgent(ready))
        asked_at = time.monotonic()
        self._cluster.open({broker.node for broker in by_replica})
        for replica, cursors in by_replica.items():
            round_trip_s = self._round_trips.get(replica.node, 0.0)
            wanted = self._depth.request_count(round_trip_s, len(by_replica))
            at_a_time = max(1, len(cursors) // wanted)
            while len(self._pending.of(replica.node)) < wanted:
                was_alone = replica.node in self._asked_alone
                offsets = next_offsets(cursors, at_a_time, was_alone=was_alone)
                if not offsets or not self._send(replica, offsets, asked_at):
                    break

    def _pause(self) -> float:
        """How long no request can be sent, in seconds."""
        now = time.monotonic()
        backing_off = (
            cursor.not_before - now for cursor in self._cursors.values() if cursor.not_before > now
        )
        return min(backing_off, default=_LONGEST_PAUSE_S)

    def _jumps(self) -> list[Read]:
        """Skip in one step where a cursor is before many records that need not be read."""
        jumps = []
        for cursor in list(self._cursors.values()):
            # Only an answer says whether the log still is the one that was copied.
            converted = self._left_out_at(cursor) if cursor.begun else None
            if converted:
                jumps.append(Read(cursor.range, (converted,)))
                self._move(cursor, converted)
                if cursor.at >= cursor.range.end:
                    del self._cursors[cursor.range.source]
        return jumps

    def _left_out_at(self, cursor: Cursor) -> ConvertedBatch | None:
        """The many records that the cursor stands before, if a filter leaves all of them out."""
        for batch_filter in self._rules.filters.get(cursor.range.source, ()):
            if absent := batch_filter.left_out_from(cursor.at):
                # The last batch is read: its leader epoch tells the next run that the log is still this one.
                absent = absent._replace(end=min(absent.end, cursor.range.end - 1))
                if absent.end - cursor.at >= _JUMP_RECORDS and batch_filter.is_sure(absent):
                    return left_out(absent)
        return None

    def _by_replica(self, cursors: Sequence[Cursor]) -> dict[ReadReplica, list[Cursor]]:
        """The cursors by whom to ask; unknown leaders are looked up first."""
        lost_sight = [cursor for cursor in cursors if cursor.range.source not in self._replicas]
        if lost_sight:
            began = time.monotonic()
            try:
                leaders = self._leaders_of([cursor.range.source for cursor in lost_sight])
            except ClusterUnreachable as error:
                leaders = {}
                self._try_again(lost_sight, error.message, began=began)
            for cursor in lost_sight:
                if leader := leaders.get(cursor.range.source):
                    self._meet(cursor, leader)
        by_replica: dict[ReadReplica, list[Cursor]] = defaultdict(list)
        for cursor in cursors:
            if cursor.range.source in self._replicas:
                by_replica[self._replicas.to_ask(cursor.range.source)].append(cursor)
        return by_replica

    def _leaders_of(
        self, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, PartitionLeader]:
        """The leaders that were given, if all have one there; each is taken once."""
        leaders = {tp: self._given.pop(tp) for tp in partitions if tp in self._given}
        if len(leaders) == len(partitions):
            return leaders
        return self._cluster.leaders(partitions)

    def _meet(self, cursor: Cursor, leader: PartitionLeader) -> None:
        range_ = cursor.range
        if leader.cluster_id and range_.origins and leader.cluster_id not in range_.origins:
            # Where brokers give topics no ids, nothing else tells another cluster's topic of the same name.
            message = (
                f"{self._cluster.alias} is the cluster {leader.cluster_id}, and was another one when the run was "
                "planned: look at its bootstrap.servers."
            )
            self._fail(cursor, message, transient=False)
        elif leader.topic_id and leader.topic_id != range_.topic_id:
            message = (
                f"the source's topic {range_.topic} was deleted and recreated since it was planned; "
                "the next run handles it."
            )
            self._fail(cursor, message, transient=False)
        elif leader.node >= 0:
            self._replicas.note_leader(range_.source, leader.node)
        elif (
            leader.error == UNKNOWN_TOPIC_OR_PARTITION and cursor.transient_failures >= _MAX_UNKNOWN
        ):
            message = f"the source's topic {range_.topic} was deleted since it was planned."
            self._fail(cursor, message, transient=False)
        else:
            self._judge_error(cursor, leader.error)

    def _send(
        self, replica: ReadReplica, offsets: Mapping[TopicPartition, int], began: float
    ) -> bool:
        """Ask a broker for partitions from offsets on; returns whether that could be sent.

        ``began`` is when the broker was first turned to for it, perhaps to open its connection.
        """
        cursors = [self._cursors[tp] for tp in offsets]
        guessed = {cursor.range.source for cursor in cursors if cursor.asked}
        # Each partition gets a share, so that the writer can fill its requests with many of them.
        size = answer_bytes(self._rules.max_bytes, self._round_trips.get(replica.node, 0.0))
        share = max(size // len(offsets), _LEAST_SHARE)
        try:
            fetch = send_fetch(
                self._cluster,
                replica.node,
                offsets,
                max_bytes=size,
                partition_max_bytes=share,
                max_wait_ms=max(map(_wait_ms, cursors)),
                # Which leader epoch comes before a guess is not known.
                expected={
                    tp: Expected(cursor.range.topic_id) if tp in guessed else cursor.expected
                    for tp, cursor in zip(offsets, cursors, strict=True)
                },
                committed=self._rules.committed,
                rack=replica.rack,
            )
        except FerryError as error:
            self._retry_or_raise(_exact(cursors, guessed), error, began)
            return False
        self._round_trips[replica.node] = fetch.connection.round_trip_s
        self._pending.add(SentFetch(fetch, offsets, share, guessed))
        is_alone = any(cursor.must_be_alone for cursor in cursors)
        (self._asked_alone.add if is_alone else self._asked_alone.discard)(replica.node)
        for cursor in cursors:
            cursor.asked += 1
            reach = cursor.reach.of(share)
            cursor.asked_to = offsets[cursor.range.source] + reach if reach else 0
        return True

    def _cursors_of(self, sent: SentFetch) -> list[Cursor]:
        """The cursors that a request was for, which now have one less in flight."""
        cursors = [self._cursors[tp] for tp in sent.offsets if tp in self._cursors]
        for cursor in cursors:
            cursor.asked -= 1
        return cursors

    def _receive(self, sent: SentFetch) -> list[Read]:
        reads = []
        room = self._rules.max_bytes
        cursors = self._cursors_of(sent)
        has_records = False
        try:
            for fetched in sent.fetch.answers():
                if has_records and fetched.is_empty:
                    continue  # No room was left for it (KIP-74): it is among the first next time.
                has_records = has_records or bool(fetched.records)
                known = self._cursors.get(fetched.partition)
                guess = sent.guess(fetched.partition)
                if known and (guess is None or known.is_continued_by(fetched, guess)):
                    batches = self._judge(known, fetched, sent, room)
                    known.learn(fetched, batches, sent.max_bytes)
                    reads.append(Read(known.range, batches))
                    room -= sum(
                        converted.batch.header.size for converted in batches if converted.batch
                    )
        except FerryError as error:
            self._retry_or_raise(_exact(cursors, sent.guessed), error, sent.since)
        return [read for read in reads if read.converted_batches]

    def _retry_or_raise(self, cursors: Sequence[Cursor], error: FerryError, began: float) -> None:
        if not error.transient:
            raise error
        self._try_again(cursors, error.message, began=began)

    def _judge(
        self, cursor: Cursor, fetched: Fetched, sent: SentFetch, room: int
    ) -> tuple[ConvertedBatch, ...]:
        """Convert the answer's batches from the cursor on, and move the cursor past them.

        Rebuilt batches may grow: once they exceed ``room``, the rest of the answer is fetched again.
        """
        malformed = ""
        batches: list[ConvertedBatch] = []
        source = cursor.range.source
        if fetched.preferred_replica >= 0:
            self._replicas.note_replica(source, fetched.preferred_replica)
        elif fetched.is_silent and self._replicas.leave(source):
            pass  # The leader is asked next.
        elif fetched.error == OFFSET_OUT_OF_RANGE:
            batches = self._judge_out_of_range(cursor, sent.fetch.node)
        elif fetched.error != NONE:
            self._judge_error(cursor, fetched.error)
        elif fetched.diverged_at is not None:
            self._judge_divergence(cursor, sent.fetch.node)
        elif cursor.at < cursor.range.end:
            batches, malformed = self._judge_batches(cursor, fetched, sent, room)
        if batches:
            self._remote_reads.note_recovery(cursor, sent.fetch.node)
            self._move(cursor, batches[-1])
        if malformed:
            self._fail(cursor, f"the source sent {malformed}.", transient=False)
        elif cursor.at >= cursor.range.end and fetched.error in (NONE, OFFSET_OUT_OF_RANGE):
            self._cursors.pop(source, None)
        return tuple(batches)

    def _judge_batches(
        self, cursor: Cursor, fetched: Fetched, sent: SentFetch, room: int
    ) -> tuple[list[ConvertedBatch], str]:
        """What an answer's batches become, and what is wrong with the first one that is malformed."""
        source = cursor.range.source
        if why := cursor.why_another_log(fetched):
            if not self._replicas.leave(source):
                why = f"{why}: was the topic deleted and recreated?"
                self._try_again([cursor], why)
            return [], ""
        node, topic_id = sent.fetch.node, cursor.range.topic_id
        look_ahead = partial(fates_after, self._aside, node, source, topic_id=topic_id)
        batches, malformed = cursor.convert(fetched, self._rules, room, look_ahead)
        if malformed and self._replicas.leave(source):
            malformed = ""
        elif not batches and not malformed and source not in sent.guessed:
            batches = self._judge_silence(cursor, fetched, node)
        return batches, malformed

    def _move(self, cursor: Cursor, last: ConvertedBatch) -> None:
        cursor.at, cursor.leader_epoch, cursor.begun = last.end, last.leader_epoch, True
        cursor.transient_failures, cursor.must_be_alone = 0, False
        # A partition with data goes to the end of the request, since brokers fill responses in order.
        self._cursors[cursor.range.source] = self._cursors.pop(cursor.range.source)

    def _judge_silence(self, cursor: Cursor, fetched: Fetched, node: int) -> list[ConvertedBatch]:
        """What an answer without batches proves (``absence.LogAnswers``): most often that it must be asked again."""
        source = cursor.range.source
        if not fetched.alone:
            # Another partition may have filled the response: only an answer for this one alone says so.
            cursor.must_be_alone = True
        elif fetched.end < cursor.range.end:
            self._try_again([cursor], f"the source's log ends at {fetched.end} for now")
        elif (
            following := next_batch(self._aside, node, source, cursor.at, cursor.expected)
        ).start > cursor.at:
            end = min(following.start, cursor.range.end)
            return [gap(cursor.at, end, following.leader_epoch)]
        else:
            wait_s = self._remote_reads.wait_s(cursor, node)
            why = silence(source, cursor.at, fetched.end, cursor.remote_to)
            self._try_again([cursor], why, wait_s)
        return []

    def _judge_out_of_range(self, cursor: Cursor, node: int) -> list[ConvertedBatch]:
        """Handle an offset that the broker does not have, or no longer has."""
        at, end = cursor.at, cursor.range.end
        first = log_start(self._aside, node, cursor.range.source)
        # A position may lie beyond the range of an earlier run that is copied again.
        if end <= at < first:
            return []
        if at >= first:
            message = (
                f"the source's log ends before offset {at}, up to which it was copied, or knows "
                f"nothing of leader epoch {cursor.leader_epoch}. Was there an unclean leader election?"
            )
            self._fail(cursor, message, transient=False)
        elif self._rules.skip_lost:
            return [lost_batch(at, min(first, end))]
        else:
            message = (
                f"offsets [{at}, {first}) were deleted on the source before they were copied. "
                "With on.source.truncation=continue copying continues after them."
            )
            self._fail(cursor, message, transient=False)
        return []

    def _judge_divergence(self, cursor: Cursor, node: int) -> None:
        """Handle a log that is not the one that was read up to the cursor."""
        source, at = cursor.range.source, cursor.at

        def end_of(epoch: int) -> EpochEnd | None:
            return epoch_ends_on(self._aside, {source: node}, {source: epoch}).get(source)

        # The ledger tells the epochs of what earlier tries copied, and nothing of what this one has read.
        diverged_at = None if cursor.begun else branch_end(self._rules.epochs(cursor.range), end_of)
        if self._rules.rewind and diverged_at is not None:
            cursor.at, cursor.leader_epoch, cursor.begun = min(diverged_at, at), -1, True
            return
        what = ""
        if diverged_at is not None and diverged_at < at:
            what = f": [{diverged_at}, {at}) is of a branch that the source has lost"
        message = (
            f"the source's log is not the one that was read up to offset {at}, of leader epoch "
            f"{cursor.leader_epoch} (an unclean leader election?){what}."
        )
        advice = "With on.source.divergence=continue the position is set back to where they part."
        transient = self._rules.rewind and cursor.begun
        self._fail(cursor, message, transient=transient, advice=advice)

    def _judge_error(self, cursor: Cursor, code: int) -> None:
        """Retry or give up, depending on ``code``."""
        self._replicas.forget(cursor.range.source)
        if is_transient_read(code):
            self._try_again([cursor], f"the source kept answering {error_name(code)}")
        else:
            source = cursor.range.source
            error = read_fault(code, f"Reading {source}", source.topic)
            self._fail(cursor, error.message, transient=False, advice=error.advice)

    def _try_again(
        self,
        cursors: Iterable[Cursor],
        why: str,
        wait_s: float | None = None,
        *,
        began: float | None = None,
    ) -> None:
        """Try again after a while, or give up after ``wait_s``; by default, after as long as the rules say.

        A request that was waited for has failed since it ``began``, any other since now.
        """
        now, wait_s = time.monotonic(), self._rules.wait_s if wait_s is None else wait_s
        for cursor in {cursor.range.source: cursor for cursor in cursors}.values():
            if not cursor.transient_failures:
                cursor.failing_since = now if began is None else began
            cursor.transient_failures += 1
            self._replicas.forget(cursor.range.source)
            if is_over(now - cursor.failing_since, wait_s):
                self._fail(cursor, f"{why.rstrip('.')}.", transient=True)
            else:
                until = now + back_off_s(cursor.transient_failures, _LONGEST_BACK_OFF_S)
                cursor.not_before = math.ceil(until / _TOGETHER_S) * _TOGETHER_S

    def _fail(self, cursor: Cursor, message: str, *, transient: bool, advice: str = "") -> None:
        self._cursors.pop(cursor.range.source, None)
        failure = Failure.of(cursor.range, cursor.at, message, transient, advice=advice)
        self._failed.append(Read(cursor.range, failure=failure))
