"""The ledger's ranges, each with as much of its record as a question needs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from operator import or_
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow.compute as pc

from kafka_ferry.batches import Reason, Segment
from kafka_ferry.ledger.rows import (
    CopiedPartition,
    LedgerRange,
    RangeKey,
    backfilled_rows,
    copied_rows,
    is_one_of,
    ordinary_rows,
)
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.model.run_options import Window

if TYPE_CHECKING:
    from kafka_ferry.ledger.table import LedgerTable

_T = TypeVar("_T")
_FIELDS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "reasons": dict,
    "rebuilt": dict,
    "rule_counts": dict,
    "segments": lambda value: tuple(Segment(**one) for one in value),
    "lost": lambda value: tuple((one["start"], one["end"]) for one in value),
    "compared": bool,
}


@dataclass(frozen=True, slots=True)
class CopiedSpan:
    """A range's source offsets, and where their records went; the other attributes are those of ``CopiedRange``.

    Attributes:
        ledger_offset: its record in the ledger.
        run: the run that has copied it.
        since: of a backfill's range, the first timestamp of its window; else None.
        until: of a backfill's range, the first timestamp after its window; else None.
        compared: whether a takeover has compared any of it.
    """

    ledger_offset: int
    run: str
    at: int
    topic: str
    topic_id: str
    partition: int
    remote_topic: str
    start: int
    end: int
    rewound_from: int
    since: int | None
    until: int | None
    segments: tuple[Segment, ...]
    lost: tuple[tuple[int, int], ...]
    compared: bool
    preserved: bool
    transform: str
    reasons: Mapping[str, int]

    @property
    def source(self) -> TopicPartition:
        """The partition on the source."""
        return TopicPartition(self.topic, self.partition)

    @property
    def window(self) -> Window | None:
        """Of a backfill's range, the timestamps that it accounts for; else None."""
        return None if self.since is None or self.until is None else Window(self.since, self.until)


@dataclass(frozen=True, slots=True)
class BackfilledCounts:
    """What a backfill has done with the offsets that it has looked at; the attributes are those of ``CopiedRange``."""

    topic: str
    topic_id: str
    partition: int
    remote_topic: str
    remote_topic_id: str
    start: int
    end: int
    records: int
    reasons: Mapping[str, int]

    @property
    def left_out(self) -> int:
        """How many records were of another time."""
        return self.reasons.get(Reason.OUTSIDE_WINDOW, 0)

    @property
    def copied_before(self) -> int:
        """How many offsets others had accounted for."""
        return self.reasons.get(Reason.COPIED_BEFORE, 0)


@dataclass(frozen=True, slots=True)
class RangeCounts:
    """What the ledger counts in a range, without the places of its records.

    The other attributes are those of ``CopiedRange``.

    Attributes:
        ledger_offset: its record in the ledger.
        type: the type of that record.
        run: the run that has copied it.
        at: when, in milliseconds since 1970.
        writer: the number of the writer.
    """

    ledger_offset: int
    type: str
    run: str
    at: int
    writer: int
    topic: str
    topic_id: str
    partition: int
    remote_topic: str
    remote_topic_id: str
    start: int
    end: int
    records: int
    bytes: int
    batches: int
    reasons: Mapping[str, int]
    rebuilt: Mapping[str, int]
    digest: str
    lost: tuple[tuple[int, int], ...]
    rewound_from: int
    adopted: int
    transform: str
    rule_counts: Mapping[str, int]

    @property
    def source(self) -> TopicPartition:
        """The partition on the source."""
        return TopicPartition(self.topic, self.partition)

    @property
    def key(self) -> RangeKey:
        """What identifies the range."""
        return self.ledger_offset, self.topic, self.partition, self.start

    @property
    def is_backfill(self) -> bool:
        """Whether a backfill has copied it."""
        return self.type == "backfill"


def counts_of_run(ledger: LedgerTable, run: str) -> Iterator[RangeCounts]:
    """The counts of the ranges that a run has copied."""
    return _read(ledger, pc.field("run") == run, RangeCounts)


def counts_of_partition(ledger: LedgerTable, source: TopicPartition) -> Iterator[RangeCounts]:
    """The counts of the ranges of a *source* partition."""
    return _read(ledger, _of_partition(source), RangeCounts)


def counts_in_topics(ledger: LedgerTable, remote_topics: Iterable[str]) -> Iterator[RangeCounts]:
    """The counts of the ranges that were copied to remote topics of these names."""
    return _read(ledger, is_one_of("remote_topic", remote_topics), RangeCounts)


def ranges_with(ledger: LedgerTable, source: TopicPartition, offset: int) -> list[LedgerRange]:
    """The ranges with a source offset, in the ledger's order, each with its writer."""
    around = (pc.field("start") <= offset) & (pc.field("end") > offset)
    ranges = ledger.matching_ranges(_of_partition(source) & around)
    return sorted(ranges, key=lambda entry: entry.ledger_offset)


def transaction_ends(
    ledger: LedgerTable, partitions: Collection[TopicPartition]
) -> dict[tuple[TopicPartition, str, str], int]:
    """Where the last range ends that has a transaction's end or an aborted record, of *source* ``partitions``.

    By partition, the source topic's id and the remote topic's; those without such a range are absent.
    """
    wanted = copied_rows() & is_one_of("topic", {tp.topic for tp in partitions})
    columns = ["topic", "partition", "topic_id", "remote_topic_id"]
    of_transactions = [
        pc.map_lookup(pc.field("reasons"), str(reason), "first") > 0
        for reason in (Reason.ABORTED, Reason.CONTROL)
    ]
    rows = ledger.read(wanted & or_(*of_transactions), [*columns, "end"])
    ends = rows.group_by(columns).aggregate([("end", "max")]).to_pylist()
    return {
        (tp, row["topic_id"], row["remote_topic_id"]): row["end_max"]
        for row in ends
        if (tp := TopicPartition(row["topic"], row["partition"])) in partitions
    }


def is_written_over(
    ledger: LedgerTable, target: TopicPartition, remote_topic_id: str, offset: int, since: int
) -> bool:
    """Whether, after its offset ``since``, the ledger has a record of its own at an offset of a *target* partition.

    Offsets there ascend, unless the log was truncated and written on, as by an unclean leader election.
    """
    later = (pc.field("ledger_offset") > since) & (pc.field("partition") == target.partition)
    later &= pc.field("remote_topic_id") == remote_topic_id
    return any(
        segment.target <= offset < segment.target + segment.records
        for span in _read(ledger, later, CopiedSpan)
        for segment in span.segments
    )


def next_source_offset(ledger: LedgerTable, source: TopicPartition) -> int | None:
    """The source offset after the newest ordinary range of a *source* partition; None where there is none."""
    ends = ledger.read(ordinary_rows() & _of_partition(source), ["end"])["end"]
    return ends[-1].as_py() if len(ends) else None


def spans_between(
    ledger: LedgerTable,
    topic: str,
    remote_topic: tuple[str, str],
    partitions: Collection[int],
    offsets: tuple[int, int],
) -> list[CopiedSpan]:
    """The ranges with any of the source ``offsets``.

    Args:
        ledger: the flow's ledger.
        topic: the source's topic.
        remote_topic: the topic on the target, by its name and id.
        partitions: the partitions.
        offsets: ``[start, end)``.
    """
    name, topic_id = remote_topic
    wanted = (pc.field("topic") == topic) & (pc.field("remote_topic") == name)
    wanted &= pc.field("remote_topic_id") == topic_id
    wanted &= pc.field("partition").isin(sorted(set(partitions)))
    wanted &= (pc.field("start") < offsets[1]) & (pc.field("end") > offsets[0])
    return list(_read(ledger, wanted, CopiedSpan))


def spans_into(
    ledger: LedgerTable,
    topic_ids: Iterable[str],
    remote_ids: Iterable[str],
    *,
    after: int | None = None,
) -> Iterator[CopiedSpan]:
    """The ranges of topics with these ids on the source and on the target.

    Args:
        ledger: the flow's ledger.
        topic_ids: ids on the source.
        remote_ids: ids on the target.
        after: only ranges with a source offset from there on, and all rewinds, which void what was copied after
            them; None for all.
    """
    wanted = is_one_of("topic_id", topic_ids) & is_one_of("remote_topic_id", remote_ids)
    if after is not None:
        wanted &= (pc.field("end") > after) | (pc.field("rewound_from") >= 0)
    return _read(ledger, wanted, CopiedSpan)


def spans_in(ledger: LedgerTable, remote_ids: Iterable[str]) -> Iterator[CopiedSpan]:
    """The ranges in remote topics with these ids, also those of backfills."""
    return _read(ledger, is_one_of("remote_topic_id", remote_ids), CopiedSpan)


def rewinds(ledger: LedgerTable) -> dict[tuple[str, int], list[tuple[int, int]]]:
    """Where copying began again after a source had lost records, by the topic's id and the partition.

    Source offsets, each with the ledger's offset of the range that begins there.
    """
    columns = ["topic_id", "partition", "start", "ledger_offset"]
    starts: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for row in ledger.read(ordinary_rows() & (pc.field("rewound_from") >= 0), columns).to_pylist():
        place = (row["topic_id"], row["partition"])
        starts.setdefault(place, []).append((row["start"], row["ledger_offset"]))
    return starts


def partial_backfills(
    ledger: LedgerTable, before: int | None
) -> dict[CopiedPartition, list[BackfilledCounts]]:
    """The ranges of backfills that have left out records of another time, by where they went.

    Args:
        ledger: the flow's ledger.
        before: only what the ledger has before this offset; None for all.
    """
    wanted = backfilled_rows()
    if before is not None:
        wanted &= pc.field("ledger_offset") < before
    ranges: dict[CopiedPartition, list[BackfilledCounts]] = defaultdict(list)
    for it in _read(ledger, wanted, BackfilledCounts):
        if it.left_out:
            ranges[
                CopiedPartition(*(getattr(it, name) for name in CopiedPartition._fields))
            ].append(it)
    return ranges


def windows(ledger: LedgerTable) -> dict[int, tuple[int, int]]:
    """The timestamps ``[since, until)`` for which backfills and repairs have copied, by the ledger offset."""
    rows = ledger.read(backfilled_rows(), ["ledger_offset", "since", "until"]).to_pylist()
    return {row["ledger_offset"]: (row["since"], row["until"]) for row in rows}


def spans_beside(ledger: LedgerTable, entry: LedgerRange) -> Iterator[CopiedSpan]:
    """The other ranges of a range's offsets in the same remote topic, and all rewinds that start before its end."""
    copied = entry.copied
    wanted = (pc.field("start") < copied.end) & (
        (pc.field("end") > copied.start) | (pc.field("rewound_from") >= 0)
    )
    for name in CopiedPartition._fields:
        wanted &= pc.field(name) == getattr(copied, name)
    for span in _read(ledger, wanted, CopiedSpan):
        if (span.ledger_offset, span.start) != (entry.ledger_offset, copied.start):
            yield span


def spans_with_appends(
    ledger: LedgerTable, remote_ids: Mapping[str, str]
) -> dict[TopicPartition, list[CopiedSpan]]:
    """All ranges of the partitions into which a backfill or a repair has appended, by *source* partition.

    Args:
        ledger: the flow's ledger.
        remote_ids: the ids of the remote topics to look at, by name.
    """
    wanted = is_one_of("remote_topic", remote_ids) & is_one_of(
        "remote_topic_id", remote_ids.values()
    )
    keys = ["topic", "partition"]
    appended = ledger.read(backfilled_rows() & wanted, keys).group_by(keys).aggregate([])
    spans: dict[TopicPartition, list[CopiedSpan]] = {
        TopicPartition(row["topic"], row["partition"]): [] for row in appended.to_pylist()
    }
    for span in _read(ledger, wanted, CopiedSpan) if spans else ():
        if span.source in spans:
            spans[span.source].append(span)
    return spans


def _of_partition(source: TopicPartition) -> pc.Expression:
    return (pc.field("topic") == source.topic) & (pc.field("partition") == source.partition)


def _read(ledger: LedgerTable, wanted: pc.Expression, kind: type[_T]) -> Iterator[_T]:
    """The copied ranges that match, as a dataclass whose fields are the columns that are read."""
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    for batch in ledger.read(copied_rows() & wanted, names).to_batches():
        values = {name: batch[name].to_pylist() for name in names}
        for name in values.keys() & _FIELDS.keys():
            values[name] = map(_FIELDS[name], values[name])
        yield from map(kind, *values.values())
