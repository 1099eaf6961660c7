"""Finding out what a plan is made from: both clusters, the flow's positions, the ledger."""

from __future__ import annotations

from kafka_ferry.config import Flow
from kafka_ferry.control import ClusterControl, read_positions
from kafka_ferry.errors import SameCluster
from kafka_ferry.ledger import LedgerTable, ledger_topic
from kafka_ferry.plan import Found, policy_of, select_topics


def discover(flow: Flow, ledger: LedgerTable) -> Found:
    """Ask both clusters for everything that a plan of ``flow`` depends on; changes nothing on them.

    Raises:
        SameCluster: if both aliases are one physical cluster.
        ClusterUnreachable: if one of them does not answer.
        AccessDenied: without the right to look.
    """
    source, target = ClusterControl(flow.source), ClusterControl(flow.target)
    source_id, target_id = source.cluster_id(), target.cluster_id()
    if source_id == target_id:
        raise SameCluster(
            f"{flow.source.alias} and {flow.target.alias} are one cluster ({source_id}).",
            advice="Check their bootstrap.servers: a cluster is never mirrored into itself.",
        )
    names = source.topic_names()
    selected, _ = select_topics(flow, names)
    source_topics = source.topics(selected)
    policy = policy_of(flow)
    ledger_name = ledger_topic(flow.source.alias)
    target_topics = target.topics([ledger_name, *(policy.remote_topic(name) for name in selected)])
    positions = read_positions(flow.target, flow.name)
    ledger_end = 0
    if ledger_name in target_topics:
        ledger_end = ledger.project(flow.target, ledger_name)
        positions = ledger.positions() | positions
    return Found(
        source_cluster_id=source_id,
        target_cluster_id=target_id,
        source_names=frozenset(names),
        source_topics=source_topics,
        target_topics=target_topics,
        bounds=source.log_bounds(source_topics.values()),
        positions=positions,
        ledger_end=ledger_end,
    )
