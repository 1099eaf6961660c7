"""Records another mirror's copies as the flow's own: marks, ledger ranges, positions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import pyarrow.compute as pc

from kafka_ferry.batches import Reason, Segment
from kafka_ferry.clock import now_ms
from kafka_ferry.config import Flow
from kafka_ferry.control import ClusterControl
from kafka_ferry.copy.target.fencing import commit_adopted, fence_writers
from kafka_ferry.errors import FerryError
from kafka_ferry.groups.alignment.align import Alignment, LogRecords
from kafka_ferry.ledger import (
    CopiedRange,
    LedgerTable,
    OwnershipEntry,
    append_entry,
    copied_rows,
    ledger_creation,
    ledger_topic,
)
from kafka_ferry.model import Position, TopicPartition
from kafka_ferry.model.topic_pair import Pair

# About 400 KB of JSON: a ledger record must stay below the default max.message.bytes.
_MAX_SEGMENTS: Final = 10_000


def prepare(flow: Flow, ledger: LedgerTable) -> None:
    """Fence the flow's running writers, create its ledger if missing, and check that all copies are verified.

    Raises:
        FerryError: some copies are not verified; or the ledger cannot be created.
    """
    topic = ledger_topic(flow.source.alias)
    creation = ledger_creation(topic, flow.replication_factor)
    for error in ClusterControl(flow.target).create_topics([creation]).values():
        raise error
    ledger.project(flow.target, topic)
    last = ledger.last_run()
    fence_writers(flow, max(flow.writers, last["writers"] if last else 0))
    ledger.project(flow.target, topic)
    raise_if_unverified(flow, ledger)


def raise_if_unverified(flow: Flow, ledger: LedgerTable) -> None:
    """Check that all earlier entries are verified: adopted ranges count as verified, and so would those.

    Raises:
        FerryError: some are not verified.
    """
    if next(ledger.ranges(since=ledger.verified_through(), of_run=""), None):
        raise FerryError(
            f"{flow.name} has copied records that are not verified yet.",
            advice="Verify them first, with `ferry run` or `ferry verify`.",
        )


def adopt_topic(
    flow: Flow,
    ledger: LedgerTable,
    run: str,
    pair: Pair,
    found: Mapping[int, Alignment],
    sources: Mapping[int, LogRecords],
    origins: tuple[str, ...],
) -> None:
    """Take over a topic: all of its partitions, or none.

    Args:
        flow: the flow, prepared by ``prepare``.
        ledger: its ledger's table.
        run: the run that takes it over.
        pair: the topic.
        found: the aligned runs on the target, by partition.
        sources: the source's records, by partition.
        origins: the ids of all clusters that the records came through.
    """
    assert pair.source
    assert pair.remote
    mark_owned(flow, run, pair)
    ranges, positions = list[CopiedRange](), dict[TopicPartition, Position]()
    for number, alignment in found.items():
        adopted = ranges_of(pair, number, alignment, sources[number])
        ranges += (range_.model_copy(update={"origins": origins}) for range_ in adopted)
        positions[TopicPartition(pair.remote_topic, number)] = Position(
            alignment.end,
            pair.source.topic_id,
            pair.remote.topic_id,
            leader_epoch=alignment.leader_epoch,
            origins=origins,
        )
    commit_adopted(flow, run, joined(ranges), positions)
    ledger.project(flow.target, ledger_topic(flow.source.alias))


def mark_owned(flow: Flow, run: str, pair: Pair) -> None:
    """Mark a topic that is on both sides as the flow's own, unless it is."""
    mark = pair.own_mark()
    if pair.mark != mark:
        append_entry(flow, OwnershipEntry(flow=flow.name, run=run, at=now_ms(), marks=(mark,)))


def last_targets(ledger: LedgerTable, pair: Pair) -> dict[int, int]:
    """For each partition of ``pair``, the target offset after the ledger's last record."""
    wanted = copied_rows() & (pc.field("remote_topic") == pair.remote_topic)
    rows = ledger.read(wanted, ["partition", "remote_topic_id", "segments"])
    ends: dict[int, int] = {}
    remote_id = pair.remote.topic_id if pair.remote else ""
    for row in rows.to_pylist():
        if row["remote_topic_id"] == remote_id and row["segments"]:
            last = row["segments"][-1]
            end = last["target"] + last["records"]
            ends[row["partition"]] = max(end, ends.get(row["partition"], 0))
    return ends


def ranges_of(
    pair: Pair, number: int, found: Alignment, source: LogRecords
) -> Iterator[CopiedRange]:
    """The ledger's ranges for what was found, each with a limited number of segments."""
    assert pair.source
    assert pair.remote
    start = found.start
    for first in range(0, max(1, len(found.segments)), _MAX_SEGMENTS):
        segments = found.segments[first : first + _MAX_SEGMENTS]
        after = found.segments[first + _MAX_SEGMENTS : first + _MAX_SEGMENTS + 1]
        end = after[0].source if after else found.end
        records = sum(segment.records for segment in segments)
        yield CopiedRange(
            topic=pair.topic,
            topic_id=pair.source.topic_id,
            partition=number,
            remote_topic=pair.remote_topic,
            remote_topic_id=pair.remote.topic_id,
            start=start,
            end=end,
            records=records,
            bytes=0,
            batches=0,
            reasons=_reasons(found, source, start, end, records),
            segments=tuple(map(Segment._make, segments)),
            # Records were compared; their batches are another producer's.
            digest="",
            leader_epoch=found.leader_epoch,
            adopted=records,
        )
        start = end


def _reasons(
    found: Alignment, source: LogRecords, start: int, end: int, records: int
) -> dict[str, int]:
    markers = source.markers
    control = int(markers.searchsorted(end) - markers.searchsorted(start))
    aborted = 0
    if found.aborted:
        aborted = int(source.aborted[source.below(start) : source.below(end)].sum())
    left = end - start - records - control - aborted
    counts = {Reason.CONTROL: control, Reason.ABORTED: aborted, Reason.COMPACTED: left}
    return {str(reason): count for reason, count in counts.items() if count}


def joined(ranges: Iterable[CopiedRange]) -> list[list[CopiedRange]]:
    """The ranges in as few ledger records as their segments allow."""
    records: list[list[CopiedRange]] = []
    room = 0
    for range_ in ranges:
        # A range without its segments takes about as much space as ten segments.
        size = len(range_.segments) + 10
        if size > room:
            records.append([])
            room = _MAX_SEGMENTS + 10
        records[-1].append(range_)
        room -= size
    return records
