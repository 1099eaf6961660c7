from typing import Any

import pytest

from kafka_ferry.plan import Skipped, select_topics

from .builders import a_flow, a_source, found, planned


@pytest.mark.parametrize(
    ("options", "topic", "reason"),
    [
        ({}, "__consumer_offsets", "an internal topic"),
        ({}, "mm2-offset-syncs.backup.internal", "an internal topic"),
        ({}, "primary.checkpoints.internal", "an internal topic"),
        ({}, ".hidden", "an internal topic"),
        ({"topics_exclude": []}, "__consumer_offsets", "an internal topic"),
        ({}, "backup.orders", "it came from backup itself"),
        ({}, "other.backup.orders", "it came from backup itself"),
        ({}, "backup.heartbeats", "it came from backup itself"),
        (
            {"replication_policy_class": "IdentityReplicationPolicy"},
            "backup.heartbeats",
            "it came from backup itself",
        ),
        ({}, "orders.replica", r"excluded by '.*\\.replica'"),
        ({}, "ferry-ledger.other.internal", r"excluded by 'ferry-ledger\\..*\\.internal'"),
        ({"topics": ["payments"]}, "orders", "matched by no pattern of 'payments'"),
        ({"topics": ["orders"], "topics_exclude": ["ord.*"]}, "orders", "excluded by 'ord.*'"),
        ({"topics": []}, "orders", "matched by no pattern of an empty list"),
    ],
)
def test_a_topic_is_skipped_with_a_reason(options: dict[str, Any], topic: str, reason: str) -> None:
    plan = planned(found(a_source(topic)), a_flow(**options))
    [skipped] = plan.skipped
    assert skipped.topic == topic
    assert reason in skipped.reason
    assert (plan.ranges, plan.creations, plan.refused) == ((), (), ())


@pytest.mark.parametrize(
    ("options", "topic", "remote"),
    [
        ({}, "orders", "primary.orders"),
        ({}, "other.orders", "primary.other.orders"),
        ({}, "primary.orders", "primary.primary.orders"),
        ({}, "heartbeats", "primary.heartbeats"),
        ({"replication_policy_separator": "_"}, "backup.orders", "primary_backup.orders"),
        ({"replication_policy_class": "IdentityReplicationPolicy"}, "orders", "orders"),
        (
            {"replication_policy_class": "IdentityReplicationPolicy"},
            "backup.orders",
            "backup.orders",
        ),
    ],
)
def test_a_topic_is_copied_under_its_remote_name(
    options: dict[str, Any], topic: str, remote: str
) -> None:
    plan = planned(found(a_source(topic)), a_flow(**options))
    assert [creation.remote_topic for creation in plan.creations] == [remote]
    assert [r.remote_topic for r in plan.ranges] == [remote]
    assert plan.skipped == ()


def test_a_topic_that_vanished_meanwhile_is_skipped() -> None:
    plan = planned(found(a_source(), vanished=["payments"]))
    assert plan.skipped == (Skipped("payments", "it was deleted while the run was planned"),)
    assert [r.topic for r in plan.ranges] == ["orders"]


def test_every_topic_is_either_selected_or_skipped_and_both_are_sorted() -> None:
    names = ["c", "a", "__x", "backup.y", "b", ".z"]
    selected, skipped = select_topics(a_flow(), names)
    assert selected == ["a", "b", "c"]
    assert [one.topic for one in skipped] == [".z", "__x", "backup.y"]
