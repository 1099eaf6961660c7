"""Records of remote topics that the flow has not copied, and copies that consumers do not get."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from kafka_ferry.errors import FerryError
from kafka_ferry.retry import retry
from kafka_ferry.wire import connect
from kafka_ferry.wire.partitions.scan import holds_records

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.control import ClusterControl
    from kafka_ferry.ledger import LedgerTable
    from kafka_ferry.model import Topic, TopicPartition


def foreign_records(
    flow: Flow, target: ClusterControl, topics: Sequence[Topic]
) -> tuple[frozenset[str], dict[str, str]]:
    """Which of ``topics``, none of them known to the flow, hold records; and which cannot be read."""
    if not topics:
        return frozenset(), {}
    bounds = target.log_bounds(topics, "read_committed", wait_s=flow.partition_wait_ms / 1000)
    foreign, unreadable = set[str](), dict[str, str]()
    with connect(flow.target) as cluster:
        for tp, log in bounds.items():
            # A run that was killed before its first commit leaves only aborted records.
            if log.start < log.end and tp.topic not in foreign | unreadable.keys():
                try:
                    if retry(partial(holds_records, cluster, tp)):
                        foreign.add(tp.topic)
                except FerryError as error:
                    # A topic that cannot be read is refused alone; an unreachable cluster stops everything.
                    if error.transient:
                        raise
                    unreadable[tp.topic] = str(error)
    return frozenset(foreign), unreadable


def hidden_copies(target: ClusterControl, ledger: LedgerTable) -> frozenset[TopicPartition]:
    """The *target* partitions with unverified ranges whose newest records an open transaction hides.

    Kafka leaves one open on a partition that has no leader when its markers are written
    (``wire.transactions.settlement``). The partition's next writer ends it; without anything new to copy there
    would be none. Asks the target only where a run was not proved.
    """
    copied = {entry.target for entry in ledger.ranges(since=ledger.verified_through(), of_run="")}
    if not copied:
        return frozenset()
    readable, _ = target.readable_topics({tp.topic for tp in copied})
    topics = readable.values()
    written = target.log_bounds(topics, "read_uncommitted")
    shown = target.log_bounds(topics, "read_committed")
    return frozenset(
        tp for tp in copied & written.keys() & shown.keys() if shown[tp].end < written[tp].end
    )
