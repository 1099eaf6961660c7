"""The mirrors before MirrorMaker 2 had no names with a meaning, but for Kafka's own topics."""

import pytest

from kafka_ferry.plan.topics.kept_names import KeptNames

POLICY = KeptNames(source_alias="west")


@pytest.mark.parametrize(
    "topic",
    [
        "orders",
        "west.orders",
        "device-heartbeats",
        "heartbeats",
        "__canary",
        ".hidden",
        "mm2.internal",
    ],
)
def test_every_topic_keeps_its_name_and_is_a_topic_like_any_other(topic: str) -> None:
    assert POLICY.remote_topic(topic) == topic
    assert POLICY.original_topic(topic) == topic
    assert not POLICY.is_heartbeats_topic(topic)
    assert not POLICY.is_internal_topic(topic)
    assert not POLICY.is_cycle(topic, "west")


@pytest.mark.parametrize(
    "topic", ["__consumer_offsets", "__transaction_state", "__share_group_state"]
)
def test_kafkas_own_topics_are_internal(topic: str) -> None:
    assert POLICY.is_internal_topic(topic)
