"""Where the target's logs contradict the ledger, so that copying on would lose or double records.

Both are claims: a log may be truncated by an unclean leader election, and ledger and positions may lose
their newest records in a power cut that spares the data.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, Literal

from kafka_ferry.control import ClusterControl
from kafka_ferry.copy.target.fencing import is_writers_id, transactional_id
from kafka_ferry.errors import AccessDenied
from kafka_ferry.ledger import ledger_topic
from kafka_ferry.ledger.queries.last_records import newest_record_to
from kafka_ferry.ledger.queries.run_starts import most_writers
from kafka_ferry.ledger.topic import is_settled
from kafka_ferry.model import Topic, TopicPartition
from kafka_ferry.model.cluster_state import LogMismatch
from kafka_ferry.plan.offsets.start_offsets import fill_end
from kafka_ferry.retry import retry, retry_for
from kafka_ferry.runs.provenance.log_ends import LogEnds, log_ends
from kafka_ferry.runs.provenance.preserved_ends import preserved_ends, replaced_ends
from kafka_ferry.wire import connect
from kafka_ferry.wire.partitions.absence import Unanswered
from kafka_ferry.wire.partitions.epochs import epoch_ends
from kafka_ferry.wire.partitions.marker_writers import markers_at
from kafka_ferry.wire.partitions.partition_log import partition_log
from kafka_ferry.wire.partitions.scan import batch_and_fate_at, committed_batches
from kafka_ferry.wire.transactions.endings import producer_ids, transactional_ids

if TYPE_CHECKING:
    from kafka_ferry.batches.record_format.header import BatchHeader
    from kafka_ferry.config import Flow
    from kafka_ferry.ledger import LedgerEnd, LedgerTable
    from kafka_ferry.model.cluster_state import LogBounds
    from kafka_ferry.model.topic_pair import Pair
    from kafka_ferry.wire import WireCluster
    from kafka_ferry.wire.partitions.partition_log import PartitionLog

# Another run of the flow may be copying: its records reach the log before they reach the ledger.
_PAUSES_S: Final = (0.1, 0.5, 2.0)
# So long a log's end is asked for records that it may not have any more.
_TAIL_S: Final = 5.0

log = logging.getLogger(__name__)


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
    mismatches = _find_mismatches(flow, target, ledger, topics)
    for pause_s in _PAUSES_S:
        if not mismatches:
            break
        time.sleep(pause_s)
        ledger.project(flow.target, ledger_topic(flow.source.alias))
        again = _find_mismatches(
            flow, target, ledger, [topic for topic in topics if topic.name in _topics(mismatches)]
        )
        mismatches = {tp: again[tp] for tp in mismatches.keys() & again.keys()}
    return mismatches


def lost_ends(
    flow: Flow, target: ClusterControl, ledger: LedgerTable, topics: Collection[Topic]
) -> frozenset[TopicPartition]:
    """The *target* partitions that no longer have the last record that the ledger has there.

    Their logs were truncated, and may have grown again since.

    Args:
        flow: the flow.
        target: its target.
        ledger: its ledger, projected.
        topics: the remote topics that exist.

    Raises:
        FerryError: if the target does not answer.
    """
    ends = log_ends(flow, target, ledger, topics)
    kept = preserved_ends(flow, target, ledger, topics)
    cut = frozenset(tp for tp, end in (ends | kept).items() if end.is_cut)
    if cut == ends.keys() | kept.keys():
        return cut
    with connect(flow.target) as cluster:
        replaced = replaced_ends(cluster, ledger, kept)
        if not ends.keys() <= cut:
            own = _own_producers(cluster, flow, ledger)
            replaced |= _replaced_ends(cluster, ledger, ends, own).keys()
        return cut | replaced


def beyond_source(
    flow: Flow,
    pairs: Iterable[Pair],
    bounds: Mapping[TopicPartition, LogBounds],
    remote_bounds: Mapping[TopicPartition, LogBounds],
) -> frozenset[TopicPartition]:
    """The *target* partitions with preserved offsets whose logs end after the source's, where nothing can be copied.

    Args:
        flow: the flow.
        pairs: topics.
        bounds: the source's logs.
        remote_bounds: the target's logs.

    Raises:
        FerryError: if the source does not answer.
    """
    topics: dict[str, Topic] = {}
    sources_by_target: dict[TopicPartition, TopicPartition] = {}
    for pair in pairs:
        for number, position in pair.positions.items():
            source, target = (
                TopicPartition(topic, number) for topic in (pair.topic, pair.remote_topic)
            )
            log_there, remote_log = bounds.get(source), remote_bounds.get(target)
            is_filled = position.producer is not None and fill_end(position) < 0
            if (
                pair.source
                and is_filled
                and log_there
                and remote_log
                and remote_log.end > log_there.end
            ):
                topics[pair.topic], sources_by_target[target] = pair.source, source
    # A new leader of the source may know less of its log for a moment; and another run may have copied meanwhile.
    for pause_s in _PAUSES_S:
        if not sources_by_target:
            break
        time.sleep(pause_s)
        source_topics = [topics[name] for name in _topics(sources_by_target.values())]
        now = ClusterControl(flow.source).log_bounds(source_topics, flow.isolation_level)
        sources_by_target = {
            target: source
            for target, source in sources_by_target.items()
            if source in now and remote_bounds[target].end > now[source].end
        }
    return frozenset(sources_by_target)


def _topics(partitions: Collection[TopicPartition]) -> set[str]:
    return {tp.topic for tp in partitions}


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
        own = _own_producers(cluster, flow, ledger)
        replaced = _replaced_ends(cluster, ledger, ends, own)
        for tp, is_aborted in replaced.items():
            at, end_there = ends[tp].ledger_end.offset, ends[tp].log.end
            mismatches[tp] = LogMismatch(at, end_there, is_replaced=True, is_aborted=is_aborted)
        for tp in loud.keys() - replaced.keys():
            end = loud[tp]
            first = max(end.ledger_end.offset, end.log.start)
            at = _first_of(cluster, flow.name, tp, first, own)
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
    looked_at = {tp: _replaced_by(cluster, ledger, tp, ends[tp], own) for tp in suspects}
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


def _replaced_by(
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
    try:
        with retry_for(_TAIL_S):
            batch, is_aborted = retry(
                lambda: batch_and_fate_at(cluster, partition_log(cluster, partition), last)
            )
    except Unanswered as error:
        log.warning("%s", error)
        return ""
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


def _own_producers(cluster: WireCluster, flow: Flow, ledger: LedgerTable) -> frozenset[int] | None:
    """The producer ids of the flow's writers as far as runs are known, None where the brokers do not tell."""
    writers = max(flow.writers, most_writers(ledger))
    try:
        names = [transactional_id(flow.name, at) for at in range(writers)]
        # A coordinator that has just been stopped is asked for until another one has its place.
        return retry(lambda: producer_ids(cluster, names))
    except AccessDenied:
        return None


def own_among(flow: Flow, ledger: LedgerTable, producers: Collection[int]) -> frozenset[int]:
    """Those of producers that are the flow's own writers, as far as coordinators tell.

    Raises:
        FerryError: if the target does not answer.
    """
    if not producers:
        return frozenset()
    with connect(flow.target) as cluster:
        own = _own_producers(cluster, flow, ledger)
        if own is None:
            return frozenset()
        return frozenset(
            producer
            for producer in producers
            if retry(partial(_is_own, cluster, flow.name, producer, own))
        )


def _first_of(
    cluster: WireCluster,
    flow: str,
    partition: TopicPartition,
    first: int,
    producers: frozenset[int] | None,
) -> int:
    """The offset of the first committed batch of the flow's writers from ``first`` on, -1 for none that shows.

    Where they are not known, any that was written in a transaction counts. What was written last lies on the
    leader's own disk: where a log shows nothing there, compaction has taken it, and it was none that matters.
    """
    try:
        with retry_for(_TAIL_S):
            return retry(partial(_first_shown, cluster, flow, partition, first, producers))
    except Unanswered as error:
        log.warning("%s", error)
        return -1


def _first_shown(
    cluster: WireCluster,
    flow: str,
    partition: TopicPartition,
    first: int,
    producers: frozenset[int] | None,
) -> int:
    known = partition_log(cluster, partition)
    at, foreign = max(first, known.start), set[int]()
    while True:
        header = _next_of_others(cluster, known, at, foreign)
        if header is None:
            return -1
        # Nothing is on its way from the log any more, so that its broker can be asked.
        if _is_own(cluster, flow, header.producer_id, producers):
            return max(first, header.base_offset)
        foreign.add(header.producer_id)
        at = header.next_offset


def _next_of_others(
    cluster: WireCluster, known: PartitionLog, at: int, producers: Container[int]
) -> BatchHeader | None:
    """The first batch from ``at`` on that was written in a transaction, but not by one of ``producers``."""
    for batch in committed_batches(cluster, known, at):
        header = batch.header
        if (
            header.is_transactional
            and header.producer_id not in producers
            and header.next_offset > at
        ):
            return header
    return None


def _is_own(
    cluster: WireCluster, flow: str, producer_id: int, producers: frozenset[int] | None
) -> bool:
    """Whether a producer is one of the flow's writers: also of a run whose record the ledger has lost."""
    if producers is None or producer_id in producers:
        return True
    return any(is_writers_id(flow, name) for name in transactional_ids(cluster, producer_id))
