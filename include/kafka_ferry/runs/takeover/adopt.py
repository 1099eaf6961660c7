"""Records another mirror's copies as the flow's own: marks, ledger ranges, positions."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from kafka_ferry.batches import Reason, Segment
from kafka_ferry.batches.epochs import UNKNOWN_EPOCH
from kafka_ferry.clock import now_ms
from kafka_ferry.config import Flow
from kafka_ferry.control import ClusterControl
from kafka_ferry.copy.target.all_writers import commit_takeover, fence_writers
from kafka_ferry.errors import FerryError
from kafka_ferry.groups.alignment.align import Alignment, LogRecords
from kafka_ferry.groups.ledger_entries import Synced, synced_key
from kafka_ferry.groups.translation import OffsetMap
from kafka_ferry.ledger import (
    CopiedRange,
    LedgerTable,
    OwnershipEntry,
    SyncedOffset,
    append_entry,
    ledger_creation,
    ledger_topic,
)
from kafka_ferry.ledger.queries.run_starts import last_run
from kafka_ferry.ledger.topic import wait_until_settled
from kafka_ferry.model import ClusterState, Position, TopicPartition
from kafka_ferry.model.topic_pair import Pair
from kafka_ferry.plan.topics.provenance import origins_beyond
from kafka_ferry.retry import retry
from kafka_ferry.runs.sync_groups.commit_offsets import record_synced
from kafka_ferry.runs.takeover.align import Aligned
from kafka_ferry.runs.takeover.mirrored_offsets import MirroredOffsets
from kafka_ferry.verify.claim import RangeClaim
from kafka_ferry.verify.recount import recount_here
from kafka_ferry.wire import connect
from kafka_ferry.wire.partitions.epochs import epochs_before, have_reached

log = logging.getLogger(__name__)

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
    fence_all_writers(flow, ledger)
    ledger.project(flow.target, topic)
    raise_if_unverified(flow, ledger)


def fence_all_writers(flow: Flow, ledger: LedgerTable) -> None:
    """Fence the writers of the flow's last run, and as many as it has now."""
    last = last_run(ledger)
    fence_writers(flow, max(flow.writers, last.writers if last else 0))


def raise_if_unverified(flow: Flow, ledger: LedgerTable) -> None:
    """Check that all earlier entries are verified: adopted ranges count as verified, and so would those.

    Raises:
        FerryError: some are not verified.
    """
    if next(ledger.ranges(since=ledger.verified_through(), of_run=""), None):
        raise FerryError(
            f"{flow.name} has copied records that are not verified yet.",
            advice="Verify them first, with `ferry run` or `ferry verify`. Where these fail, they say what to repair.",
        )


def adopt_topic(
    flow: Flow,
    ledger: LedgerTable,
    run: str,
    aligned: Aligned,
    state: ClusterState,
    mirrored: MirroredOffsets,
    *,
    since: int,
) -> None:
    """Take over a topic: all of its partitions, or none.

    Args:
        flow: the flow, prepared by ``prepare``.
        ledger: its ledger's table.
        run: the run that takes it over.
        aligned: the topic, compared.
        state: both clusters.
        mirrored: what MirrorMaker 2 has committed for groups.
        since: the ledger's end before the topic was compared.

    Raises:
        FerryError: the target no longer has what was compared; another takeover or a run has put ranges of the topic
            into the ledger meanwhile, or a run any that are not verified yet; or a cluster does not answer.
    """
    pair, origins = aligned.pair, origins_beyond(state, aligned.pair)
    assert pair.source
    assert pair.remote
    ranges, positions = list[CopiedRange](), dict[TopicPartition, Position]()
    epochs = _epochs(flow, pair.remote_topic, aligned.targets)
    for number, alignment in _with_possible_epochs(flow, aligned).items():
        source, target = aligned.sources[number], aligned.targets.get(number)
        epoch = epochs.get(number, -1)
        adopted = [
            it.model_copy(update={"origins": origins, "remote_epoch": epoch if it.compared else -1})
            for it in ranges_of(pair, number, alignment, source, target)
        ]
        remote = TopicPartition(pair.remote_topic, number)
        ranges += _read_back(flow, remote, adopted)
        positions[remote] = Position(
            alignment.end,
            pair.source.topic_id,
            pair.remote.topic_id,
            leader_epoch=alignment.leader_epoch,
            origins=origins,
        )
    refuted = list(_refuted_offsets(pair.remote.topic_id, ranges, mirrored))
    mark_owned(flow, run, aligned)
    # Before the ranges, with which the groups' offsets are translated from then on.
    record_synced(flow, run, state.source.cluster_id, refuted)
    topic = ledger_topic(flow.source.alias)

    def confirm(ledger_offset: int) -> None:
        # A run that began after the writers were fenced has copied meanwhile.
        wait_until_settled(flow.target, topic, ledger_offset)
        ledger.project(flow.target, topic)
        raise_if_unverified(flow, ledger)
        if any(it.copied.topic == pair.topic for it in ledger.ranges(since=since, of_run="")):
            raise FerryError(
                f"Another takeover of {pair.topic}, or a run, has written to {topic} meanwhile.",
                advice="Repeat it when no other one runs.",
            )

    commit_takeover(flow, run, join_ranges(ranges), positions, confirm)
    ledger.project(flow.target, topic)


def _with_possible_epochs(flow: Flow, aligned: Aligned) -> dict[int, Alignment]:
    """What was found, by partition, without leader epochs that the source has never reached: no checksum covers them.

    Raises:
        FerryError: if the source does not answer.
    """
    epochs = {
        TopicPartition(aligned.pair.topic, number): it.leader_epoch
        for number, it in aligned.found.items()
        if it.leader_epoch > UNKNOWN_EPOCH
    }

    def ask() -> dict[TopicPartition, bool]:
        with connect(flow.source) as cluster:
            return have_reached(cluster, epochs)

    reached = retry(ask) if epochs else {}
    wrong = {tp.partition for tp, is_reached in reached.items() if not is_reached}
    return {
        number: replace(it, leader_epoch=UNKNOWN_EPOCH) if number in wrong else it
        for number, it in aligned.found.items()
    }


def _epochs(flow: Flow, remote_topic: str, targets: Mapping[int, LogRecords]) -> dict[int, int]:
    """By partition, the leader epoch of what was compared last on the target, by which a cut log shows later."""
    ends = {
        TopicPartition(remote_topic, number): records.end
        for number, records in targets.items()
        if records.first < records.end
    }
    try:
        with connect(flow.target) as cluster:
            epochs = retry(lambda: epochs_before(cluster, ends)) if ends else {}
    except FerryError as error:
        # Not every broker that speaks Kafka's protocol has leader epochs.
        log.warning("The leader epochs of %s are not known: %s", remote_topic, error)
        return {}
    return {tp.partition: epoch for tp, epoch in epochs.items()}


def _refuted_offsets(
    remote_topic_id: str, ranges: Iterable[CopiedRange], mirrored: MirroredOffsets
) -> Iterator[Synced]:
    """The groups' offsets on the target that the records contradict, as syncs of MirrorMaker 2."""
    by_target: dict[TopicPartition, list[CopiedRange]] = defaultdict(list)
    for range_ in ranges:
        by_target[TopicPartition(range_.remote_topic, range_.partition)].append(range_)
    maps = {target: OffsetMap.of(of_partition) for target, of_partition in by_target.items()}
    for checkpoint in mirrored.find_refuted(maps):
        key = synced_key(remote_topic_id, checkpoint.target)
        offset = SyncedOffset(
            source=checkpoint.upstream, target=checkpoint.downstream, refuted=True
        )
        yield checkpoint.group, *key, offset


def _read_back(
    flow: Flow, target: TopicPartition, ranges: Sequence[CopiedRange]
) -> Iterator[CopiedRange]:
    """The ranges with the digests of their batches on the target, as each later verification reads them.

    Raises:
        FerryError: the target no longer has their records.
    """
    claims = [RangeClaim.of(range_) for range_ in ranges]
    ((_, recount),) = recount_here(flow.target, [(target, claims, None)])
    for range_, range_recount in zip(ranges, recount.ranges, strict=True):
        if range_recount.records != range_.records:
            raise FerryError(
                f"{target} on {flow.target.alias} no longer has what was compared: {range_recount.records} of "
                f"{range_.records} records.",
                advice="Try again.",
            )
        yield range_.model_copy(update={"digest": range_recount.digest})


def mark_owned(flow: Flow, run: str, aligned: Aligned) -> None:
    """Mark a topic that is on both sides as the flow's own, unless it is."""
    mark = aligned.pair.own_mark(is_compared=aligned.is_whole)
    if aligned.pair.mark != mark:
        append_entry(flow, OwnershipEntry(flow=flow.name, run=run, at=now_ms(), marks=(mark,)))


def ranges_of(
    pair: Pair, number: int, alignment: Alignment, source: LogRecords, target: LogRecords | None
) -> Iterator[CopiedRange]:
    """The ledger's ranges for what was found, each with a limited number of segments.

    Args:
        pair: the topic.
        number: the partition.
        alignment: the aligned runs.
        source: the source's records.
        target: the target's; None where they lie in other partitions.
    """
    assert pair.source
    assert pair.remote
    compared = ((target.first, target.end),) if target and target.first < target.end else ()
    start = alignment.start
    for first in range(0, max(1, len(alignment.segments)), _MAX_SEGMENTS):
        segments = alignment.segments[first : first + _MAX_SEGMENTS]
        after = alignment.segments[first + _MAX_SEGMENTS : first + _MAX_SEGMENTS + 1]
        end = after[0].source if after else alignment.end
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
            # Of all batches that were read, their part: they hold duplicates too.
            bytes=target.bytes * records // len(target) if target and records else 0,
            batches=0,
            reasons=_reasons(alignment, source, start, end, records),
            segments=tuple(map(Segment._make, segments)),
            digest="",
            leader_epoch=alignment.leader_epoch,
            adopted=records,
            # In the last one: what the ledger knows of the log ascends.
            compared=() if after else compared,
        )
        start = end


def _reasons(
    alignment: Alignment, source: LogRecords, start: int, end: int, records: int
) -> dict[str, int]:
    markers = source.markers
    control = int(markers.searchsorted(end) - markers.searchsorted(start))
    aborted = 0
    if alignment.aborted:
        aborted = int(source.aborted[source.below(start) : source.below(end)].sum())
    left = end - start - records - control - aborted
    counts = {Reason.CONTROL: control, Reason.ABORTED: aborted, Reason.COMPACTED: left}
    return {str(reason): count for reason, count in counts.items() if count}


def join_ranges(ranges: Iterable[CopiedRange]) -> list[list[CopiedRange]]:
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
