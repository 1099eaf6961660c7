"""What a flow's file says of topics that the flow does not copy."""

from typing import Any

import pytest

from kafka_ferry.plan.topics.topic_filter import select
from kafka_ferry.plan.topics.unused_options import unused_options
from tests.unit.plan.builders import a_flow


def notes(**options: Any) -> list[str]:
    flow = a_flow(**options)
    return [*map(str, unused_options(flow, select(flow, ["orders", "payments", "__own"], {}, "T")))]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("offsets", "preserved"),
        ("offsets_start", 0),
        ("topics_start", "latest"),
        ("topics_configs", {"retention.ms": 1}),
        ("topics_partitions", 3),
        ("topics_replication_factor", 1),
        ("topics_replica_placement", {"r1": 1}),
    ],
)
def test_a_pattern_that_none_of_the_flows_topics_matches_is_named(option: str, value: Any) -> None:
    named = option.replace("_", ".")
    assert notes(**{option: {"ordres": value, "pay.*": value}}) == [
        f"{named} has 'ordres', which none of the flow's topics matches."
    ]
    if not isinstance(value, dict):
        assert notes(**{option: value}) == []
    assert notes(topics="orders", **{option: {"payments": value}}) != []


def test_so_is_a_topic_that_is_renamed_or_transformed_in_vain() -> None:
    assert notes(topics_rename={"ordres": "a", "orders": "b"}) == [
        "topics.rename has 'ordres', which is none of the flow's topics."
    ]
    assert notes(transform=[{"topics": ["orders", "ordres"], "where": "true"}]) == [
        "transform has 'ordres', which none of the flow's topics matches."
    ]


def test_a_topic_that_is_named_and_left_out_is_a_note_with_the_reason() -> None:
    assert notes(topics=["orders", "__own"]) == [
        "__own: topics names it, and it is not copied: an internal topic of Kafka or of a mirror."
    ]
    (note,) = notes(topics=["orders", "payments"], topics_exclude=["pay.*"])
    assert note == "payments: topics names it, and it is not copied: excluded by 'pay.*'."
    assert notes() == []
