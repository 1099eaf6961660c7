"""What the source may delete before it is copied."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from kafka_ferry.model import ClusterState, Position, Risk, Topic, TopicPartition
from kafka_ferry.model.topic_pair import Pair
from kafka_ferry.plan.retention import retention_ms
from kafka_ferry.plan.schedule.retention_risks import Pace, pace_of, questions
from tests.unit.plan.builders import (
    DAY,
    HOUR,
    NOW,
    a_flow,
    a_remote,
    a_source,
    a_state,
    at,
    planned,
)

MINUTE = HOUR // 60


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("schedule", "now", "following", "interval"),
    [
        ("@hourly", "2026-11-21T10:20", "2026-11-21T11:00", HOUR),
        ("@hourly", "2026-11-21T10:00", "2026-11-21T11:00", HOUR),
        ("@daily", "2026-11-21T10:20", "2026-11-22T00:00", DAY),
        ("@quarterly", "2026-11-21T10:20", "2027-01-01T00:00", 92 * DAY),
        ("*/15 * * * *", "2026-11-21T10:20", "2026-11-21T10:30", 15 * MINUTE),
        ("0 6 * * 1-5", "2026-11-21T10:20", "2026-11-23T06:00", 3 * DAY),  # over the weekend
    ],
)
def test_the_next_run_is_the_timetables_in_utc(
    schedule: str, now: str, following: str, interval: int
) -> None:
    assert pace_of(a_flow(schedule=schedule), ms(now)) == Pace(ms(following), interval)


def test_the_next_run_is_the_timetables_in_its_own_time_zone() -> None:
    flow = a_flow(schedule="@daily", timezone="Europe/Berlin")

    # Over the night in which the clocks go back.
    assert pace_of(flow, ms("2026-10-25T00:30")) == Pace(ms("2026-10-25T23:00"), 25 * HOUR)


def test_a_timetable_of_a_span_of_time_runs_again_after_it() -> None:
    assert pace_of(a_flow(schedule="PT15M"), NOW) == Pace(NOW + 15 * MINUTE, 15 * MINUTE)


def test_without_a_timetable_the_next_run_is_unknown() -> None:
    flow = a_flow(schedule="")
    assert pace_of(flow, NOW) is None
    state = a_state(kept_for(MINUTE), expiring={TP: 40}, recent={TP: 10})
    assert planned(state, flow).remarks.risks == ()
    assert questions(flow, state.source.logs, [pair_of(state)], NOW).expiring == {}


@pytest.mark.parametrize(
    ("configs", "kept"),
    [
        ({"cleanup.policy": "delete", "retention.ms": "5"}, 5),
        ({"cleanup.policy": "compact,delete", "retention.ms": "5"}, 5),
        ({"retention.ms": "0"}, 0),
        ({"cleanup.policy": "compact", "retention.ms": "5"}, None),
        ({"cleanup.policy": "delete", "retention.ms": "-1"}, None),
        ({}, None),
    ],
)
def test_only_the_policy_delete_lets_records_age(configs: dict[str, str], kept: int | None) -> None:
    assert retention_ms(Topic("orders", "id", 1, configs)) == kept


TP = TopicPartition("orders", 0)
FLOW = a_flow(schedule="@hourly")
PACE = pace_of(FLOW, NOW)
assert PACE
UNTIL_NEXT = PACE.next_run - NOW


def kept_for(retention: int, partitions: int = 1, **configs: str) -> Topic:
    return a_source(partitions=partitions, configs={"retention.ms": str(retention), **configs})


def pair_of(state: ClusterState) -> Pair:
    return Pair.of("orders", "primary.orders", state)


def risks_of(state: ClusterState) -> tuple[Risk, ...]:
    return planned(state, FLOW).remarks.risks


@pytest.mark.parametrize(
    ("state", "expiring", "recent"),
    [
        ({"bounds": (10, 50)}, PACE.next_run - DAY, NOW - HOUR),
        # Nothing was deleted yet: the log's start says nothing of who deletes what.
        ({"bounds": (0, 50)}, PACE.next_run - DAY, None),
        ({"bounds": (50, 50)}, None, None),
        ({"positions": {TopicPartition("primary.orders", 0): at(50)}}, None, None),
        (
            {"positions": {TopicPartition("primary.orders", 0): at(49)}},
            PACE.next_run - DAY,
            NOW - HOUR,
        ),
    ],
    ids=["uncopied", "whole", "empty", "copied", "nearly copied"],
)
def test_only_partitions_that_hold_something_uncopied_are_asked_about(
    state: dict[str, Any], expiring: int | None, recent: int | None
) -> None:
    state = {"target": [a_remote()]} | state
    one = a_state(kept_for(DAY), **state)
    asked = questions(FLOW, one.source.logs, [pair_of(one)], NOW)
    assert (asked.expiring.get(TP), asked.recent.get(TP)) == (expiring, recent)


def test_a_topic_that_keeps_everything_is_not_asked_what_expires() -> None:
    state = a_state(kept_for(-1))
    asked = questions(FLOW, state.source.logs, [pair_of(state)], NOW)
    # By its size it may still lose something.
    assert (asked.expiring, asked.recent) == ({}, {TP: NOW - HOUR})


def test_what_expires_before_the_next_run_is_at_risk_if_this_one_fails() -> None:
    (risk,) = risks_of(a_state(kept_for(DAY), bounds=(10, 50), expiring={TP: 40}, recent={TP: 30}))
    assert (risk.topic, risk.partition, risk.partitions, risk.offsets) == ("orders", 0, 1, 30)
    when = datetime.fromtimestamp(PACE.next_run / 1000, UTC)
    assert risk.message == (
        f"offsets [10, 40) may be deleted before the next run ({when:%Y-%m-%d %H:%M} UTC) "
        f"if this one does not copy them: retention.ms={DAY}."
    )


@pytest.mark.parametrize("expiring", [{}, {TP: 10}, {TP: 5}])
def test_what_stays_until_the_next_run_is_at_no_risk(
    expiring: dict[TopicPartition, int],
) -> None:
    state = a_state(kept_for(DAY), bounds=(10, 50), expiring=expiring, recent={TP: 30})
    assert risks_of(state) == ()


def test_what_is_copied_already_is_at_no_risk() -> None:
    positions = {TopicPartition("primary.orders", 0): at(40)}
    state = a_state(kept_for(DAY), target=[a_remote()], positions=positions, expiring={TP: 40})
    assert risks_of(state) == ()


@pytest.mark.parametrize(("expiring", "offsets"), [(10, None), (40, "[10, 40)")])
def test_what_the_source_has_deleted_is_at_no_risk(expiring: int, offsets: str | None) -> None:
    positions = {TopicPartition("primary.orders", 0): at(4)}
    flow = FLOW.model_copy(update={"on_source_truncation": "continue"})
    state = a_state(
        kept_for(DAY), target=[a_remote()], positions=positions, expiring={TP: expiring}
    )
    risks = planned(state, flow).remarks.risks
    assert [risk.message.split(" may")[0] for risk in risks] == (
        [f"offsets {offsets}"] if offsets else []
    )


def test_the_partition_that_would_lose_the_most_is_named_for_all_of_its_topic() -> None:
    expiring = {TopicPartition("orders", number): 10 + number for number in range(4)}
    (risk,) = risks_of(a_state(kept_for(DAY, partitions=4), bounds=(10, 50), expiring=expiring))
    assert (risk.partition, risk.partitions, risk.offsets) == (3, 3, 1 + 2 + 3)


@pytest.mark.parametrize(
    ("bounds", "recent", "is_at_risk"),
    [
        ((10, 50), {TP: 10}, True),
        ((10, 50), {TP: 11}, False),
        ((10, 50), {}, False),  # all of it is older than the time between two runs
    ],
)
def test_a_log_that_holds_less_than_the_time_between_two_runs_is_too_short(
    bounds: tuple[int, int], recent: dict[TopicPartition, int], is_at_risk: bool
) -> None:
    risks = risks_of(a_state(kept_for(-1), bounds=bounds, recent=recent))
    assert bool(risks) == is_at_risk
    for risk in risks:
        assert "its log holds less than the time between two runs (1:00:00)" in risk.message


@pytest.mark.parametrize(
    ("retention", "is_at_risk"), [(HOUR, False), (HOUR - 1, True), (0, True), (-1, False)]
)
def test_retention_below_the_time_between_two_runs_is_too_short_whatever_the_log_holds(
    retention: int, is_at_risk: bool
) -> None:
    # Nothing at all is there to be copied.
    risks = risks_of(a_state(kept_for(retention), bounds=(50, 50)))
    assert [f"retention.ms={retention} is less than" in risk.message for risk in risks] == (
        [True] if is_at_risk else []
    )


def test_a_compacted_topic_is_at_no_risk() -> None:
    topic = kept_for(0, **{"cleanup.policy": "compact"})
    assert risks_of(a_state(topic, bounds=(10, 50), recent={TP: 20})) == ()


COPIED = {TopicPartition("primary.orders", 0): at(20)}


@pytest.mark.parametrize(
    ("configs", "positions", "asked"),
    [
        ({"cleanup.policy": "compact"}, COPIED, NOW - DAY),
        ({"cleanup.policy": "compact,delete", "delete.retention.ms": "5"}, COPIED, NOW - 5),
        ({"cleanup.policy": "delete"}, COPIED, None),
        # A copy that has nothing yet has no key too many.
        ({"cleanup.policy": "compact"}, {}, None),
    ],
)
@pytest.mark.parametrize("schedule", ["@hourly", ""])
def test_where_others_were_copied_the_age_of_a_tombstone_is_asked_for(
    configs: dict[str, str],
    positions: dict[TopicPartition, Position],
    asked: int | None,
    schedule: str,
) -> None:
    one = a_state(kept_for(DAY, **configs), target=[a_remote()], positions=positions)
    found = questions(a_flow(schedule=schedule), one.source.logs, [pair_of(one)], NOW)
    assert found.deletions.get(TP) == asked


@pytest.mark.parametrize("schedule", ["@hourly", ""])
def test_a_tombstone_that_is_older_than_it_is_kept_may_have_been_missed(schedule: str) -> None:
    topic = kept_for(-1, **{"cleanup.policy": "compact"})
    state = a_state(topic, target=[a_remote()], positions=COPIED, deletions={TP: 30})
    (risk,) = planned(state, a_flow(schedule=schedule)).remarks.risks
    assert (risk.offsets, risk.message) == (
        10,
        f"offsets [20, 30) are older than delete.retention.ms={DAY}: if the source's cleaner has removed a "
        "tombstone among them, the copy keeps the key that it deleted.",
    )


def test_a_position_beyond_what_expires_in_one_partition_hides_none_in_another() -> None:
    done: dict[TopicPartition, Position] = {TopicPartition("primary.orders", 0): at(50)}
    state = a_state(
        kept_for(DAY, partitions=2),
        target=[a_remote(partitions=2)],
        positions=done,
        expiring={TopicPartition("orders", 1): 12},
    )
    assert [(risk.partition, risk.offsets) for risk in risks_of(state)] == [(1, 2)]
