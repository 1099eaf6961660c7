"""Fetches sent before the answers to earlier ones have come, so that distance costs no throughput.

A fetch needs an offset, and the next one is known only from the answer before it. Of a broker that is far
away offsets are guessed: an answer reaches about as far as those before it did. A guess that falls short is
read twice in part; one that goes too far is dropped, and its range is asked for again. What comes is only
believed where it joins what was read: at or before the next offset, and in the leader epoch of the batch
before that, which a log that was truncated meanwhile no longer has (KIP-101).
"""

from __future__ import annotations

import contextlib
import math
import time
from collections import deque
from collections.abc import Iterator
from typing import Final

from kafka_ferry.batches import MalformedBatch, split_batches
from kafka_ferry.batches.record_format.split import first_past
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.wire.cluster import WireCluster
from kafka_ferry.wire.partitions.fetch import Fetched, PendingFetch, fetch_one, send_fetch

# Batches are never all alike.
_MARGIN: Final = 0.95
_REMEMBERED: Final = 4
# Nearer brokers answer sooner than a guess would pay.
NEAR_S: Final = 0.005
# Half as many bytes from a broker less than half as far away: waiting takes no larger part of the time.
_NEXT_DOOR_S: Final = 0.002
_NEXT_DOOR_BYTES: Final = 4 * 1024 * 1024
# What one answer more would save, in answers.
_WORTH: Final = 0.1
# A connection of its own, so that others may ask the broker something meanwhile.
_CONNECTION: Final = 1
_LEAST_AHEAD: Final = 3
MOST_AHEAD: Final = 8
"""The most requests that are sent ahead."""


def answer_bytes(max_bytes: int, round_trip_s: float) -> int:
    """How much to ask a broker for at a time: next door more is there as soon as it is asked for.

    Args:
        max_bytes: the most, because it takes memory.
        round_trip_s: how long its answers take at least; 0 or infinite where that is not known.
    """
    return (
        max_bytes if _NEXT_DOOR_S <= round_trip_s < math.inf else min(max_bytes, _NEXT_DOOR_BYTES)
    )


class Reach:
    """How far answers about one partition have reached, to guess how far the next will."""

    def __init__(self) -> None:
        self._per_byte: deque[float] = deque(maxlen=_REMEMBERED)

    def learn(self, offsets: int, largest: int, max_bytes: int) -> None:
        """Note an answer of at most ``max_bytes``: the number of offsets in its batches, and the largest batch.

        The next one may begin within a batch, and gets all of that.
        """
        self._per_byte.append(max(0, offsets - largest) / max_bytes)

    def forget(self) -> None:
        """A guess went too far."""
        self._per_byte.clear()

    def of(self, max_bytes: int) -> int:
        """How many offsets the next answer has, most likely at least; 0 while nothing is known."""
        if not self._per_byte:
            return 0
        # One may have ended with a segment of the log, as each of them ends an answer.
        least, *rest = sorted(self._per_byte)
        return int((rest or [least])[0] * max_bytes * _MARGIN)


class Depth:
    """How many requests are to be in flight to one broker, by its distance and the reader's pace."""

    def __init__(self) -> None:
        self._busy_s = 0.0

    def took(self, seconds: float) -> None:
        """The reader has taken so long for an answer that was there, its writer's back-pressure included."""
        self._busy_s = (3 * self._busy_s + seconds) / 4 if self._busy_s else seconds

    def request_count(self, round_trip_s: float, brokers: int) -> int:
        """The number of requests in flight.

        Args:
            round_trip_s: how long the broker's answers take at least, 0 where that is not known.
            brokers: how many are read from in turn.
        """
        if round_trip_s < NEAR_S or not self._busy_s:
            return 1
        answers = round_trip_s / (self._busy_s * brokers)
        return 1 + math.ceil(min(MOST_AHEAD, max(0.0, answers - _WORTH)))


def joins(fetched: Fetched, at: int, leader_epoch: int) -> bool:
    """Whether an answer that was asked for at or before ``at`` has what comes next there, in the same log.

    Args:
        fetched: the answer.
        at: the next offset to read.
        leader_epoch: of the batch before it, -1 where it is not known.
    """
    if fetched.is_silent or fetched.preferred_replica >= 0:
        return False
    epoch = first_epoch(fetched.records, at)
    return epoch is not None and leader_epoch in (-1, epoch)


def first_epoch(records: bytes, at: int) -> int | None:
    """The leader epoch of the first batch with an offset of ``at`` or later, None where there is none."""
    with contextlib.suppress(MalformedBatch):
        batch = first_past(records, at)
        return batch.header.leader_epoch if batch else None
    return None


class AheadReader:
    """Reads one partition answer by answer, ahead where its broker is far away; must be closed.

    Args:
        cluster: the cluster.
        leader: the broker that leads the partition.
        partition: the partition.
        max_bytes: soft limit of an answer.
        committed: whether only committed batches are wanted (``read_committed``, KIP-98).
    """

    def __init__(
        self,
        cluster: WireCluster,
        leader: int,
        partition: TopicPartition,
        *,
        max_bytes: int,
        committed: bool,
    ) -> None:
        self._cluster, self._leader, self._partition = cluster, leader, partition
        self._max_bytes, self._committed = max_bytes, committed
        self._reach, self._depth = Reach(), Depth()
        self._in_flight: deque[tuple[int, PendingFetch]] = deque()
        self._epoch = -1
        self._given_at = math.inf

    def close(self) -> None:
        """Give up what is in flight."""
        for _, pending in self._in_flight:
            pending.connection.close()
        self._in_flight.clear()

    def fetch(self, at: int, max_wait_ms: int = 0) -> Fetched:
        """Wait for the answer from the offset ``at`` on, where the last one ended.

        Args:
            at: the offset.
            max_wait_ms: how long the broker may wait for remote storage.

        Raises:
            ClusterUnreachable: if the broker does not answer, or the log's start has moved past ``at``.
            FerryError: if the partition cannot be read.
        """
        now = time.monotonic()
        if now > self._given_at:
            self._depth.took(now - self._given_at)
        round_trip_s = self._cluster.connection(self._leader).round_trip_s
        asked_for = answer_bytes(self._max_bytes, round_trip_s)
        fetched = self._next(at) or fetch_one(
            self._cluster,
            self._leader,
            self._partition,
            at,
            max_bytes=asked_for,
            max_wait_ms=max_wait_ms,
            committed=self._committed,
        )
        if fetched.records and round_trip_s >= NEAR_S:
            # Most logs end before the reader's pace is known.
            self._send_ahead(
                fetched, asked_for, max(_LEAST_AHEAD, self._depth.request_count(round_trip_s, 1))
            )
        self._given_at = time.monotonic()
        return fetched

    @contextlib.contextmanager
    def elsewhere(self) -> Iterator[None]:
        """What the reader asks the broker in the body has nothing to do with its pace."""
        began = time.monotonic()
        yield
        self._given_at += time.monotonic() - began

    def _next(self, at: int) -> Fetched | None:
        while self._in_flight:
            guess, pending = self._in_flight.popleft()
            fetched = next(pending.answers(), None)
            if guess > at:
                self._reach.forget()
            elif fetched and joins(fetched, at, self._epoch):
                return fetched
        return None

    def _send_ahead(self, fetched: Fetched, asked_for: int, wanted: int) -> None:
        try:
            headers = [batch.header for batch in split_batches(fetched.records)]
        except MalformedBatch:
            return  # The reader's to tell.
        if not headers:
            return
        first, end, self._epoch = (
            headers[0].base_offset,
            headers[-1].next_offset,
            headers[-1].leader_epoch,
        )
        largest = max(header.next_offset - header.base_offset for header in headers)
        self._reach.learn(end - first, largest, asked_for)
        if end >= fetched.end:
            return
        guess = self._in_flight[-1][0] if self._in_flight else first
        while len(self._in_flight) < wanted and (step := self._reach.of(self._max_bytes)):
            guess += step
            if guess >= fetched.end:
                return
            pending = send_fetch(
                self._cluster,
                self._leader,
                {self._partition: guess},
                max_bytes=self._max_bytes,
                partition_max_bytes=self._max_bytes,
                max_wait_ms=0,
                committed=self._committed,
                number=_CONNECTION,
            )
            self._in_flight.append((guess, pending))
