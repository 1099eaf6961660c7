"""What configs a remote topic should have, and what becomes of those that it has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_ferry.model import Plan, Topic
from kafka_ferry.model.changes import Applied, ConfigChange, Drift, SetConfigs
from kafka_ferry.plan.topics.configs import Fate, fate_of, refused_values, wanted_configs
from tests.unit.plan.builders import a_flow, a_source, a_state, applied_here, planned

NAME = "retention.ms"
ID = "id of primary.orders"


def a_topic(**more: Any) -> Topic:
    """A source topic whose configs come from everywhere."""
    configs = {
        "retention.ms": "1",
        "segment.bytes": "2",
        "flush.ms": "3",
        "segment.ms": "4",
        "compression.type": "lz4",
        "message.timestamp.type": "LogAppendTime",
        "min.insync.replicas": "2",
    }
    return a_source(
        configs=configs,
        overrides=frozenset(
            {"retention.ms", "compression.type", "message.timestamp.type", "min.insync.replicas"}
        ),
        dynamic=frozenset({"segment.bytes"}),
        defaults=frozenset({"flush.ms"}),
        **more,
    )


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, {"retention.ms": "1", "segment.bytes": "2"}),
        (
            {"use_defaults_from": "source"},
            {"retention.ms": "1", "segment.bytes": "2", "flush.ms": "3"},
        ),
        ({"config_properties_exclude": (r"retention\..*", "min.*")}, {"segment.bytes": "2"}),
        (
            {"config_properties_exclude": ()},
            {"retention.ms": "1", "segment.bytes": "2", "min.insync.replicas": "2"},
        ),
        (
            {"config_properties_exclude": ("retention", "bytes", "min.insync.replica")},
            {"retention.ms": "1", "segment.bytes": "2", "min.insync.replicas": "2"},
        ),
        (
            {"topics_configs": {"orders": {"retention.ms": 9, "min.insync.replicas": 3}}},
            {"retention.ms": "9", "segment.bytes": "2", "min.insync.replicas": "3"},
        ),
    ],
    ids=[
        "MirrorMaker 2's",
        "defaults too",
        "patterns",
        "no patterns",
        "never a part of a name",
        "the flow's own",
    ],
)
def test_a_remote_topic_takes_over_what_is_set_on_the_source_and_not_excluded(
    options: dict[str, Any], wanted: dict[str, str]
) -> None:
    flow = a_flow(**options)
    assert wanted_configs(flow, a_topic()) == wanted
    (creation,) = planned(a_state(a_topic()), flow).topics.creations
    assert creation.configs == wanted


A, B, C = "10", "20", "30"
SAME, CHANGED, DRIFTED = Fate.SAME, Fate.CHANGED, Fate.DRIFTED

TABLE: list[tuple[str | None, str | None, str | None, Fate]] = [
    # wanted, what the flow has set, what is there
    (None, None, None, SAME),
    (A, A, A, SAME),
    (A, None, A, SAME),
    (A, B, A, SAME),
    (None, A, None, SAME),
    (A, None, None, CHANGED),
    (A, B, B, CHANGED),
    (None, B, B, CHANGED),
    (A, A, B, DRIFTED),
    (A, B, C, DRIFTED),
    (A, None, B, DRIFTED),
    (None, None, B, DRIFTED),
    (None, A, B, DRIFTED),
    (A, A, None, DRIFTED),
    (A, B, None, DRIFTED),
]


def remote_with(value: str | None) -> Topic:
    configs = {NAME: value, "segment.ms": "604800000"} if value else {NAME: "0"}
    overrides = frozenset({NAME} if value else ())
    return Topic("primary.orders", ID, 1, configs, overrides)


def source_with(value: str | None) -> Topic:
    overrides = frozenset({NAME} if value else ())
    return a_source(configs={NAME: value or "0"}, overrides=overrides)


def plan_of(
    wanted: str | None,
    there: str | None,
    applied: Applied,
    **options: Any,
) -> Plan:
    state = a_state(source_with(wanted), target=[remote_with(there)], applied=applied)
    return planned(state, a_flow(**options))


def applied_of(value: str | None, pending: Mapping[str, str | None] | None = None) -> Applied:
    return applied_here(
        configs={ID: {NAME: value} if value else {}}, pending={ID: pending} if pending else {}
    )


@pytest.mark.parametrize("policy", ["keep", "overwrite"])
@pytest.mark.parametrize(("wanted", "ours", "there", "fate"), TABLE)
def test_three_values_say_what_becomes_of_a_config(
    wanted: str | None, ours: str | None, there: str | None, fate: Fate, policy: str
) -> None:
    assert fate_of(wanted, {ours}, there) is fate

    plan = plan_of(wanted, there, applied_of(ours), on_config_drift=policy)

    overwritten = fate is DRIFTED and policy == "overwrite"
    changed = fate is CHANGED or overwritten
    change = ConfigChange("orders", "primary.orders", NAME, wanted, there)
    assert plan.topics.config_changes == ((change,) if changed else ())
    drift = Drift("orders", "primary.orders", NAME, wanted, there, overwritten)
    assert plan.topics.drifts == ((drift,) if fate is DRIFTED else ())
    after = ours if fate is DRIFTED and not overwritten else wanted
    said = SetConfigs(
        "primary.orders",
        ID,
        {NAME: after} if after else {},
        {NAME: ours} if ours else {},
    )
    assert plan.topics.set_configs == ((said,) if changed or after != ours else ())


@given(*(st.sampled_from([None, A, B, C]) for _ in range(3)))
def test_a_run_that_made_its_changes_has_none_left(
    wanted: str | None, ours: str | None, there: str | None
) -> None:
    for policy in ("keep", "overwrite"):
        plan = plan_of(wanted, there, applied_of(ours), on_config_drift=policy)
        now = plan.topics.config_changes[0].value if plan.topics.config_changes else there
        says = plan.topics.set_configs[0].configs.get(NAME) if plan.topics.set_configs else ours

        again = plan_of(wanted, now, applied_of(says), on_config_drift=policy)

        assert (again.topics.config_changes, again.topics.set_configs) == ((), ())
        kept = [drift for drift in plan.topics.drifts if not drift.overwritten]
        assert list(again.topics.drifts) == kept


def test_where_the_ledger_says_nothing_what_is_missing_is_set_and_what_is_there_is_drift() -> None:
    assert plan_of(A, None, Applied()).topics.config_changes[0].value == A
    assert plan_of(A, B, Applied()).topics.drifts[0].found == B
    same = plan_of(A, A, Applied())
    assert (same.topics.config_changes, same.topics.drifts) == ((), ())
    assert [sets.configs for sets in same.topics.set_configs] == [{NAME: A}]


@pytest.mark.parametrize(("there", "is_drift"), [(A, False), (B, False), (C, True), (None, True)])
def test_after_a_crash_what_was_there_before_is_the_flows_own_too(
    there: str | None, is_drift: bool
) -> None:
    """The ledger says that B was to be set where A was."""
    plan = plan_of("40", there, applied_of(B, {NAME: A}))
    assert bool(plan.topics.drifts) == is_drift
    assert bool(plan.topics.config_changes) != is_drift


def test_after_a_crash_that_nothing_was_set_before_is_known_too() -> None:
    plan = plan_of("40", None, applied_of(B, {NAME: None}))
    assert (plan.topics.drifts, plan.topics.config_changes[0].value) == ((), "40")


def test_what_was_pending_is_settled_even_if_nothing_changes() -> None:
    (sets,) = plan_of(B, B, applied_of(B, {NAME: A})).topics.set_configs
    assert sets.configs == {NAME: B}


@pytest.mark.parametrize(("there", "is_drift"), [(A, False), (B, True)])
def test_a_topic_that_was_about_to_be_created_has_the_flows_own_configs(
    there: str, is_drift: bool
) -> None:
    plan = plan_of(C, there, Applied(creations={"primary.orders": {NAME: A}}))
    assert bool(plan.topics.drifts) == is_drift
    assert [sets.before for sets in plan.topics.set_configs] == [{NAME: A}]


def test_what_is_excluded_by_now_is_left_alone_and_forgotten() -> None:
    plan = plan_of(A, B, applied_of(C), config_properties_exclude=[NAME])
    assert (plan.topics.config_changes, plan.topics.drifts) == ((), ())
    assert [sets.configs for sets in plan.topics.set_configs] == [{}]


@pytest.mark.parametrize(("there", "is_drift"), [(A, False), (B, True)])
def test_what_the_flow_says_is_set_like_what_the_source_has(there: str, is_drift: bool) -> None:
    """A is what an earlier run has set."""
    plan = plan_of(A, there, applied_of(A), topics_configs={"orders": {NAME: C}})
    assert [change.value for change in plan.topics.config_changes] == [C] * (not is_drift)
    assert [drift.wanted for drift in plan.topics.drifts] == [C] * is_drift


def test_without_syncing_nothing_is_compared() -> None:
    plan = plan_of(A, B, applied_of(C), sync_topic_configs_enabled=False)
    assert (plan.topics.config_changes, plan.topics.drifts, plan.topics.set_configs) == ((), (), ())


def test_where_topics_have_no_ids_the_ledger_knows_their_configs_by_name() -> None:
    remote = Topic("primary.orders", "", 1, {NAME: A}, frozenset({NAME}))
    applied = Applied(configs={"primary.orders": {NAME: A}})
    plan = planned(a_state(source_with(B), target=[remote], applied=applied))
    assert (plan.topics.drifts, len(plan.topics.config_changes)) == ((), 1)
    assert [sets.remote_topic_id for sets in plan.topics.set_configs] == ["primary.orders"]


def test_of_a_topic_that_is_refused_no_config_is_changed() -> None:
    state = a_state(
        source_with(A), target=[remote_with(None)], foreign=frozenset({"primary.orders"})
    )
    plan = planned(state)
    assert len(plan.remarks.refused) == 1
    assert (plan.topics.config_changes, plan.topics.set_configs) == ((), ())


class Broker:
    """Refuses some configs, and one of them only beside another."""

    def __init__(self, *refused: str, apart: tuple[str, str] = ("", "")) -> None:
        self.refused, self.apart = {*refused}, {*apart}
        self.asked: list[set[str]] = []

    def error(self, configs: Mapping[str, str]) -> str | None:
        """What it says of some configs at a time."""
        self.asked.append({*configs})
        wrong = self.refused & configs.keys() or (self.apart <= configs.keys() and self.apart)
        return f"{sorted(wrong)}" if wrong else None


CONFIGS = {f"config{number:02}.ms": str(number) for number in range(25)}


@pytest.mark.parametrize(
    "refused", [(), ("config07.ms",), ("config00.ms", "config13.ms", "config24.ms"), (*CONFIGS,)]
)
def test_a_broker_is_asked_which_configs_it_refuses(refused: tuple[str, ...]) -> None:
    broker = Broker(*refused)
    assert refused_values(CONFIGS, broker.error) == {name: f"['{name}']" for name in refused}
    assert len(broker.asked) <= 1 + 2 * 5 * len(refused)


def test_of_two_configs_that_a_broker_does_not_take_together_it_gets_one() -> None:
    broker = Broker(apart=("config03.ms", "config20.ms"))
    (name,) = refused_values(CONFIGS, broker.error)
    assert name in broker.apart
    assert broker.asked[-1] | {name} >= broker.apart


def test_what_a_broker_has_refused_elsewhere_is_asked_for_alone() -> None:
    broker = Broker("config07.ms")
    suspects = ["config07.ms", "config08.ms"]
    assert [*refused_values(CONFIGS, broker.error, suspects)] == ["config07.ms"]
    assert len(broker.asked) == 3


def test_sentences_say_who_has_what() -> None:
    topics = ("orders", "primary.orders", NAME)
    assert str(ConfigChange(*topics, A, None)) == "primary.orders: set retention.ms=10"
    assert str(ConfigChange(*topics, None, A)) == "primary.orders: unset retention.ms (it was 10)"
    assert str(Drift(*topics, None, B, True)) == (
        "primary.orders has retention.ms=20, which this flow has not set; by the source it should be "
        "the target's default: overwritten."
    )
    assert str(Drift(*topics, A, None, False)) == (
        "primary.orders no longer has retention.ms, which this flow had set; by the source it "
        "should be 10: kept."
    )


@pytest.mark.parametrize(
    ("options", "untiered", "wanted"),
    [
        ({}, False, {"remote.storage.enable", "local.retention.ms", "retention.ms"}),
        ({}, True, {"retention.ms"}),
        (
            {"topics_configs": {"orders": {"local.retention.ms": "5"}}},
            True,
            {"local.retention.ms", "retention.ms"},
        ),
        # Above the copy's own retention, which brokers refuse.
        (
            {"topics_configs": {"orders": {"retention.ms": "9"}}},
            False,
            {"remote.storage.enable", "retention.ms"},
        ),
        (
            {"topics_configs": {"orders": {"retention.ms": "-1"}}},
            False,
            {"remote.storage.enable", "local.retention.ms", "retention.ms"},
        ),
    ],
    ids=["tiered", "refused", "refused, but said", "shorter", "unlimited"],
)
def test_configs_of_tiered_storage_go_where_it_is_taken(
    options: dict[str, Any], untiered: bool, wanted: set[str]
) -> None:
    configs = {"remote.storage.enable": "true", "local.retention.ms": "10", "retention.ms": "20"}
    source = Topic("orders", "id of orders", 1, configs, overrides=frozenset(configs))
    assert wanted_configs(a_flow(**options), source, untiered=untiered).keys() == wanted
    plain = replace(source, configs=configs | {"remote.storage.enable": "false"})
    assert "remote.storage.enable" not in wanted_configs(a_flow(), plain)
