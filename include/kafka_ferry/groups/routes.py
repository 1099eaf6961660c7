"""A flow's ledger as offset maps: one for each source partition and its remote topic."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kafka_ferry.batches import Segment
from kafka_ferry.groups.columns import RangeColumns
from kafka_ferry.groups.translation import OffsetMap
from kafka_ferry.ledger import LedgerTable, copied_rows, is_one_of
from kafka_ferry.model.ranges import TopicPartition

_KEY: Final = ("topic", "topic_id", "partition", "remote_topic", "remote_topic_id")
_COLUMNS: Final = (
    "ledger_offset",
    *_KEY,
    "start",
    "end",
    "rewound_from",
    "batches",
    "preserved",
    "segments",
    "since",
)


@dataclass(frozen=True)
class Route:
    """Where a source partition is copied to.

    Attributes:
        source: the partition on the source.
        target: the partition on the target.
        remote_topic_id: the remote topic's id.
        preserved: whether all records kept their offsets.
        map: the offset map.
    """

    source: TopicPartition
    target: TopicPartition
    remote_topic_id: str
    preserved: bool
    map: OffsetMap


class _Key(NamedTuple):
    topic: str
    topic_id: str
    partition: int
    remote_topic: str
    remote_topic_id: str

    @property
    def names(self) -> tuple[str, str]:
        """The topic's names on the source and on the target."""
        return self.topic, self.remote_topic

    def reverse(self) -> _Key:
        """The partitions, named as by the opposite flow."""
        return _Key(
            self.remote_topic, self.remote_topic_id, self.partition, self.topic, self.topic_id
        )


def routes(
    ledger: LedgerTable,
    topic_ids: Mapping[str, str],
    remote_ids: Mapping[str, str],
    *,
    before: int | None = None,
    topics: Collection[str] = (),
    opposite: LedgerTable | None = None,
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
    """
    copied = _columns(ledger, topic_ids, remote_ids, topics, before)
    returned: dict[_Key, tuple[int, RangeColumns]] = {}
    if opposite is not None:
        found = _columns(opposite, remote_ids, topic_ids, (), None)
        returned = {key.reverse(): columns for key, columns in found.items()}
        if topics:
            returned = {key: columns for key, columns in returned.items() if key.topic in topics}
    made: dict[TopicPartition, Route] = {}
    # Where a topic has had two remote names, the one copied last counts.
    for key in sorted(copied.keys() | returned.keys(), key=lambda key: _last(key, copied)):
        columns = copied[key][1] if key in copied else RangeColumns.of(())
        inverse = returned[key][1] if key in returned else None
        is_shared = opposite is not None and key.topic == key.remote_topic
        if inverse is None and is_shared and not columns.preserved:
            # The opposite flow has not reached it yet, and other producers may have written to it.
            inverse = RangeColumns.of(())
        source, target = (TopicPartition(name, key.partition) for name in key.names)
        offsets = OffsetMap(columns, inverse)
        made[source] = Route(source, target, key.remote_topic_id, columns.preserved, offsets)
    return made


def remote_topics_of(ledger: LedgerTable, topics: Collection[str] | None = None) -> dict[str, str]:
    """The remote topic of each of ``topics``, or of all, that was ever copied, or is marked to be."""
    marked = {mark.topic: mark.remote_topic for mark in ledger.marks().values()}
    known = marked | ledger.topics()
    return {topic: name for topic, name in known.items() if topics is None or topic in topics}


def copied_topic_ids(ledger: LedgerTable) -> dict[str, str]:
    """The id of each source topic when it was last copied: used while the source does not answer."""
    return _ids_in(ledger, "topic")


def copied_remote_ids(ledger: LedgerTable) -> dict[str, str]:
    """The id of each remote topic when it was last copied to."""
    return _ids_in(ledger, "remote_topic")


def _ids_in(ledger: LedgerTable, column: str) -> dict[str, str]:
    rows = ledger.read(pc.field("type") == "transaction", [column, f"{column}_id"])
    return dict(zip(rows[column].to_pylist(), rows[f"{column}_id"].to_pylist(), strict=True))


def _last(key: _Key, copied: Mapping[_Key, tuple[int, RangeColumns]]) -> tuple[int, _Key]:
    return (copied[key][0] if key in copied else -1, key)


def _columns(
    ledger: LedgerTable,
    topic_ids: Mapping[str, str],
    remote_ids: Mapping[str, str],
    topics: Collection[str],
    before: int | None,
) -> dict[_Key, tuple[int, RangeColumns]]:
    """The ranges of each partition, with the ledger offset of the last one."""
    gone = ledger.released_topics()
    wanted = copied_rows() & is_one_of("topic_id", topic_ids.values())
    wanted &= is_one_of("remote_topic_id", set(remote_ids.values()) - gone)
    if topics:
        wanted &= is_one_of("topic", topics)
    if before is not None:
        wanted &= pc.field("ledger_offset") < before
    rows = ledger.read(wanted, list(_COLUMNS))
    return {
        key: columns
        for key, columns in _by_partition(rows)
        if topic_ids.get(key.topic) == key.topic_id
        and remote_ids.get(key.remote_topic) == key.remote_topic_id
    }


def _by_partition(rows: pa.Table) -> Iterator[tuple[_Key, tuple[int, RangeColumns]]]:
    if not rows.num_rows:
        return
    rows = rows.combine_chunks()
    numbers = _partition_numbers(rows)
    order = np.argsort(numbers, kind="stable")
    edges = np.flatnonzero(np.diff(numbers[order], prepend=-1, append=-1)).tolist()
    rows = rows.take(pa.array(order))
    ranges = _AllRanges(rows)
    keys = rows.select(_KEY).take(pa.array(edges[:-1])).to_pylist()
    for key, (first, last) in zip(keys, pairwise(edges), strict=True):
        # A consumer cannot continue in a topic that receives only backfills.
        if not ranges.is_ordinary(first, last):
            continue
        yield _Key(**key), (ranges.ledger_offset(last - 1), ranges.part(first, last))


def _partition_numbers(rows: pa.Table) -> npt.NDArray[np.int64]:
    """The number of each row's partition, in no particular order."""
    numbers = np.zeros(rows.num_rows, dtype=np.int64)
    for name in _KEY:
        values = rows[name].combine_chunks().dictionary_encode()
        found = _column(values.indices)
        _, numbers = np.unique(numbers * len(values.dictionary) + found, return_inverse=True)
    return numbers


class _AllRanges:
    """The rows of many partitions as columns, from which each partition takes its part."""

    def __init__(self, rows: pa.Table) -> None:
        rows = rows.combine_chunks()
        self._ledger_offset = _column(rows["ledger_offset"])
        self._start, self._end = _column(rows["start"]), _column(rows["end"])
        self._rewound = _column(rows["rewound_from"])
        self._batches = _column(rows["batches"])
        # Only a backfill's rows have a window.
        self._backfill = _column(pc.cast(pc.is_valid(rows["since"]), pa.int8())).astype(bool)
        self._preserved = _column(pc.cast(rows["preserved"], pa.int8()))
        self._lengths = _column(pc.list_value_length(rows["segments"]))
        self._segments_to = np.append(0, np.cumsum(self._lengths))
        segments = rows["segments"].combine_chunks().flatten()
        self._segments = [_column(segments.field(name)) for name in Segment._fields]

    def ledger_offset(self, at: int) -> int:
        return int(self._ledger_offset[at])

    def is_ordinary(self, first: int, last: int) -> bool:
        return not bool(self._backfill[first:last].all())

    def part(self, first: int, last: int) -> RangeColumns:
        segments = slice(self._segments_to[first], self._segments_to[last])
        source, target, records = (column[segments] for column in self._segments)
        return RangeColumns(
            self._start[first:last],
            self._end[first:last],
            self._rewound[first:last],
            self._lengths[first:last],
            source,
            target,
            records,
            self._batches[first:last],
            bool(self._preserved[first:last].all()),
            self._backfill[first:last],
        )


def _column(values: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.int64]:
    return np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.int64)
