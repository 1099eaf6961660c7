"""When the copy of a topic that is gone is deleted, and what keeps it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kafka_ferry.model import ClusterState, Mark, Plan
from kafka_ferry.model.changes import Applied, Retirement
from kafka_ferry.plan.topics.retire import _KEEPS, NOBODY_KNOWS
from tests.unit.plan.builders import (
    DAY,
    HOUR,
    NOW,
    REMOTE,
    a_flow,
    a_remote,
    a_source,
    a_state,
    planned,
    said,
)

ID = "id of primary.orders"
MARK = Mark("orders", "id of orders", "primary.orders", ID, preserved=False, created=True)


def gone(**more: Any) -> ClusterState:
    """A copy of "orders", which the source says it does not have; "payments" is there."""
    state: dict[str, Any] = {
        "target": [REMOTE],
        "copied": {"orders": "primary.orders"},
        "marks": {"primary.orders": MARK},
        "gone": frozenset({"orders"}),
        "applied": Applied(sources={ID: "S"}),
    }
    return a_state(a_source("payments"), **state | more)


def retiring(state: ClusterState, **options: Any) -> Plan:
    return planned(state, a_flow(on_source_topic_deleted="retire", **options))


def missed(since: int) -> Applied:
    return Applied(missed={ID: since}, sources={ID: "S"})


@pytest.mark.parametrize(
    ("applied", "options", "since", "is_due"),
    [
        (Applied(sources={ID: "S"}), {}, NOW, False),
        (missed(NOW - 6 * DAY), {}, NOW - 6 * DAY, False),
        (missed(NOW - 7 * DAY), {}, NOW - 7 * DAY, True),
        (missed(NOW - HOUR), {"retire_after_ms": HOUR}, NOW - HOUR, True),
        (Applied(sources={ID: "S"}), {"retire_after_ms": 0}, NOW, True),
        (Applied(missed={"another id": 0}, sources={ID: "S"}), {}, NOW, False),
    ],
    ids=["at first", "not yet", "after a week", "by the option", "at once", "another topic"],
)
def test_a_copy_is_deleted_when_its_topic_was_missed_for_long_enough(
    applied: Applied, options: dict[str, Any], since: int, is_due: bool
) -> None:
    plan = retiring(gone(applied=applied), **options)
    (retirement,) = plan.topics.retirements
    after = options.get("retire_after_ms", 7 * DAY)
    assert retirement == Retirement("orders", "primary.orders", ID, since, since + after)
    assert retirement.is_due(NOW) == is_due
    assert (plan.remarks.refused, plan.remarks.notes) == ((), ())


def test_a_copy_that_never_had_a_record_is_known_by_its_mark() -> None:
    assert len(retiring(gone(copied={})).topics.retirements) == 1


def test_a_copy_that_was_given_up_and_not_deleted_yet_still_goes() -> None:
    assert len(retiring(gone(released=frozenset({ID}))).topics.retirements) == 1


@pytest.mark.parametrize(
    "state",
    [
        gone(target=[]),
        gone(vanished=["orders"]),
        gone(copied={}, marks={}),
    ],
    ids=["the copy is gone too", "the topic is there", "it was never copied"],
)
def test_there_may_be_nothing_to_retire(state: ClusterState) -> None:
    plan = retiring(state)
    assert (plan.topics.retirements, plan.remarks.refused, plan.remarks.notes) == ((), (), ())


def test_a_topic_that_the_flow_does_not_select_any_more_is_not_missing() -> None:
    assert retiring(gone(), topics_exclude=["orders"]).topics.retirements == ()


@pytest.mark.parametrize("value", ["keep", "fail"])
def test_other_policies_delete_nothing(value: str) -> None:
    assert planned(gone(), a_flow(on_source_topic_deleted=value)).topics.retirements == ()


KEPT = {
    "hidden": (gone(gone=frozenset()), "no proof that it is gone"),
    "without a mark": (gone(marks={}), "this flow has not created it"),
    "another topic's mark": (
        gone(marks={"primary.orders": replace(MARK, remote_topic_id="before")}),
        "this flow has not created it",
    ),
    "adopted": (
        gone(marks={"primary.orders": replace(MARK, created=False)}),
        "this flow has not created it",
    ),
    "without an id": (
        gone(
            target=[replace(a_remote(), topic_id="")],
            marks={"primary.orders": replace(MARK, remote_topic_id="")},
        ),
        "give topics no ids",
    ),
    "others unknown": (
        gone(shared={"primary.orders": NOBODY_KNOWS}),
        "whether other flows copy to it is unknown",
    ),
    "shared": (gone(shared={"primary.orders": "b->c"}), "b->c copies to it too"),
    "of others": (
        gone(of_others={"primary.orders": "it holds records that this flow has not copied"}),
        "it holds records that this flow has not copied",
    ),
}


@pytest.mark.parametrize(("state", "why"), KEPT.values(), ids=KEPT)
def test_a_copy_stays_where_deleting_it_could_be_wrong(state: ClusterState, why: str) -> None:
    plan = retiring(state, retire_after_ms=0)
    (note,) = plan.remarks.notes
    assert note.topic == "orders"
    assert "Its copy primary.orders stays: " in note.message
    assert why in note.message
    assert (plan.topics.retirements, plan.remarks.refused) == ((), ())


def test_a_copy_that_the_target_does_not_describe_stays_and_says_why() -> None:
    state = gone(target_topics={}, target_refused={"primary.orders": "No right. Grant it."})
    (note,) = retiring(state, retire_after_ms=0).remarks.notes
    assert note.message.endswith("its copy primary.orders stays. No right. Grant it.")


@pytest.mark.parametrize(("_", "words"), _KEEPS, ids=range(len(_KEEPS)))
def test_every_line_of_the_table_is_tried(_: object, words: str) -> None:
    said = words.format(other="b->c", of_others=KEPT["of others"][1])
    assert any(why in said for _, why in KEPT.values())


@pytest.mark.parametrize("sources", [{ID: "another"}, {}], ids=["of another", "unknown"])
def test_a_copy_of_another_cluster_stays(sources: dict[str, str]) -> None:
    plan = retiring(gone(applied=Applied(missed={ID: 1}, sources=sources)), retire_after_ms=0)
    assert plan.topics.retirements == ()
    assert "a topic (primary.orders)" in said(plan)


def test_a_sentence_says_since_when_and_until_when() -> None:
    said = str(Retirement("orders", "primary.orders", ID, NOW, NOW + 7 * DAY))
    assert said == (
        "primary.orders: orders is gone from the source since 2023-11-14 22:13 UTC; deleted by the "
        "first run from 2023-11-21 22:13 UTC on."
    )
