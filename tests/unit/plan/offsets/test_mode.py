"""How the offsets of topics are kept, and where preserved ones begin."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kafka_ferry.model import (
    ClusterState,
    Creation,
    LogBounds,
    Mark,
    OffsetsChoice,
    Plan,
    Position,
    ProducerState,
    Refusal,
    TopicPartition,
)
from tests.unit.plan.builders import (
    DAY,
    HOUR,
    KNOWN,
    NOW,
    P0,
    REMOTE,
    a_flow,
    a_source,
    a_state,
    at,
    changed,
    planned,
)

SOURCE = TopicPartition("orders", 0)
PRODUCER = ProducerState(7, 0, 30)
KEPT = replace(KNOWN, producer=PRODUCER)
NEVER_WRITTEN = LogBounds(0, 0)
COMPACTED = a_source(configs={"cleanup.policy": "compact,delete"})


def a_mark(preserved: bool, remote_id: str = REMOTE.topic_id, **more: Any) -> Mark:
    mark = Mark("orders", "id of orders", "primary.orders", remote_id, preserved, True)
    return replace(mark, **more)


def state(
    position: Position | None = None,
    mark: Mark | None = None,
    remote: LogBounds | None = NEVER_WRITTEN,
    density: float | None = 1.0,
    topic: Any = None,
    **more: Any,
) -> ClusterState:
    """A topic of one partition and its remote topic; ``remote=None``: its partition has no leader."""
    known: dict[str, Any] = {"target": [REMOTE]}
    known |= {"positions": {P0: position} if position else {}}
    known |= {"marks": {"primary.orders": mark} if mark else {}}
    known |= {"target_bounds": {P0: remote} if remote else {}}
    known |= {"densities": {} if density is None else {SOURCE: density}}
    return a_state(topic or a_source(), **known | more)


def kept(*, remote: tuple[int, int] = (10, 30), **more: Any) -> ClusterState:
    """A topic that is marked as preserved and was copied up to 30."""
    position = more.pop("position", KEPT)
    return state(position, mark=a_mark(True), remote=LogBounds(*remote), **more)


def the_choice(plan: Plan) -> OffsetsChoice:
    assert plan.remarks.refused == ()
    (choice,) = plan.choices
    assert {range_.preserved for range_ in plan.ranges} <= {choice.preserved}
    return choice


def the_refusal(plan: Plan) -> Refusal:
    (refusal,) = plan.remarks.refused
    assert (plan.ranges, plan.choices, plan.topics.creations, plan.access.advised_acls) == (
        (),
        (),
        (),
        (),
    )
    return refusal


def placed(plan: Plan) -> list[tuple[int, int, int]]:
    assert plan.remarks.refused == ()
    return [(range_.start, range_.end, range_.log_start) for range_ in plan.ranges]


# Which topics


@pytest.mark.parametrize(
    ("offsets", "what", "preserved", "why"),
    [
        ("translated", state(), False, "offsets: translated."),
        ("translated", state(target=()), False, "offsets: translated."),
        ({"other": "preserved"}, state(), False, "offsets: translated."),
        ("preserved", state(), True, "offsets: preserved."),
        ("preserved", state(target=()), True, "offsets: preserved."),
        ("preserved", state(topic=COMPACTED), True, "offsets: preserved."),
        ("preserved", state(density=None), True, "offsets: preserved."),
        ("auto", state(), True, "auto: about 100% of the source's offsets have a record."),
        ("auto", state(target=()), True, "auto: about 100% of the source's offsets have a record."),
        ("auto", state(density=0.5), True, "auto: about 50% of"),
        ("auto", state(density=0.49), False, "auto: about 49% of"),
        ("auto", state(bounds=(50, 50)), True, "auto: there is nothing to copy yet."),
        ("auto", state(topic=COMPACTED), True, "auto: about 100% of"),
        (
            "auto",
            state(topic=COMPACTED, bounds=(0, 0)),
            False,
            "auto: the source's topic is compacted.",
        ),
        ("auto", state(remote=LogBounds(3, 3)), False, "auto: primary.orders was written to"),
        ("auto", state(KNOWN), False, "primary.orders was copied before with offsets translated."),
        (
            "auto",
            state(KEPT, remote=LogBounds(10, 30)),
            True,
            "primary.orders was copied before with offsets preserved.",
        ),
        ("auto", state(mark=a_mark(True)), True, "primary.orders is marked as preserved."),
        ("auto", state(mark=a_mark(False)), False, "primary.orders is marked as translated."),
        ("preserved", kept(), True, "primary.orders is marked as preserved."),
        ("translated", state(KNOWN), False, "offsets: translated."),
        ({}, state(KNOWN, mark=a_mark(False)), False, "offsets: translated."),
        ("auto", state(mark=a_mark(False, "an earlier one")), True, "auto: about 100% of"),
        ("preserved", state(mark=a_mark(False, "an earlier one")), True, "offsets: preserved."),
        ({}, kept(), True, "primary.orders is marked as preserved."),
        ({"other": "translated"}, kept(), True, "primary.orders is marked as preserved."),
    ],
)
def test_a_topic_keeps_what_it_was_begun_with_and_else_the_option_says(
    offsets: Any, what: ClusterState, preserved: bool, why: str
) -> None:
    choice = the_choice(planned(what, a_flow(offsets=offsets)))
    assert (choice.topic, choice.remote_topic) == ("orders", "primary.orders")
    assert choice.preserved == preserved
    assert choice.reason.startswith(why)
    assert choice.topic_id == "id of orders"


@pytest.mark.parametrize(
    ("offsets", "what", "reason", "advice"),
    [
        ("translated", kept(), "is marked as preserved, and the flow says offsets: translated", ""),
        ("translated", state(KEPT), "was copied before with offsets preserved, and the flow", ""),
        ("preserved", state(KNOWN), "was copied before with offsets translated, and the flow", ""),
        ("preserved", state(mark=a_mark(False)), "is marked as translated, and the flow", ""),
        ("preserved", state(remote=LogBounds(3, 3)), "primary.orders was written to before", ""),
        ("preserved", state(remote=None), "a partition of primary.orders has no leader", "brokers"),
        ("auto", state(remote=None), "a partition of primary.orders has no leader", "brokers"),
        (
            "auto",
            state(density=None),
            "how many of the source's offsets have a record is unknown",
            "Grant READ",
        ),
        ("auto", kept(position=KNOWN), "some positions in primary.orders are of", "ferry repair"),
        (
            "auto",
            state(KEPT, mark=a_mark(False)),
            "some positions in primary.orders",
            "ferry repair",
        ),
    ],
)
def test_what_contradicts_itself_or_cannot_be_told_is_refused(
    offsets: Any, what: ClusterState, reason: str, advice: str
) -> None:
    flow = a_flow(offsets=offsets, on_foreign_records="adopt", on_fill_limit="translate")
    refusal = the_refusal(planned(what, flow))
    assert (refusal.topic, refusal.partition) == ("orders", None)
    assert reason in refusal.reason
    assert (advice or "docs/preserved-offsets.md") in refusal.advice


def test_positions_of_both_kinds_in_one_topic_are_not_mixed() -> None:
    p1 = TopicPartition("primary.orders", 1)
    two = state(topic=a_source(partitions=2), positions={P0: KEPT, p1: KNOWN})
    assert "some positions" in the_refusal(planned(two)).reason


def test_uncommitted_records_have_no_offsets_to_preserve() -> None:
    uncommitted = {"isolation_level": "read_uncommitted"}
    refusal = the_refusal(planned(state(), a_flow(offsets="preserved", **uncommitted)))
    assert "isolation.level: read_committed only" in refusal.reason
    assert not the_choice(planned(state(), a_flow(offsets="auto", **uncommitted))).preserved
    assert "read_committed only" in the_refusal(planned(kept(), a_flow(**uncommitted))).reason


def test_a_lost_remote_topic_is_decided_again() -> None:
    lost = state(KNOWN, mark=a_mark(False), target=())
    options: dict[str, Any] = {"on_target_topic_lost": "recopy", "offsets": "preserved"}
    plan = planned(lost, a_flow(**options))
    assert the_choice(plan).reason == "offsets: preserved."
    assert placed(plan) == [(10, 50, 10)]
    assert len(plan.remarks.notes) == 1


RELEASED = frozenset([REMOTE.topic_id])
BY_LEDGER = replace(KEPT, origin="ledger")


@pytest.mark.parametrize(
    ("offsets", "what"),
    [
        ("preserved", state(BY_LEDGER, mark=a_mark(True), target=(), released=RELEASED)),
        (
            "preserved",
            state(replace(BY_LEDGER, producer=None), a_mark(False), target=(), released=RELEASED),
        ),
        ("auto", state(BY_LEDGER, target=(), released=RELEASED)),
        ("translated", kept(position=BY_LEDGER, target=(), released=RELEASED)),
        (
            "preserved",
            kept(
                position=BY_LEDGER,
                target=[replace(REMOTE, topic_id="a new one")],
                remote=(0, 0),
                released=RELEASED,
            ),
        ),
    ],
    ids=["kept", "switched to preserved", "auto", "switched to translated", "recreated"],
)
def test_a_remote_topic_that_was_given_up_is_begun_again_whatever_the_policies_say(
    offsets: Any, what: ClusterState
) -> None:
    plan = planned(what, a_flow(offsets=offsets))
    assert the_choice(plan).preserved == (offsets != "translated")
    assert [(range_.start, range_.end) for range_ in plan.ranges] == [(10, 50)]
    assert len(plan.topics.creations) == (not what.target.topics)
    assert plan.remarks.notes == ()


@pytest.mark.parametrize("offsets", ["preserved", "auto", "translated"])
def test_a_remote_topic_that_was_given_up_and_is_still_there_is_left_alone(offsets: Any) -> None:
    flow = a_flow(offsets=offsets, **EVERYTHING)
    refusal = the_refusal(planned(kept(released=RELEASED), flow))
    assert "was given up, and still exists" in refusal.reason
    assert "`ferry repair --topic primary.orders --yes`" in refusal.advice


def test_the_positions_that_are_left_of_a_remote_topic_that_was_given_up_are_deleted_first() -> (
    None
):
    left = kept(target=(), released=RELEASED)
    refusal = the_refusal(planned(left, a_flow()))
    assert "the flow's group still has positions in it" in refusal.reason
    assert "`ferry repair --topic primary.orders --yes`" in refusal.advice
    recopied = planned(left, a_flow(on_target_topic_lost="recopy"))
    assert placed(recopied) == [(10, 50, -1)]


def test_what_another_topic_of_that_name_was_given_up_for_says_nothing_of_this_one() -> None:
    plan = planned(kept(released=frozenset(["an earlier one"])))
    assert placed(plan) == [(30, 50, -1)]


# What it costs


def test_the_partition_that_takes_longest_counts() -> None:
    two = state(
        topic=a_source(partitions=2),
        densities={SOURCE: 0.9, TopicPartition("orders", 1): 0.5},
        target=(),
        bounds=(0, 1000),
    )
    choice = the_choice(planned(two, a_flow(offsets="auto")))
    assert choice.reason == "auto: about 70% of the source's offsets have a record."
    assert (choice.gaps, choice.fill_ms) == (600, 3000)
    choice = the_choice(planned(two, a_flow(offsets="auto", fill="markers")))
    assert (choice.gaps, choice.fill_ms) == (600, 20)


def test_a_partition_that_could_not_be_sampled_is_like_the_others() -> None:
    two = state(topic=a_source(partitions=2), density=0.75, bounds=(0, 1000), target=())
    assert the_choice(planned(two, a_flow(offsets="preserved"))).gaps == 500


@pytest.mark.parametrize(
    ("start", "gaps", "fill_ms"),
    [
        ("log-start", 0, 3000),
        (0, 10_000_000, 60_000_000),
        (9_999_990, 10, 3060),
        (10_000_010, 0, 3000),
    ],
)
def test_what_is_below_the_mirrors_start_costs_too(start: object, gaps: int, fill_ms: int) -> None:
    after = state(bounds=(10_000_000, 10_000_020), target=())
    flow = a_flow(offsets="preserved", offsets_start=start, fill_max_ms=10**9)
    choice = the_choice(planned(after, flow))
    assert (choice.gaps, choice.fill_ms) == (gaps, fill_ms)


def test_of_a_mirror_that_goes_on_only_the_rest_counts_and_what_was_lost() -> None:
    assert the_choice(planned(kept(density=0.5, bounds=(10, 50)))).gaps == 10
    flow = a_flow(on_source_truncation="continue")
    assert the_choice(planned(kept(bounds=(40, 50)), flow)).gaps == 10


@pytest.mark.parametrize("option", ["preserved", "auto"])
def test_above_the_limit_a_topic_is_refused_or_translated(option: str) -> None:
    dear = state(density=0.5)  # 20 gaps, 120 ms
    options: dict[str, Any] = {"offsets": option, "fill_max_ms": 119}
    refusal = the_refusal(planned(dear, a_flow(**options)))
    assert refusal.reason.startswith(
        "filling about 20 offsets without a record and 10 offsets before the log's start would take"
    )
    assert refusal.advice == "Set fill.max.ms higher, fill: markers, or on.fill.limit: translate."

    options["on_fill_limit"] = "translate"
    choice = the_choice(planned(dear, a_flow(**options)))
    assert (choice.preserved, choice.gaps) == (False, 0)
    assert "more than fill.max.ms allows" in choice.reason

    marked = changed(dear, marks={"primary.orders": a_mark(True)})
    refusal = the_refusal(planned(marked, a_flow(**options)))
    assert refusal.advice == "Set fill.max.ms higher, or fill: markers."

    options["fill_max_ms"] = 120
    assert the_choice(planned(dear, a_flow(**options))).fill_ms == 120


def test_what_lies_before_the_logs_start_is_named_and_only_advice_that_helps_is_given() -> None:
    far = state(bounds=(2_146_700_000, 2_146_700_020), target=())
    options: dict[str, Any] = {"offsets": "preserved", "fill_max_ms": 600_000}
    for fill in ("markers", "transactions"):
        refusal = the_refusal(planned(far, a_flow(**options, fill=fill)))
        assert refusal.reason == (
            "filling 2,146,700,000 offsets before the log's start would take about 644.0 s, more than "
            "fill.max.ms allows."
        )
        assert refusal.advice == "Set fill.max.ms higher, or on.fill.limit: translate."


# Where a mirror begins


@pytest.mark.parametrize(
    ("start", "bounds", "expected"),
    [
        ("log-start", (10, 50), [(10, 50, 10)]),
        ("log-start", (0, 0), [(0, 0, 0)]),
        ("log-start", (0, 5), [(0, 5, 0)]),
        ("log-start", (50, 50), [(50, 50, 50)]),
        (0, (10, 50), [(10, 50, 0)]),
        (0, (0, 0), [(0, 0, 0)]),
        (0, (50, 50), [(50, 50, 0)]),
        (5, (10, 50), [(10, 50, 5)]),
        (10, (10, 50), [(10, 50, 10)]),
        (30, (10, 50), [(30, 50, 30)]),
        (50, (10, 50), [(50, 50, 50)]),
    ],
)
def test_a_mirror_begins_at_the_logs_start_or_where_the_flow_says(
    start: object, bounds: tuple[int, int], expected: list[tuple[int, int, int]]
) -> None:
    flow = a_flow(offsets="preserved", offsets_start=start)
    assert placed(planned(state(bounds=bounds), flow)) == expected
    assert placed(planned(state(bounds=bounds, target=()), flow)) == expected


def test_a_mirror_that_would_begin_after_the_end_is_refused_partition_by_partition() -> None:
    plan = planned(state(), a_flow(offsets="preserved", offsets_start=51))
    (refusal,) = plan.remarks.refused
    assert (refusal.partition, plan.ranges) == (0, ())
    assert refusal.reason == "its mirror is to begin at 51, but its log ends at 50."


def test_a_translated_topic_knows_no_start() -> None:
    assert placed(planned(state(), a_flow(offsets_start=51))) == [(10, 50, -1)]


@pytest.mark.parametrize("asked", [0, 40])
def test_a_start_that_was_not_reached_yet_stays_what_it_was(asked: int) -> None:
    """The first run ended while it filled the target's log."""
    begun = at(10, producer=ProducerState(7, 0, 5, unfilled_to=5))
    what = kept(position=begun, remote=(0, 3))
    assert placed(planned(what, a_flow(offsets_start=asked))) == [(10, 50, 5)]
    nothing_new = kept(position=begun, remote=(0, 3), bounds=(10, 10))
    assert placed(planned(nothing_new)) == [(10, 10, 5)]


# Where it goes on


def test_a_mirror_goes_on_at_its_position() -> None:
    plan = planned(kept())
    assert placed(plan) == [(30, 50, -1)]
    assert plan.ranges[0].remote_topic_id == REMOTE.topic_id
    assert placed(planned(kept(bounds=(10, 30)))) == []
    aged = at(30, producer=PRODUCER, at=NOW - DAY - HOUR)
    assert placed(planned(kept(position=aged, bounds=(10, 30)))) == [(30, 30, -1)]


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [((20, 50), [(30, 50, 20)]), ((20, 30), [(30, 30, 20)]), ((30, 30), [(30, 30, 30)])],
)
def test_a_start_of_the_source_that_moved_is_followed(
    bounds: tuple[int, int], expected: list[tuple[int, int, int]]
) -> None:
    assert placed(planned(kept(bounds=bounds))) == expected
    stays = [(start, end, -1) for start, end, _ in expected if start < end]
    assert placed(planned(kept(bounds=bounds), a_flow(on_source_start_moved="keep"))) == stays
    # Once the target's log has moved, there is nothing to do.
    assert placed(planned(kept(bounds=bounds, remote=(bounds[0], 30)))) == stays


def test_a_start_is_not_followed_that_the_target_has_passed_or_that_is_unknown() -> None:
    assert placed(planned(kept(bounds=(20, 30), remote=(25, 30)))) == []
    assert placed(planned(changed(kept(bounds=(20, 30)), target_bounds={}))) == []


def test_gaps_below_the_first_copied_offset_stay_until_the_source_moves_on() -> None:
    flow = a_flow(offsets_start=0)
    what = kept(bounds=(20, 30), remote=(0, 30), first_copied={P0: 20})
    assert placed(planned(what, flow)) == []
    moved = kept(bounds=(21, 30), remote=(0, 30), first_copied={P0: 20})
    assert placed(planned(moved, flow)) == [(30, 30, 21)]


def test_what_was_lost_before_it_was_copied_is_passed_over() -> None:
    flow = a_flow(on_source_truncation="continue")
    assert placed(planned(kept(bounds=(40, 50)), flow)) == [(30, 50, 40)]
    assert "were deleted on the source" in planned(kept(bounds=(40, 50))).remarks.refused[0].reason


# Situations


EVERYTHING: dict[str, Any] = {
    "on_source_divergence": "continue",
    "on_source_topic_recreated": "append",
    "on_foreign_records": "adopt",
    "on_target_topic_lost": "recopy",
    "on_source_truncation": "continue",
}


@pytest.mark.parametrize(
    ("what", "partition", "reason", "advice"),
    [
        (
            kept(position=replace(KEPT, topic_id="another")),
            None,
            "deleted and recreated since it was last copied",
            "Preserved offsets cannot be shifted: mirror the new topic under another name",
        ),
        (
            kept(diverged={SOURCE: 20}),
            0,
            "was truncated below the position 30",
            "Preserved offsets cannot be taken back: `ferry repair --topic primary.orders` shows",
        ),
        (
            kept(remote=(10, 29)),
            0,
            "the target's log of primary.orders ends at 29, before the position 30: records that "
            "were copied are gone",
            "`ferry repair --topic primary.orders` shows what is lost if the copy is given up",
        ),
    ],
)
def test_what_preserved_offsets_cannot_follow_is_refused_whatever_the_options_say(
    what: ClusterState, partition: int | None, reason: str, advice: str
) -> None:
    plan = planned(what, a_flow(**EVERYTHING))
    (refusal,) = plan.remarks.refused
    assert (refusal.partition, plan.ranges) == (partition, ())
    assert reason in refusal.reason
    assert advice in refusal.advice
    assert "Or set" not in refusal.advice


def test_records_of_a_run_that_ended_early_lie_after_the_position() -> None:
    assert placed(planned(kept(remote=(10, 45)))) == [(30, 50, -1)]


def test_a_plan_tells_each_topics_choice_and_can_be_stored() -> None:
    flow = a_flow(offsets={"orders": "preserved"})
    plan = planned(a_state(a_source(), a_source("payments")), flow)
    assert [(choice.topic, choice.preserved) for choice in plan.choices] == [
        ("orders", True),
        ("payments", False),
    ]
    assert {acl.remote_topic for acl in plan.access.advised_acls} == {"primary.orders"}
    assert Plan.from_json(plan.to_json()) == plan
    assert plan.topics.creations == (
        Creation("primary.orders", 1, 2, {}),
        Creation("primary.payments", 1, 2, {}),
    )
