"""Groups that no broker can list are not taken for gone: the others move, and the run says so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_ferry.control.groups import GroupControl
from kafka_ferry.errors import GroupsFailed
from kafka_ferry.model.groups import Committed, Group
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.retry import retry_for
from kafka_ferry.runs import Run
from kafka_sandbox.brokers import Brokers
from kafka_sandbox.cluster import KafkaCluster
from tests.support.brokers.leaders import leaders
from tests.support.records.builders import Record, create_topic, produce
from tests.support.runs.flows import copy_now, failures, make_flow
from tests.support.runs.pair import Unique
from tests.support.runs.proof import NO_SPARK
from tests.support.waiting import wait_until

ALONE = {"offsets.topic.replication.factor": "1", "offsets.topic.num.partitions": "6"}


@pytest.fixture
def source(folder: Path) -> Iterator[Brokers]:
    """Brokers that keep each group in one place, and of which one is stopped."""
    cluster = Brokers(folder / "source", config=ALONE)
    try:
        yield cluster.start().wait_ready()
    finally:
        cluster.wipe()


@pytest.mark.long
@pytest.mark.usefixtures("without_spark")
def test_groups_of_a_broker_that_is_down_are_missed_and_the_others_move(
    folder: Path, source: Brokers, backup: KafkaCluster, unique: Unique
) -> None:
    topic, names = unique("orders"), [unique(f"app{number}") for number in range(60)]
    create_topic(source.bootstrap, topic)
    produce(source.bootstrap, topic, [Record(value=b"x")] * 5)
    flow = make_flow(
        folder, source, backup, [topic], sync_group_offsets_enabled=True, groups=["app.*"]
    )
    at = {TopicPartition(topic, 0): Committed(3)}
    with GroupControl(flow.source) as control:
        assert control.commit({Group(name): at for name in names}) == {}
    run = Run(flow, "run")
    assert failures(copy_now(flow, "run")) == []
    run.verify(NO_SPARK)

    source.brokers[3].stop()
    wait_until(lambda: -1 in [node for node, *_ in leaders(source, "__consumer_offsets").values()])
    with retry_for(3), pytest.raises(GroupsFailed) as failed:
        run.sync_groups()

    assert f"{flow.source.alias} lists its groups in part: __consumer_offsets-" in str(failed.value)
    assert failed.value.transient
    moved = run._context.folder.groups()
    assert moved and 0 < len(moved.groups) < len(names)
    assert all(one.action == "written" for _, one in moved.partitions())
