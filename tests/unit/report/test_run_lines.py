from typing import Any

from kafka_ferry.clock import duration_text
from kafka_ferry.report.measures import NOT_MEASURED, Measures, PartitionMeasures
from kafka_ferry.report.run_lines import report_lines
from tests.support.runs.reports import A_FAILURE, changed

from .reports import REPORT


def row(topic: str, partition: int = 0, size: int = 0, behind: int | None = 0) -> PartitionMeasures:
    seconds = None if behind is None else float(behind)
    return PartitionMeasures(
        topic,
        partition,
        f"primary.{topic}",
        records=size // 100,
        bytes=size,
        records_behind=behind,
        seconds_behind=seconds,
    )


def lines_of(*rows: PartitionMeasures, **more: Any) -> list[str]:
    more = {"seconds": {}, **more}
    report = changed(REPORT, measures=Measures(partitions=rows), reasons={}, **more)
    return [" ".join(line.split()) for line in report_lines(report)]


def test_topics_come_with_their_sums_the_largest_first() -> None:
    assert lines_of(row("a", 0, 100, 3), row("b", 0, 2048, 7), row("b", 1, 1024, None)) == [
        "topic partitions records bytes behind seconds behind",
        "b 2 30 3.0 KiB 7 7",
        "a 1 1 100 bytes 3 3",
        "together 3 31 3.1 KiB 10 7",
    ]


def test_one_topic_needs_no_sum_and_what_is_unknown_is_a_dash() -> None:
    assert lines_of(row("a", behind=None))[1:] == ["a 1 0 0 bytes - -"]


def test_of_very_many_topics_the_smallest_are_one_row() -> None:
    lines = lines_of(*(row(f"t{number:03}", size=number + 1) for number in range(60)))
    assert len(lines) == 53
    assert lines[-2].startswith("10 others 10 0 55 bytes")


def test_what_is_out_of_the_ordinary_is_counted_after_the_table() -> None:
    said = lines_of(row("a"), failures=(A_FAILURE,), losses=("a-0 [1, 2)", "a-0 [5, 6)"))
    assert said[2:] == ["failed: 1", "lost: 2"]


def test_a_run_that_was_not_measured_has_no_table() -> None:
    assert list(
        report_lines(changed(REPORT, measures=NOT_MEASURED, reasons={"aborted": 3}, seconds={}))
    ) == ["Without a record on the target: 3 aborted."]


def test_the_log_says_how_long_the_run_and_each_of_its_steps_took() -> None:
    assert REPORT.times.duration == sum(REPORT.times.seconds.values())
    (took,) = [
        line
        for line in lines_of(seconds=REPORT.times.seconds)
        if line.startswith("all steps took ")
    ]
    assert took.startswith(f"all steps took {duration_text(REPORT.times.duration)}: plan ")
    for step, seconds in REPORT.times.seconds.items():
        assert f"{step} {duration_text(seconds)}" in took


def test_what_of_a_step_is_copying_is_told_beside_it() -> None:
    measures = Measures(partitions=(row("a"),), copying_seconds=2.0)
    said = list(report_lines(changed(REPORT, measures=measures, seconds={"mirror": 9.0})))
    assert (
        said[-1]
        == f"all steps took {duration_text(9.0)}: mirror {duration_text(9.0)} (copying {duration_text(2.0)})"
    )
