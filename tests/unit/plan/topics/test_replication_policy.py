"""The tables are MirrorMaker 2 4.3's: ``ReplicationPolicy`` and its two classes, ``isCycle``."""

import pytest

from kafka_ferry.plan.topics.replication_policy import (
    POLICIES,
    DefaultReplicationPolicy,
    IdentityReplicationPolicy,
    KeptNames,
    Renamed,
    ReplicationPolicy,
)

DEFAULT = DefaultReplicationPolicy(source_alias="primary")
IDENTITY = IdentityReplicationPolicy(source_alias="primary")
KEPT = KeptNames(source_alias="west")


def separated_by(separator: str) -> ReplicationPolicy:
    return DefaultReplicationPolicy(source_alias="primary", separator=separator)


def test_a_policy_has_the_short_name_of_mirrormaker_2s_class() -> None:
    assert {name: policy.__name__ for name, policy in POLICIES.items()} == {
        "DefaultReplicationPolicy": "DefaultReplicationPolicy",
        "IdentityReplicationPolicy": "IdentityReplicationPolicy",
    }


@pytest.mark.parametrize(
    ("policy", "topic", "remote"),
    [
        (DEFAULT, "orders", "primary.orders"),
        (DEFAULT, "eu.orders", "primary.eu.orders"),
        (DEFAULT, "heartbeats", "primary.heartbeats"),
        (separated_by("_"), "orders", "primary_orders"),
        (separated_by("--"), "orders", "primary--orders"),
        (IDENTITY, "orders", "orders"),
        (IDENTITY, "eu.orders", "eu.orders"),
        (IDENTITY, "heartbeats", "primary.heartbeats"),
        (IDENTITY, "device-heartbeats", "primary.device-heartbeats"),
        (IDENTITY, "heartbeats-old", "heartbeats-old"),
    ],
)
def test_a_topic_has_a_name_on_the_target(
    policy: ReplicationPolicy, topic: str, remote: str
) -> None:
    assert policy.remote_topic(topic) == remote


@pytest.mark.parametrize(
    ("policy", "topic", "source", "upstream", "original"),
    [
        (DEFAULT, "orders", None, None, "orders"),
        (DEFAULT, "primary.orders", "primary", "orders", "orders"),
        (DEFAULT, "a.b.orders", "a", "b.orders", "orders"),
        (DEFAULT, "orders.", None, None, "orders."),
        (DEFAULT, "orders..", None, None, "orders.."),
        (DEFAULT, ".orders", "", "orders", "orders"),
        (DEFAULT, "a..orders", "a", ".orders", "orders"),
        (DEFAULT, "a.b.", "a", "b.", "b."),
        (DEFAULT, "..", None, None, ".."),
        (separated_by("_"), "primary.orders", None, None, "primary.orders"),
        (separated_by("_"), "primary_orders", "primary", "orders", "orders"),
        (separated_by("--"), "a--b--c", "a", "b--c", "c"),
        (separated_by("--"), "a-b", None, None, "a-b"),
        (separated_by("--"), "a--", None, None, "a--"),
        (separated_by("--"), "a----", None, None, "a----"),
        (IDENTITY, "orders", "primary", "orders", "orders"),
        (IDENTITY, "backup.orders", "primary", "backup.orders", "backup.orders"),
        (IDENTITY, "heartbeats", None, None, "heartbeats"),
        (IDENTITY, "a.heartbeats", "a", "heartbeats", "heartbeats"),
        (IDENTITY, "a.b.heartbeats", "a", "b.heartbeats", "heartbeats"),
    ],
)
def test_a_name_tells_where_a_topic_came_from(
    policy: ReplicationPolicy, topic: str, source: str | None, upstream: str | None, original: str
) -> None:
    assert policy.topic_source(topic) == source
    assert policy.upstream_topic(topic) == upstream
    assert policy.original_topic(topic) == original


@pytest.mark.parametrize(
    ("separator", "topic", "source"),
    [("--", "a---", "a"), ("_-", "a_-_", "a"), ("_-", "a_--", "a"), ("--", "a-----", "a")],
)
def test_a_part_of_a_separator_is_a_name(separator: str, topic: str, source: str) -> None:
    """Java's ``split`` leaves ``-`` of ``a---``, and so two parts."""
    assert separated_by(separator).topic_source(topic) == source


@pytest.mark.parametrize("policy", [DEFAULT, IDENTITY])
@pytest.mark.parametrize(
    ("topic", "is_heartbeats"),
    [
        ("heartbeats", True),
        ("primary.heartbeats", True),
        ("b.a.heartbeats", True),
        ("device-heartbeats", False),
        ("a.device-heartbeats", False),
        ("heartbeats.a", False),
        ("orders", False),
    ],
)
def test_heartbeats_are_known_after_any_number_of_hops(
    policy: ReplicationPolicy, topic: str, is_heartbeats: bool
) -> None:
    assert policy.is_heartbeats_topic(topic) == is_heartbeats


@pytest.mark.parametrize("policy", [DEFAULT, IDENTITY])
@pytest.mark.parametrize(
    ("topic", "is_internal"),
    [
        ("mm2-configs.backup.internal", True),
        ("mm2-offset-syncs.backup.internal", True),
        ("mm2.internal", True),
        ("primary.checkpoints.internal", True),
        ("__consumer_offsets", True),
        ("__", True),
        (".hidden", True),
        ("orders.internal", False),  # since KIP-1074
        ("orders-internal", False),
        ("mm2-orders", False),
        ("my-mm2.internal", False),
        ("checkpoints.internal", False),
        ("_schemas", False),
        ("heartbeats", False),
    ],
)
def test_topics_of_kafka_and_of_mirrors_are_internal(
    policy: ReplicationPolicy, topic: str, is_internal: bool
) -> None:
    assert policy.is_internal_topic(topic) == is_internal


@pytest.mark.parametrize(
    ("topic", "is_internal"),
    [
        ("mm2-offset-syncs.backup_internal", True),
        ("primary_checkpoints_internal", True),
        ("_checkpoints_internal", True),
        ("primary.checkpoints_internal", False),
        ("mm2-offset-syncs.backup.internal", False),
        ("primary.checkpoints.internal", False),
    ],
)
def test_the_separator_stands_in_the_names_of_internal_topics(
    topic: str, is_internal: bool
) -> None:
    assert separated_by("_").is_internal_topic(topic) == is_internal


@pytest.mark.parametrize("policy", [DefaultReplicationPolicy, IdentityReplicationPolicy])
@pytest.mark.parametrize(
    ("topic", "is_internal"),
    [
        ("mm2-offset-syncs.backup.internal", True),
        ("primary.checkpoints.internal", True),
        ("mm2-offset-syncs_backup_internal", False),
        ("primary_checkpoints_internal", False),
    ],
)
def test_internal_topics_may_keep_the_dot(
    policy: type[ReplicationPolicy], topic: str, is_internal: bool
) -> None:
    """``replication.policy.internal.topic.separator.enabled=false``."""
    dotted = policy(source_alias="primary", separator="_", internal_separator=".")
    assert dotted.is_internal_topic(topic) == is_internal
    assert dotted.topic_source("a_heartbeats") == "a"


@pytest.mark.parametrize(
    ("policy", "topic", "is_cycle"),
    [
        (DEFAULT, "orders", False),
        (DEFAULT, "backup.orders", True),
        (DEFAULT, "other.backup.orders", True),
        (DEFAULT, "other.orders", False),
        (DEFAULT, "primary.orders", False),
        (DEFAULT, "primary.backup.orders", True),
        (DEFAULT, "backup", False),
        (DEFAULT, "backup.", False),
        (DEFAULT, "orders.backup", False),
        (IDENTITY, "orders", False),
        (IDENTITY, "backup.orders", False),
        (IDENTITY, "backup.heartbeats", True),
        (IDENTITY, "other.backup.heartbeats", True),
        (IDENTITY, "other.heartbeats", False),
    ],
)
def test_a_topic_that_came_from_the_target_does_not_go_back(
    policy: ReplicationPolicy, topic: str, is_cycle: bool
) -> None:
    assert policy.is_cycle(topic, "backup") == is_cycle


# Topics of a mirror's own


@pytest.mark.parametrize(
    ("policy", "checkpoints", "offset_syncs"),
    [
        (DEFAULT, "primary.checkpoints.internal", "mm2-offset-syncs.backup.internal"),
        (IDENTITY, "primary.checkpoints.internal", "mm2-offset-syncs.backup.internal"),
        (
            DefaultReplicationPolicy(source_alias="primary", separator="__"),
            "primary__checkpoints__internal",
            "mm2-offset-syncs__backup__internal",
        ),
        (
            DefaultReplicationPolicy(
                source_alias="primary", separator="__", internal_separator="."
            ),
            "primary.checkpoints.internal",
            "mm2-offset-syncs.backup.internal",
        ),
        (
            Renamed(DefaultReplicationPolicy(source_alias="primary", separator="_"), {"a": "b"}),
            "primary_checkpoints_internal",
            "mm2-offset-syncs_backup_internal",
        ),
    ],
)
def test_internal_topics_are_named_as_mirrormaker_2_does(
    policy: ReplicationPolicy, checkpoints: str, offset_syncs: str
) -> None:
    assert policy.checkpoints_topic() == checkpoints
    assert policy.offset_syncs_topic("backup") == offset_syncs
    assert policy.is_internal_topic(checkpoints)
    assert policy.is_internal_topic(offset_syncs)


# Names of their own

RENAMED = Renamed(DEFAULT, {"orders": "shop", "heartbeats": "pulse", "backup.x": "x"})


@pytest.mark.parametrize(
    ("topic", "remote"),
    [("orders", "shop"), ("heartbeats", "pulse"), ("shop", "primary.shop"), ("a", "primary.a")],
)
def test_a_name_of_its_own_wins_over_the_policy_both_ways(topic: str, remote: str) -> None:
    assert RENAMED.remote_topic(topic) == remote
    assert RENAMED.topic_source(remote) == "primary"
    assert RENAMED.upstream_topic(remote) == topic
    assert RENAMED.original_topic(remote) == topic


@pytest.mark.parametrize(
    "topic", ["orders", "shop", "pulse", "heartbeats", "backup.x", "x", "mm2.internal", "__shop"]
)
def test_what_a_topic_is_on_the_source_its_name_on_the_target_does_not_say(topic: str) -> None:
    assert RENAMED.is_cycle(topic, "backup") == DEFAULT.is_cycle(topic, "backup")
    assert RENAMED.is_internal_topic(topic) == DEFAULT.is_internal_topic(topic)
    assert RENAMED.is_heartbeats_topic(topic) == DEFAULT.is_heartbeats_topic(topic)


class Swapping(DefaultReplicationPolicy):
    """Whose names go round in circles."""

    def topic_source(self, topic: str) -> str | None:
        return "elsewhere"

    def upstream_topic(self, topic: str) -> str | None:
        return topic[::-1]


def test_names_that_go_round_in_circles_come_to_an_end() -> None:
    policy = Swapping(source_alias="primary")
    assert list(policy.history("ab")) == ["ab", "ba"]
    assert not policy.is_cycle("ab", "backup")
    assert policy.is_cycle("ab", "elsewhere")


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
    assert KEPT.remote_topic(topic) == topic
    assert KEPT.original_topic(topic) == topic
    assert not KEPT.is_heartbeats_topic(topic)
    assert not KEPT.is_internal_topic(topic)
    assert not KEPT.is_cycle(topic, "west")


@pytest.mark.parametrize(
    "topic", ["__consumer_offsets", "__transaction_state", "__share_group_state"]
)
def test_kafkas_own_topics_are_internal(topic: str) -> None:
    assert KEPT.is_internal_topic(topic)
