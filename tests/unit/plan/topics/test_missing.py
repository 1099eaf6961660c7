from typing import Any

import pytest

from kafka_ferry.model import Skipped
from kafka_ferry.model.cluster_state import HeartbeatTopics
from kafka_ferry.model.rights import Right, how_to_grant
from kafka_ferry.plan.topics.missing import missing_topics
from kafka_ferry.plan.topics.topic_filter import select
from tests.unit.plan.builders import a_flow

THERE = frozenset({"orders", "payments", "__consumer_offsets", "other.internal"})


def refused(names: frozenset[str] = THERE, copied: frozenset[str] = frozenset(), **options: Any):
    flow = a_flow(**options)
    return [*missing_topics(flow, names, copied, select(flow, names, {}, "T"))]


def test_a_name_that_the_flow_may_not_see_is_refused_with_the_right_to_see_it() -> None:
    flow = a_flow(topics=["orders", "hidden"])
    selection = select(flow, THERE, {}, "T")
    (refusal,) = missing_topics(flow, THERE, (), selection, {"hidden"})
    assert str(refusal) == (
        "hidden: primary does not let the flow see whether it has this topic. "
        + how_to_grant(Right.topic("READ", "hidden"))
    )


def test_where_nothing_matches_the_rights_to_see_it_are_named() -> None:
    (refusal,) = refused(topics=["sales-.*", "eu-.*"])
    rights = [Right("TOPIC", name, "READ", prefixed=True) for name in ("sales-", "eu-")]
    assert refusal.advice.endswith(how_to_grant(*rights))


@pytest.mark.parametrize("topics", [["sales-.*"], [".*"]])
def test_heartbeats_are_nothing_that_a_flow_has_asked_for(topics: list[str]) -> None:
    beats = frozenset({"heartbeats", "eu.heartbeats"})
    (refusal,) = refused(beats, topics=topics, heartbeats_replication_enabled=True)
    assert "has no topic that" in refusal.reason
    assert not str(refusal).startswith(":")
    flow, unasked = a_flow(topics=topics), HeartbeatTopics(unasked=beats)
    left_out = select(flow, beats, {}, "T", (), unasked)
    assert [*map(str, missing_topics(flow, beats, (), left_out))] == [str(refusal)]
    assert refused(beats, topics=topics, topics_optional=topics) == []
    assert refused(beats, topics=["heartbeats"]) == []
    assert refused(beats | {"orders"}, topics=[".*"]) == []


@pytest.mark.parametrize("topics", [["ordres"], ["orders", "ordres"], ["ordres", "pay.*"]])
def test_a_name_that_the_source_does_not_have_is_refused_with_the_one_that_is_meant(
    topics: list[str],
) -> None:
    (refusal,) = refused(topics=topics)
    assert str(refusal) == (
        "ordres: primary has no topic of this name. Did you mean 'orders'? If it may be missing, name it in "
        "topics.optional."
    )


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"topics": ["orders", "payments"]},
        {"topics": ["pay.*", "old.*"]},
        # Excluded on purpose, and there.
        {"topics": ["orders", "payments"], "topics_exclude": ["orders"]},
        {"topics": ["ordres", "orders"], "topics_optional": ["ordres"]},
        {"topics": ["orders", "ordres-1", "ordres-2"], "topics_optional": ["ordres-.*"]},
        {"topics": ["ordres"], "topics_optional": ["ordres"]},
        {"topics": ["old.*"], "topics_optional": ["old.*"]},
        # The dot of a name is any character, as in MirrorMaker 2.
        {"topics": ["or.ers"]},
        {"topics": [], "heartbeats_replication_enabled": True},
    ],
)
def test_what_is_there_or_may_be_missing_is_not_refused(options: dict[str, Any]) -> None:
    assert refused(**options) == []


def test_what_was_copied_and_is_gone_has_a_policy_of_its_own() -> None:
    assert refused(copied=frozenset({"old"}), topics=["old"]) == []
    assert refused(frozenset(), copied=frozenset({"old"})) == []


@pytest.mark.parametrize(
    ("names", "options"),
    [
        (frozenset(), {}),
        (frozenset({"__consumer_offsets"}), {}),
        (THERE, {"topics": ["old.*"]}),
        (THERE, {"topics_exclude": [".+"]}),
        (THERE, {"topics": ["old.*", "gone"], "topics_optional": ["gone"]}),
    ],
)
def test_a_flow_that_selects_nothing_is_refused(
    names: frozenset[str], options: dict[str, Any]
) -> None:
    (refusal,) = refused(names, **options)
    assert refusal.topic == ""
    assert "has no topic that" in refusal.reason


def test_a_flow_whose_topics_all_came_from_the_target_selects_them() -> None:
    flow = a_flow(topics=["backup.*"])
    selection = select(flow, ["backup.orders"], {}, "T")
    assert [type(skipped) for skipped in selection.skipped] == [Skipped]
    assert [*missing_topics(flow, frozenset({"backup.orders"}), (), selection)] == []
