import re
from dataclasses import dataclass, replace
from typing import Any, get_args

import pytest

from kafka_ferry.config.options.on_events import PolicyOptions
from kafka_ferry.model import ClusterState, Growth, LogBounds, Mark, Note, Position, TopicPartition
from kafka_ferry.model.rights import Right, how_to_grant
from kafka_ferry.plan.topics.refusals import OF_PARTITIONS, OF_TOPICS, Situation
from tests.unit.plan.builders import (
    KNOWN,
    NOW,
    P0,
    REMOTE,
    a_flow,
    a_remote,
    a_source,
    a_state,
    at,
    changed,
    intervals,
    planned,
)

SOURCE = TopicPartition("orders", 0)
OTHER = a_source("payments")


def copied_before(
    position: Position = KNOWN, *, bounds: tuple[int, int] = (10, 50), **more: Any
) -> ClusterState:
    """One partition that holds ``bounds`` on the source and was copied up to ``position``."""
    state: dict[str, Any] = {"target": [REMOTE], "positions": {P0: position}}
    return a_state(a_source(), bounds=bounds, **state | more)


def with_another_topic(state: ClusterState) -> ClusterState:
    """The same, and a topic in no situation at all."""
    topics = {**state.source.topics, OTHER.name: OTHER}
    bounds = {**state.source.logs.bounds, TopicPartition(OTHER.name, 0): LogBounds(0, 5)}
    names = state.source.names | {OTHER.name}
    return changed(state, topics=topics, names=names, bounds=bounds)


@dataclass(frozen=True)
class Case:
    """One topic in one situation.

    Attributes:
        reason: what has happened, in the words that people read.
        outcome: what becomes of it under ``go_on``.
        advice: what to do under any other value.
        copied: the offsets to copy under ``go_on``.
        created: whether the remote topic is created then.
    """

    state: ClusterState
    option: str
    go_on: str
    reason: str
    outcome: str
    advice: str
    partition: int | None = None
    copied: tuple[int, int] | None = None
    created: bool = False

    @property
    def values(self) -> tuple[str, ...]:
        return values_of(self.option)


def values_of(option: str) -> tuple[str, ...]:
    return get_args(PolicyOptions.model_fields[option.replace(".", "_")].annotation)


def set_to(option: str, value: str) -> dict[str, Any]:
    return {option.replace(".", "_"): value}


RECREATED = {
    "option": "on.source.topic.recreated",
    "go_on": "append",
    "reason": "the source's topic was deleted and recreated since it was last copied.",
    "outcome": "The new one's records go after the old one's in primary.orders.",
    "advice": "Mirror the new topic under another name (topics.rename), which keeps the old one's copy. To copy it to "
    "this name, `ferry repair --topic primary.orders` shows what is lost if the copy is given up, and gives it up with "
    "--yes; the next run then copies all that the source still has.",
}
LOST = {
    "option": "on.target.topic.lost",
    "go_on": "recopy",
    "reason": "the target's topic was deleted since it was last copied; its history there is gone.",
    "outcome": "All that the source still has is copied again, to primary.orders.",
    "advice": "Leave the topic out with topics.exclude.",
}
TRUNCATED = {
    "option": "on.source.truncation",
    "go_on": "continue",
    "outcome": "They are lost, and the ledger records that; copying continues at 10.",
    "advice": "Mirror more often, or keep the source's records longer.",
    "partition": 0,
}
DIVERGED = {
    "option": "on.source.divergence",
    "go_on": "continue",
    "reason": "the source's log was truncated below the position 30: offsets [20, 30) were copied "
    "from a branch that the source has lost.",
    "outcome": "The target keeps them, and copying continues at 20.",
    "advice": "Was there an unclean leader election? To have nothing but what the source has in their place, "
    "`ferry repair --topic primary.orders` shows what is lost if the copy is given up, and gives it up with "
    "--yes; the next run then copies all that the source still has.",
    "partition": 0,
}


COMPACTED = replace(REMOTE, configs={**REMOTE.configs, "cleanup.policy": "compact"})


def moved_to(offset: int, by_ledger: int = 30) -> dict[str, Any]:
    return {
        "option": "on.position.moved",
        "go_on": "ledger",
        "reason": f"the flow's group has the position {offset}, but by the ledger copying has reached "
        f"{by_ledger}: another client has committed there, or the group has lost its newest offsets (a power cut?).",
        "outcome": f"Copying continues at {by_ledger}.",
        "advice": "Find out which principals may write to the flow's group.",
        "partition": 0,
    }


CASES = {
    "the topic is gone from the source": Case(
        a_state(target=[REMOTE], positions={P0: KNOWN}, copied={"orders": "primary.orders"}),
        option="on.source.topic.deleted",
        go_on="keep",
        reason="the topic was deleted on the source, or is no longer visible to the flow.",
        outcome="Its copy primary.orders stays as it is.",
        advice="Its copy primary.orders may be all that is left of it.",
    ),
    "the source's topic was recreated": Case(
        copied_before(at(30, topic_id="another id")), copied=(10, 50), **RECREATED
    ),
    "the source's topic was recreated and is empty": Case(
        copied_before(at(30, topic_id="another id"), bounds=(0, 0)), copied=(0, 0), **RECREATED
    ),
    "the source's topic was recreated and is as long": Case(
        copied_before(at(50, topic_id="another id")), copied=(10, 50), **RECREATED
    ),
    "the source's topic was recreated, as the ledger tells": Case(
        copied_before(at(30, topic_id="another id", origin="ledger")), copied=(10, 50), **RECREATED
    ),
    "the target's topic vanished": Case(
        copied_before(target=()), copied=(10, 50), created=True, **LOST
    ),
    "the target's topic vanished, and its id is unknown": Case(
        copied_before(Position(30), target=()), copied=(10, 50), created=True, **LOST
    ),
    "the target's topic vanished, and the source lost records too": Case(
        copied_before(at(60), target=()), copied=(10, 50), created=True, **LOST
    ),
    "the target's topic was recreated": Case(
        copied_before(at(30, remote_topic_id="another id")), copied=(10, 50), **LOST
    ),
    "the target's topic was recreated and there is nothing new": Case(
        copied_before(at(50, remote_topic_id="another id")), copied=(10, 50), **LOST
    ),
    "the target's topic was recreated and the source is empty": Case(
        copied_before(at(50, remote_topic_id="another id"), bounds=(50, 50)),
        copied=(50, 50),
        **LOST,
    ),
    "the target's topic was recreated, as the ledger tells": Case(
        copied_before(at(30, remote_topic_id="another id", origin="ledger")),
        copied=(10, 50),
        **LOST,
    ),
    "the target's topic holds foreign records": Case(
        a_state(a_source(), target=[REMOTE], foreign=frozenset({"primary.orders"})),
        option="on.foreign.records",
        go_on="adopt",
        reason="primary.orders on backup holds records that this flow has not copied.",
        outcome="Those of primary go after them, also those that are there already.",
        advice="If MirrorMaker has copied them, continue with `ferry takeover`, which says what differs where it "
        "cannot. Otherwise let the flow name "
        "its topics differently (replication.policy.class).",
        copied=(10, 50),
    ),
    "the target's topic may not be read": Case(
        a_state(a_source(), target=[REMOTE], unreadable={"primary.orders": "Not authorized."}),
        option="on.foreign.records",
        go_on="adopt",
        reason="primary.orders on the target holds something, and whose records they are is "
        "unknown. Not authorized.",
        outcome="The records of primary go after it.",
        advice="Otherwise repair the topic.",
        copied=(10, 50),
    ),
    "another client has moved the position on": Case(
        copied_before(moved={P0: 45}), copied=(30, 50), **moved_to(45)
    ),
    "another client has moved the position back": Case(
        copied_before(at(50), moved={P0: 20}), copied=(50, 50), **moved_to(20, by_ledger=50)
    ),
    "another client has moved the position beyond the log's end": Case(
        copied_before(moved={P0: 900}), copied=(30, 50), **moved_to(900)
    ),
    "the log was truncated": Case(
        copied_before(diverged={SOURCE: 20}), copied=(20, 50), **DIVERGED
    ),
    "the log of a compacted topic was truncated": Case(
        copied_before(diverged={SOURCE: 20}, target=[COMPACTED]),
        copied=(20, 50),
        **DIVERGED
        | {
            "outcome": f"{DIVERGED['outcome']} The topic is compacted: of a key that the source does not write again, "
            "the lost record stays the newest one on the target. `ferry audit` names such keys."
        },
    ),
    "the log was truncated and is shorter now": Case(
        copied_before(diverged={SOURCE: 20}, bounds=(10, 25)), copied=(20, 25), **DIVERGED
    ),
    "the log was truncated and has nothing new": Case(
        copied_before(diverged={SOURCE: 20}, bounds=(10, 20)), copied=(20, 20), **DIVERGED
    ),
    "an offset was deleted before it was copied": Case(
        copied_before(at(9)),
        reason="offsets [9, 10) were deleted on the source before they were copied.",
        # The task that copies finds the gap, and accounts for it.
        copied=(9, 50),
        **TRUNCATED,
    ),
    "all offsets were deleted before they were copied": Case(
        copied_before(at(0), bounds=(10, 10)),
        reason="offsets [0, 10) were deleted on the source before they were copied.",
        copied=(0, 10),
        **TRUNCATED,
    ),
}
in_each_situation = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
EACH: tuple[Situation[Any], ...] = (*OF_TOPICS, *OF_PARTITIONS)


@in_each_situation
def test_a_situation_is_refused_by_name_under_any_value_that_does_not_let_it_go_on(
    case: Case,
) -> None:
    # To retire is neither to refuse nor to go on.
    for value in set(case.values) - {case.go_on, "retire"}:
        plan = planned(with_another_topic(case.state), a_flow(**set_to(case.option, value)))
        (refusal,) = plan.remarks.refused
        assert (refusal.topic, refusal.partition) == ("orders", case.partition)
        assert refusal.reason == case.reason
        assert refusal.advice == f"{case.advice} Or set {case.option}: {case.go_on}."
        assert intervals(plan) == [("payments", 0, 0, 5)]
        assert [creation.remote_topic for creation in plan.topics.creations] == ["primary.payments"]
        assert plan.remarks.notes == ()


@in_each_situation
def test_a_situation_is_noted_and_gone_on_with_where_its_option_says_so(case: Case) -> None:
    plan = planned(with_another_topic(case.state), a_flow(**set_to(case.option, case.go_on)))
    assert plan.remarks.notes == (
        Note("orders", f"{case.reason} {case.outcome}", partition=case.partition),
    )
    assert plan.remarks.refused == ()
    copied = [("orders", 0, *case.copied)] if case.copied else []
    assert intervals(plan) == [*copied, ("payments", 0, 0, 5)]
    created = ["primary.orders"] if case.created else []
    have = [creation.remote_topic for creation in plan.topics.creations]
    assert have == [*created, "primary.payments"]


@in_each_situation
def test_an_option_says_nothing_of_other_situations(case: Case) -> None:
    others = {s.option: s.go_on for s in EACH if s.option and s.option != case.option}
    refusing = next(value for value in case.values if value != case.go_on)
    options = set_to(case.option, refusing)
    for option, value in others.items():
        options |= set_to(option, value)
    assert [r.reason for r in planned(case.state, a_flow(**options)).remarks.refused] == [
        case.reason
    ]


@pytest.mark.parametrize("situation", EACH, ids=lambda situation: situation.reason[:30])
def test_every_line_of_the_tables_is_tried_and_its_option_has_the_value(
    situation: Situation[Any],
) -> None:
    if situation.option:
        assert situation.go_on in values_of(situation.option)
        assert situation.option in {case.option for case in CASES.values()}
    else:
        assert (situation.go_on, situation.outcome, situation.offset) == ("", "", None)


EVERYTHING_GOES_ON = {
    name: value for s in EACH if s.option for name, value in set_to(s.option, s.go_on).items()
}


# Names that have changed


def marked(topic: str, remote_topic: str) -> dict[str, Mark]:
    mark = Mark(topic, f"id of {topic}", remote_topic, f"id of {remote_topic}", False, True)
    return {remote_topic: mark}


@pytest.mark.parametrize("topic_id", ["id of payments", ""], ids=["with ids", "without"])
def test_topics_whose_names_were_swapped_are_refused_by_what_has_changed(topic_id: str) -> None:
    """The copy of the one is not the other's, whatever the options say, and nothing of it is to be deleted."""
    state = copied_before(
        at(30, topic_id=topic_id),
        marks=marked("payments", "primary.orders"),
        copied={"orders": "primary.payments", "payments": "primary.orders"},
    )
    plan = planned(state, a_flow(**EVERYTHING_GOES_ON))

    (refusal,) = [it for it in plan.remarks.refused if it.topic == "orders"]
    assert refusal.reason == (
        "primary.orders is the copy of payments, by the ledger, and orders was copied to primary.payments: the flow's "
        "names of remote topics have changed (topics.rename, or replication.policy.class)."
    )
    assert refusal.advice == (
        "Change them back, with topics.rename: {orders: primary.payments, payments: primary.orders}; both copies are "
        "whole. Or give orders a name that is not yet on the target."
    )
    assert not plan.ranges


def test_a_name_that_was_another_topics_is_refused_also_before_the_first_copy() -> None:
    state = copied_before(at(30, topic_id="gone"), marks=marked("payments", "primary.orders"))
    (refusal,) = planned(state, a_flow(**EVERYTHING_GOES_ON)).remarks.refused
    assert (
        "primary.orders is the copy of payments, by the ledger: the flow's names" in refusal.reason
    )
    assert refusal.advice.startswith("Give orders a name that is not yet on the target.")


def test_an_empty_remote_topic_may_change_hands() -> None:
    state = copied_before(at(0, topic_id="another id"), marks=marked("payments", "primary.orders"))
    assert intervals(planned(state)) == [("orders", 0, 10, 50)]


@pytest.mark.parametrize("situation", EACH, ids=lambda situation: situation.reason[:30])
def test_no_advice_deletes_what_was_proved(situation: Situation[Any]) -> None:
    for advice in (situation.advice, situation.if_preserved):
        assert not re.search(r"(?i)\bdelete\b", advice.replace("delete nothing", ""))
        assert "--yes" not in advice.split("`")[1::2]


# Positions after


def test_what_is_copied_again_says_which_topic_it_belongs_to() -> None:
    """Else a position in the lost remote topic counts for the new one."""
    flow = a_flow(on_target_topic_lost="recopy")
    (lost,) = planned(copied_before(target=()), flow).ranges
    (recreated,) = planned(copied_before(at(30, remote_topic_id="another id")), flow).ranges
    assert (lost.remote_topic_id, recreated.remote_topic_id) == ("", "id of primary.orders")


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.copied])
def test_once_it_was_copied_nothing_is_left_to_say_or_to_do(name: str) -> None:
    case = CASES[name]
    assert case.copied
    end = case.copied[1]
    after = changed(case.state, known={P0: at(end, at=NOW)}, diverged={}, moved={})
    after = changed(after, foreign=frozenset(), unreadable={}, target_topics={REMOTE.name: REMOTE})
    plan = planned(after)
    assert (plan.ranges, plan.remarks.notes, plan.remarks.refused) == ((), (), ())


@pytest.mark.parametrize("remote", [None, REMOTE], ids=["deleted", "recreated"])
def test_a_new_topic_begins_at_its_start_once_the_remote_topic_of_the_old_one_is_gone(
    remote: Any,
) -> None:
    old = at(30, topic_id="another id", remote_topic_id="another id")
    plan = planned(copied_before(old, target=[remote] if remote else []))
    assert intervals(plan) == [("orders", 0, 10, 50)]
    assert (len(plan.topics.creations), plan.remarks.refused, plan.remarks.notes) == (
        0 if remote else 1,
        (),
        (),
    )


def test_a_vanished_target_topic_is_not_recreated_after_its_refusal() -> None:
    """Else the next plan goes on in the new one, if the position does not name the old one."""
    first = planned(copied_before(Position(30), target=()))
    assert "history there is gone" in first.remarks.refused[0].reason
    assert first.topics.creations == ()


@pytest.mark.parametrize("name", ["orders", "primary.orders"])
def test_a_topic_that_a_cluster_does_not_describe_is_refused_alone_whatever_the_options_say(
    name: str,
) -> None:
    why = {name: "No right. Grant it."}
    state = with_another_topic(copied_before(target=()))
    # A cluster that does not describe a topic gives nothing of it.
    state = changed(state, target_refused=why)
    if name == "orders":
        payments = {OTHER.name: OTHER}
        bounds = {TopicPartition(OTHER.name, 0): LogBounds(0, 5)}
        state = changed(state, topics=payments, bounds=bounds, refused=why, target_refused={})

    plan = planned(state, a_flow(**EVERYTHING_GOES_ON))

    (refusal,) = plan.remarks.refused
    assert (refusal.topic, refusal.reason) == ("orders", why[name])
    assert (plan.remarks.skipped, plan.remarks.notes) == ((), ())
    assert [creation.remote_topic for creation in plan.topics.creations] == ["primary.payments"]
    assert intervals(plan) == [("payments", 0, 0, 5)]


def test_a_topic_that_may_no_longer_be_seen_is_refused_whatever_the_options_say() -> None:
    state = a_state(
        target=[REMOTE],
        positions={P0: KNOWN},
        copied={"orders": "primary.orders"},
        invisible=frozenset({"orders"}),
    )
    (refusal,) = planned(state, a_flow(**EVERYTHING_GOES_ON)).remarks.refused
    assert refusal.reason == (
        "the flow may no longer see the topic on the source, if it was not deleted. "
        + how_to_grant(Right.topic("READ", "orders"))
    )
    assert refusal.advice == (
        "If it was deleted, its copy primary.orders may be all that is left of it: leave the topic out with "
        "topics.exclude."
    )


# Several at once


def two_partitions(first: Position, second: Position, **more: Any) -> ClusterState:
    positions = {P0: first, TopicPartition("primary.orders", 1): second}
    state: dict[str, Any] = {"target": [a_remote(partitions=2)], "positions": positions}
    return a_state(a_source(partitions=2), **state | more)


def test_only_the_partitions_that_were_not_yet_begun_again_begin_again() -> None:
    """A run that failed in between has left positions of both topics."""
    appended = two_partitions(at(20), at(30, topic_id="another id"))
    plan = planned(appended, a_flow(on_source_topic_recreated="append"))
    assert intervals(plan) == [("orders", 0, 20, 50), ("orders", 1, 10, 50)]
    assert len(plan.remarks.notes) == 1

    copied_again = two_partitions(at(20), at(30, remote_topic_id="another id"))
    plan = planned(copied_again, a_flow(on_target_topic_lost="recopy"))
    assert intervals(plan) == [("orders", 0, 20, 50), ("orders", 1, 10, 50)]
    assert len(plan.remarks.notes) == 1


def test_a_topic_in_two_situations_needs_both_options() -> None:
    state = two_partitions(at(30, topic_id="another id"), at(30, remote_topic_id="another id"))
    both = planned(state, a_flow(**EVERYTHING_GOES_ON))
    assert [
        "recreated" in both.remarks.notes[0].message,
        "history" in both.remarks.notes[1].message,
    ] == [True] * 2
    assert intervals(both) == [("orders", 0, 10, 50), ("orders", 1, 10, 50)]

    one = planned(state, a_flow(on_source_topic_recreated="append"))
    assert ["history there is gone" in refusal.reason for refusal in one.remarks.refused] == [True]
    assert (len(one.remarks.notes), one.ranges) == (1, ())


def test_truncation_is_judged_from_where_the_logs_part() -> None:
    state = copied_before(diverged={SOURCE: 5})
    both = planned(state, a_flow(**EVERYTHING_GOES_ON))
    assert intervals(both) == [("orders", 0, 5, 50)]
    assert "[5, 30) were copied from a branch" in both.remarks.notes[0].message
    assert "[5, 10) were deleted" in both.remarks.notes[1].message

    one = planned(state, a_flow(on_source_divergence="continue"))
    assert ["[5, 10) were deleted" in refusal.reason for refusal in one.remarks.refused] == [True]
    assert (len(one.remarks.notes), one.ranges) == (1, ())


@pytest.mark.parametrize(
    "position",
    [at(30, topic_id="another id"), at(30, remote_topic_id="another id")],
    ids=["the source's topic", "the target's topic"],
)
def test_where_a_topic_was_recreated_its_old_position_is_measured_against_no_log(
    position: Position,
) -> None:
    state = copied_before(replace(position, offset=5), diverged={SOURCE: 3})
    plan = planned(state, a_flow(**EVERYTHING_GOES_ON))
    assert intervals(plan) == [("orders", 0, 10, 50)]
    assert [note.partition for note in plan.remarks.notes] == [None]


def test_a_remote_topic_that_is_gone_on_with_grows_too() -> None:
    state = a_state(a_source(partitions=3), target=[REMOTE], foreign=frozenset({"primary.orders"}))
    assert planned(state).topics.growths == ()
    assert planned(state, a_flow(on_foreign_records="adopt")).topics.growths == (
        Growth("primary.orders", 3),
    )


# Topics without ids


@pytest.mark.parametrize(
    ("position", "is_refused"),
    [
        (at(30, topic_id="", origins=("before",)), True),
        (at(30, topic_id="", origins=("S", "upstream")), False),
        (at(30, topic_id=""), False),  # another client may have committed it
        (at(30, origins=("before",)), False),  # the topic's id says more
    ],
)
def test_without_a_topics_id_the_position_says_of_which_cluster_it_is(
    position: Position, is_refused: bool
) -> None:
    plan = planned(copied_before(position), a_flow(**EVERYTHING_GOES_ON))
    assert [refusal.topic for refusal in plan.remarks.refused] == ["orders"] * is_refused
    assert all("another cluster than S" in refusal.reason for refusal in plan.remarks.refused)
    assert bool(plan.ranges) is not is_refused


# Logs


def test_a_log_that_ends_before_the_position_is_refused_whatever_the_options_say() -> None:
    plan = planned(copied_before(at(51)), a_flow(**EVERYTHING_GOES_ON))
    (refusal,) = plan.remarks.refused
    assert (refusal.topic, refusal.partition) == ("orders", 0)
    assert "log ends at 50, before the position 51" in refusal.reason
    assert "where the logs diverge is unknown" in refusal.reason
    assert "unclean leader election" in refusal.advice
    assert "Or set" not in refusal.advice
    assert (plan.ranges, plan.remarks.notes) == ((), ())


def test_logs_that_part_at_the_position_are_one() -> None:
    plan = planned(copied_before(diverged={SOURCE: 30}))
    assert intervals(plan) == [("orders", 0, 30, 50)]
    assert (plan.remarks.refused, plan.remarks.notes) == ((), ())


def test_records_deleted_before_a_first_copy_are_no_loss() -> None:
    plan = planned(a_state(a_source(), target=[REMOTE], bounds=(10, 50)))
    assert intervals(plan) == [("orders", 0, 10, 50)]
    assert (plan.remarks.refused, plan.remarks.notes) == ((), ())


@pytest.mark.parametrize("value", values_of("on.source.divergence"))
def test_a_transaction_that_a_truncation_has_cut_and_that_has_ended_otherwise_is_refused(
    value: str,
) -> None:
    state = copied_before(diverged={SOURCE: 20}, split={SOURCE: 15})
    plan = planned(state, a_flow(on_source_divergence=value))
    (refusal,) = plan.remarks.refused
    assert "truncated at 20, below the position 30, within a transaction that begins at 15" in str(
        refusal
    )
    assert plan.ranges == ()


def test_nothing_is_copied_where_an_open_transaction_begins_below_where_the_logs_part() -> None:
    """The marker that ended it was in the lost branch."""
    state = copied_before(diverged={SOURCE: 20}, bounds=(10, 15))
    plan = planned(state, a_flow(on_source_divergence="continue"))
    assert (plan.ranges, plan.remarks.refused) == ((), ())
    assert len(plan.remarks.notes) == 1


# Topics that are gone from the source


@pytest.mark.parametrize("value", values_of("on.source.topic.deleted"))
@pytest.mark.parametrize(
    "state",
    [
        a_state(copied={"orders": "primary.orders"}),
        a_state(target=[REMOTE], copied={"orders": "primary.orders"}, vanished=["orders"]),
        a_state(target=[a_remote("primary.__x")], copied={"__x": "primary.__x"}),
        a_state(target=[a_remote("primary.old")], copied={"old": "primary.old"}),
    ],
    ids=["its copy is gone too", "it vanished this moment", "internal", "excluded since"],
)
def test_of_some_topics_that_are_gone_there_is_nothing_to_say(
    state: ClusterState, value: str
) -> None:
    flow = a_flow(on_source_topic_deleted=value, topics_exclude=["old"], topics_optional=[".*"])
    plan = planned(state, flow)
    assert (plan.remarks.notes, plan.remarks.refused, plan.ranges, plan.topics.creations) == (
        (),
        (),
        (),
        (),
    )


def test_a_topic_that_is_gone_is_named_with_the_copy_that_was_made_of_it() -> None:
    """The flow may have been given another policy since."""
    state = a_state(target=[a_remote("primary.orders")], copied={"orders": "primary.orders"})
    flow = a_flow(replication_policy_class="IdentityReplicationPolicy")
    assert "Its copy primary.orders stays" in planned(state, flow).remarks.notes[0].message


# Partitions


@pytest.mark.parametrize("options", [{}, EVERYTHING_GOES_ON], ids=["defaults", "all go on"])
def test_a_remote_topic_with_more_partitions_is_noted_and_copied_to(
    options: dict[str, Any],
) -> None:
    state = a_state(a_source(partitions=2), target=[a_remote(partitions=5)])
    plan = planned(state, a_flow(**options))
    assert [r.partition for r in plan.ranges] == [0, 1]
    (note,) = plan.remarks.notes
    assert (note.topic, note.partition) == ("orders", None)
    assert "primary.orders has 5 partitions, the source's topic has 2" in note.message
    assert "producers that choose partitions by key choose different ones" in note.message


def test_of_a_refused_topic_only_the_refusal_is_said() -> None:
    state = a_state(
        a_source(), target=[a_remote(partitions=5)], foreign=frozenset({"primary.orders"})
    )
    plan = planned(state)
    assert (len(plan.remarks.refused), plan.remarks.notes) == (1, ())


# Positions that the ledger does not have


@pytest.mark.parametrize(
    ("offset", "bounds", "skipped"),
    [(30, (0, 50), "[0, 30)"), (900, (0, 50), "[0, 900)"), (30, (10, 50), "[10, 30)")],
)
def test_a_position_of_which_the_ledger_knows_nothing_leaves_nothing_out(
    offset: int, bounds: tuple[int, int], skipped: str
) -> None:
    state = copied_before(at(offset), bounds=bounds, unconfirmed=frozenset({P0}))
    (refusal,) = planned(state, a_flow(**EVERYTHING_GOES_ON)).remarks.refused
    assert f"offsets {skipped} would be left out" in refusal.reason
    assert "ferry repair --topic primary.orders" in refusal.advice


@pytest.mark.parametrize("offset", [0, 10])
def test_a_position_of_which_the_ledger_knows_nothing_is_believed_where_nothing_lies_before_it(
    offset: int,
) -> None:
    state = copied_before(at(offset), bounds=(offset, 50), unconfirmed=frozenset({P0}))
    plan = planned(state)
    assert (intervals(plan), plan.remarks.refused) == ([("orders", 0, offset, 50)], ())
