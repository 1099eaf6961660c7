"""Reads a run's ranges back from the target, to compare them with the ledger."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from kafka_ferry.ledger import LedgerEnd
from kafka_ferry.ledger.proofs import accepted_ranges
from kafka_ferry.ledger.queries.accepted_losses import accepted_cuts
from kafka_ferry.ledger.queries.copied_topics import preserved_starts
from kafka_ferry.model import TopicPartition
from kafka_ferry.runs.provenance.log_mismatches import cut_since_takeover, writer_of_last
from kafka_ferry.runs.provenance.opposite_flow import leaves_out
from kafka_ferry.runs.provenance.own_producers import own_among
from kafka_ferry.runs.provenance.shared_topics import Recounting, with_others
from kafka_ferry.verify import RangeRow, range_row
from kafka_ferry.verify.claim import RangeClaim, without_overwritten
from kafka_ferry.verify.shared_topics import without_locals
from kafka_ferry.verify.topics import NOTHING_REFUSED
from kafka_ferry.wire import connect

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Sequence

    from kafka_ferry.config import Flow
    from kafka_ferry.errors import FerryError
    from kafka_ferry.ledger import LedgerRange, LedgerTable
    from kafka_ferry.ledger.proofs import AcceptedRanges
    from kafka_ferry.model import Topic
    from kafka_ferry.runs.state.stored_recounts import Claims
    from kafka_ferry.verify import PartitionRecount

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
    # What another mirror has copied since a topic was given back to it, a takeover compares.
    given_back = {name for name, mark in ledger.marks().items() if mark.given_back}
    recounts = {
        tp: result._replace(beyond=0) if is_backfill or tp.topic in given_back else result
        for tp, result in recounts.items()
    }
    if leaves_out(flow):
        recounts = without_locals(recounts, claims)
    else:
        times = [entry.at for entry in ranges] + [end.at for end in boundaries.values()]
        first_at = min(times, default=0)
        known = {entry.ledger_offset for entry in ranges}
        recounts = with_others(flow, claims, recounts, topics, first_at, recount, known)
    cut = _cut_partitions(flow, ledger, topics, by_target, claims, recounts, boundaries)
    recounts = {tp: _within_boundary(result, claims[tp]) for tp, result in recounts.items()}
    own = _own_strangers(flow, ledger, ranges, recounts.values())
    accepted, compacted = accepted_ranges(ledger), ledger.applied().compacted_until
    rows = _range_rows(by_target, recounts, topics, compacted, accepted, boundaries, cut, own)
    unread = [range_row(it, None, unread=str(refused[it.target.topic])) for it in hidden]
    return Recounted(
        [*rows, *unread],
        [range_row(entry, None) for entry in gone],
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


def _cut_partitions(
    flow: Flow,
    ledger: LedgerTable,
    topics: Mapping[str, Topic],
    by_target: Mapping[TopicPartition, Sequence[LedgerRange]],
    claims: Claims,
    recounts: Mapping[TopicPartition, PartitionRecount],
    boundaries: Boundaries,
) -> set[TopicPartition]:
    """The partitions that lack the last record before the ranges, or have another one in its place."""
    cut = {
        tp
        for tp in _cut_logs(recounts, claims, boundaries)
        # A cleaner may have taken it, but neither put anything else there, nor a log's end before it.
        if not topics[tp.topic].is_compacted or recounts[tp].ranges[0].uncleaned
    }
    cut |= _replaced_ends(flow, ledger, by_target, boundaries, recounts)
    # A person has looked at what is missing there and left it so.
    cut -= accepted_cuts(ledger, boundaries)
    return cut | _cut_since_takeover(
        flow, boundaries, {tp: recounts[tp] for tp in recounts.keys() & by_target}
    )


def _cut_logs(
    recounts: Mapping[TopicPartition, PartitionRecount], claims: Claims, boundaries: Boundaries
) -> set[TopicPartition]:
    """The partitions whose logs lack the flow's last record before the ranges.

    The plan has looked where the log ends. Where it was truncated since then, markers and the run's own records
    took the offsets of what is gone, and the ranges are whole.
    """
    return {
        tp
        for tp, end in boundaries.items()
        if end.is_own
        and claims[tp][0].is_boundary
        and not recounts[tp].unread
        and not (recounts[tp].ranges[0].records or recounts[tp].ranges[0].expired)
    }


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
    """As ``_cut_logs``, where a takeover has compared what another mirror wrote: its last offset may hold no record."""
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


def _within_boundary(recount: PartitionRecount, claims: Sequence[RangeClaim]) -> PartitionRecount:
    """What was found for the ranges alone.

    A batch across the boundary is none of the flow's, which end there: it is foreign in the range that follows.
    """
    if not (claims and claims[0].is_boundary):
        return recount
    across, *ranges = recount.ranges
    if not ranges:
        beyond, strangers = recount.beyond + across.foreign, recount.strangers + across.strangers
        return recount._replace(ranges=(), beyond=beyond, strangers=strangers)
    first = replace(
        ranges[0],
        foreign=ranges[0].foreign + across.foreign,
        strangers=(*ranges[0].strangers, *across.strangers),
    )
    return recount._replace(ranges=(first, *ranges[1:]))


def _own_strangers(
    flow: Flow,
    ledger: LedgerTable,
    ranges: Iterable[LedgerRange],
    recounts: Iterable[PartitionRecount],
) -> frozenset[int]:
    """The producers of foreign records that are writers of the flow, also those that coordinators have forgotten."""
    strangers = {
        stranger.producer_id
        for recount in recounts
        for of_range in recount.ranges
        for stranger in of_range.strangers
    }
    own = strangers & {entry.producer_id for entry in ranges}
    return own_among(flow, ledger, strangers - own) | own


def _range_rows(
    by_target: Mapping[TopicPartition, list[LedgerRange]],
    recounts: Mapping[TopicPartition, PartitionRecount],
    topics: Mapping[str, Topic],
    compacted_until: Mapping[str, int],
    accepted: AcceptedRanges,
    boundaries: Boundaries,
    cut: Container[TopicPartition],
    own: frozenset[int],
) -> Iterator[RangeRow]:
    for tp, entries in by_target.items():
        reached = boundaries.get(tp, LedgerEnd()).offset
        topic = topics[tp.topic]
        # What a cleaner took before the topic's policy was changed stays away.
        until = compacted_until.get(topic.topic_id, -1)
        for entry, recount in zip(entries, recounts[tp].ranges, strict=True):
            row = range_row(
                entry,
                recount,
                target_is_compacted=topic.is_compacted or entry.at <= until,
                accepted=accepted.get(entry.key),
                reached=reached,
                unread=recounts[tp].unread,
                is_gone_before=tp in cut and entry is entries[0],
            )
            producers = {stranger.producer_id for stranger in recount.strangers}
            if recount.foreign and not own.isdisjoint(producers):
                row = replace(row, recount=replace(row.recount, foreign_own=1))
            yield row
            reached = max(reached, entry.copied.target_end)
