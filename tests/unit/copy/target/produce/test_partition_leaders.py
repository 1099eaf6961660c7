"""Whether the partitions that a writer is about to write to are those of the plan."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_ferry.batches import TopicLimits
from kafka_ferry.copy.target.produce.partition_leaders import check_leaders
from kafka_ferry.copy.target.produce.verdicts import Verdicts
from kafka_ferry.model import Range
from kafka_ferry.wire import PartitionLeader

RANGE = Range("orders", 0, 0, 100, "id", "orders", 3, remote_topic_id="remote id")
LEADER = PartitionLeader(1, "remote id", 0, replicas=1, in_sync=1, cluster_id="target")


@pytest.mark.parametrize(
    ("origins", "cluster_id", "is_source"),
    [
        (("source",), "target", False),
        (("source",), "source", True),
        # Brokers that do not name their cluster, and positions of before it was noted.
        (("source",), "", False),
        ((), "", False),
        # Records that have come from the target and go back there are left out one by one.
        (("source", "target"), "target", False),
    ],
)
def test_a_target_that_has_become_the_source_is_not_written_to(
    origins: tuple[str, ...], cluster_id: str, *, is_source: bool
) -> None:
    """Its brokers give any topic any id: of the source's topic of the same name, for one."""
    range_, leader = replace(RANGE, origins=origins), replace(LEADER, cluster_id=cluster_id)
    verdicts = Verdicts(None)
    limits = {"orders": TopicLimits()}
    check_leaders({range_.target: range_}, {range_.target: leader}, limits, verdicts)
    messages = [failure.message for failure in verdicts.failures.values()]
    assert len(messages) == is_source
    assert all("are of the source's cluster" in message for message in messages)
