"""Reads ranges from the source ahead of the writer, in a thread of its own, and judges each batch.

While the writer waits for the target, the next response is already on its way. Memory stays
bounded: at most ``_AHEAD`` responses wait, and each is bounded by ``max_bytes`` (or one batch).
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kafka_ferry.batches import AbortFilter, MalformedBatch, Passage, gap, passages
from kafka_ferry.copy.writer import Failure
from kafka_ferry.errors import ClusterUnreachable, FerryError
from kafka_ferry.plan.ranges import Range, TopicPartition
from kafka_ferry.wire import Fetched, WireCluster, fetch, log_start
from kafka_ferry.wire.faults import NONE, OFFSET_OUT_OF_RANGE, error_name, fault, is_transient

_AHEAD: Final = 2
# Leaders move and brokers restart within seconds; after this many tries in a row the range fails.
_MAX_STUMBLES: Final = 12
_LONGEST_BACK_OFF_S: Final = 3.0
_LEAST_SHARE: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class Read:
    """What was read of one range.

    Attributes:
        range: the range.
        passages: what its next batches become, in order; they join what was read before.
        failure: why nothing more will come of it, if so.
    """

    range: Range
    passages: tuple[Passage, ...] = ()
    failure: Failure | None = None


@dataclass(slots=True)
class _Cursor:
    range: Range
    at: int
    stumbles: int = 0
    not_before: float = 0.0
    must_be_alone: bool = False


class RangeReader:
    """Reads ranges from their given offsets to their ends, and then ends itself.

    Args:
        alias: the source's alias.
        settings: kafka-python's configuration for it.
        starts: the next offset to read of each range.
        max_bytes: soft bound of one fetch response, in bytes.
    """

    def __init__(
        self,
        alias: str,
        settings: Mapping[str, object],
        starts: Mapping[Range, int],
        *,
        max_bytes: int,
    ) -> None:
        self._cluster = WireCluster(alias, settings)
        self._max_bytes = max_bytes
        self._cursors = {
            range_.source: _Cursor(range_, at) for range_, at in starts.items() if at < range_.end
        }
        self._leaders: dict[TopicPartition, int] = {}
        self._read: queue.Queue[list[Read] | BaseException | None] = queue.Queue(_AHEAD)
        self._failed: list[Read] = []
        self._dropped: set[TopicPartition] = set()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"read-{alias}", daemon=True)
        self._thread.start()

    def next(self, timeout_s: float) -> Sequence[Read] | None:
        """What came next; nothing if it did not come in time, None when every range has ended.

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

    def drop(self, range_: Range) -> None:
        """Read no more of ``range_``."""
        self._dropped.add(range_.source)

    def close(self) -> None:
        """Stop reading."""
        self._stopped.set()
        with contextlib.suppress(queue.Empty):
            while True:
                self._read.get_nowait()
        self._thread.join()

    def _run(self) -> None:
        try:
            for reads in self._responses():
                self._put(reads)
            self._put(None)
        except BaseException as error:
            self._put(error)
        finally:
            self._cluster.close()

    def _put(self, item: list[Read] | BaseException | None) -> None:
        while not self._stopped.is_set():
            with contextlib.suppress(queue.Full):
                self._read.put(item, timeout=0.1)
                return

    def _responses(self) -> Iterator[list[Read]]:
        while not self._stopped.is_set():
            for source in self._dropped & self._cursors.keys():
                del self._cursors[source]
            if not self._cursors:
                return
            now = time.monotonic()
            ready = [cursor for cursor in self._cursors.values() if cursor.not_before <= now]
            if not ready:
                self._stopped.wait(
                    min(cursor.not_before for cursor in self._cursors.values()) - now
                )
            for node, cursors in self._by_leader(ready).items():
                if reads := self._fetch(node, cursors):
                    yield reads
            if self._failed:
                yield self._failed
                self._failed = []

    def _by_leader(self, cursors: Sequence[_Cursor]) -> dict[int, list[_Cursor]]:
        """The cursors by the broker to ask; a leader that is not known (any more) is asked for first."""
        lost = [cursor for cursor in cursors if cursor.range.source not in self._leaders]
        if lost:
            try:
                leaders = self._cluster.leaders([cursor.range.source for cursor in lost])
            except ClusterUnreachable as error:
                leaders = {}
                self._stumble(lost, error.message)
            for cursor in lost:
                leader = leaders.get(cursor.range.source)
                if leader and leader.node >= 0:
                    self._leaders[cursor.range.source] = leader.node
                elif leader:
                    self._judge_error(cursor, leader.error)
        by_leader: dict[int, list[_Cursor]] = defaultdict(list)
        for cursor in cursors:
            if cursor.range.source in self._leaders:
                by_leader[self._leaders[cursor.range.source]].append(cursor)
        return by_leader

    def _fetch(self, node: int, cursors: Sequence[_Cursor]) -> list[Read]:
        asked = [cursor for cursor in cursors if cursor.must_be_alone][:1] or cursors
        reads = []
        try:
            for fetched in fetch(
                self._cluster,
                node,
                {cursor.range.source: cursor.at for cursor in asked},
                max_bytes=self._max_bytes,
                # Each gets its share, so that the writer can fill its requests with many of them.
                partition_max_bytes=max(self._max_bytes // len(asked), _LEAST_SHARE),
            ):
                reads.append(self._judge(self._cursors[fetched.partition], fetched, node))
        except FerryError as error:
            if not error.transient:
                raise
            self._stumble(asked, error.message)
        return [read for read in reads if read.passages]

    def _judge(self, cursor: _Cursor, fetched: Fetched, node: int) -> Read:
        if fetched.error != NONE:
            self._judge_error(cursor, fetched.error, node)
            return Read(cursor.range)
        found: list[Passage] = []
        malformed = None
        try:
            for passage in passages(
                fetched.records, AbortFilter(fetched.aborted), cursor.at, cursor.range.end
            ):
                found.append(passage)
        except MalformedBatch as error:
            malformed = str(error)
        if not found and not malformed:
            if not fetched.alone:
                # Another partition may have filled the response: only an answer to nobody else tells.
                cursor.must_be_alone = True
            elif not fetched.records and fetched.stable_end >= cursor.range.end:
                found.append(gap(cursor.at, cursor.range.end))
            else:
                self._stumble([cursor], f"the source's log ends at {fetched.stable_end} for now")
        if found:
            cursor.at, cursor.stumbles, cursor.must_be_alone = found[-1].end, 0, False
            # Whoever got something goes to the end of the line, since brokers fill responses in order.
            self._cursors[cursor.range.source] = self._cursors.pop(cursor.range.source)
        if malformed:
            self._fail(cursor, f"the source sent {malformed}.", transient=False)
        elif cursor.at >= cursor.range.end:
            self._cursors.pop(cursor.range.source)
        return Read(cursor.range, tuple(found))

    def _judge_error(self, cursor: _Cursor, code: int, node: int | None = None) -> None:
        """Try again or give up, as ``code`` says; ``node`` is the leader, where one answered."""
        source = cursor.range.source
        self._leaders.pop(source, None)
        if is_transient(code):
            self._stumble([cursor], f"the source kept answering {error_name(code)}")
        elif code == OFFSET_OUT_OF_RANGE and node is not None:
            first = log_start(self._cluster, node, source)
            lost = f"offsets [{cursor.at}, {first}) were deleted on the source before they were copied."
            shorter = f"the source's log ends before offset {cursor.at}, up to which it was copied."
            self._fail(cursor, lost if cursor.at < first else shorter, transient=False)
        else:
            self._fail(cursor, str(fault(code, f"Reading {source}")), transient=False)

    def _stumble(self, cursors: Sequence[_Cursor], why: str) -> None:
        for cursor in cursors:
            cursor.stumbles += 1
            self._leaders.pop(cursor.range.source, None)
            if cursor.stumbles >= _MAX_STUMBLES:
                self._fail(cursor, f"{why}.", transient=True)
            else:
                back_off = min(0.05 * 2**cursor.stumbles, _LONGEST_BACK_OFF_S)
                cursor.not_before = time.monotonic() + back_off

    def _fail(self, cursor: _Cursor, message: str, *, transient: bool) -> None:
        self._cursors.pop(cursor.range.source, None)
        failure = Failure(cursor.range, cursor.at, message, transient)
        self._failed.append(Read(cursor.range, failure=failure))
