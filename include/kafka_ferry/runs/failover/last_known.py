"""What groups had committed on the source when it last answered: used while it is down."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from kafka_ferry.control import ClusterControl
from kafka_ferry.groups.decisions import NOT_COPIED, translated
from kafka_ferry.groups.moves import GroupMove, GroupMoves, PartitionMove
from kafka_ferry.groups.routes import copied_topic_ids, routes
from kafka_ferry.model import TopicPartition
from kafka_ferry.model.groups import Committed, Group
from kafka_ferry.runs.provenance.opposite_flow import opposite_for
from kafka_ferry.runs.state.flow_state import flow_state
from kafka_ferry.runs.state.run_folder import RunFolder

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.ledger import LedgerTable
    from kafka_ferry.model import LogBounds


def known_groups(flow: Flow, ledger: LedgerTable, only: Collection[str] = ()) -> GroupMoves:
    """The groups as the newest run that read them found them, and others as the ledger has them.

    Args:
        flow: the flow.
        ledger: its ledger, projected.
        only: names of groups; all that the flow chooses where empty.

    Returns:
        The groups as they were then, each with the time; without a time where only the ledger has
        the group, with what was committed on the target for which offset.
    """
    runs = flow_state(flow).folder("runs")
    last = RunFolder(runs, "").groups_seen() or GroupMoves(0)
    by_name = {move.group.name: replace(move, at=move.at or last.at) for move in last.groups}
    by_name = _from_ledger(ledger) | {n: move for n, move in by_name.items() if move.partitions}
    wanted = flow.group_filter
    chosen = [
        move
        for name, move in sorted(by_name.items())
        if (name in only if only else wanted.matches(name))
    ]
    return GroupMoves(last.at, tuple(chosen))


def translate_known(flow: Flow, ledger: LedgerTable, known: GroupMoves) -> GroupMoves:
    """These groups' offsets on the target by the ledger as it is now; asks only the target."""
    target = ClusterControl(flow.target)
    remote = target.topics(ledger.topics().values())
    logs = target.log_bounds(remote.values(), "read_uncommitted")
    found = routes(
        ledger,
        copied_topic_ids(ledger),
        {name: topic.topic_id for name, topic in remote.items()},
        before=ledger.verified_through(),
        # The opposite flow's table is as old as the last run; its ledger is on the source.
        opposite=opposite_for(flow),
    )

    def moved(tp: TopicPartition, committed: Committed) -> PartitionMove:
        route = found.get(tp)
        if route is None:
            return PartitionMove(tp, committed, action="held", reason=NOT_COPIED)
        log: LogBounds | None = logs.get(route.target)
        return translated(tp, committed, route, end=-1, log=log)

    groups = tuple(
        replace(
            move,
            reason="",
            partitions=tuple(
                moved(one.source, one.committed) for one in move.partitions if one.committed
            ),
        )
        for move in known.groups
    )
    return replace(known, groups=groups)


def _from_ledger(ledger: LedgerTable) -> dict[str, GroupMove]:
    """The groups for which offsets were committed on the target, with their source offsets."""
    topics: Mapping[str, str] = {
        mark.remote_topic_id: mark.topic for mark in ledger.marks().values()
    }
    found: dict[str, list[PartitionMove]] = defaultdict(list)
    for name, partitions in ledger.synced_groups().items():
        for (topic_id, number), synced in sorted(partitions.items()):
            if topic_id in topics and synced.source >= 0:
                tp = TopicPartition(topics[topic_id], number)
                found[name].append(PartitionMove(tp, Committed(synced.source)))
    return {name: GroupMove(Group(name), tuple(moves)) for name, moves in found.items()}
