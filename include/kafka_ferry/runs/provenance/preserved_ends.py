"""What lies in remote logs with preserved offsets where the flow's ledger has its last record there.

Where such a log ends tells whether it was cut, and nothing of what has grown there again since::

    ledger   ... 57 58 59|                 the ledger's end is 60
    log      ... 57 58 59                  the partition's own producer has written 60 records
    log      ... 57 x  x                   ends at 60 too: cut, and written on by another client
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from kafka_ferry.control import ClusterControl, read_positions
from kafka_ferry.ledger import LedgerEnd
from kafka_ferry.model import TopicPartition
from kafka_ferry.plan.offsets.start_offsets import fill_end
from kafka_ferry.retry import retry
from kafka_ferry.runs.provenance.log_ends import LogEnds, batch_at_end, look_again, marks_of
from kafka_ferry.wire.partitions.by_leader import by_node
from kafka_ferry.wire.transactions.endings import producers_question

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.ledger import LedgerTable
    from kafka_ferry.model import Topic
    from kafka_ferry.model.cluster_state import LogBounds
    from kafka_ferry.model.positions import ProducerState
    from kafka_ferry.model.topic_pair import Pair
    from kafka_ferry.wire import WireCluster

_SEQUENCES: Final = 2**31


def preserved_ends(
    flow: Flow, target: ClusterControl, ledger: LedgerTable, topics: Iterable[Topic]
) -> dict[TopicPartition, LogEnds]:
    """The ends of the logs of *target* partitions with preserved offsets in which the ledger has records.

    Partitions without a leader are left out.

    Raises:
        FerryError: if the target does not answer.
    """
    kept = _preserved_topics(ledger, topics)
    ends = ledger.target_ends(kept.values()) if kept else {}
    logs = _logs(flow, target, kept) if ends else {}
    return {tp: LogEnds(ends[tp], bounds) for tp, bounds in logs.items() if tp in ends}


def after_positions(
    flow: Flow, target: ClusterControl, ledger: LedgerTable, topics: Iterable[Topic]
) -> tuple[dict[TopicPartition, LedgerEnd], frozenset[TopicPartition]]:
    """The *target* partitions with preserved offsets whose logs hold more than the flow's positions say.

    A writer commits a position before its first record: whatever a partition without one holds is another client's.
    The source may have nothing there, or lack the partition.

    Returns:
        They, at their positions, or at 0; and the partitions without a leader.

    Raises:
        FerryError: if the target does not answer.
    """
    kept = _preserved_topics(ledger, topics)
    if not kept:
        return {}, frozenset()
    # The logs first: a writer may go on meanwhile.
    logs = _logs(flow, target, kept)
    positions = {
        tp: position.offset
        for tp, position in read_positions(flow.target, flow.name).items()
        if tp.topic in kept and position.remote_topic_id in ("", kept[tp.topic].topic_id)
    }
    after = {
        tp: LedgerEnd(positions.get(tp, 0))
        for tp, it in logs.items()
        if it.end > max(it.start, positions.get(tp, 0))
    }
    every = (TopicPartition(it.name, at) for it in kept.values() for at in range(it.partitions))
    return after, frozenset(every) - logs.keys()


def replaced_ends(
    cluster: WireCluster, ledger: LedgerTable, ends: Mapping[TopicPartition, LogEnds]
) -> frozenset[TopicPartition]:
    """The *target* partitions that have something else where the ledger has the last record.

    Brokers tell in one request each up to which sequence number a producer has written, which counts its records.
    Only where they know less of the partition's own, such as after a day, its last batch is read. What compaction or
    retention has taken tells nothing.

    Args:
        cluster: the target, with no request on its way.
        ledger: the flow's ledger, projected.
        ends: as ``preserved_ends`` gives them.

    Raises:
        FerryError: if the target does not answer.
    """
    positions = ledger.positions()
    own = {
        tp: producer
        for tp, end in ends.items()
        if end.log.start < end.ledger_end.offset <= end.log.end
        and tp in positions
        and (producer := positions[tp].producer)
    }
    doubtful = own.keys() - retry(lambda: _whole(cluster, own)) if own else ()
    return frozenset(
        tp for tp in doubtful if _is_replaced(cluster, tp, ends[tp].ledger_end, own[tp])
    )


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

    def look(known: dict[TopicPartition, TopicPartition]) -> dict[TopicPartition, TopicPartition]:
        source_topics = [topics[name] for name in {source.topic for source in known.values()}]
        now = ClusterControl(flow.source).log_bounds(source_topics, flow.isolation_level)
        return {
            target: source
            for target, source in known.items()
            if source in now and remote_bounds[target].end > now[source].end
        }

    # A new leader of the source may know less of its log for a moment; and another run may have copied meanwhile.
    return frozenset(look_again(sources_by_target, look))


def _preserved_topics(ledger: LedgerTable, topics: Iterable[Topic]) -> dict[str, Topic]:
    """The remote topics whose offsets are preserved, by the flow's marks, by name."""
    known = {topic.name: topic for topic in topics}
    released, marks = ledger.released_topics(), marks_of(ledger, known.values())
    return {
        name: known[name]
        for name, mark in marks.items()
        if mark.preserved and mark.remote_topic_id not in released
    }


def _logs(
    flow: Flow, target: ClusterControl, topics: Mapping[str, Topic]
) -> Mapping[TopicPartition, LogBounds]:
    wait_s = flow.partition_wait_ms / 1000
    return target.log_bounds(topics.values(), "read_uncommitted", wait_s=wait_s)


def _whole(
    cluster: WireCluster, own: Mapping[TopicPartition, ProducerState]
) -> Collection[TopicPartition]:
    """The partitions to which their own producers have written all that the ledger has, as their leaders know."""
    with cluster.forget_on_error():
        leaders = cluster.recent_leaders(own)
        nodes = by_node({tp: leader.node for tp, leader in leaders.items() if leader.node >= 0})
        cluster.open(nodes)
        answers = [
            question.ask()
            for node, some in nodes.items()
            if (question := producers_question(cluster, node, some))
        ]
    return {
        tp
        for answer in answers
        for tp, states in answer.items()
        if any(is_past(own[tp], state.producer_id, state.last_sequence) for state in states)
    }


def is_past(producer: ProducerState, producer_id: int, last_sequence: int) -> bool:
    """Whether a broker knows a producer that has written all records before its state in the ledger, or more."""
    ahead = (last_sequence + 1 - producer.sequence) % _SEQUENCES
    return producer_id == producer.producer_id and last_sequence >= 0 and ahead < _SEQUENCES // 2


def _is_replaced(
    cluster: WireCluster, partition: TopicPartition, end: LedgerEnd, own: ProducerState
) -> bool:
    batch, is_aborted = batch_at_end(cluster, partition, end.offset - 1)
    if batch is None:
        return False
    header = batch.header
    return is_aborted or header.is_control or header.producer_id != own.producer_id
