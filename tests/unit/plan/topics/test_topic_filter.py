from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kafka_ferry.errors import ConfigError
from kafka_ferry.model import Skipped
from kafka_ferry.model.cluster_state import HeartbeatTopics
from kafka_ferry.plan import policy_of, select_topics
from kafka_ferry.plan.topics.replication_policy import DefaultReplicationPolicy
from tests.unit.plan.builders import a_flow, a_source, a_state, planned

BEATS = {"heartbeats_replication_enabled": True}


@pytest.mark.parametrize(
    ("options", "topic", "reason"),
    [
        ({}, "__consumer_offsets", "an internal topic"),
        ({}, "mm2-offset-syncs.backup.internal", "an internal topic"),
        ({}, "primary.checkpoints.internal", "an internal topic"),
        ({}, ".hidden", "an internal topic"),
        ({"topics_exclude": []}, "__consumer_offsets", "an internal topic"),
        ({}, "backup.orders", "its name says that it came from backup itself"),
        ({}, "other.backup.orders", "it came from backup itself"),
        ({}, "backup.heartbeats", "it came from backup itself"),
        (
            {"replication_policy_class": "IdentityReplicationPolicy"},
            "backup.heartbeats",
            "it came from backup itself",
        ),
        ({}, "orders.replica", r"excluded by '.*\.replica'"),
        ({}, "ferry-ledger.other.internal", "a topic of Kafka Ferry's own"),
        ({}, "ferry-dead-letter.other.internal", "a topic of Kafka Ferry's own"),
        ({"topics_exclude": []}, "ferry-ledger.other.internal", "a topic of Kafka Ferry's own"),
        (
            {"topics_exclude": []},
            "other.ferry-ledger.a.internal",
            "a topic of Kafka Ferry's own",
        ),
        (
            {"topics_exclude": [], "replication_policy_class": "IdentityReplicationPolicy"},
            "ferry-dead-letter.other.internal",
            "a topic of Kafka Ferry's own",
        ),
        ({"topics": ["other"]}, "heartbeats", "no pattern"),
        ({"topics_exclude": ["heart.*"], "topics": ["other"]}, "device-heartbeats", "no pattern"),
        ({"topics_exclude": []}, "backup.heartbeats", "came from backup itself"),
        ({"topics": ["payments"]}, "orders", "matched by no pattern of 'payments'"),
        ({"topics": ["orders", "x"], "topics_exclude": ["ord.*"]}, "orders", "excluded by 'ord.*'"),
        ({**BEATS, "topics": []}, "orders", "matched by no pattern of an empty list"),
    ],
)
def test_a_topic_is_skipped_with_a_reason(options: dict[str, Any], topic: str, reason: str) -> None:
    optional = options.get("topics", [".*"])
    plan = planned(a_state(a_source(topic)), a_flow(**options, topics_optional=optional))
    [skipped] = plan.remarks.skipped
    assert skipped.topic == topic
    assert reason in skipped.reason
    assert (plan.ranges, plan.topics.creations, plan.remarks.refused) == ((), (), ())


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
        ({**BEATS, "topics": [], "topics_exclude": [".*"]}, "heartbeats", "primary.heartbeats"),
        ({**BEATS, "topics": []}, "other.heartbeats", "primary.other.heartbeats"),
        ({"topics_rename": {"orders": "shop"}}, "orders", "shop"),
        ({"topics_rename": {"orders": "orders"}}, "orders", "orders"),
        ({"topics_rename": {"shop": "orders"}}, "orders", "primary.orders"),
        (
            {
                "topics_rename": {"orders": "shop"},
                "replication_policy_class": "IdentityReplicationPolicy",
            },
            "orders",
            "shop",
        ),
        (
            {"topics_exclude": []},
            "my-ferry-ledger.a.internal",
            "primary.my-ferry-ledger.a.internal",
        ),
    ],
)
def test_a_topic_is_copied_under_its_remote_name(
    options: dict[str, Any], topic: str, remote: str
) -> None:
    plan = planned(a_state(a_source(topic)), a_flow(**options))
    assert [creation.remote_topic for creation in plan.topics.creations] == [remote]
    assert [r.remote_topic for r in plan.ranges] == [remote]
    assert plan.remarks.skipped == ()


def test_an_applications_topic_of_heartbeats_is_copied_only_if_the_flow_selects_it() -> None:
    state = a_state(a_source("x.heartbeats"))
    state = replace(
        state,
        source=replace(
            state.source, heartbeats=HeartbeatTopics(others=frozenset({"x.heartbeats"}))
        ),
    )
    plan = planned(state, a_flow(**BEATS, topics=["orders"], topics_optional=["orders"]))
    (skipped,) = plan.remarks.skipped
    assert "has the name of MirrorMaker's heartbeats, its first record is none" in skipped.reason
    assert (plan.ranges, plan.topics.creations) == ((), ())
    assert planned(state, a_flow(**BEATS, topics=["x.*", "x.heartbeats"])).ranges


def test_heartbeats_that_the_flow_does_not_ask_for_are_skipped() -> None:
    state = a_state(a_source("x.heartbeats"))
    unasked = HeartbeatTopics(unasked=frozenset({"x.heartbeats"}))
    state = replace(state, source=replace(state.source, heartbeats=unasked))
    plan = planned(state, a_flow(topics_optional=[".*"]))
    (skipped,) = plan.remarks.skipped
    assert "the heartbeats of other flows" in skipped.reason
    assert (plan.ranges, plan.topics.creations) == ((), ())


def test_a_topic_that_vanished_meanwhile_is_skipped() -> None:
    plan = planned(a_state(a_source(), vanished=["payments"]))
    assert plan.remarks.skipped == (
        Skipped("payments", "it was deleted while the run was planned"),
    )
    assert [r.topic for r in plan.ranges] == ["orders"]


def test_every_topic_is_either_selected_or_skipped_and_both_are_sorted() -> None:
    names = ["c", "a", "__x", "backup.y", "b", ".z"]
    selected, skipped = select_topics(a_flow(), names)
    assert selected == ["a", "b", "c"]
    assert [one.topic for one in skipped] == [".z", "__x", "backup.y"]


# Names that no remote topic can have


IDENTITY = "IdentityReplicationPolicy"


@pytest.mark.parametrize(
    ("options", "topics", "reasons"),
    [
        (
            {"topics_rename": {"a": "primary.b"}},
            ["a", "b"],
            {
                "a": "primary.b would be the remote topic of b too.",
                "b": "primary.b would be the remote topic of a too.",
            },
        ),
        (
            {"topics_rename": {"a": "b"}, "replication_policy_class": IDENTITY},
            ["a", "b"],
            {
                "a": "b would be the remote topic of b too.",
                "b": "b would be the remote topic of a too.",
            },
        ),
        (
            {"replication_policy_class": f"{__name__}.OneForAll"},
            ["a", "b"],
            {
                "a": "all would be the remote topic of b, c too.",
                "b": "all would be the remote topic of a, c too.",
                "c": "all would be the remote topic of a, b too.",
            },
        ),
        (
            {"replication_policy_class": f"{__name__}.Shouting"},
            ["c"],
            {"c": "its remote topic's name, 'c!', must be a topic's name"},
        ),
        (
            {"topics_rename": {"a": "__consumer_offsets"}},
            ["a"],
            {"a": "__consumer_offsets on the target is Kafka's own."},
        ),
        (
            {"topics_rename": {"a": "ferry-ledger.primary.internal"}},
            ["a"],
            {"a": "ferry-ledger.primary.internal on the target is Kafka Ferry's own."},
        ),
        (
            {"dead.letter.topic": "a", "replication_policy_class": IDENTITY},
            ["a"],
            {"a": "a on the target is for the flow's dead letters (dead.letter.topic)."},
        ),
        (
            {},
            ["checkpoints.internal"],
            {"checkpoints.internal": "primary.checkpoints.internal on the target has the groups'"},
        ),
    ],
)
def test_a_topic_that_can_have_no_name_of_its_own_is_refused_and_the_others_copied(
    options: dict[str, Any], topics: list[str], reasons: dict[str, str]
) -> None:
    plan = planned(a_state(*map(a_source, sorted({*topics, "c"}))), a_flow(**options))
    refused = {refusal.topic: refusal for refusal in plan.remarks.refused}
    assert refused.keys() == reasons.keys()
    for topic, reason in reasons.items():
        assert refused[topic].reason.startswith(reason)
        assert refused[topic].advice == "Give it another name in topics.rename."
    assert {range_.topic for range_ in plan.ranges} == {*topics, "c"} - reasons.keys()


# A user's policy


class OneForAll(DefaultReplicationPolicy):
    def remote_topic(self, topic: str) -> str:
        return "all"


class Shouting(DefaultReplicationPolicy):
    def remote_topic(self, topic: str) -> str:
        return f"{topic}!"


class AliasLast(DefaultReplicationPolicy):
    """The alias after the name, as some companies have it."""

    def remote_topic(self, topic: str) -> str:
        return f"{topic}{self.separator}{self.source_alias}"

    def topic_source(self, topic: str) -> str | None:
        name, _, source = topic.rpartition(self.separator)
        return source if name else None

    def upstream_topic(self, topic: str) -> str | None:
        return topic.rpartition(self.separator)[0] or None


class Unmade(DefaultReplicationPolicy):
    def __init__(self, region: str) -> None:
        self.region = region


NO_POLICY = "a text"


def test_a_users_policy_names_topics_and_knows_cycles() -> None:
    flow = a_flow(
        replication_policy_class=f"{__name__}.AliasLast", replication_policy_separator="-"
    )
    plan = planned(a_state(*map(a_source, ("orders", "orders-backup", "orders-other"))), flow)
    assert [creation.remote_topic for creation in plan.topics.creations] == [
        "orders-primary",
        "orders-other-primary",
    ]
    assert [skipped.topic for skipped in plan.remarks.skipped] == ["orders-backup"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("no.such.module.Policy", "no.such.module cannot be imported: ModuleNotFoundError"),
        (f"{__name__}.NoSuchClass", f"{__name__} has no NoSuchClass"),
        (f"{__name__}.NO_POLICY", f"{__name__}.NO_POLICY is not a replication policy"),
        (f"{__name__}.Skipped", f"{__name__}.Skipped is not a replication policy"),
        (f"{__name__}.Unmade", f"{__name__}.Unmade cannot be instantiated: TypeError"),
        (
            "kafka_ferry.plan.topics.replication_policy.ReplicationPolicy",
            "kafka_ferry.plan.topics.replication_policy.ReplicationPolicy cannot be instantiated: TypeError",
        ),
    ],
)
def test_a_class_that_is_no_policy_is_an_error_in_the_flows_file(name: str, reason: str) -> None:
    with pytest.raises(ConfigError) as raised:
        policy_of(a_flow(replication_policy_class=name, file="flow.yaml"))
    assert (raised.value.file, raised.value.key) == ("flow.yaml", "replication.policy.class")
    assert raised.value.reason.startswith(reason)
    assert "kafka_ferry.plan.topics.replication_policy.ReplicationPolicy" in raised.value.advice


def test_a_policy_whose_module_is_a_program_ends_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a_program.py").write_text("raise SystemExit(9)")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConfigError, match=r"a_program cannot be imported: SystemExit\(9\)"):
        policy_of(a_flow(replication_policy_class="a_program.Policy"))


def test_a_flow_is_read_before_its_policys_class_is_looked_for() -> None:
    assert a_flow(replication_policy_class="no.such.module.Policy").name == "primary->backup"


class Prefixed(DefaultReplicationPolicy):
    """A policy with a setting of its own."""

    def configure(self, settings: Mapping[str, str]) -> None:
        self.source_alias = settings["replication.policy.my.prefix"]


def test_a_users_policy_gets_its_settings_from_the_flow() -> None:
    flow = a_flow(
        replication_policy_class=f"{__name__}.Prefixed",
        policy_settings=[("replication.policy.my.prefix", "eu")],
    )
    assert policy_of(flow).remote_topic("orders") == "eu.orders"
