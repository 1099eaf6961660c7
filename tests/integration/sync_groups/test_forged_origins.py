"""A client that may commit in groups of the source cannot have a topic left out as if it came from the target."""

from __future__ import annotations

from kafka import KafkaConsumer
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as KafkaPartition

from kafka_ferry.config import Flow
from kafka_ferry.control import ClusterControl
from kafka_ferry.model.positions import PositionMetadata
from kafka_ferry.runs import Run
from tests.support.records.builders import Record
from tests.support.runs.flows import copy_now, failures
from tests.support.runs.pair import Pair


def forge(flow: Flow, group: str, topic: str, offset: int) -> None:
    """Say in a group of the source that the topic's records came from the target."""
    source, target = ClusterControl(flow.source), ClusterControl(flow.target)
    metadata = PositionMetadata(
        topic_id="",
        remote_topic_id=source.topic_ids([topic])[topic],
        run="forged",
        at=0,
        origins=(target.cluster_id(),),
    )
    servers = flow.source.properties["bootstrap.servers"].split(",")
    # confluent-kafka 2.16 commits no metadata.
    consumer = KafkaConsumer(bootstrap_servers=servers, group_id=group, enable_auto_commit=False)
    place = KafkaPartition(topic, 0)
    consumer.assign([place])
    consumer.commit({place: OffsetAndMetadata(offset, metadata.encode(), -1)})
    consumer.close()


def test_what_no_ledger_on_the_source_says_of_origins_counts_for_nothing(pair: Pair) -> None:
    topic = pair.topic("forged", [Record(b"k", b"v")] * 10)
    flow = pair.flow([topic])
    # A flow that does not exist, and the opposite one.
    strangers = [f"ferry.{pair.unique('nobody')}->{flow.source.alias}"]
    strangers.append(f"ferry.{flow.target.alias}->{flow.source.alias}")
    for group in strangers:
        forge(flow, group, topic, 10)

    plan = Run(flow, "run-1").plan(save=False)

    assert [(range_.topic, len(range_)) for range_ in plan.ranges] == [(topic, 10)]
    told = " ".join(note.message for note in plan.remarks.notes)
    for group in strangers:
        assert f"Another client has committed in the group {group}" in told
    assert not failures(copy_now(flow))
