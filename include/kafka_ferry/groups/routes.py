"""The offset maps of a flow: the ledger's ranges of each source partition and its remote topic."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from kafka_ferry.groups.translation import OffsetMap
from kafka_ferry.ledger import LedgerTable
from kafka_ferry.ledger.queries.copied_ranges import BackfilledCounts, partial_backfills
from kafka_ferry.ledger.queries.range_columns import RangeColumns, range_columns
from kafka_ferry.ledger.rows import CopiedPartition
from kafka_ferry.model.ranges import TopicPartition


@dataclass(frozen=True)
class Route:
    """Where a source partition is copied to.

    Attributes:
        source: the partition on the source.
        target: the partition on the target.
        remote_topic_id: the remote topic's id.
        preserved: whether all records kept their offsets.
        map: the offset map.
        partly: the ranges of backfills that have left out records of another time.
        lost_from: the first offset on the source of a record that came from the target, whose log was truncated below
            it since; None where there is none.
    """

    source: TopicPartition
    target: TopicPartition
    remote_topic_id: str
    preserved: bool
    map: OffsetMap
    partly: tuple[BackfilledCounts, ...] = ()
    lost_from: int | None = None

    def count_left_out(self, start: int, end: int) -> int:
        """How many source offsets of ``[start, end)`` no backfill has accounted for, before the first run.

        What a backfill has left out because of its time, others may have copied.
        """
        known, end = self.map, min(end, self.map.begin)
        if start >= end:
            return 0
        left = known.count_unknown(start, end)
        for it in self.partly:
            first, last = max(start, it.start), min(end, it.end)
            if first < last:
                of_others = known.count_records(it.start, it.end) - it.records
                of_range = min(it.left_out, it.left_out + it.copied_before - of_others)
                left += max(0, min(of_range, last - first - known.count_records(first, last)))
        return min(left, end - start - known.count_records(start, end))


def routes(
    ledger: LedgerTable,
    topic_ids: Mapping[str, str],
    remote_ids: Mapping[str, str],
    *,
    before: int | None = None,
    topics: Collection[str] = (),
    opposite: LedgerTable | None = None,
    diverged: Mapping[TopicPartition, int] = MappingProxyType({}),
) -> dict[TopicPartition, Route]:
    """The offset maps of all partitions that the ledger knows, by *source* partition.

    A topic that was recreated, on either side, has another id, and what was copied from or to its
    predecessor does not count; nor does what was copied to a remote topic that the flow has given up.

    Args:
        ledger: the flow's, projected.
        topic_ids: the current ids of topics on the source, by name.
        remote_ids: the current ids of remote topics on the target, by name.
        before: only what the ledger has before this offset, such as ``verified_through``.
        topics: only these source topics; by default all of them.
        opposite: the ledger of the flow from the target to the source, where records flow both ways.
        diverged: where the target's logs part from those that this one has copied, by *target* partition.
    """
    copied = _columns(ledger, topic_ids, remote_ids, topics, before=before)
    pending: dict[CopiedPartition, tuple[int, RangeColumns]] = {}
    if before is not None:
        pending = _columns(ledger, topic_ids, remote_ids, topics, since=before)
    returned: dict[CopiedPartition, tuple[int, RangeColumns]] = {}
    if opposite is not None:
        returned = {
            key.reverse(): columns
            for key, columns in _columns(opposite, remote_ids, topic_ids, ()).items()
            if not topics or key.remote_topic in topics
        }
    has_backfills = any(
        columns.backfill is not None and columns.backfill.any() for _, columns in copied.values()
    )
    partly = partial_backfills(ledger, before) if has_backfills else {}
    made: dict[TopicPartition, Route] = {}
    # Where a topic has had two remote names, the one copied last counts.
    for key in sorted(copied.keys() | returned.keys(), key=lambda key: _last(key, copied)):
        columns = copied[key][1] if key in copied else RangeColumns.of(())
        inverse = returned[key][1] if key in returned else None
        is_shared = opposite is not None and key.topic == key.remote_topic
        if inverse is None and is_shared and not columns.preserved:
            # The opposite flow has not reached it yet, and other producers may have written to it.
            inverse = RangeColumns.of(())
        diverged_at, lost_from = diverged.get(key.target, -1), None
        if inverse is not None and diverged_at >= 0:
            lost_from = inverse.first_image(diverged_at)
            inverse = inverse.set_back(diverged_at)
        offsets = OffsetMap(columns, inverse, pending[key][1] if key in pending else None)
        made[key.source] = Route(
            *(key.source, key.target, key.remote_topic_id, columns.preserved, offsets),
            partly=tuple(partly.get(key, ())),
            lost_from=lost_from,
        )
    return made


def remote_topics_of(ledger: LedgerTable, topics: Collection[str] | None = None) -> dict[str, str]:
    """The remote topic of each of ``topics``, or of all, that was ever copied, or is marked to be."""
    marked = {mark.topic: mark.remote_topic for mark in ledger.marks().values()}
    known = marked | ledger.topics()
    return {topic: name for topic, name in known.items() if topics is None or topic in topics}


def _last(
    key: CopiedPartition, copied: Mapping[CopiedPartition, tuple[int, RangeColumns]]
) -> tuple[int, CopiedPartition]:
    return (copied[key][0] if key in copied else -1, key)


def _columns(
    ledger: LedgerTable,
    topic_ids: Mapping[str, str],
    remote_ids: Mapping[str, str],
    topics: Collection[str],
    *,
    since: int = 0,
    before: int | None = None,
) -> dict[CopiedPartition, tuple[int, RangeColumns]]:
    """The ranges of each partition, with the ledger offset of the last one."""
    gone = ledger.released_topics()
    own_ids = set(remote_ids.values()) - gone
    partition_columns = range_columns(
        ledger, topic_ids.values(), own_ids, topics, since=since, before=before
    )
    return {
        key: columns
        for key, columns in partition_columns
        if topic_ids.get(key.topic) == key.topic_id
        and remote_ids.get(key.remote_topic) == key.remote_topic_id
    }
