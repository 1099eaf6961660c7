"""Where the replicas of remote topics are placed (``topics.replica.placement``), and which lie elsewhere. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from kafka_ferry.model.changes import Misplacement
from kafka_ferry.model.plan import Creation, Growth
from kafka_ferry.model.remarks import Note, Refusal
from kafka_ferry.plan.topics.configs import wanted_configs
from kafka_ferry.plan.topics.replica_assignment import assign_replicas

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.model.cluster_state import Topic
    from kafka_ferry.model.topic_pair import Pair

_OPTION: Final = "topics.replica.placement"
_NO_RACK: Final = "no rack"
_DOWN: Final = "?"


def creation_of(
    flow: Flow,
    racks: Mapping[int, str],
    source: Topic,
    remote_topic: str,
    *,
    untiered: bool = False,
) -> Creation | Refusal:
    """How the remote topic of ``source`` is created; or why its replicas cannot be placed.

    Args:
        flow: the flow.
        racks: the rack of each live broker of the target; none where they are not known.
        source: the topic.
        remote_topic: the remote topic's name.
        untiered: as in ``wanted_configs``.
    """
    placement = flow.placement_of(source.name)
    if problem := _problem(flow, racks, placement):
        return Refusal(source.name, *problem)
    partitions = flow.partitions_of(source.name, source.partitions)
    assignment = assign_replicas(remote_topic, racks, placement, partitions) if placement else ()
    configs = wanted_configs(flow, source, untiered=untiered)
    replicas = flow.replicas_of(source.name)
    if 0 < len(racks) < replicas:
        reason = (
            f"the flow gives {remote_topic} {replicas} replicas, and {flow.target.alias} has "
            f"{len(racks)} live broker{'s' * (len(racks) > 1)}."
        )
        advice = (
            "Set replication.factor, or topics.replication.factor for this topic, to at most that "
            "many, or start more brokers."
        )
        return Refusal(source.name, reason, advice)
    return Creation(remote_topic, partitions, replicas, configs, placement, assignment)


def growth_of(
    flow: Flow, racks: Mapping[int, str], source: Topic, remote: Topic
) -> Iterator[Growth | Refusal | Note]:
    """The partitions that ``remote`` is to get; or why their replicas cannot be placed.

    That refuses the new partitions alone: those that exist are copied, as long as a rack is down too.
    """
    placement = flow.placement_of(source.name)
    partitions = flow.partitions_of(source.name, source.partitions)
    if partitions <= remote.partitions:
        return
    problem = _problem(flow, racks, placement) or _other_factor(remote, placement)
    if problem:
        unplaced = range(remote.partitions, source.partitions)
        yield from (Refusal(source.name, *problem, partition=number) for number in unplaced)
        if not unplaced:
            yield Note(source.name, " ".join(problem))
        return
    existing = remote.replicas or ((),) * remote.partitions
    assignment = (
        assign_replicas(remote.name, racks, placement, partitions, existing) if placement else ()
    )
    yield Growth(remote.name, partitions, placement, assignment)


def misplacement_of(flow: Flow, racks: Mapping[int, str], pair: Pair) -> Misplacement | None:
    """The replicas of a remote topic that lie on other racks than the flow says."""
    placement = flow.placement_of(pair.topic)
    if not placement or pair.remote is None:
        return None
    racks_by_partition = {
        number: tuple(racks.get(node, _DOWN) or _NO_RACK for node in replicas)
        for number, replicas in enumerate(pair.remote.replicas)
    }
    elsewhere = {
        number: of for number, of in racks_by_partition.items() if not _is_placed(of, placement)
    }
    return Misplacement(pair.topic, pair.remote_topic, placement, elsewhere) if elsewhere else None


def _is_placed(racks: tuple[str, ...], placement: Mapping[str, int]) -> bool:
    """Whether replicas are where they should be; those on brokers that are down may be anywhere."""
    actual = Counter(racks)
    down = actual.pop(_DOWN, 0)
    wanted = Counter(placement)
    return not actual - wanted and (wanted - actual).total() == down


def _problem(
    flow: Flow, racks: Mapping[int, str], placement: Mapping[str, int]
) -> tuple[str, str] | None:
    """Why replicas cannot be placed, and what to do about it."""
    for rack, count in placement.items():
        live = sum(of_node == rack for of_node in racks.values())
        if live < count:
            only = f"only {live} live broker{'s' * (live > 1)}" if live else "no live broker"
            reason = (
                f"{_OPTION} places {count} replica{'s' * (count > 1)} of each partition on the rack "
                f"{rack} of {flow.target.alias}, which has {only}."
            )
            return reason, _advice(racks)
    return None


def _other_factor(remote: Topic, placement: Mapping[str, int]) -> tuple[str, str] | None:
    """Brokers add only partitions with as many replicas as the topic's others have."""
    has, wanted = len(remote.replicas[0]) if remote.replicas else 0, sum(placement.values())
    if not placement or has in (0, wanted):
        return None
    return (
        f"{_OPTION} places {wanted} replicas of each partition, and those of {remote.name} have {has}: "
        "brokers add none with another number.",
        "Give those that exist as many with kafka-reassign-partitions.sh (docs/topic-configs.md), or change "
        f"{_OPTION}.",
    )


def _advice(racks: Mapping[int, str]) -> str:
    if bare := [str(node) for node, rack in sorted(racks.items()) if not rack]:
        return (
            f"Set broker.rack on the brokers without one ({', '.join(bare)}), or change {_OPTION}."
        )
    known = ", ".join(sorted({*racks.values()}))
    return f"Start brokers there, or change {_OPTION}: live brokers are on the racks {known}."
