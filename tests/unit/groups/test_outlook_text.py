"""A report of a failover as an operator reads it."""

from __future__ import annotations

from dataclasses import replace

from kafka_ferry.groups.outlook import FirstRecord
from kafka_ferry.groups.outlook_text import outlook_lines, summary
from kafka_ferry.model import LogBounds
from kafka_ferry.model.ranges import TopicPartition
from tests.unit.groups.test_outlook import HELD, MOVED, looked, report


def test_it_is_told_group_by_group() -> None:
    ready = looked(MOVED)
    first = replace(ready.partitions[0], first=FirstRecord(8, 1_000, None))
    lines = list(
        outlook_lines(report(replace(ready, partitions=(first,)), looked(HELD, committed=None)))
    )
    assert lines == [
        "READY app (lag 3, 1 not copied)",
        "  orders-0 7 -> a.orders-0 8 (exact), first record 8, 1970-01-01 00:00:01 UTC, without a key",
        "STUCK app (lag 3, unknown not copied): orders-0 would begin by auto.offset.reset: nothing is copied.",
        "  orders-0 7 -> a.orders-0 no offset, nothing to begin with [nothing is copied.]",
        "a to b: 1 of 2 groups may start on b, 0 in use there, 1 stuck",
    ]


def test_offsets_in_topics_that_no_flow_copies_are_named() -> None:
    group = replace(looked(MOVED), outside=((TopicPartition("audit", 2), 12),))
    assert (
        list(outlook_lines(report(group)))[2] == "  audit-2 12 stays: a->b does not copy its topic"
    )


def test_a_partition_that_a_group_never_committed_is_told() -> None:
    logs = dict.fromkeys(
        (TopicPartition("a.orders", number) for number in range(14)), LogBounds(0, 9)
    )
    logs |= {
        TopicPartition("a.orders", 1): LogBounds(4, 4),
        TopicPartition("other", 0): LogBounds(0, 9),
    }
    lines = list(outlook_lines(report(looked(MOVED, logs=logs))))
    named = ", ".join(f"a.orders-{number}" for number in range(2, 12))
    assert lines[2] == (
        f"  {named} and 2 more: never committed; it begins there by its auto.offset.reset"
    )
    shared = replace(looked(MOVED, logs=logs), is_share=True)
    assert list(outlook_lines(report(shared)))[2].endswith(
        "the group's config share.auto.offset.reset on b, which is latest unless it is set"
    )


def test_a_dry_run_says_so() -> None:
    assert summary(report(is_done=False)).startswith("dry run, nothing was changed: ")


def test_a_group_takes_one_line_whatever_its_id() -> None:
    first = next(outlook_lines(report(replace(looked(MOVED), name="two\nlines"))))
    assert first == r"READY two\nlines (lag 3, 1 not copied)"


def test_no_key_hides_a_line_on_airflows_page_of_a_log() -> None:
    """Airflow folds lines by these words, wherever they stand; a producer chooses a record's key."""
    first = FirstRecord(8, 1_000, "::endgroup::")
    (partition,) = looked(MOVED).partitions
    group = replace(looked(MOVED), partitions=(replace(partition, first=first),))
    assert not any("::endgroup::" in line for line in outlook_lines(report(group)))
