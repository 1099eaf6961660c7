"""What is found of the remote topics that a run has planned."""

from dataclasses import replace

from kafka_ferry.model import Creation, Growth, OffsetsChoice, Plan, Range, Topic
from kafka_ferry.model.changes import Drift, Misplacement
from kafka_ferry.verify.topics import TopicRow, topic_rows
from tests.support.runs.reports import changed

REMOTE = "eu.orders"


def a_plan(**more: object) -> Plan:
    choice = OffsetsChoice("orders", REMOTE, preserved=False, reason="offsets: translated.")
    return changed(Plan("eu->us", "r", 1, "A", "B", choices=(choice,)), **more)


def a_range(partition: int) -> Range:
    return Range("orders", partition, 0, 5, "id", REMOTE, writer=0)


def there(partitions: int = 1, **configs: str) -> dict[str, Topic]:
    named = {name.replace("_", "."): value for name, value in configs.items()}
    return {REMOTE: Topic(REMOTE, "id", partitions, named, overrides=frozenset(named))}


def row(plan: Plan, topics: dict[str, Topic], **configs: str) -> TopicRow:
    named = {name.replace("_", "."): value for name, value in configs.items()}
    (found,) = topic_rows(plan, topics, {REMOTE: named}, {REMOTE: "id"})
    return found


def test_it_is_planned_with_the_partitions_that_are_copied_created_or_added() -> None:
    assert row(a_plan(ranges=(a_range(2), a_range(0))), there(3)).planned_partitions == 3
    created = a_plan(creations=(Creation(REMOTE, 8, 1, {}),))
    assert row(created, there(8)).planned_partitions == 8
    grown = a_plan(ranges=(a_range(0),), growths=(Growth(REMOTE, 6),))
    assert row(grown, there(6)).planned_partitions == 6


def test_partitions_that_are_not_there_are_counted() -> None:
    plan = a_plan(ranges=(a_range(2),))
    assert row(plan, there(1)).missing_partitions == 2
    assert row(plan, {}).missing_partitions == 3
    assert row(plan, there(9)).missing_partitions == 0


def test_configs_that_the_flow_has_set_and_another_client_changed_are_named() -> None:
    found = row(
        a_plan(), there(retention_ms="1", segment_ms="5"), retention_ms="2", segment_ms="5", a_b="c"
    )
    assert found.unlike_configs == 2
    assert found.unlike == (
        "a.b is nothing set, and this flow has set c",
        "retention.ms is 1, and this flow has set 2",
    )


def test_a_default_of_the_same_name_does_not_stand_for_what_was_set() -> None:
    topic = Topic(REMOTE, "id", 1, {"retention.ms": "2"})
    assert row(a_plan(), {REMOTE: topic}, retention_ms="2").unlike_configs == 1


def test_a_drift_that_the_plan_knows_is_told_apart() -> None:
    drift = Drift("orders", REMOTE, "retention.ms", "2", "1", overwritten=False)
    found = row(a_plan(drifts=(drift,)), there(retention_ms="1"), retention_ms="2")
    assert (found.unlike_configs, found.drifted_configs) == (0, 1)
    assert found.drifted == ("retention.ms is 1",)


def test_a_drift_that_the_plan_has_overwritten_is_none_any_more() -> None:
    drift = Drift("orders", REMOTE, "retention.ms", "2", "1", overwritten=True)
    found = row(a_plan(drifts=(drift,)), there(retention_ms="2"), retention_ms="2")
    assert (found.unlike_configs, found.drifted_configs) == (0, 0)


def test_replicas_that_the_plan_found_on_other_racks_are_named() -> None:
    elsewhere = Misplacement("orders", REMOTE, {"r1": 1}, {0: ("r2",), 3: ("no rack",)})
    found = row(a_plan(misplacements=(elsewhere,)), there(4))
    assert found.misplaced_partitions == 2
    assert found.misplaced == ("partition 0 is on r2", "partition 3 is on no rack")
    assert row(a_plan(), there(4)).misplaced_partitions == 0


def test_a_topic_that_is_only_in_the_ranges_has_a_row_too() -> None:
    other = Range("orders", 1, 0, 5, "id", "eu.orders.backfill", writer=0)
    names = [found.remote_topic for found in topic_rows(a_plan(ranges=(other,)), there(), {}, {})]
    assert names == [REMOTE, "eu.orders.backfill"]


def test_a_topic_that_is_gone_or_another_one_than_was_planned_or_read_back_is_lost() -> None:
    planned = replace(a_range(0), remote_topic_id="id")
    assert row(a_plan(ranges=(planned,)), there()).lost == 0
    assert row(a_plan(ranges=(planned,)), {}).lost == 1
    assert row(a_plan(ranges=(replace(planned, remote_topic_id="other"),)), there()).lost == 1
    assert row(a_plan(), {REMOTE: Topic(REMOTE, "another", 1)}).lost == 1
    assert row(a_plan(), there()).lost == 0
