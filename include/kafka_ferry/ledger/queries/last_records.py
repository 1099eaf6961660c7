"""What was copied last of partitions: their last records, and where copying ended."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kafka_ferry.batches import Reason, Segment
from kafka_ferry.ledger.rows import CopiedPartition, copied_rows, is_one_of, ordinary_rows
from kafka_ferry.model.ranges import TopicPartition

if TYPE_CHECKING:
    from kafka_ferry.ledger.table import LedgerTable
    from kafka_ferry.model import Topic

# What a takeover calls compacted, the target may have lost alone.
_ENDED: Final = frozenset({Reason.ABORTED, Reason.CONTROL})


class LastRecord(NamedTuple):
    """The record of a partition that was copied last, by the ledger.

    Attributes:
        source: its partition on the source.
        offset: its offset there.
        target: its partition on the target.
        target_offset: its offset there.
        is_changed: whether it is another record there, by a rule or the ids of schemas; its time is the same.
        segments: where the records of its range went.
    """

    source: TopicPartition
    offset: int
    target: TopicPartition
    target_offset: int
    is_changed: bool = False
    segments: tuple[Segment, ...] = ()


class CopyEnd(NamedTuple):
    """Where copying ended in a partition, by the ledger.

    Attributes:
        source: the partition on the source.
        start: the first of the offsets at the end that have no record on the target; ``end`` without any.
        end: the offset after the last one.
        crc: of the source's batch with the last one; -1 where it is not known.
        is_ended: whether the source had nothing but aborted records and markers there.
    """

    source: TopicPartition
    start: int
    end: int
    crc: int = -1
    is_ended: bool = False


class NewestRanges(NamedTuple):
    """The ledger offset of each partition's newest ordinary range.

    Attributes:
        of_all: of all.
        with_records: of those with records.
    """

    of_all: dict[CopiedPartition, int]
    with_records: dict[CopiedPartition, int]


def newest_ranges(ledger: LedgerTable, remote_topics: Iterable[str]) -> NewestRanges:
    """The newest ordinary ranges.

    Args:
        ledger: the flow's ledger.
        remote_topics: only of partitions of remote topics of these names.
    """
    wanted = ordinary_rows() & is_one_of("remote_topic", remote_topics)
    rows = ledger.read(wanted, [*CopiedPartition._fields, "ledger_offset", "target_end"])
    return NewestRanges(_newest(rows), _newest(rows.filter(_has_records())))


def _newest(rows: pa.Table) -> dict[CopiedPartition, int]:
    keys = list(CopiedPartition._fields)
    newest = rows.group_by(keys).aggregate([("ledger_offset", "max")]).to_pylist()
    return {
        CopiedPartition(*(row[name] for name in keys)): row["ledger_offset_max"] for row in newest
    }


def last_records(
    ledger: LedgerTable, chosen: Collection[tuple[int, CopiedPartition]]
) -> list[LastRecord]:
    """The last record of each range, beginning with the newest range.

    Args:
        ledger: the flow's ledger.
        chosen: the ledger offset of each range, and its partition.
    """
    offsets = pa.array(sorted({at for at, _ in chosen}), pa.int64())
    keys = list(CopiedPartition._fields)
    columns = [*keys, "ledger_offset", "segments", "transform", "schema_ids"]
    wanted = ordinary_rows() & _has_records() & pc.field("ledger_offset").isin(offsets)
    rows = ledger.read(wanted, columns)
    records = []
    for row in rows.sort_by([("ledger_offset", "descending")]).to_pylist():
        partition = CopiedPartition(*(row[name] for name in keys))
        if (row["ledger_offset"], partition) in chosen and row["segments"]:
            segments = tuple(Segment(**one) for one in row["segments"])
            records.append(
                LastRecord(
                    partition.source,
                    segments[-1].last_source,
                    partition.target,
                    segments[-1].last_target,
                    bool(row["transform"] or row["schema_ids"]),
                    segments,
                )
            )
    return records


def copy_ends(
    ledger: LedgerTable, newest: Mapping[CopiedPartition, int]
) -> Iterator[tuple[CopiedPartition, CopyEnd]]:
    """The ends of some ranges, by partition.

    Where no CRC is known, nothing is said of a last record, or of the marker alone behind it.

    Args:
        ledger: the flow's ledger.
        newest: as of ``NewestRanges.of_all``.
    """
    keys = list(CopiedPartition._fields)
    offsets = pa.array(sorted({*newest.values()}), pa.int64())
    columns = [*keys, "ledger_offset", "start", "end", "reasons", "segments", "last_crc"]
    rows = ledger.read(ordinary_rows() & pc.field("ledger_offset").isin(offsets), columns)
    left = dict(newest)
    for row in rows.sort_by([("end", "descending")]).to_pylist():
        partition = CopiedPartition(*(row[name] for name in keys))
        if left.get(partition) != row["ledger_offset"]:
            continue
        del left[partition]
        start, end = row["start"], row["end"]
        for segment in row["segments"][-1:]:
            start = segment["source"] + segment["records"]
        reasons = {reason for reason, offsets in dict(row["reasons"]).items() if offsets}
        is_marker = start == end - 1 and reasons == {Reason.CONTROL} and row["segments"]
        if row["last_crc"] >= 0 or (start < end and not is_marker):
            crc = row["last_crc"]
            yield partition, CopyEnd(partition.source, start, end, crc, reasons <= _ENDED)


def newest_record_to(ledger: LedgerTable, target: TopicPartition, end: int) -> int | None:
    """Where the ledger has the newest range whose records end at a *target* offset; None where there is none."""
    wanted = copied_rows() & (pc.field("remote_topic") == target.topic)
    wanted &= (pc.field("partition") == target.partition) & (pc.field("target_end") == end)
    offset: int | None = pc.max(ledger.read(wanted, ["ledger_offset"])["ledger_offset"]).as_py()
    return offset


def displaced_partitions(ledger: LedgerTable, topics: Iterable[Topic]) -> frozenset[TopicPartition]:
    """The *target* partitions where a range that is not verified begins below the end of an earlier one.

    A log never goes back: it was truncated in between, and what lies at its offsets is not what the earlier range has
    there.

    Args:
        ledger: the flow's ledger.
        topics: the remote topics that exist.
    """
    proved_to, listed = ledger.verified_through(), list(topics)
    wanted = copied_rows() & _has_records() & (pc.field("ledger_offset") >= proved_to)
    wanted &= ~pc.field("preserved") & is_one_of("remote_topic", [it.name for it in listed])
    order = ["ledger_offset", "target_end"]
    columns = ["remote_topic", "remote_topic_id", "partition", "segments", *order]
    rows = ledger.read(wanted, columns)
    if not rows.num_rows:
        return frozenset()
    ids = {topic.name: topic.topic_id for topic in listed}
    proved = ledger.target_ends(listed, before=proved_to)
    ends = {target: end.offset for target, end in proved.items()}
    displaced = set()
    for row in rows.sort_by([(name, "ascending") for name in order]).to_pylist():
        if row["remote_topic_id"] not in ("", ids[row["remote_topic"]]):
            continue
        target = TopicPartition(row["remote_topic"], row["partition"])
        reached = ends.get(target, 0)
        if min(segment["target"] for segment in row["segments"]) < reached:
            displaced.add(target)
        ends[target] = max(reached, row["target_end"])
    return frozenset(displaced)


def _has_records() -> pc.Expression:
    return pc.field("target_end") >= 0
