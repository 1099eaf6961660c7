"""Whether all that was written to a ledger before can be read by now."""

from __future__ import annotations

from kafka_ferry.config import Cluster
from kafka_ferry.control import ClusterControl
from kafka_ferry.errors import ClusterUnreachable
from kafka_ferry.model import Topic
from kafka_ferry.retry import retry


def require_settled(source: Cluster, ledger: str) -> None:
    """Wait until no open transaction hides records of ``ledger`` that are there now.

    A transaction's end reaches the ledger's partition a moment after the one with its data, or before.

    Raises:
        ClusterUnreachable: if one is still open after a minute, or no broker answers.
    """
    control = ClusterControl(source)
    topics = [Topic(name, topic_id, 1) for name, topic_id in control.topic_ids([ledger]).items()]
    wanted = control.log_bounds(topics, "read_uncommitted")

    def ask() -> None:
        shown = control.log_bounds(topics)
        if any(shown[tp].end < bounds.end for tp, bounds in wanted.items()):
            raise ClusterUnreachable(f"An open transaction hides the newest records of {ledger}.")

    retry(ask)
