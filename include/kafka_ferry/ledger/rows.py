"""Converts entries of the ledger to rows of its table, one for each copied range, and back."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kafka_ferry.batches import Segment
from kafka_ferry.batches.epochs import EpochSpan
from kafka_ferry.ledger.copied_range import CopiedRange
from kafka_ferry.ledger.record import (
    AcceptedRange,
    AppliedEntry,
    BackfillEntry,
    CopyingEntry,
    Entry,
    GroupsEntry,
    OwnershipEntry,
    ReleaseEntry,
    RunEntry,
    VerificationEntry,
)
from kafka_ferry.model.positions import ProducerState
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.model.run_options import Window

_COUNTS: Final = pa.map_(pa.string(), pa.int64())
_SEGMENT: Final = pa.struct(
    [("source", pa.int64()), ("target", pa.int64()), ("records", pa.int64())]
)
_INTERVAL: Final = pa.struct([("start", pa.int64()), ("end", pa.int64())])
_EPOCH: Final = pa.struct([("start", pa.int64()), ("end", pa.int64()), ("epoch", pa.int32())])
# The fields of ``CopiedRange`` that Arrow has in another form.
_MAPS: Final = ("reasons", "rebuilt", "rule_counts")
_TUPLES: Final[Mapping[str, Callable[..., Any]]] = {
    "segments": Segment,
    "letters": Segment,
    "epochs": EpochSpan,
}
_INTERVALS: Final = ("lost", "compared")
_ACCEPTED: Final = pa.struct(
    [
        ("ledger_offset", pa.int64()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("start", pa.int64()),
        ("records", pa.int64()),
        ("digest", pa.string()),
        ("reason", pa.string()),
        ("missing", pa.list_(_INTERVAL)),
    ]
)
_PRODUCER: Final = pa.struct(
    [
        ("producer_id", pa.int64()),
        ("epoch", pa.int32()),
        ("sequence", pa.int32()),
        ("unfilled_to", pa.int64()),
    ]
)
SCHEMA: Final = pa.schema(
    [
        pa.field("ledger_offset", pa.int64(), nullable=False),
        pa.field("type", pa.string(), nullable=False),
        pa.field("flow", pa.string(), nullable=False),
        pa.field("run", pa.string(), nullable=False),
        pa.field("at", pa.int64(), nullable=False),
        ("writers", pa.int32()),
        ("assignment", pa.string()),
        ("file", pa.string()),
        ("topics", pa.string()),
        ("isolation_level", pa.string()),
        ("through", pa.int64()),
        ("writer", pa.int32()),
        ("topic", pa.string()),
        ("topic_id", pa.string()),
        ("partition", pa.int32()),
        ("remote_topic", pa.string()),
        ("remote_topic_id", pa.string()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("records", pa.int64()),
        ("bytes", pa.int64()),
        ("batches", pa.int64()),
        ("reasons", _COUNTS),
        ("rebuilt", _COUNTS),
        ("segments", pa.list_(_SEGMENT)),
        ("digest", pa.string()),
        ("lost", pa.list_(_INTERVAL)),
        ("leader_epoch", pa.int32()),
        ("epochs", pa.list_(_EPOCH)),
        ("rewound_from", pa.int64()),
        ("preserved", pa.bool_()),
        ("producer", _PRODUCER),
        ("adopted", pa.int64()),
        ("origins", pa.list_(pa.string())),
        ("created", pa.bool_()),
        ("given_back", pa.bool_()),
        ("empty", pa.bool_()),
        ("applied", pa.string()),
        ("groups", pa.string()),
        ("since", pa.int64()),
        ("until", pa.int64()),
        ("begin", pa.string()),
        ("transform", pa.string()),
        ("again", pa.list_(_INTERVAL)),
        ("failed", pa.list_(_INTERVAL)),
        ("schema_ids", pa.string()),
        ("accepted", pa.list_(_ACCEPTED)),
        ("gone", pa.list_(pa.string())),
        ("target_end", pa.int64()),
        ("compared", pa.list_(_INTERVAL)),
        ("letters", pa.list_(_SEGMENT)),
        ("remote_epoch", pa.int32()),
        ("rule_counts", _COUNTS),
        ("last_crc", pa.int64()),
    ]
)


def ordinary_rows() -> pc.Expression:
    """The rows of copied ranges that no backfill has copied."""
    # As a constant it would import pandas with this module, since Arrow checks each value with it.
    return pc.field("type") == "transaction"


def backfilled_rows() -> pc.Expression:
    """The rows of ranges that backfills and repairs have copied."""
    return pc.field("type") == "backfill"


def copied_rows() -> pc.Expression:
    """The rows of copied ranges, including backfills, which ``positions`` and similar queries leave out."""
    return ordinary_rows() | backfilled_rows()


def is_one_of(column: str, names: Iterable[str]) -> pc.Expression:
    """The rows with one of ``names`` in a column of texts; none where there are no names."""
    # Of an empty list, Arrow would not know that it holds texts, and compares no texts with it.
    return pc.field(column).isin(pa.array(sorted(set(names)), pa.string()))


class Release(NamedTuple):
    """A remote topic that was given up: when, in milliseconds since 1970, and by which run."""

    remote_topic: str
    remote_topic_id: str
    at: int
    run: str

    @property
    def is_repair(self) -> bool:
        """Whether a person has given it up, and not a run, since its source topic was gone."""
        return self.run.startswith("repair__")


class LedgerEnd(NamedTuple):
    """Where the records end that the ledger has in a *target* partition.

    Attributes:
        offset: the offset on the target after the last one.
        at: the time of its entry, in milliseconds since 1970.
        is_own: whether the last one is the flow's own record; else another mirror wrote it, or there is none.
        remote_epoch: the target's leader epoch of what lies before it, where another mirror wrote that; -1 where it
            is not known.
    """

    offset: int = 0
    at: int = 0
    is_own: bool = False
    remote_epoch: int = -1


class CopiedPartition(NamedTuple):
    """A partition that was copied, with both of its topics."""

    topic: str
    topic_id: str
    partition: int
    remote_topic: str
    remote_topic_id: str

    @property
    def source(self) -> TopicPartition:
        """The partition on the source."""
        return TopicPartition(self.topic, self.partition)

    @property
    def target(self) -> TopicPartition:
        """The partition on the target."""
        return TopicPartition(self.remote_topic, self.partition)

    def reverse(self) -> CopiedPartition:
        """The partitions, named as by the opposite flow."""
        return CopiedPartition(
            self.remote_topic, self.remote_topic_id, self.partition, self.topic, self.topic_id
        )


RangeKey = tuple[int, str, int, int]
"""A range of the ledger: its record's offset there, topic, partition and first source offset."""


class LedgerRange(NamedTuple):
    """A range in the ledger, with the run that copied it and the offset and time of its ledger record.

    Attributes:
        window: of a backfill's range, the timestamps that it accounts for.
        writer: the number of the writer that copied it.
        producer_id: the id of the producer that wrote the record; -1 where it was read from the table.
    """

    ledger_offset: int
    run: str
    copied: CopiedRange
    at: int = 0
    window: Window | None = None
    writer: int = -1
    producer_id: int = -1

    @property
    def target(self) -> TopicPartition:
        """The partition that it was copied to."""
        return TopicPartition(self.copied.remote_topic, self.copied.partition)

    @property
    def key(self) -> RangeKey:
        """What identifies it."""
        copied = self.copied
        return self.ledger_offset, copied.topic, copied.partition, copied.start


def ranges_of(offset: int, entry: CopyingEntry, producer_id: int) -> Iterator[LedgerRange]:
    """The ranges of an entry that a producer has written at an offset of the ledger."""
    window = entry.window if isinstance(entry, BackfillEntry) else None
    for copied in entry.ranges:
        yield LedgerRange(offset, entry.run, copied, entry.at, window, entry.writer, producer_id)


def rows_of(offset: int, entry: Entry) -> Iterable[dict[str, Any]]:
    """The rows of an entry that the ledger has at an offset."""
    common = {
        "ledger_offset": offset,
        "type": entry.type,
        "flow": entry.flow,
        "run": entry.run,
        "at": entry.at,
    }
    if isinstance(entry, CopyingEntry):
        if isinstance(entry, BackfillEntry):
            common |= {"since": entry.since, "until": entry.until}
        for copied in entry.ranges:
            yield common | _fields_of(copied) | {"writer": entry.writer}
    elif isinstance(entry, OwnershipEntry):
        for mark in entry.marks:
            yield common | dataclasses.asdict(mark)
    elif isinstance(entry, ReleaseEntry):
        for released in entry.remote_topics:
            yield common | released.model_dump()
    elif isinstance(entry, AppliedEntry):
        yield common | {"applied": entry.model_dump_json()}
    elif isinstance(entry, GroupsEntry):
        yield common | {"groups": entry.model_dump_json()}
    elif isinstance(entry, VerificationEntry):
        yield common | {
            "through": entry.through,
            "records": entry.records,
            "again": _structs(entry.again),
            "failed": _structs(entry.failed),
            "accepted": [
                accepted.model_dump() | {"missing": _structs(accepted.missing)}
                for accepted in entry.accepted
            ],
            "gone": list(entry.gone),
        }
    elif isinstance(entry, RunEntry):
        fields = ("writers", "assignment", "file", "topics", "isolation_level")
        yield common | {name: getattr(entry, name) for name in fields}


def _fields_of(copied: CopiedRange) -> dict[str, Any]:
    """The columns of a copied range."""
    row = copied.model_dump() | {"target_end": copied.target_end}
    row |= {name: list(getattr(copied, name).items()) for name in _MAPS}
    row |= {name: [one._asdict() for one in getattr(copied, name)] for name in _TUPLES}
    return row | {name: _structs(getattr(copied, name)) for name in _INTERVALS}


def accepted_range(fields: Mapping[str, Any]) -> AcceptedRange:
    """The range of one element of ``accepted`` in a row by ``rows_of``."""
    missing = tuple((one["start"], one["end"]) for one in fields["missing"])
    return AcceptedRange(**{**fields, "missing": missing})


def _structs(intervals: Iterable[tuple[int, int]]) -> list[dict[str, int]]:
    return [{"start": start, "end": end} for start, end in intervals]


def copied_range(row: Mapping[str, Any]) -> CopiedRange:
    """The range of a row by ``rows_of``."""
    fields = {name: row[name] for name in CopiedRange.model_fields}
    for name in _MAPS:
        fields[name] = dict(row[name])
    for name, kind in _TUPLES.items():
        fields[name] = tuple(kind(**one) for one in row[name])
    for name in _INTERVALS:
        fields[name] = tuple((one["start"], one["end"]) for one in row[name])
    fields["origins"] = tuple(row["origins"])
    if row["producer"]:
        fields["producer"] = ProducerState(**row["producer"])
    return CopiedRange.model_construct(**fields)
