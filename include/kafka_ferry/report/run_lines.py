"""A run's report as a few lines of text, for the log of the task that writes it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from kafka_ferry.clock import duration_text
from kafka_ferry.report.measures import PartitionMeasures
from kafka_ferry.report.plan_text import bytes_text, topics_table
from kafka_ferry.report.run_report import RunReport


def report_lines(report: RunReport) -> Iterator[str]:
    """The run's result: its topics as a table, those with the most bytes first, and anything unusual."""
    by_topic = defaultdict[str, list[PartitionMeasures]](list)
    for row in report.measures.partitions:
        by_topic[row.topic].append(row)
    heading = ("topic", "partitions", "records", "bytes", "behind", "seconds behind")
    yield from topics_table(heading, by_topic, _bytes, _row)
    if report.counts.reasons:
        counts = ", ".join(f"{count:,} {reason}" for reason, count in report.counts.reasons.items())
        yield f"Without a record on the target: {counts}."
    for what, several in (
        ("failed", report.problems.failures),
        ("failed steps", tuple(report.problems.step_failures)),
        ("refused", report.problems.refused),
        ("lost", report.counts.losses),
        ("drifted", report.topics.drifts),
        ("not applied", report.problems.unapplied),
    ):
        if several:
            yield f"{what}: {len(several):,}"
    if report.times.seconds:
        each = ", ".join(
            f"{step} {duration_text(took)}" + _of_it(report, step)
            for step, took in report.times.seconds.items()
        )
        yield f"all steps took {duration_text(report.times.duration)}: {each}"


def _of_it(report: RunReport, step: str) -> str:
    if step != "mirror" or not report.copying:
        return ""
    waited = f", {report.waited}" if report.waited else ""
    return f" (copying {duration_text(report.copying)}{waited})"


def _bytes(partitions: Iterable[PartitionMeasures]) -> int:
    return sum(row.bytes for row in partitions)


def _row(name: str, topics: Sequence[Sequence[PartitionMeasures]]) -> tuple[str, ...]:
    partitions = [row for topic in topics for row in topic]
    behind = [row.records_behind for row in partitions if row.records_behind is not None]
    seconds = [row.seconds_behind for row in partitions if row.seconds_behind is not None]
    return (
        name,
        f"{len(partitions):,}",
        f"{sum(row.records for row in partitions):,}",
        bytes_text(_bytes(partitions)),
        f"{sum(behind):,}" if behind else "-",
        f"{max(seconds):,.0f}" if seconds else "-",
    )
