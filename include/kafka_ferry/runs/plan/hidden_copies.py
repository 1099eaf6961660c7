"""Copied partitions whose newest records a transaction still hides.

Kafka leaves a transaction open on a partition that has no leader when its markers are written
(``wire.transactions.settlement``). The partition's next writer ends it; without anything new to copy there
would be none.
"""

from __future__ import annotations

from kafka_ferry.control import ClusterControl
from kafka_ferry.ledger import LedgerTable
from kafka_ferry.model import TopicPartition


def hidden_copies(target: ClusterControl, ledger: LedgerTable) -> frozenset[TopicPartition]:
    """The *target* partitions with unverified ranges in which a transaction is open.

    Asks the target only where a run was not proved.
    """
    copied = {entry.target for entry in ledger.ranges(since=ledger.verified_through(), of_run="")}
    if not copied:
        return frozenset()
    topics = target.topics({tp.topic for tp in copied}).values()
    written = target.log_bounds(topics, "read_uncommitted")
    shown = target.log_bounds(topics)
    return frozenset(
        tp for tp in copied & written.keys() & shown.keys() if shown[tp].end < written[tp].end
    )
