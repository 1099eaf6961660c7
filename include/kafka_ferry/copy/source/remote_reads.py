"""How long a reader waits for records that only remote storage has."""

from __future__ import annotations

import time
from collections import defaultdict

from kafka_ferry.copy.source.cursor import Cursor
from kafka_ferry.retry import is_over
from kafka_ferry.wire import WireCluster
from kafka_ferry.wire.partitions.absence import LOCAL_FOR_S, REMOTE_PATIENCE
from kafka_ferry.wire.partitions.list_offsets import local_start, local_starts


class RemoteReads:
    """The time that partitions have whose brokers answer nothing while they read remote storage (KIP-405).

    Such a partition has ``REMOTE_PATIENCE`` times as long as another one. While its broker gives records of other
    partitions that were without an answer, its time does not run: a broker over its quota serves one after another.

    Args:
        aside: the source, for what must be asked while fetches are in flight.
        wait_s: how long a partition may give nothing otherwise, in seconds.
    """

    def __init__(self, aside: WireCluster, wait_s: float) -> None:
        self._aside, self._wait_s = aside, wait_s
        self._recovered_at: dict[int, float] = defaultdict(float)

    def note_recovery(self, cursor: Cursor, node: int) -> None:
        """A broker has given records of a partition: note it if it had none for a while."""
        if cursor.must_be_alone and cursor.transient_failures:
            self._recovered_at[node] = time.monotonic()

    def wait_s(self, cursor: Cursor, node: int) -> float:
        """How long a partition may have no answer by now, in seconds since ``cursor.failing_since``.

        Only a partition whose time is over is looked up, since that takes another request.

        Args:
            cursor: where it stands; its broker has answered nothing there.
            node: that broker, which leads the partition.
        """
        now = time.monotonic()
        since = _failing_since(cursor, now)
        if not is_over(now - since, self._wait_s):
            return self._wait_s
        if cursor.remote_to <= cursor.at:
            source = cursor.range.source
            cursor.remote_to = local_starts(self._aside, {source: node}).get(source, 0)
        if cursor.remote_to <= cursor.at:
            return self._wait_s
        return max(0.0, self._recovered_at[node] - since) + REMOTE_PATIENCE * self._wait_s

    def has_next(self, cursor: Cursor, node: int) -> bool:
        """Whether only remote storage has what comes next, by its broker, which is asked now and then.

        Raises:
            FerryError: if the broker does not say for now.
        """
        now = time.monotonic()
        if cursor.remote_to <= cursor.at and now - cursor.remote_asked_at >= LOCAL_FOR_S:
            cursor.remote_to = local_start(self._aside, node, cursor.range.source)
            cursor.remote_asked_at = now
        return cursor.remote_to > cursor.at

    def is_over(self, cursor: Cursor, node: int) -> bool:
        """Whether a partition has had no answer for as long as it may."""
        now = time.monotonic()
        return is_over(now - _failing_since(cursor, now), self.wait_s(cursor, node))


def _failing_since(cursor: Cursor, now: float) -> float:
    return cursor.failing_since if cursor.transient_failures else now
