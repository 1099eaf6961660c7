"""Fetches ranges from the source's brokers."""

from __future__ import annotations

import math
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Final

from kafka_ferry.batches import ConvertedBatch, left_out
from kafka_ferry.copy.source.cursor import Cursor, Cursors, Read, ReadRules
from kafka_ferry.copy.source.fetch_answers import FetchAnswers
from kafka_ferry.copy.source.fetch_pipeline import PendingRequests, SentFetch
from kafka_ferry.copy.source.read_replicas import ReadReplica, ReadReplicas
from kafka_ferry.copy.source.request_order import most_urgent, next_offsets
from kafka_ferry.errors import ClusterUnreachable, FerryError
from kafka_ferry.model.positions import Position
from kafka_ferry.model.ranges import Range, TopicPartition
from kafka_ferry.wire import Expected, PartitionLeader, WireCluster, send_fetch
from kafka_ferry.wire.error_codes import UNKNOWN_TOPIC_OR_PARTITION
from kafka_ferry.wire.partitions.absence import REMOTE_WAIT_MS
from kafka_ferry.wire.partitions.read_ahead import Depth, answer_bytes

# A topic that no broker knows for three seconds was not just created.
_MAX_UNKNOWN: Final = 6
# How soon a dropped range or a stopped reader is noticed.
_LONGEST_PAUSE_S: Final = 0.25
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
        rack: str,
        leaders: Mapping[TopicPartition, PartitionLeader],
    ) -> None:
        self.dropped: set[TopicPartition] = set()
        self._cluster = cluster
        self._rules = rules
        self._given = {tp: leader for tp, leader in leaders.items() if leader.node >= 0}
        self._replicas = ReadReplicas(rack)
        self._cursors = Cursors(starts, self._replicas, rules.wait_s)
        self._answers = FetchAnswers(aside, rules, self._cursors, self._replicas)
        self._pending = PendingRequests(cluster)
        self._depth = Depth()
        self._round_trips: dict[int, float] = {}
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
            for source in self.dropped & self._cursors.by_source.keys():
                del self._cursors.by_source[source]
            if not self._cursors.by_source:
                return
            self._ask()
            if not self._pending:
                stopped.wait(self._cursors.pause_s(_LONGEST_PAUSE_S))
            pause_s = min(self._cursors.pause_s(_LONGEST_PAUSE_S), _LONGEST_PAUSE_S)
            for sent in self._pending.take_answers(pause_s):
                began = time.monotonic()
                if reads := self._receive(sent):
                    yield reads
                    self._depth.took(time.monotonic() - began)
            for requests, why in self._pending.take_overdue():
                unanswered = [cursor for sent in requests for cursor in self._cursors_of(sent)]
                self._cursors.try_again(unanswered, why, began=requests[0].since)
            if jumps := self._jumps():
                yield jumps
            if failed := self._cursors.pop_failures():
                yield failed

    def _ask(self) -> None:
        """Send each broker as many requests as are to be in flight, for all that may be read from it."""
        now = time.monotonic()
        unended = self._cursors.by_source.values()
        ready = [cursor for cursor in unended if cursor.not_before <= now]
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

    def _jumps(self) -> list[Read]:
        """Skip in one step where a cursor is before many records that need not be read."""
        jumps = []
        for cursor in list(self._cursors.by_source.values()):
            # Only an answer says whether the log still is the one that was copied.
            converted = self._left_out_at(cursor) if cursor.begun else None
            if converted:
                jumps.append(Read(cursor.range, (converted,)))
                self._cursors.move(cursor, converted)
                if cursor.at >= cursor.range.end:
                    self._cursors.end(cursor)
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
                self._cursors.try_again(lost_sight, error.message, began=began)
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
            self._cursors.fail(cursor, message, transient=False)
        elif leader.topic_id and leader.topic_id != range_.topic_id:
            message = (
                f"the source's topic {range_.topic} was deleted and recreated since it was planned; "
                "the next run handles it."
            )
            self._cursors.fail(cursor, message, transient=False)
        elif leader.node >= 0:
            self._replicas.note_leader(range_.source, leader.node)
            cursor.newest_epoch = max(cursor.newest_epoch, leader.epoch)
        elif (
            leader.error == UNKNOWN_TOPIC_OR_PARTITION and cursor.transient_failures >= _MAX_UNKNOWN
        ):
            message = f"the source's topic {range_.topic} was deleted since it was planned."
            self._cursors.fail(cursor, message, transient=False)
        else:
            self._answers.judge_error(cursor, leader.error)

    def _send(
        self, replica: ReadReplica, offsets: Mapping[TopicPartition, int], began: float
    ) -> bool:
        """Ask a broker for partitions from offsets on; returns whether that could be sent.

        ``began`` is when the broker was first turned to for it, perhaps to open its connection.
        """
        cursors = [self._cursors.by_source[tp] for tp in offsets]
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
                    tp: Expected(cursor.range.topic_id) if tp in guessed else cursor.identity
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
        by_source = self._cursors.by_source
        cursors = [by_source[tp] for tp in sent.offsets if tp in by_source]
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
                known = self._cursors.by_source.get(fetched.partition)
                guess = sent.guess(fetched.partition)
                if known and (guess is None or known.is_continued_by(fetched, guess)):
                    batches = self._answers.judge(known, fetched, sent, room)
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
        self._cursors.try_again(cursors, error.message, began=began)
