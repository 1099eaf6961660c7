"""The ledger's ranges as columns: joined by the million, where rows would take too long."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kafka_ferry.batches import Segment
from kafka_ferry.ledger.rows import CopiedPartition, copied_rows, is_one_of
from kafka_ferry.model.ranges import TopicPartition

if TYPE_CHECKING:
    from kafka_ferry.ledger.copied_range import CopiedRange
    from kafka_ferry.ledger.table import LedgerTable

Offsets = npt.NDArray[np.int64]

_COLUMNS: Final = (
    "ledger_offset",
    *CopiedPartition._fields,
    "start",
    "end",
    "rewound_from",
    "batches",
    "preserved",
    "segments",
    "since",
)
_REMOTE: Final = ("remote_topic", "remote_topic_id", "partition")


class RangeColumns(NamedTuple):
    """The ranges of one partition in the ledger's order, as columns, and their segments.

    Attributes:
        start: first source offset of each range.
        end: source offset after its last one.
        rewound_from: as ``CopiedRange.rewound_from``.
        lengths: how many segments it has.
        source: first source offset of each segment.
        target: its target offset.
        records: its records.
        batches: how many batches each range was written in; 0 where another mirror had written it.
        preserved: whether all records kept their offsets.
        backfill: which ranges a backfill has copied; None if there are none.
    """

    start: Offsets
    end: Offsets
    rewound_from: Offsets
    lengths: Offsets
    source: Offsets
    target: Offsets
    records: Offsets
    batches: Offsets
    preserved: bool = False
    backfill: npt.NDArray[np.bool_] | None = None

    @classmethod
    def of(cls, ranges: Iterable[CopiedRange]) -> RangeColumns:
        """The columns of ``ranges``, which are in the ledger's order."""
        listed = list(ranges)
        start, end, rewound_from, lengths, batches = _table(
            ((r.start, r.end, r.rewound_from, len(r.segments), r.batches) for r in listed), 5
        )
        source, target, records = _table(chain.from_iterable(r.segments for r in listed), 3)
        preserved = bool(listed) and all(r.preserved for r in listed)
        return cls(start, end, rewound_from, lengths, source, target, records, batches, preserved)

    def part(self, ranges: slice, segments: slice) -> RangeColumns:
        """Some of the ranges, and the segments that are theirs."""
        of_ranges = ("start", "end", "rewound_from", "lengths", "batches")
        of_segments = ("source", "target", "records")
        return self._replace(
            **{name: getattr(self, name)[ranges] for name in of_ranges},
            **{name: getattr(self, name)[segments] for name in of_segments},
            backfill=None if self.backfill is None else self.backfill[ranges],
        )

    def set_back(self, to: int) -> RangeColumns:
        """The columns as they are once the source's log was found to end at ``to``, of what was copied."""
        return self._replace(
            start=np.append(self.start, to),
            end=np.append(self.end, to),
            rewound_from=np.append(self.rewound_from, self.end.max(initial=to)),
            lengths=np.append(self.lengths, 0),
            batches=np.append(self.batches, 0),
            backfill=None if self.backfill is None else np.append(self.backfill, np.False_),
        )

    def first_image(self, since: int) -> int | None:
        """The first *target* offset of a copy of the source's offset ``since`` or a later one; None without one."""
        is_wanted = self.source + self.records > since
        images = self.target + np.maximum(0, since - self.source)
        return int(images[is_wanted].min()) if is_wanted.any() else None

    def ordinary(self, starts: Offsets, ends: Offsets) -> tuple[Offsets, Offsets]:
        """The ``starts`` and ``ends``, a pair for each range, that are not of a backfill."""
        if self.backfill is None or not self.backfill.any():
            return starts, ends
        return starts[~self.backfill], ends[~self.backfill]


@dataclass(frozen=True)
class TargetRanges:
    """Ranges by where their records are on the target, in the ledger's order.

    Attributes:
        ledger_offsets: the ledger's record of each range.
        bytes: bytes of its batches.
        source_ends: the source offset after its last one.
        preserved: whether its records kept their offsets.
        target_ends: the *target* offset after its last record; -1 where it has none.
        partitions: its *target* partition, as an index into ``names``.
        names: the target partitions, each with its topic's id.
    """

    ledger_offsets: Offsets
    bytes: Offsets
    source_ends: Offsets
    preserved: npt.NDArray[np.bool_]
    target_ends: Offsets
    partitions: Offsets
    names: tuple[tuple[TopicPartition, str], ...]

    def ends(self) -> dict[tuple[TopicPartition, str], int]:
        """The *target* offset up to which the ranges of each of ``names`` account for its log, 0 where for none."""
        # With preserved offsets, a range may end in offsets without a record.
        reached = np.where(self.preserved, self.source_ends, self.target_ends)
        ends = np.zeros(len(self.names), np.int64)
        np.maximum.at(ends, self.partitions, reached)
        return dict(zip(self.names, ends.tolist(), strict=True))


def range_columns(
    ledger: LedgerTable,
    topic_ids: Iterable[str],
    remote_ids: Iterable[str],
    topics: Collection[str] = (),
    *,
    since: int = 0,
    before: int | None = None,
) -> Iterator[tuple[CopiedPartition, tuple[int, RangeColumns]]]:
    """The ranges of each partition that was not only backfilled, with the ledger offset of the last one.

    Args:
        ledger: the flow's ledger.
        topic_ids: only of topics with these ids on the source.
        remote_ids: only of topics with these ids on the target.
        topics: only of these source topics; by default of all.
        since: only what the ledger has from this offset on.
        before: only what it has before this one; None for all.
    """
    wanted = copied_rows() & is_one_of("topic_id", topic_ids)
    wanted &= is_one_of("remote_topic_id", remote_ids)
    if topics:
        wanted &= is_one_of("topic", topics)
    if since:
        wanted &= pc.field("ledger_offset") >= since
    if before is not None:
        wanted &= pc.field("ledger_offset") < before
    return _by_partition(ledger.read(wanted, list(_COLUMNS)))


def target_ranges(
    ledger: LedgerTable, topics: Iterable[str] | None = None, *, before: int | None = None
) -> TargetRanges:
    """The ranges by where their records are on the target.

    Args:
        ledger: the flow's ledger.
        topics: only those in remote topics of these names; None for all.
        before: only what the ledger has before this offset; None for all.
    """
    wanted = copied_rows()
    if topics is not None:
        wanted &= is_one_of("remote_topic", topics)
    if before is not None:
        wanted &= pc.field("ledger_offset") < before
    columns = ["ledger_offset", *_REMOTE, "bytes", "end", "preserved", "segments"]
    rows = ledger.read(wanted, columns).combine_chunks()
    _, firsts, numbers = np.unique(_numbers(rows, _REMOTE), return_index=True, return_inverse=True)
    names = rows.select(_REMOTE).take(pa.array(firsts)).to_pylist()
    return TargetRanges(
        _column(rows["ledger_offset"]),
        _column(rows["bytes"]),
        _column(rows["end"]),
        _column(pc.cast(rows["preserved"], pa.int8())).astype(bool),
        _record_ends(rows),
        numbers,
        tuple(
            (TopicPartition(name["remote_topic"], name["partition"]), name["remote_topic_id"])
            for name in names
        ),
    )


def _record_ends(rows: pa.Table) -> Offsets:
    """By row, the target offset after its last record; -1 where it has none."""
    after_last = np.full(len(rows), -1, np.int64)
    if not len(rows):
        return after_last
    segments = rows["segments"].combine_chunks()
    flat = pc.list_flatten(segments)
    ends = pc.add(pc.struct_field(flat, "target"), pc.struct_field(flat, "records"))
    np.maximum.at(
        after_last, np.asarray(pc.list_parent_indices(segments), np.int64), np.asarray(ends)
    )
    return after_last


def _by_partition(rows: pa.Table) -> Iterator[tuple[CopiedPartition, tuple[int, RangeColumns]]]:
    if not rows.num_rows:
        return
    rows = rows.combine_chunks()
    numbers = _numbers(rows, CopiedPartition._fields)
    order = np.argsort(numbers, kind="stable")
    edges = np.flatnonzero(np.diff(numbers[order], prepend=-1, append=-1)).tolist()
    rows = rows.take(pa.array(order)).combine_chunks()
    offsets, columns = _column(rows["ledger_offset"]), _columns_of(rows)
    segments_to = np.append(0, np.cumsum(columns.lengths))
    preserved = _column(pc.cast(rows["preserved"], pa.int8()))
    keys = rows.select(list(CopiedPartition._fields)).take(pa.array(edges[:-1])).to_pylist()
    for key, (first, last) in zip(keys, pairwise(edges), strict=True):
        part = columns.part(slice(first, last), slice(segments_to[first], segments_to[last]))
        # A consumer cannot continue in a topic that receives only backfills.
        if part.backfill is not None and part.backfill.all():
            continue
        part = part._replace(preserved=bool(preserved[first:last].all()))
        yield CopiedPartition(**key), (int(offsets[last - 1]), part)


def _numbers(rows: pa.Table, names: Sequence[str]) -> Offsets:
    """By row, the number of its values in these columns, in no particular order."""
    numbers = np.zeros(rows.num_rows, dtype=np.int64)
    for name in names:
        values = rows[name].combine_chunks().dictionary_encode()
        codes = _column(values.indices)
        _, numbers = np.unique(numbers * len(values.dictionary) + codes, return_inverse=True)
    return numbers


def _columns_of(rows: pa.Table) -> RangeColumns:
    """The ranges of many partitions as columns, from which each partition takes its part."""
    segments = rows["segments"].combine_chunks().flatten()
    source, target, records = (_column(segments.field(name)) for name in Segment._fields)
    return RangeColumns(
        _column(rows["start"]),
        _column(rows["end"]),
        _column(rows["rewound_from"]),
        _column(pc.list_value_length(rows["segments"])),
        source,
        target,
        records,
        _column(rows["batches"]),
        # Only a backfill's rows have a window.
        backfill=_column(pc.cast(pc.is_valid(rows["since"]), pa.int8())).astype(bool),
    )


def _column(values: pa.Array | pa.ChunkedArray) -> Offsets:
    return np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.int64)


def _table(rows: Iterable[tuple[int, ...]], width: int) -> Offsets:
    numbers = np.fromiter(chain.from_iterable(rows), dtype=np.int64)
    return np.ascontiguousarray(numbers.reshape(-1, width).T)
