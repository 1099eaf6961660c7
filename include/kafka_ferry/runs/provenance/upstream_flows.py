"""Asks the source which flows copy to it: their positions say where its topics came from."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from kafka_ferry.config import Flow
from kafka_ferry.config.flow import names_of
from kafka_ferry.control import ClusterControl, read_positions
from kafka_ferry.copy.source.opposite_flow_filter import opposite_name
from kafka_ferry.errors import AccessDenied
from kafka_ferry.ledger import LedgerError, LedgerTable, ledger_topic
from kafka_ferry.ledger.topic import wait_until_settled
from kafka_ferry.model import Position, Topic, TopicPartition, position_group
from kafka_ferry.model.positions import SEE_POSITIONS, flow_of, is_position_group
from kafka_ferry.model.rights import how_to_grant
from kafka_ferry.plan.topics.provenance import origins_of, same_topic
from kafka_ferry.runs.state.flow_state import flow_state
from kafka_ferry.wire.groups.groups import IncompleteListing


@dataclass(frozen=True, slots=True)
class Upstream:
    """What the source knows of flows that copy to it.

    Attributes:
        origins: by topic, the ids of the clusters that its records came through (``plan.topics.provenance``).
        unknown: what could not be found out, a sentence each.
        by_flow: like ``origins``, for each flow into the source.
        is_hidden: whether a flow may have copied anything of which neither positions nor ledger are shown.
    """

    origins: Mapping[str, tuple[str, ...]]
    unknown: tuple[str, ...] = ()
    by_flow: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    is_hidden: bool = False


def find_upstream(
    flow: Flow, source: ClusterControl, names: Collection[str], topics: Mapping[str, Topic]
) -> Upstream:
    """Where the records of the source's ``topics`` came from, by the flows that copied them there.

    Records before the logs' ends at the time of the call already have their positions.

    Args:
        flow: the flow.
        source: its source.
        names: all its topics.
        topics: those that the flow selects.

    Raises:
        ClusterUnreachable: if the source does not answer.
    """
    # Brokers silently omit groups that may not be seen from the list, and refuse those that are named.
    back = f"{flow.target.alias}->{flow.source.alias}"
    unknown: list[str] = []
    try:
        names_of_groups = source.group_names()
    except IncompleteListing as error:
        names_of_groups = [group.name for group in error.groups]
        unknown.append(f"{error} Which flows have copied to {flow.source.alias} is known in part.")
    groups = {position_group(back), *filter(is_position_group, names_of_groups)}
    positions: dict[str, Mapping[TopicPartition, Position]] = {}
    denied: list[str] = []
    by_ledger: set[str] = set()
    for name in sorted(map(flow_of, groups)):
        try:
            committed = read_positions(flow.source, name)
        except AccessDenied:
            recovered = _in_ledger_alone(flow, name, names, topics)
            if recovered is None:
                denied.append(name)
            else:
                by_ledger.add(name)
            positions[name] = recovered or {}
        else:
            positions[name], doubt = _confirm(flow, name, committed, topics)
            unknown += doubt
    known = [item for of_flow in positions.values() for item in of_flow.items()]
    only_names = "only their names say where its topics came from."
    if denied:
        unknown.append(
            f"{flow.source.alias} does not let the positions of {', '.join(denied)} be read: "
            f"{only_names} {how_to_grant(SEE_POSITIONS)}"
        )
    elif not positions[back] and back not in by_ledger and _has_copied(flow, back, names):
        unknown.append(
            f"{flow.source.alias} has no positions of {back}, which were never committed or have expired: "
            f"{only_names} Run that flow, or leave out with topics.exclude what it has copied."
        )
    by_flow = {name: origins_of(topics, of_flow.items()) for name, of_flow in positions.items()}
    ledgers = {ledger_topic(name.partition("->")[0]) for name in denied}
    # One that is listed may not be read.
    is_hidden = bool(ledgers - source.unknown(ledgers))
    return Upstream(origins_of(topics, known), tuple(unknown), by_flow, is_hidden)


def _in_ledger_alone(
    flow: Flow, name: str, names: Collection[str], topics: Mapping[str, Topic]
) -> Mapping[TopicPartition, Position] | None:
    """Positions that the flow may not see, by that flow's ledger on the source; None where it may not read that either.

    Without them, records that came from the target would be copied back to it as the source's own.
    """
    ledger_name = ledger_topic(name.partition("->")[0])
    ledger = _read_ledger(flow, name, ledger_name) if ledger_name in names else None
    if ledger is None:
        return None
    recovered = {
        tp: position
        for tp, position in ledger.positions().items()
        if tp.topic in topics and same_topic(position.remote_topic_id, topics[tp.topic].topic_id)
    }
    return _drop_passed(flow, ledger, recovered, topics)


def _has_copied(flow: Flow, name: str, names: Collection[str]) -> bool:
    """Whether the flow ``name`` from the target may have copied anything to the source, by its ledger there.

    Moving groups back writes to that ledger too.
    """
    if (ledger_name := ledger_topic(flow.target.alias)) not in names:
        return False
    ledger = _read_ledger(flow, name, ledger_name)
    return ledger is None or bool(ledger.topics())


def _read_ledger(flow: Flow, name: str, ledger_name: str) -> LedgerTable | None:
    """The ledger of a flow into the source, up to its end; None where it cannot be read."""
    ledger = _upstream_ledger(flow, name)
    try:
        wait_until_settled(flow.source, ledger_name)
        ledger.project(flow.source, ledger_name)
    except (AccessDenied, LedgerError):
        return None
    return ledger


def _confirm(
    flow: Flow,
    name: str,
    committed: Mapping[TopicPartition, Position],
    topics: Mapping[str, Topic],
) -> tuple[Mapping[TopicPartition, Position], list[str]]:
    """The positions of the flow ``name`` into the source, with the origins that its ledger there has.

    Without the ledger, any client with access to the group could have a topic left out as the target's own.
    Positions in a topic that only the source's own records passed have no origins.

    Returns:
        The trusted positions, and doubts about them, a sentence each.
    """
    claimed = {tp: position for tp, position in committed.items() if position.origins}
    claimed = {tp: position for tp, position in claimed.items() if tp.topic in topics}
    if not claimed:
        return committed, []
    ledger_name = ledger_topic(name.partition("->")[0])
    ledger = _upstream_ledger(flow, name)
    try:
        if not ClusterControl(flow.source).topic_ids([ledger_name]):
            confirmed = dict[TopicPartition, Position]()
        else:
            ledger.project(flow.source, ledger_name)
            confirmed = _as_in_ledger(ledger, claimed, topics)
            if any(
                tp not in confirmed or confirmed[tp].offset < at.offset
                for tp, at in claimed.items()
            ):
                # A transaction's marker may reach the ledger later than the group.
                wait_until_settled(flow.source, ledger_name)
                ledger.project(flow.source, ledger_name)
                confirmed = _as_in_ledger(ledger, claimed, topics)
            confirmed = _drop_passed(flow, ledger, confirmed, topics)
    except (AccessDenied, LedgerError) as error:
        return committed, [
            f"What the group {position_group(name)} says of where topics came from is believed, since "
            f"its ledger cannot be read: {error}"
        ]
    doubtful = claimed.keys() - confirmed.keys()
    believed = {tp: confirmed.get(tp, at) for tp, at in committed.items() if tp not in doubtful}
    strange = sorted({tp.topic for tp in doubtful})
    if not strange:
        return believed, []
    return believed, [
        f"Another client has committed in the group {position_group(name)} on {flow.source.alias} where "
        f"topics came from ({', '.join(strange[:3])}): {ledger_name} knows nothing of it, so it does not "
        "count. Check which principals may write to that group."
    ]


def opposite_ledger(flow: Flow) -> LedgerTable:
    """The opposite flow's ledger, in the table that ``flow`` keeps for it; not projected here."""
    return LedgerTable(flow_state(flow).folder("opposite-ledger"), opposite_name(flow))


def _upstream_ledger(flow: Flow, name: str) -> LedgerTable:
    """The ledger of a flow into the source, in the table that ``flow`` keeps for it."""
    if name == opposite_name(flow):
        return opposite_ledger(flow)
    slug = names_of(*name.split("->", 1))[1]
    return LedgerTable(flow_state(flow).folder(f"upstream-ledgers/{slug}"), name)


def _as_in_ledger(
    ledger: LedgerTable,
    claimed: Mapping[TopicPartition, Position],
    topics: Mapping[str, Topic],
) -> dict[TopicPartition, Position]:
    """Of ``claimed``, what the ledger knows, with the origins that it has."""
    written, marks = ledger.positions(), ledger.marks()
    confirmed = {}
    for tp, position in claimed.items():
        row, mark, topic_id = written.get(tp), marks.get(tp.topic), topics[tp.topic].topic_id
        if row and same_topic(row.remote_topic_id, topic_id):
            confirmed[tp] = replace(position, origins=row.origins)
        elif mark and same_topic(mark.remote_topic_id, topic_id):
            # A topic is marked before anything is copied to it.
            confirmed[tp] = position
    return confirmed


def _drop_passed(
    flow: Flow,
    ledger: LedgerTable,
    confirmed: Mapping[TopicPartition, Position],
    topics: Mapping[str, Topic],
) -> dict[TopicPartition, Position]:
    """``confirmed``, without the origins of topics that came from the source and to which nothing was copied back.

    The opposite flow with ``on.returned.records: leave-out`` has a position where it has left out all records. Any
    other flow has none in a topic that came from the source, and one into an empty topic tells where that is from.
    """
    written = {tp.topic for tp in ledger.target_ends(topics.values())}
    passed = {tp for tp in confirmed if tp.topic not in written}
    own = ClusterControl(flow.source).cluster_id() if passed else ""
    return {
        tp: replace(at, origins=()) if tp in passed and own in at.origins else at
        for tp, at in confirmed.items()
    }
