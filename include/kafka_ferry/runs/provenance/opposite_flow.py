"""Topics of the source that the opposite flow has copied to: whether and how they are copied anyway.

Usually such a topic is left out completely (``plan.topics.provenance``). With ``on.returned.records:
leave-out`` it is copied without the records that came from the target, which the opposite flow's ledger
on the source names one by one. That is possible where no other flow has brought records of the target there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from kafka_ferry.control import ClusterControl
from kafka_ferry.copy.source.opposite_flow_filter import opposite_name
from kafka_ferry.errors import AccessDenied
from kafka_ferry.groups.mirrormaker2.connect_offsets import newest, offsets_topic
from kafka_ferry.groups.mirrormaker2.stored_offsets import read_offsets
from kafka_ferry.ledger import LedgerError, LedgerTable, ledger_topic
from kafka_ferry.ledger.queries.range_columns import target_ranges
from kafka_ferry.ledger.topic import wait_until_settled
from kafka_ferry.model import Position, TopicPartition
from kafka_ferry.plan.topics.provenance import same_topic
from kafka_ferry.runs.provenance.upstream_flows import opposite_ledger

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.model.cluster_state import SourceState
    from kafka_ferry.runs.provenance.upstream_flows import Upstream


def leaves_out(flow: Flow) -> bool:
    """Whether the flow can tell which of the source's records came from the target."""
    return (
        flow.on_returned_records == "leave-out"
        # Without transactions, aborted records could not be told from committed ones.
        and flow.isolation_level == "read_committed"
    )


def opposite_for(flow: Flow, *, ask: bool = False) -> LedgerTable | None:
    """The opposite flow's ledger where records may flow both ways, None where they do not.

    It has no entry as long as nothing was copied back: applications may write to the target all the same.

    Args:
        flow: the flow.
        ask: whether to project it first; else it is as the last run left it.

    Raises:
        FerryError: if it exists and cannot be read.
    """
    if not leaves_out(flow):
        return None
    table, name = opposite_ledger(flow), ledger_topic(flow.target.alias)
    if ask and ClusterControl(flow.source).topic_ids([name]):
        wait_until_settled(flow.source, name)
        table.project(flow.source, name)
    return table


def returned_topics(flow: Flow, upstream: Upstream, target_id: str) -> frozenset[str]:
    """The source's topics into which only the opposite flow has copied records of the target."""
    if not leaves_out(flow):
        return frozenset()
    opposite = opposite_name(flow)
    by_opposite = upstream.by_flow.get(opposite, {})
    return frozenset(by_opposite.keys() - _topics_of_others(flow, upstream, target_id))


def find_returned(
    flow: Flow,
    source: SourceState,
    positions: Mapping[TopicPartition, Position],
    upstream: Upstream,
    target_id: str,
    remote_names: Mapping[str, str],
) -> tuple[dict[str, int], int, str]:
    """Where reading the opposite flow's ledger has to start, for each topic whose records it names.

    Args:
        flow: the flow.
        source: the source's topics, and their logs, whose ends were read earlier.
        positions: the flow's positions, by *target* partition.
        upstream: the other flows into the source.
        target_id: the target's cluster id.
        remote_names: the remote topics' names.

    Returns:
        An offset in that ledger by topic, and its end; and why it could not be read, "" where it could.
    """
    opposite, topics = opposite_ledger(flow), source.topics
    try:
        wait_until_settled(flow.source, ledger_topic(flow.target.alias))
        end = opposite.project(flow.source, ledger_topic(flow.target.alias))
    except (AccessDenied, LedgerError) as error:
        return (
            {},
            -1,
            f"Topics with records of {flow.target.alias} are not copied: {error}",
        )
    since = dict.fromkeys(returned_topics(flow, upstream, target_id) & topics.keys(), end)
    otherwise = _topics_of_others(flow, upstream, target_id)
    starts = {
        # Below the position too, where the log was truncated: copying goes on at what has come there since.
        tp: min(position.offset, source.logs.diverged.get(tp, position.offset))
        if (position := positions.get(_target(tp, remote_names)))
        else log.start
        for tp, log in source.logs.bounds.items()
    }
    for offset, tp, topic_id, last in _written_ranges(opposite, topics) if topics else ():
        if topic_id in ("", topics[tp.topic].topic_id) and tp.topic not in otherwise:
            first = since.setdefault(tp.topic, end)
            if last > starts.get(tp, 0):
                since[tp.topic] = min(first, offset)
    return since, end, ""


def mixed_topics(
    flow: Flow, source: SourceState, remote_names: Mapping[str, str]
) -> tuple[frozenset[str], str]:
    """The source topics that MirrorMaker 2 has copied to, or may have, and that the opposite flow has not taken over.

    Args:
        flow: the flow, whose table of that flow's ledger is up to date.
        source: the source's topics.
        remote_names: the remote topics' names.

    Returns:
        The topics; and why MirrorMaker 2's positions could not be read, "" where they could.
    """
    marks = {
        name: mark
        for name, mark in opposite_ledger(flow).marks().items()
        if name in source.topics and same_topic(mark.remote_topic_id, source.topics[name].topic_id)
    }
    given_back = frozenset(name for name, mark in marks.items() if mark.given_back)
    # With kept names alone, both clusters' records are in one topic.
    kept = {name for name in source.topics.keys() - marks.keys() if remote_names[name] == name}
    of_mirrormaker, problem = _topics_of_mirrormaker(flow, source, kept)
    return given_back | of_mirrormaker, problem


def _topics_of_mirrormaker(
    flow: Flow, source: SourceState, topics: Collection[str]
) -> tuple[frozenset[str], str]:
    """As ``mixed_topics``, of topics whose names are kept, by MirrorMaker 2's own positions."""
    positions = offsets_topic(flow.target.alias)
    if not topics or positions not in source.names:
        return frozenset(), ""
    # Else it was MirrorMaker 2's DefaultReplicationPolicy that named the copies.
    prefix = f"{flow.target.alias}{flow.replication_policy_separator}"
    doubtful = frozenset(name for name in topics if f"{prefix}{name}" not in source.names)
    try:
        stored, _ = read_offsets(flow.source, flow.target.alias, positions)
    except AccessDenied as error:
        return doubtful, f"What MirrorMaker 2 has copied to {flow.source.alias}: {error}"
    copied = {tp.topic for tp, at in newest(stored).items() if at.copied is not None}
    return doubtful & copied, ""


def _target(source: TopicPartition, remote_names: Mapping[str, str]) -> TopicPartition:
    return TopicPartition(remote_names.get(source.topic, ""), source.partition)


def _topics_of_others(flow: Flow, upstream: Upstream, target_id: str) -> set[str]:
    """The topics into which a flow other than the opposite one has copied records of the target."""
    opposite = opposite_name(flow)
    return {
        topic
        for name, origins in upstream.by_flow.items()
        for topic, ids in origins.items()
        if name != opposite and target_id in ids
    }


def _written_ranges(
    opposite: LedgerTable, topics: Collection[str]
) -> Iterator[tuple[int, TopicPartition, str, int]]:
    """Each range of the opposite flow with records: ledger offset, partition, topic's id, end on the source."""
    ranges = target_ranges(opposite, topics)
    columns = (ranges.ledger_offsets, ranges.partitions, ranges.target_ends)
    for offset, number, end in zip(*(column.tolist() for column in columns), strict=True):
        if end >= 0:
            yield offset, *ranges.names[number], end
