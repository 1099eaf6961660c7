"""What is shown of partitions, topics and groups."""

from __future__ import annotations

from dataclasses import replace

from kafka_ferry.model import Refusal
from kafka_ferry.report.measures import Measures, PartitionMeasures
from kafka_ferry.report.views import (
    PartitionView,
    group_views,
    latest,
    partition_views,
    topic_views,
)
from kafka_ferry.verify import PartitionRow
from kafka_ferry.verify.rows import Coverage
from tests.support.runs.reports import a_failure, changed
from tests.unit.report.reports import CLICKS_0, GROUPS, ORDERS_0, ORDERS_1, REPORT


def view_of(topic: str, partition: int, **changes: object) -> PartitionView:
    """What is shown of a partition of ``REPORT``, changed."""
    report = changed(REPORT, **changes)  # type: ignore[arg-type]
    (view,) = (v for v in partition_views(report) if (v.topic, v.partition) == (topic, partition))
    return view


def test_a_partition_is_verified_where_the_run_proved_all_that_could_be_read() -> None:
    assert view_of("orders", 0).health == "verified"


def test_a_partition_that_an_earlier_run_proved_is_not_verified_by_this_one() -> None:
    assert view_of("orders", 1).health == "not verified"


def test_a_partition_is_not_verified_where_nothing_ever_was() -> None:
    assert view_of("clicks", 0, measures=Measures(partitions=(CLICKS_0,))).health == "not verified"


def test_a_failed_partition_is_named_by_its_failure() -> None:
    failures = (a_failure("orders", 0),)
    assert view_of("orders", 0, failures=failures).health == "failed"
    assert view_of("orders", 1, failures=failures).health == "not verified"


def test_a_refusal_concerns_a_partition_or_its_whole_topic() -> None:
    assert (
        view_of("orders", 0, refused=(Refusal("orders", "truncated.", "", 0),)).health == "refused"
    )
    assert view_of("orders", 0, refused=(Refusal("orders", "not ours.", ""),)).health == "refused"
    assert (
        view_of("orders", 0, refused=(Refusal("orders", "truncated.", "", 1),)).health == "verified"
    )


def test_a_partition_is_copied_up_to_the_end_of_its_last_life() -> None:
    ended = PartitionRow("orders", 0, "eu.orders", -1, -1, Coverage(0, 900), 900)
    goes_on = changed(ended, covered_end=70, position=70)
    assert view_of("orders", 0, partitions=(ended, goes_on)).position == 70
    assert view_of("orders", 0, partitions=()).position is None


def test_a_topic_is_as_healthy_as_its_worst_partition_and_as_late_as_its_latest() -> None:
    clicks, orders = topic_views(partition_views(REPORT))
    assert (clicks.topic, clicks.records_behind, clicks.seconds_behind) == ("clicks", None, None)
    assert (orders.topic, orders.partitions, orders.health) == ("orders", 2, "not verified")
    assert (orders.records, orders.bytes, orders.copied) == (1_200, 70_000, 100)
    assert (orders.records_behind, orders.seconds_behind, orders.lost) == (5, 2.5, 3)
    assert orders.verified_until == ORDERS_1.verified_until


def test_of_a_partition_that_two_runs_looked_at_the_last_one_counts() -> None:
    first = partition_views(REPORT)
    again: PartitionMeasures = replace(ORDERS_0, records_behind=0)
    second = partition_views(changed(REPORT, run="later", measures=Measures(partitions=(again,))))
    shown = latest([first, second])
    assert [(v.topic, v.partition, v.run) for v in shown] == [
        ("clicks", 0, "run"),
        ("orders", 0, "later"),
        ("orders", 1, "run"),
    ]


def test_each_partition_of_a_group_is_a_row() -> None:
    rows = list(group_views(GROUPS))
    assert [(r.group, r.topic, r.partition, r.committed, r.offset, r.lag) for r in rows] == [
        ("billing", "orders", 0, 60, 60, 40),
        ("billing", "orders", 1, 100, 100, 0),
        ("search", "clicks", 0, 1, None, 99),
    ]


def test_a_group_without_partitions_says_why() -> None:
    alone = replace(GROUPS.groups[0], partitions=(), reason="it is in use on us.")
    (row,) = group_views(replace(GROUPS, groups=(alone,)))
    assert (row.group, row.topic, row.partition, row.reason) == (
        "billing",
        "",
        -1,
        "it is in use on us.",
    )
