"""Partitions of the groups' topics in which no group has an offset, and that are not copied to their ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from kafka_ferry.control import ClusterControl
from kafka_ferry.model import TopicPartition
from kafka_ferry.verify.counts import count

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.groups.moves import GroupMoves
    from kafka_ferry.ledger import LedgerTable


def unread_partitions(
    flow: Flow, ledger: LedgerTable, moves: GroupMoves, copied_to: Mapping[TopicPartition, int]
) -> Iterator[str]:
    """A sentence for each of them: what groups have not read is counted only where they have an offset.

    Args:
        flow: the flow, whose source answers.
        ledger: its ledger, projected.
        moves: the groups.
        copied_to: by source partition, the offset up to which it is copied.
    """
    read = {one.source for _, one in moves.partitions() if not one.home}
    names, begun = ledger.topics(), ledger.positions().keys()
    source = ClusterControl(flow.source)
    topics, _ = source.readable_topics({tp.topic for tp in read} & names.keys())
    bounds = source.log_bounds(topics.values(), flow.isolation_level)
    partitions = {
        TopicPartition(it.name, n) for it in topics.values() for n in range(it.partitions)
    }
    for tp in sorted(partitions - read):
        # How far others are copied is unknown: their topic was recreated, for example.
        is_known = tp in copied_to or TopicPartition(names[tp.topic], tp.partition) not in begun
        log = bounds.get(tp)
        if log is None:
            behind = f"has no leader on {flow.source.alias}: it may have records"
        elif is_known and (offsets := log.end - max(log.start, copied_to.get(tp, 0))) > 0:
            behind = f"has {count(offsets, 'offset')}"
        else:
            continue
        yield (
            f"{tp} {behind} that are not on {flow.target.alias}, and none of the groups has an offset in it."
        )
