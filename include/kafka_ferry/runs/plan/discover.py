"""Reads the input of a plan: both clusters, the flow's positions, the ledger."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from kafka_ferry.config import Flow
from kafka_ferry.config.files.load import flow_error
from kafka_ferry.control import ClusterControl
from kafka_ferry.control.groups import GroupControl
from kafka_ferry.errors import AccessDenied, FerryError, SameCluster
from kafka_ferry.ledger import LedgerTable, expiry_of_ledger, ledger_topic
from kafka_ferry.ledger.queries.copied_topics import first_copied_offsets
from kafka_ferry.model import ClusterState, Topic, TopicPartition
from kafka_ferry.model.cluster_state import (
    HeldBack,
    LedgerState,
    LogBounds,
    OtherFlows,
    SourceLogs,
    SourceState,
    TargetState,
)
from kafka_ferry.model.groups import unused_patterns
from kafka_ferry.model.topic_pair import Pair
from kafka_ferry.plan import select, select_topics
from kafka_ferry.plan.offsets.mode import is_to_be_sampled, may_be_preserved
from kafka_ferry.plan.offsets.start_offsets import rest_of
from kafka_ferry.plan.topics.emitted_topics import HEARTBEATS_OPTION, emitted_topics
from kafka_ferry.runs.plan.acls import discover_access
from kafka_ferry.runs.plan.first_copied import confirm
from kafka_ferry.runs.plan.first_starts import start_epochs, topic_starts
from kafka_ferry.runs.plan.log_density import sample_densities
from kafka_ferry.runs.plan.log_sizes import with_sizes
from kafka_ferry.runs.plan.moved_starts import doubt_of_starts, unproved_starts
from kafka_ferry.runs.plan.remote_records import foreign_records, hidden_copies
from kafka_ferry.runs.plan.split_transactions import split_transactions
from kafka_ferry.runs.plan.tiered_storage import untiered_topics
from kafka_ferry.runs.provenance.diverged_logs import find_diverged_logs
from kafka_ferry.runs.provenance.heartbeats import heartbeat_topics
from kafka_ferry.runs.provenance.log_ends import hidden_ends
from kafka_ferry.runs.provenance.log_mismatches import log_mismatches
from kafka_ferry.runs.provenance.opposite_flow import (
    find_returned,
    leaves_out,
    mixed_topics,
    returned_topics,
)
from kafka_ferry.runs.provenance.preserved_ends import beyond_source
from kafka_ferry.runs.provenance.rival_flows import with_rivals
from kafka_ferry.runs.provenance.selection import invisible_topics
from kafka_ferry.runs.provenance.upstream_flows import Upstream, find_upstream
from kafka_ferry.runs.state.known_positions import known_positions, without_position
from kafka_ferry.runs.state.one_file import left_behind, require_one_file
from kafka_ferry.runs.sync_topics.retire import with_missing
from kafka_ferry.wire import connect
from kafka_ferry.wire.groups.groups import IncompleteListing
from kafka_ferry.wire.partitions.held_back import read_held_back

_LONGEST_CLUSTER_ID: Final = 100


def discover(flow: Flow, ledger: LedgerTable) -> ClusterState:
    """Read everything that a plan of ``flow`` depends on; changes nothing on either cluster.

    Raises:
        FerryError: if a cluster's id is none.
        SameCluster: if both aliases are one physical cluster.
        ConfigError: another file of this flow was run, with other topics.
        ClusterUnreachable: if one of them does not answer.
        AccessDenied: without the right to look.
    """
    source, target = ClusterControl(flow.source), ClusterControl(flow.target)
    source_id, target_id = _cluster_ids(flow, source, target)
    names = source.topic_names()
    selected, _ = select_topics(flow, names)
    topics, refused = _readable_topics(flow, source, selected)
    upstream = find_upstream(flow, source, names, topics)
    origins, returned = upstream.origins, returned_topics(flow, upstream, target_id)
    # Brings the ledger's table up to date, and makes it anew where it is damaged: nothing is read of it before.
    positions = known_positions(flow, target, ledger)
    beats = heartbeat_topics(flow, topics, ledger.topics())
    remote_names = select(flow, names, origins, target_id, returned, beats).names
    topics = {name: topic for name, topic in topics.items() if name in remote_names}
    unreadable = {name: str(error) for name, error in refused.items()}
    if positions.ledger_end:
        require_one_file(flow, ledger)
    state = ClusterState(
        source=SourceState(
            source_id,
            frozenset(names),
            topics,
            refused=unreadable,
            heartbeats=beats,
            groups=_group_names(flow),
        ),
        target=TargetState(target_id),
        positions=positions,
    )
    state = _with_ledger(target, ledger, state)
    invisible = invisible_topics(flow, source, names, state.ledger.copied)
    state = replace(state, source=replace(state.source, invisible=invisible))
    state = _with_remote_topics(flow, target, ledger, state, remote_names)
    state = _with_logs(flow, source, ledger, state, remote_names)
    # Once more: what other flows copied before the logs' ends were read has its position by now. Topics that
    # were left out for what is doubtful are not among those.
    doubts = upstream.unknown
    upstream = find_upstream(flow, source, names, topics)
    unknown = (
        *_warn_of_loops(flow, names),
        *left_behind(flow, ledger, names),
        *state.unknown,
        *doubts,
        *upstream.unknown,
    )
    state = replace(
        state,
        other_flows=OtherFlows(
            {**origins, **upstream.origins},
            doubtful=_doubtful_topics(flow, upstream, state, remote_names),
        ),
        access=discover_access(flow, source_id),
        unknown=tuple(dict.fromkeys(unknown)),
    )
    state = _add_returned(flow, state, upstream, remote_names)
    state = with_missing(flow, source, target, ledger, state)
    state = with_rivals(flow, target, state, remote_names)
    pairs = [Pair.of(name, remote_names[name], state) for name in topics]
    state = _with_starts_and_sizes(flow, ledger, state, pairs)
    return _with_what_offsets_need(flow, target, ledger, state, pairs)


def _with_logs(
    flow: Flow,
    source: ClusterControl,
    ledger: LedgerTable,
    state: ClusterState,
    remote_names: Mapping[str, str],
) -> ClusterState:
    """``state`` with the source's logs, and where they part from those that were copied."""
    topics = state.source.topics
    wait_s = flow.partition_wait_ms / 1000
    bounds = source.log_bounds(topics.values(), flow.isolation_level, wait_s=wait_s)
    diverged, unsure = find_diverged_logs(
        *(flow.source, flow.target, ledger, bounds, topics, remote_names),
        state.target.topics,
        state.positions.known,
    )
    # Where the partition waits for a person's decision, nothing is copied.
    is_followed = (
        flow.on_source_divergence == "continue" and flow.isolation_level == "read_committed"
    )
    split = split_transactions(flow.source, ledger, diverged) if is_followed else {}
    held_back = read_open_transactions(flow, bounds)
    logs = SourceLogs(bounds, diverged, split=split, held_back=held_back)
    unknown = (*state.unknown, *unsure)
    return replace(state, source=replace(state.source, logs=logs), unknown=unknown)


def _warn_of_loops(flow: Flow, names: Collection[str]) -> Iterator[str]:
    """A sentence where the source has what the flow would write on its target."""
    source, target = flow.source.alias, flow.target.alias
    if (own := ledger_topic(source)) in names:
        yield (
            f"{source} has {own}, which the flows from {source} write on their targets: are the addresses of {source} "
            f"and {target} exchanged?"
        )


def _group_names(flow: Flow) -> frozenset[str] | None:
    """The source's groups that the flow may see, where it names some and does anything for them."""
    is_for_groups = flow.sync_group_offsets_enabled or flow.emit_checkpoints_enabled
    if not is_for_groups or not unused_patterns((), flow.groups):
        return None
    try:
        with GroupControl(flow.source) as control:
            return frozenset(group.name for group in control.groups())
    except (AccessDenied, IncompleteListing):
        # The step that moves them says so.
        return None


def _readable_topics(
    flow: Flow, cluster: ClusterControl, names: Iterable[str]
) -> tuple[dict[str, Topic], dict[str, FerryError]]:
    """``ClusterControl.readable_topics``.

    Raises:
        ConfigError: they have more partitions than ``partitions.max``.
    """
    topics, refused = cluster.readable_topics(names, partitions_max=flow.partitions_max)
    if sum(topic.partitions for topic in topics.values()) > flow.partitions_max:
        most = max(topics.values(), key=lambda topic: topic.partitions)
        reason = (
            f"is {flow.partitions_max:,}, and the flow's topics on {cluster.alias} have more partitions than that: "
            f"{most.name} alone has {most.partitions:,}"
        )
        advice = "Set it higher if that is right; or leave topics out by topics.exclude."
        raise flow_error(flow, "partitions.max", reason, advice)
    return topics, refused


def _with_starts_and_sizes(
    flow: Flow, ledger: LedgerTable, state: ClusterState, pairs: Sequence[Pair]
) -> ClusterState:
    """``state`` with where partitions begin that were never copied, and how much there is to copy."""
    starts = topic_starts(flow, ledger, state.source.logs.bounds, pairs)
    starts = replace(starts, epochs=start_epochs(flow, state.source.logs.bounds, pairs, starts))
    logs, unknown = with_sizes(flow, state.source.logs, pairs)
    return replace(
        state,
        source=replace(state.source, logs=logs),
        starts=starts,
        unknown=(*state.unknown, *unknown),
    )


def _doubtful_topics(
    flow: Flow, upstream: Upstream, state: ClusterState, remote_names: Mapping[str, str]
) -> frozenset[str]:
    """``OtherFlows.doubtful``; to a topic with other records than its own, only a flow that adopts these copies."""
    if not upstream.is_hidden or flow.on_foreign_records != "adopt" or leaves_out(flow):
        return frozenset()
    return frozenset(name for name in state.target.topics if remote_names.get(name) == name)


def _add_returned(
    flow: Flow, state: ClusterState, upstream: Upstream, remote_names: Mapping[str, str]
) -> ClusterState:
    """``state`` with the topics that the opposite flow has copied to, if such records are left out."""
    if not leaves_out(flow):
        return state
    returned: dict[str, int] = {}
    returned_end, unknown = 0, ""
    if ledger_topic(flow.target.alias) in state.source.names:
        returned, returned_end, unknown = find_returned(
            flow,
            state.source,
            state.positions.known,
            upstream,
            state.target.cluster_id,
            remote_names,
        )
    mixed, unread = mixed_topics(flow, state.source, remote_names)
    return replace(
        state,
        other_flows=replace(
            state.other_flows, returned=returned, returned_end=returned_end, mixed=mixed
        ),
        unknown=(*state.unknown, *filter(None, (unknown, unread))),
    )


def _cluster_ids(flow: Flow, source: ClusterControl, target: ClusterControl) -> tuple[str, str]:
    ids = source.cluster_id(), target.cluster_id()
    for cluster, id_ in ((flow.source, ids[0]), (flow.target, ids[1])):
        # They are in each position's metadata, for which brokers have a limit.
        if len(id_) > _LONGEST_CLUSTER_ID:
            raise FerryError(
                f"{cluster.alias} says that its cluster id has {len(id_):,} characters; Kafka's have 22.",
                advice=f"Check {cluster.servers_option}.",
            )
    if ids[0] == ids[1]:
        raise SameCluster(
            f"{flow.short_file}: {flow.source.alias} and {flow.target.alias} are one cluster ({ids[0]}).",
            advice=f"Check {flow.source.servers_option}, and {flow.target.servers_option}: a cluster is never mirrored "
            "into itself.",
        )
    return ids


def _with_ledger(target: ClusterControl, ledger: LedgerTable, state: ClusterState) -> ClusterState:
    """``state`` with what the ledger says; nothing is added where the target has none."""
    if not state.positions.ledger_end:
        return state
    return replace(
        state,
        ledger=LedgerState(
            copied=ledger.topics(),
            marks=ledger.marks(),
            released=ledger.released_topics(),
            rules=ledger.rules(),
            applied=ledger.applied(),
            first_marked=ledger.topics_of_first_run(),
            other_owners=ledger.other_owners(),
        ),
        positions=replace(state.positions, hidden=hidden_copies(target, ledger)),
    )


def _with_remote_topics(
    flow: Flow,
    target: ClusterControl,
    ledger: LedgerTable,
    state: ClusterState,
    remote_names: Mapping[str, str],
) -> ClusterState:
    """``state`` with the remote topics, and which of them hold records that the flow has not copied."""
    # The marks have the names of topics that the flow copies to others by now: ACLs still limit who reads those.
    names = {*remote_names.values(), *state.ledger.copied.values(), *state.ledger.marks}
    own_ledger = {ledger_topic(flow.source.alias)} if state.positions.ledger_end else set()
    remote_topics, refused = _readable_topics(flow, target, names | own_ledger)
    for name in own_ledger:
        # Without the right to see its configs nothing is said of them.
        refused.pop(name, None)
        if (topic := remote_topics.pop(name, None)) and (why := expiry_of_ledger(topic)):
            state = replace(state, unknown=(*state.unknown, why))
    topics = _topics_to_read(flow, state, remote_names, remote_topics)
    positions = state.positions
    foreign, unreadable = foreign_records(flow, target, without_position(topics, positions.known))
    if foreign:
        # Another run may have copied there since the ledger was read; the ledger says so by now.
        positions = replace(known_positions(flow, target, ledger), hidden=positions.hidden)
        foreign &= {topic.name for topic in without_position(topics, positions.known)}
    mismatches = (
        log_mismatches(flow, target, ledger, remote_topics.values()) if positions.ledger_end else {}
    )
    if positions.ledger_end:
        hidden = positions.hidden | hidden_ends(flow, target, ledger, remote_topics.values())
        positions = replace(positions, hidden=hidden)
    sources = ((topic, remote_names[name]) for name, topic in state.source.topics.items())
    remote = replace(
        state.target,
        topics=remote_topics,
        foreign=foreign,
        unreadable=unreadable,
        mismatches=mismatches,
        refused={name: str(error) for name, error in refused.items()},
        racks=target.racks() if _needs_racks(flow, state, remote_names, remote_topics) else {},
        untiered=untiered_topics(flow, target, sources, remote_topics),
    )
    return replace(state, target=remote, positions=positions)


def _topics_to_read(
    flow: Flow,
    state: ClusterState,
    remote_names: Mapping[str, str],
    remote_topics: Mapping[str, Topic],
) -> list[Topic]:
    """The remote topics that may hold records which the flow has not copied."""
    # In a topic with preserved offsets, the writer checks the records.
    kept = {(m.remote_topic, m.remote_topic_id) for m in state.ledger.marks.values() if m.preserved}
    # Until the source had heartbeats, earlier runs may have written their own where they go.
    emitted = emitted_topics(flow)
    is_begun = bool(state.positions.ledger_end)
    own = {topic.name for topic in emitted if is_begun and topic.option == HEARTBEATS_OPTION}
    own -= {remote_names[name] for name in state.source.heartbeats.others & remote_names.keys()}
    return [
        remote_topics[name]
        for name in remote_names.values()
        if name in remote_topics
        and name not in own
        and (name, remote_topics[name].topic_id) not in kept
    ]


def _needs_racks(
    flow: Flow,
    state: ClusterState,
    remote_names: Mapping[str, str],
    remote_topics: Mapping[str, Topic],
) -> bool:
    """Whether replicas are to be placed: one fits everywhere, and where no topic is to be created nothing is asked."""
    return any(flow.placement_of(topic) for topic in state.source.topics) or any(
        remote not in remote_topics and flow.replicas_of(topic) > 1
        for topic, remote in remote_names.items()
    )


def _with_what_offsets_need(
    flow: Flow,
    target: ClusterControl,
    ledger: LedgerTable,
    state: ClusterState,
    pairs: Iterable[Pair],
) -> ClusterState:
    """``state`` with what must be known of topics whose offsets are preserved, or could be."""
    pairs = [pair for pair in pairs if may_be_preserved(flow, pair)]
    remote_topics = [pair.remote for pair in pairs if pair.remote]
    wait_s = flow.partition_wait_ms / 1000
    bounds = target.log_bounds(remote_topics, "read_uncommitted", wait_s=wait_s)
    beyond = beyond_source(flow, pairs, state.source.logs.bounds, bounds)
    state = replace(state, target=replace(state.target, bounds=bounds, beyond=beyond))
    spans = {
        rest.source: (rest.start, rest.end)
        for pair in pairs
        if is_to_be_sampled(flow, pair, state.target)
        for rest in rest_of(flow, pair, state)
    }
    begun = [pair for pair in pairs if pair.remote and pair.positions]
    first = first_copied_offsets(ledger, (pair.remote for pair in begun if pair.remote))
    unproved = unproved_starts(flow, begun, state.source.logs.bounds, bounds)
    densities = sample_densities(flow, spans)
    logs = replace(state.source.logs, densities=densities, unproved_starts=unproved)
    return replace(
        state,
        unknown=(*state.unknown, *doubt_of_starts(flow, unproved)),
        source=replace(state.source, logs=logs),
        ledger=replace(state.ledger, first_copied=confirm(flow, first, state.target.bounds, begun)),
    )


def read_open_transactions(
    flow: Flow, bounds: Mapping[TopicPartition, LogBounds]
) -> dict[TopicPartition, HeldBack]:
    """What open transactions of the source keep from the flow, by partition of ``bounds``."""
    if flow.isolation_level != "read_committed":
        return {}
    with connect(flow.source) as cluster:
        return read_held_back(cluster, {tp: log.end for tp, log in bounds.items()})
