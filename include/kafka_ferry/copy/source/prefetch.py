"""Reads ranges from the source ahead of the writer, in a thread of its own.

While the writer waits for the target, the next response is already in flight. Memory stays
bounded: at most ``_AHEAD`` responses wait, and each is bounded by ``answer_bytes`` (or one batch).
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Final

from kafka_ferry.copy.source.cursor import Read, ReadRules
from kafka_ferry.copy.source.fetcher import RangeFetcher
from kafka_ferry.errors import FerryError
from kafka_ferry.model.positions import Position
from kafka_ferry.model.ranges import Range, TopicPartition
from kafka_ferry.retry import retry_for
from kafka_ferry.wire import PartitionLeader, borrow

_AHEAD: Final = 1


class SourceOpening:
    """Opens a connection for the first ``RangeReader`` of a source, and looks for leaders, in a thread.

    A task does this while its writer still starts. Where it fails, the reader says why.

    Args:
        alias: the source's alias.
        settings: kafka-python's configuration for it.
        ranges: what will be read.
        wait_s: how long, in seconds, brokers that do not answer are asked again.
    """

    def __init__(
        self, alias: str, settings: Mapping[str, object], ranges: Sequence[Range], wait_s: float
    ) -> None:
        self._alias, self._settings, self._wait_s = alias, settings, wait_s
        self._partitions = [range_.source for range_ in ranges if len(range_)]
        self._leaders: Mapping[TopicPartition, PartitionLeader] = {}
        self._thread = threading.Thread(target=self._open, name=f"open-{alias}", daemon=True)
        self._thread.start()

    def leaders(self) -> Mapping[TopicPartition, PartitionLeader]:
        """Wait for it; what it found, which is told once, since later it may no longer be true."""
        self._thread.join()
        leaders, self._leaders = self._leaders, {}
        return leaders

    def _open(self) -> None:
        if self._partitions:
            with (
                contextlib.suppress(FerryError),
                retry_for(self._wait_s),
                borrow(self._alias, self._settings) as cluster,
            ):
                self._leaders = cluster.leaders(self._partitions)


class RangeReader:
    """Reads ranges from their given positions to their ends, and then ends itself.

    Args:
        alias: the source's alias.
        settings: kafka-python's configuration for it.
        starts: the next offset to read of each range, and the leader epoch before it.
        rules: how to read.
        leaders: those of the ranges' partitions that were looked up just before.
    """

    def __init__(
        self,
        alias: str,
        settings: Mapping[str, object],
        starts: Mapping[Range, Position],
        rules: ReadRules,
        leaders: Mapping[TopicPartition, PartitionLeader],
    ) -> None:
        self._connections = ExitStack()
        # The second one has no connection as long as it is not needed.
        cluster, aside = (
            self._connections.enter_context(borrow(alias, settings)) for _ in range(2)
        )
        rack = str(settings.get("client_rack", ""))
        self._fetcher = RangeFetcher(cluster, aside, starts, rules, rack, leaders)
        self._wait_s = rules.wait_s
        self._read: queue.Queue[list[Read] | BaseException | None] = queue.Queue(_AHEAD)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"read-{alias}", daemon=True)
        self._thread.start()

    @property
    def round_trip_s(self) -> float:
        """The least time that an answer of a broker took, in seconds; 0 where that is not known."""
        return self._fetcher.round_trip_s

    def next(self, timeout_s: float) -> Sequence[Read] | None:
        """The next response; empty if none came in time, None when every range has ended.

        Raises:
            FerryError: if the source as a whole cannot be read.
        """
        try:
            item = self._read.get(timeout=max(timeout_s, 0.001))
        except queue.Empty:
            return ()
        if isinstance(item, BaseException):
            raise item
        return item

    def drop(self, source: TopicPartition) -> None:
        """Read no more of the partition."""
        self._fetcher.dropped.add(source)

    def close(self) -> None:
        """Stop reading."""
        self._stopped.set()
        with contextlib.suppress(queue.Empty):
            while True:
                self._read.get_nowait()
        self._thread.join()

    def _run(self) -> None:
        try:
            # A time of its own: what the writer's calls come to says nothing of the source.
            with retry_for(self._wait_s):
                for reads in self._fetcher.responses(self._stopped):
                    self._put(reads)
            self._put(None)
        except BaseException as error:
            self._put(error)
        finally:
            self._connections.close()

    def _put(self, item: list[Read] | BaseException | None) -> None:
        while not self._stopped.is_set():
            with contextlib.suppress(queue.Full):
                self._read.put(item, timeout=0.1)
                return
