"""On which racks replicas are placed, as files say it."""

import pytest

from kafka_ferry.config.reverse_flow import reverse_flow
from kafka_ferry.config.types.replica_placement import (
    read_replica_placement,
    replica_placement_text,
)
from tests.unit.plan.builders import a_flow


@pytest.mark.parametrize(
    ("value", "placement"),
    [
        ({"rack-b": 1, "rack-a": 2}, {"rack-a": 2, "rack-b": 1}),
        ({"use1-az1": "3"}, {"use1-az1": 3}),
        ({1: 2, "/dc1/r7": 1}, {"/dc1/r7": 1, "1": 2}),
        (["rack-b", "rack-a"], {"rack-a": 1, "rack-b": 1}),
        ("rack-a=2; rack-b=1", {"rack-a": 2, "rack-b": 1}),
        ("rack-a;rack-b=2", {"rack-a": 1, "rack-b": 2}),
        ("rack-a", {"rack-a": 1}),
    ],
)
def test_racks_come_with_counts_or_get_one_replica_each(
    value: object, placement: dict[str, int]
) -> None:
    text = replica_placement_text(value)
    assert list(read_replica_placement(text).items()) == list(placement.items())
    assert replica_placement_text(text) == text


@pytest.mark.parametrize(
    "value",
    [
        "",
        {},
        [],
        3,
        True,
        None,
        {"rack-a": 0},
        {"rack-a": -1},
        {"rack-a": "many"},
        {"rack-a": True},
        {"rack-a": 1.5},
        {"rack-a": 40_000},
        {"rack a": 1},
        {"": 1},
        {True: 1},
        ["rack-a", "rack-a"],
        "rack-a=1;rack-a=2",
        "rack-a=",
        "a:b",
    ],
)
def test_anything_else_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="must be racks"):
        replica_placement_text(value)


def test_the_first_pattern_that_matches_counts_and_its_sum_is_the_replication_factor() -> None:
    placement = {"orders": ["r1", "r2"], "o.*": {"r3": 2, "r1": 1}}
    flow = a_flow(
        topics_replica_placement=placement,
        topics_replication_factor={"orders": 5},
        replication_factor=1,
    )
    assert flow.placement_of("orders") == {"r1": 1, "r2": 1}
    assert flow.placement_of("others") == {"r1": 1, "r3": 2}
    assert flow.placement_of("clicks") == {}
    assert [flow.replicas_of(name) for name in ("orders", "others", "clicks")] == [2, 3, 1]


def test_properties_files_have_it_as_text() -> None:
    flow = a_flow(topics_replica_placement="orders:r1=2;r2=1, c.*:r3")
    assert flow.placement_of("orders") == {"r1": 2, "r2": 1}
    assert flow.placement_of("clicks") == {"r3": 1}
    for_all = a_flow(topics_replica_placement="r1;r2")
    assert for_all.placement_of("any") == {"r1": 1, "r2": 1}


def test_counts_without_a_topic_are_refused() -> None:
    with pytest.raises(ValueError, match=r"'r1' must be racks"):
        a_flow(topics_replica_placement={"r1": 2})


def test_the_reverse_flow_does_not_look_for_the_racks_of_the_other_cluster() -> None:
    flow = a_flow(topics_replica_placement=["r1"])
    assert reverse_flow(flow).placement_of("orders") == {}
