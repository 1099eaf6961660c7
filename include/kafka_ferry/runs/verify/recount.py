"""Reads a run's ranges back from the target, to compare them with the ledger."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from kafka_ferry.ledger import LedgerEnd
from kafka_ferry.ledger.proofs import accepted_ranges
from kafka_ferry.ledger.queries.copied_topics import preserved_starts
from kafka_ferry.model import TopicPartition
from kafka_ferry.retry import retry
from kafka_ferry.runs.provenance.log_mismatches import (
    cut_since_takeover,
    own_among,
    writer_of_last,
)
from kafka_ferry.runs.provenance.opposite_flow import leaves_out
from kafka_ferry.runs.provenance.shared_topics import Recounting, with_others
from kafka_ferry.verify import RangeRow, Recount, range_row
from kafka_ferry.verify.claim import RangeClaim, without_overwritten
from kafka_ferry.verify.shared_topics import without_locals
from kafka_ferry.verify.topics import NOTHING_REFUSED
from kafka_ferry.wire import connect
from kafka_ferry.wire.partitions.partition_log import partition_log
from kafka_ferry.wire.partitions.scan import batch_at

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable, Sequence

    from kafka_ferry.config import Flow
    from kafka_ferry.errors import FerryError
    from kafka_ferry.ledger import LedgerRange, LedgerTable
    from kafka_ferry.ledger.proofs import AcceptedRanges
    from kafka_ferry.model import Topic
    from kafka_ferry.runs.state.stored_recounts import Claims
    from kafka_ferry.verify import PartitionRecount


NOTHING_ACCEPTED: Final[AcceptedRanges] = {}
Boundaries = Mapping[TopicPartition, LedgerEnd]
"""By *target* partition, up to where the ledger had written to it before: from there on it is read."""
NO_BOUNDARIES: Final[Boundaries] = {}


@dataclass(frozen=True)
class Recounted:
    """Ranges of the ledger and what the target holds of them.

    Attributes:
        present: those whose remote topic exists, or may exist.
        gone: those whose remote topic was deleted or given up.
        recounts: by *target* partition, what was found in it.
        cut: the *target* partitions without ranges that do not show the last record that the ledger has there.
    """

    present: list[RangeRow]
    gone: list[RangeRow]
    recounts: Mapping[TopicPartition, PartitionRecount]
    cut: frozenset[TopicPartition] = frozenset()


def recount_ranges(
    recount: Recounting,
    flow: Flow,
    ledger: LedgerTable,
    ranges: Sequence[LedgerRange],
    topics: Mapping[str, Topic],
    *,
    is_backfill: bool,
    boundaries: Boundaries = NO_BOUNDARIES,
    refused: Mapping[str, FerryError] = NOTHING_REFUSED,
) -> Recounted:
    """Count the ranges' records on the target.

    Args:
        recount: reads back what the ledger claims.
        flow: the flow.
        ledger: its ledger, projected.
        ranges: what is counted.
        topics: the remote topics that exist, by name.
        is_backfill: whether the ranges are a backfill's, which ends in the middle of what the flow copies.
        boundaries: from where on partitions are read, also such without a range: what lies between there and
            the ranges is foreign.
        refused: the errors of remote topics that the cluster refuses to describe: what they hold is not read.
    """
    hidden = [entry for entry in ranges if entry.target.topic in refused]
    ranges = [entry for entry in ranges if entry.target.topic not in refused]
    by_target, gone = _by_target(ranges, topics, ledger.released_topics())
    claims = _claims(by_target, ledger, boundaries)
    recounts = recount(claims)
    if is_backfill:
        recounts = {tp: result._replace(beyond=0) for tp, result in recounts.items()}
    if leaves_out(flow):
        recounts = without_locals(recounts, claims)
    else:
        times = [entry.at for entry in ranges] + [end.at for end in boundaries.values()]
        first_at = min(times, default=0)
        known = {entry.ledger_offset for entry in ranges}
        recounts = with_others(flow, claims, recounts, topics, first_at, recount, known)
    accepted = accepted_ranges(ledger)
    compacted = {name for name, topic in topics.items() if topic.is_compacted}
    names = ledger.topics() if accepted else {}
    left = {TopicPartition(names.get(topic, ""), number) for _, topic, number, _ in accepted}
    cut = {
        tp
        for tp, result in recounts.items()
        if _is_cut(result, claims[tp], boundaries.get(tp))
        # A cleaner may have taken it, or a person has looked at what is missing and left it so.
        and tp not in left
        and not (tp.topic in compacted and not _is_hidden(flow, tp, boundaries[tp].offset - 1))
    }
    cut |= _replaced_ends(flow, ledger, by_target, boundaries, recounts) - left
    cut |= _cut_since_takeover(flow, boundaries, {tp: recounts[tp] for tp in by_target})
    recounts = {tp: _within_boundary(result, claims[tp]) for tp, result in recounts.items()}
    unread = [_range_row(it, None, unread=str(refused[it.target.topic])) for it in hidden]
    strangers = {
        it for result in recounts.values() for one in result.ranges for it in one.strangers
    }
    # Writers that coordinators have forgotten since have written the ranges.
    own = strangers & {entry.producer_id for entry in ranges}
    own |= own_among(flow, ledger, strangers - own)
    rows = _range_rows(by_target, recounts, topics, accepted, boundaries, cut)
    return Recounted(
        [_with_own_strangers(row, result, own) for row, result in rows] + unread,
        [_range_row(entry, None) for entry in gone],
        recounts,
        frozenset(cut - by_target.keys()),
    )


def claims_of(
    ledger: LedgerTable,
    ranges: Iterable[LedgerRange],
    topics: Mapping[str, Topic],
    boundaries: Boundaries = NO_BOUNDARIES,
) -> Claims:
    """The ledger's claims by ranges in remote topics that exist, by *target* partition.

    Args:
        ledger: the flow's ledger.
        ranges: the ranges.
        topics: the remote topics that exist, by name.
        boundaries: as of ``recount_ranges``; those of other partitions do not matter.
    """
    by_target, _ = _by_target(ranges, topics, ledger.released_topics())
    return _claims(by_target, ledger, {tp: boundaries[tp] for tp in boundaries.keys() & by_target})


def _by_target(
    ranges: Iterable[LedgerRange], topics: Mapping[str, Topic], released: Container[str]
) -> tuple[dict[TopicPartition, list[LedgerRange]], list[LedgerRange]]:
    """The ranges by target partition, and those whose remote topic was deleted or given up.

    A topic of the same name that was created since holds none of their records. They are not
    recounted, and cover nothing of a plan: a run fails where its own copy is gone, and does not
    fail forever for what an earlier run had copied.
    """
    present: dict[TopicPartition, list[LedgerRange]] = defaultdict(list)
    gone = []
    for entry in ranges:
        topic = topics.get(entry.target.topic)
        went_to = entry.copied.remote_topic_id
        if topic and went_to in ("", topic.topic_id) and went_to not in released:
            present[entry.target].append(entry)
        else:
            gone.append(entry)
    return present, gone


def _claims(
    by_target: Mapping[TopicPartition, list[LedgerRange]],
    ledger: LedgerTable,
    boundaries: Boundaries,
) -> dict[TopicPartition, list[RangeClaim]]:
    """The ranges' claims by target partition, after the partition's boundary, where it has one."""
    preserved = any(entry.copied.preserved for entries in by_target.values() for entry in entries)
    first = preserved_starts(ledger) if preserved else {}
    claims = {tp: [RangeClaim.boundary(end.offset)] for tp, end in boundaries.items()}
    for tp, entries in by_target.items():
        of_ranges = [
            RangeClaim.of(
                entry.copied,
                writer=entry.producer_id,
                is_first=first.get((tp, entry.copied.remote_topic_id)) == entry.copied.start,
            )
            for entry in entries
        ]
        claims.setdefault(tp, []).extend(without_overwritten(of_ranges))
    return claims


def _is_cut(
    recount: PartitionRecount, claims: Sequence[RangeClaim], reached: LedgerEnd | None
) -> bool:
    """Whether the log lacks the flow's last record before the ranges.

    The plan has looked where the log ends. Where it was truncated since then, markers and the run's own records
    took the offsets of what is gone, and the ranges are whole.
    """
    if reached is None or not reached.is_own or recount.unread or not claims[0].is_boundary:
        return False
    return not (recount.ranges[0].records or recount.ranges[0].expired)


def _replaced_ends(
    flow: Flow,
    ledger: LedgerTable,
    by_target: Mapping[TopicPartition, Sequence[LedgerRange]],
    boundaries: Boundaries,
    recounts: Mapping[TopicPartition, PartitionRecount],
) -> set[TopicPartition]:
    """The partitions in which another producer has written what is in the place of the flow's last record before.

    A batch of another client may end just where the flow's did. Who wrote that, the ledger says; it is only asked where
    neither the ranges nor the coordinators know the producer.
    """
    writers = {
        tp: writer
        for tp, end in boundaries.items()
        if tp in recounts and end.is_own and not recounts[tp].unread
        if (writer := recounts[tp].ranges[0].writer) is not None
        if writer not in {entry.producer_id for entry in by_target.get(tp, ())}
    }
    own = own_among(flow, ledger, {writer for writer in writers.values() if writer >= 0})
    return {
        tp
        for tp, writer in writers.items()
        if writer not in own
        and writer_of_last(ledger, tp, boundaries[tp].offset) not in (None, writer)
    }


def _cut_since_takeover(
    flow: Flow, boundaries: Boundaries, recounts: Mapping[TopicPartition, PartitionRecount]
) -> set[TopicPartition]:
    """The same of what a takeover has compared, which another mirror has written: no record of it must be the last."""
    ends = {
        tp: end
        for tp, end in boundaries.items()
        if tp in recounts
        and not (end.is_own or recounts[tp].unread)
        and end.remote_epoch >= 0
        and recounts[tp].ranges[0].log_start < end.offset
    }
    if not ends:
        return set()
    with connect(flow.target) as cluster:
        return cut_since_takeover(cluster, ends)


def _is_hidden(flow: Flow, partition: TopicPartition, offset: int) -> bool:
    """Whether the log has a record at an offset, which consumers do not get."""
    with connect(flow.target) as cluster:
        batch = retry(lambda: batch_at(cluster, partition_log(cluster, partition), offset))
    return batch is not None and not batch.header.is_control and batch.header.records > 0


def _within_boundary(recount: PartitionRecount, claims: Sequence[RangeClaim]) -> PartitionRecount:
    """What was found for the ranges alone.

    A batch across the boundary is none of the flow's, which end there: it is foreign in the range that follows.
    """
    if not (claims and claims[0].is_boundary):
        return recount
    across, *ranges = recount.ranges
    if not ranges:
        return recount._replace(ranges=(), beyond=recount.beyond + across.foreign)
    first = replace(
        ranges[0],
        foreign=ranges[0].foreign + across.foreign,
        strangers=(*ranges[0].strangers, *across.strangers),
    )
    return recount._replace(ranges=(first, *ranges[1:]))


def _with_own_strangers(row: RangeRow, recount: Recount, own: Collection[int]) -> RangeRow:
    if not recount.foreign or set(own).isdisjoint(recount.strangers):
        return row
    return replace(row, recount=replace(row.recount, foreign_own=1))


def _range_rows(
    by_target: Mapping[TopicPartition, list[LedgerRange]],
    recounts: Mapping[TopicPartition, PartitionRecount],
    topics: Mapping[str, Topic],
    accepted: AcceptedRanges,
    boundaries: Boundaries,
    cut: Container[TopicPartition],
) -> list[tuple[RangeRow, Recount]]:
    rows = []
    for tp, entries in by_target.items():
        reached = boundaries.get(tp, LedgerEnd()).offset
        unread = recounts[tp].unread
        for entry, recount in zip(entries, recounts[tp].ranges, strict=True):
            is_cut = tp in cut and entry is entries[0]
            row = _range_row(entry, recount, topics[tp.topic], accepted, reached, unread, is_cut)
            rows.append((row, recount))
            reached = max(reached, entry.copied.target_end)
    return rows


def _range_row(
    entry: LedgerRange,
    recount: Recount | None,
    topic: Topic | None = None,
    accepted: AcceptedRanges = NOTHING_ACCEPTED,
    reached: int = 0,
    unread: str = "",
    is_cut: bool = False,
) -> RangeRow:
    return range_row(
        entry.copied,
        recount,
        run=entry.run,
        ledger_offset=entry.ledger_offset,
        target_is_compacted=topic is not None and topic.is_compacted,
        backfill=entry.window is not None,
        accepted=accepted.get(entry.key),
        reached=reached,
        unread=unread,
        is_gone_before=is_cut,
    )
