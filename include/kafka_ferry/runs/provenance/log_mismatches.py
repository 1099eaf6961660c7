"""Where the target's logs contradict the ledger, so that copying on would lose or double records.

Both are claims: a log may be truncated by an unclean leader election, and ledger and positions may lose
their newest records in a power cut that spares the data.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Literal

from kafka_ferry.control import ClusterControl
from kafka_ferry.ledger import ledger_topic
from kafka_ferry.ledger.queries.last_records import displaced_partitions, newest_record_to
from kafka_ferry.ledger.topic import is_settled
from kafka_ferry.model import Topic, TopicPartition
from kafka_ferry.model.cluster_state import LogMismatch
from kafka_ferry.retry import retry
from kafka_ferry.runs.provenance.log_ends import LogEnds, batch_at_end, log_ends, look_again
from kafka_ferry.runs.provenance.own_producers import first_own, own_producers
from kafka_ferry.runs.provenance.preserved_ends import preserved_ends, replaced_ends
from kafka_ferry.wire import connect
from kafka_ferry.wire.partitions.at_offset import markers_at
from kafka_ferry.wire.partitions.epochs import epoch_ends

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.ledger import LedgerEnd, LedgerTable
    from kafka_ferry.wire import WireCluster


def log_mismatches(
    flow: Flow, target: ClusterControl, ledger: LedgerTable, topics: Collection[Topic]
) -> dict[TopicPartition, LogMismatch]:
    """How the logs of remote topics contradict the ledger, by *target* partition; nothing where they agree.

    Records of other producers are no contradiction: the verification names them.

    Args:
        flow: the flow.
        target: its target.
        ledger: its ledger; projected again before anything is taken for a contradiction.
        topics: the remote topics that exist.

    Raises:
        FerryError: if the target does not answer.
    """

    def look(known: dict[TopicPartition, LogMismatch]) -> dict[TopicPartition, LogMismatch]:
        ledger.project(flow.target, ledger_topic(flow.source.alias))
        names = {tp.topic for tp in known}
        again = _find_mismatches(flow, target, ledger, [it for it in topics if it.name in names])
        return {tp: again[tp] for tp in known.keys() & again.keys()}

    return look_again(_find_mismatches(flow, target, ledger, topics), look)


def lost_ends(
    flow: Flow, target: ClusterControl, ledger: LedgerTable, topics: Collection[Topic]
) -> frozenset[TopicPartition]:
    """The *target* partitions that no longer have the last record that the ledger has there, or had verified.

    Their logs were truncated, and may have grown again since. Arguments and errors as of ``log_ends``.
    """
    ends = log_ends(flow, target, ledger, topics)
    kept = preserved_ends(flow, target, ledger, topics)
    cut = frozenset(tp for tp, end in (ends | kept).items() if end.is_cut)
    # A run may have copied on before its verification could tell.
    cut |= displaced_partitions(ledger, topics)
    if cut >= ends.keys() | kept.keys():
        return cut
    with connect(flow.target) as cluster:
        replaced = replaced_ends(cluster, ledger, kept)
        if not ends.keys() <= cut:
            own = own_producers(cluster, flow, ledger)
            replaced |= _replaced_ends(cluster, ledger, ends, own).keys()
        return cut | replaced


def _find_mismatches(
    flow: Flow, target: ClusterControl, ledger: LedgerTable, topics: Collection[Topic]
) -> dict[TopicPartition, LogMismatch]:
    ends = log_ends(flow, target, ledger, topics)
    mismatches = {
        tp: LogMismatch(end.ledger_end.offset, end.log.end)
        for tp, end in ends.items()
        if end.is_cut
    }
    loud = {tp: end for tp, end in ends.items() if not (end.is_cut or end.is_quiet)}
    # A record that an open transaction hides is no missing one: the copy's writers end it, and know it then.
    if loud and not is_settled(flow.target, ledger_topic(flow.source.alias)):
        ends = {tp: end for tp, end in ends.items() if end.is_quiet}
        loud = {}
    # Where offsets are preserved, what is cut is known by the position.
    kept = preserved_ends(flow, target, ledger, topics)
    if kept:
        with connect(flow.target) as cluster:
            for tp in replaced_ends(cluster, ledger, kept):
                end = kept[tp]
                mismatches[tp] = LogMismatch(end.ledger_end.offset, end.log.end, is_replaced=True)
    if ends.keys() <= mismatches.keys():
        return mismatches
    with connect(flow.target) as cluster:
        own = own_producers(cluster, flow, ledger)
        replaced = _replaced_ends(cluster, ledger, ends, own)
        for tp, is_aborted in replaced.items():
            at, end_there = ends[tp].ledger_end.offset, ends[tp].log.end
            mismatches[tp] = LogMismatch(at, end_there, is_replaced=True, is_aborted=is_aborted)
        for tp in loud.keys() - replaced.keys():
            end = loud[tp]
            first = max(end.ledger_end.offset, end.log.start)
            at = first_own(cluster, flow.name, tp, first, own)
            if at >= 0:
                mismatches[tp] = LogMismatch(end.ledger_end.offset, end.log.end, at)
    return mismatches


def _replaced_ends(
    cluster: WireCluster,
    ledger: LedgerTable,
    ends: Mapping[TopicPartition, LogEnds],
    own: frozenset[int] | None,
) -> dict[TopicPartition, bool]:
    """The *target* partitions whose logs are long enough, but have something else where the ledger has the last record.

    Each with whether that is a record of an aborted transaction.

    A log that ends where it should has the flow's marker there: whose it is, brokers tell in one request each. Only
    where it is missing or another's, and where the log ends later, the record before it is read.
    """
    loud = [tp for tp, end in ends.items() if not (end.is_cut or end.is_quiet)]
    marked = {
        tp: end.ledger_end.offset
        for tp, end in ends.items()
        if end.is_quiet
        and end.ledger_end.is_own
        and end.log.start < end.ledger_end.offset < end.log.end
    }
    suspects = [*loud, *(_unmarked_ends(cluster, ledger, marked, own) if marked else ())]
    looked_at = {tp: _replacement(cluster, ledger, tp, ends[tp], own) for tp in suspects}
    replaced = {tp: by == "aborted" for tp, by in looked_at.items() if by}
    kept = {
        tp: log_end.ledger_end
        for tp, log_end in ends.items()
        if log_end.log.start < log_end.ledger_end.offset
    }
    return replaced | dict.fromkeys(cut_since_takeover(cluster, kept), False)


def cut_since_takeover(
    cluster: WireCluster, ends: Mapping[TopicPartition, LedgerEnd]
) -> set[TopicPartition]:
    """The *target* partitions that have lost what another mirror wrote there last, and a takeover has compared.

    Whatever has taken its place, the leader epoch in which it was written ends earlier now.

    Args:
        cluster: the target.
        ends: the ledger's ends that have not expired; those of the flow's own records are passed over.
    """
    taken = {
        tp: end.remote_epoch for tp, end in ends.items() if not end.is_own and end.remote_epoch >= 0
    }
    if not taken:
        return set()
    now = retry(lambda: epoch_ends(cluster, taken))
    return {
        tp
        for tp, epoch_end in now.items()
        if epoch_end.epoch != taken[tp] or epoch_end.end < ends[tp].offset
    }


def _unmarked_ends(
    cluster: WireCluster,
    ledger: LedgerTable,
    ends: Mapping[TopicPartition, int],
    own: frozenset[int] | None,
) -> Iterator[TopicPartition]:
    """The *target* partitions at whose ends in the ledger there is no marker of the flow's."""
    known = set(own or ())
    for tp, writer in retry(lambda: markers_at(cluster, ends)).items():
        if writer in known:
            continue
        if writer >= 0 and writer_of_last(ledger, tp, ends[tp]) == writer:
            # Coordinators forget writers that have been idle for a week; it has marked other logs too.
            known.add(writer)
        else:
            yield tp


def _replacement(
    cluster: WireCluster,
    ledger: LedgerTable,
    partition: TopicPartition,
    end: LogEnds,
    own: frozenset[int] | None,
) -> Literal["", "aborted", "another"]:
    """What lies where the ledger has the last record that was copied; "" for that record, or where nothing tells.

    The log was truncated then, and has grown past the ledger's end since: its end tells nothing of that. Whatever
    compaction or retention has taken tells nothing either, nor does what another mirror has written last: that may be
    a marker, or aborted.
    """
    last = end.ledger_end.offset - 1
    if not (end.ledger_end.is_own and end.log.start <= last < end.log.end):
        return ""
    batch, is_aborted = batch_at_end(cluster, partition, last)
    if batch is None:
        return ""
    if is_aborted or batch.header.is_control:
        # A marker has taken the offset of a record, or an attempt of the flow's own may have.
        return "another" if batch.header.is_control else "aborted"
    if own and batch.header.producer_id in own:
        return ""
    # The writers' ids may have changed since: the ledger's record is of the same transaction.
    writer = writer_of_last(ledger, partition, end.ledger_end.offset)
    is_another = writer is not None and batch.header.producer_id != writer
    return "another" if is_another else ""


def writer_of_last(ledger: LedgerTable, partition: TopicPartition, end: int) -> int | None:
    """The producer of the copied records that end at a *target* offset; None of those of another mirror."""
    at = newest_record_to(ledger, partition, end)
    if at is None:
        return None
    return next(
        (
            entry.producer_id
            for entry in ledger.ranges_in_topic(at, at + 1)
            if entry.target == partition and not entry.copied.adopted
        ),
        None,
    )
