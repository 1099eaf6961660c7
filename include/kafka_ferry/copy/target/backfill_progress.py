"""The progress of a backfill, which only the ledger knows.

Promises, beyond those of ``copy.target.transaction``:

(a) no position is committed, and none is treated as a backfill's own: a transaction holds batches and
    a ledger record that names the window;
(b) what is copied already is read from the ledger *after* the partition's previous writer was fenced
    and its transactions have ended, so that two backfills, two attempts of one, or a backfill next to
    an ordinary run never copy a record twice;
(c) an ordinary position before a range's end stops the range: the flow's own runs would copy the same
    records again. So does a batch of a later leader epoch than the position's (``Cursor.newer_branch``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from kafka_ferry.batches import SettledSpan, TimeWindow
from kafka_ferry.copy.target.produce.verdicts import Verdicts
from kafka_ferry.copy.target.progress import Progress
from kafka_ferry.copy.target.writer_settings import WriterSettings
from kafka_ferry.ledger import (
    BackfillEntry,
    CopiedRange,
    CopyingEntry,
    ledger_topic,
    read_ledger,
)
from kafka_ferry.ledger.topic import wait_until_settled
from kafka_ferry.model.positions import Position, is_of_topics
from kafka_ferry.model.ranges import Range, TopicPartition
from kafka_ferry.model.run_options import Window
from kafka_ferry.model.waits import Waits
from kafka_ferry.plan.backfill.separate_topic import places_of
from kafka_ferry.plan.backfill.windows import BEGINNING, FOREVER
from kafka_ferry.wire import WireCluster

if TYPE_CHECKING:
    from kafka_ferry.config import Flow


class Backfilled:
    """What runs of ``flow`` have settled since ``ranges`` were planned, by the ledger.

    Args:
        flow: the flow.
        run: the run that copies ``ranges``.
        ranges: the backfill's ranges, one or more, at most one of a partition.
    """

    def __init__(self, flow: Flow, run: str, ranges: Sequence[Range]) -> None:
        self._flow, self._run = flow, run
        self._asked = {
            range_.source: (range_, range_backfill)
            for range_ in ranges
            if (range_backfill := range_.backfill)
        }
        _, backfill = self._asked[ranges[0].source]
        self.window = Window(backfill.since, backfill.until)
        self._since = min(backfill.ledger_since for _, backfill in self._asked.values())
        self._entries: dict[TopicPartition, list[tuple[CopyingEntry, CopiedRange]]] = {}

    def read(self, ids: Mapping[str, str]) -> None:
        """Read the ledger; all writers of the ranges' partitions must have been fenced.

        Args:
            ids: the remote topics' ids by name: what went into earlier topics does not count.

        Raises:
            FerryError: if it cannot be read, or if transactions of other writers hide its newest
                records for a minute.
        """
        ledger = ledger_topic(self._flow.source.alias)
        wait_until_settled(self._flow.target, ledger)
        entries = defaultdict(list)
        for _, entry in read_ledger(self._flow.target, ledger, self._since):
            if not isinstance(entry, CopyingEntry) or entry.flow != self._flow.name:
                continue
            for copied in entry.ranges:
                source = TopicPartition(copied.topic, copied.partition)
                if source in self._asked and self._is_there(self._asked[source][0], copied, ids):
                    entries[source].append((entry, copied))
        self._entries = dict(entries)

    def next_offset(self, range_: Range) -> int:
        """How far this run has come in ``range_`` without a gap: the next offset to look at."""
        at = range_.start
        for entry, copied in self._entries.get(range_.source, ()):
            if self._is_own(entry) and copied.remote_topic == range_.remote_topic:
                at = max(at, copied.end) if copied.start <= at else at
        return min(at, range_.end)

    def _is_own(self, entry: CopyingEntry) -> bool:
        if not isinstance(entry, BackfillEntry):
            return False
        return (entry.run, entry.window) == (self._run, self.window)

    def windows(self, ranges: Iterable[Range]) -> dict[TopicPartition, TimeWindow]:
        """What is still to be copied of each of ``ranges``, by source partition, as of the last ``read``."""
        return {range_.source: self._window(range_.source) for range_ in ranges}

    def _window(self, source: TopicPartition) -> TimeWindow:
        _, backfill = self._asked[source]
        since_planned = (
            SettledSpan(copied.start, copied.end, *_times(entry))
            for entry, copied in self._entries.get(source, ())
        )
        planned = (
            SettledSpan(span.start, span.end, span.since, span.until) for span in backfill.settled
        )
        return TimeWindow(backfill.since, backfill.until, (*planned, *since_planned))

    @staticmethod
    def _is_there(range_: Range, copied: CopiedRange, ids: Mapping[str, str]) -> bool:
        """Whether ``copied`` is of the range's topic, and in its remote topics as far as these are known to exist."""
        if copied.remote_topic not in places_of(range_.remote_topic):
            return False
        remote_id = ids.get(copied.remote_topic, copied.remote_topic_id)
        return (copied.topic_id, copied.remote_topic_id) == (range_.topic_id, remote_id)


def _times(entry: CopyingEntry) -> tuple[int, int]:
    """The timestamps that an entry accounts for: for an ordinary one, all."""
    if isinstance(entry, BackfillEntry):
        return entry.since, entry.until
    return BEGINNING, FOREVER


class BackfillProgress(Progress):
    """What the ledger says of a backfill's ranges.

    Args:
        settings: what every writer is given.
        backfilled: what the ledger says of the ranges.
    """

    def __init__(self, settings: WriterSettings, backfilled: Backfilled) -> None:
        super().__init__(settings)
        self._backfilled = backfilled

    def positions(
        self,
        cluster: WireCluster,
        ranges: Mapping[TopicPartition, Range],
        committed: Mapping[TopicPartition, Position],
        topic_ids: Mapping[TopicPartition, str],
        verdicts: Verdicts,
    ) -> dict[TopicPartition, Position]:
        """See ``Progress``: how far this run has come, where no ordinary run will copy the same."""
        del cluster
        ids = {tp.topic: topic_id for tp, topic_id in topic_ids.items()}
        self._backfilled.read(ids)
        reached = {}
        for target, range_ in ranges.items():
            remote_id = ids.get(target.topic, "")
            position = committed.get(target)
            if position and is_of_topics(position, range_.topic_id, remote_id):
                _require_below(range_, position, verdicts)
            at = self._backfilled.next_offset(range_)
            if at > range_.start:
                reached[target] = Position(at, range_.topic_id, remote_id)
        return reached

    def entry(self, ranges: tuple[CopiedRange, ...], waits: Waits) -> BackfillEntry:
        """See ``Progress``: it names the window."""
        window = self._backfilled.window
        return BackfillEntry(
            since=window.since_ms,
            until=window.until_ms,
            ranges=ranges,
            **self._entry_fields(waits),
        )


def _require_below(range_: Range, position: Position, verdicts: Verdicts) -> None:
    if position.offset < range_.end and range_.source not in verdicts.failures:
        message = (
            f"the flow's position was set back to {position.offset} since the backfill was "
            "planned: its own runs copy what lies after that. Plan the backfill again."
        )
        verdicts.fail(range_, range_.start, message)
