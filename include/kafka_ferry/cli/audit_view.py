"""An audit's result, shown on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Final

from kafka_ferry.cli.terminal import messages, out, show_table

if TYPE_CHECKING:
    from pathlib import Path

    from kafka_ferry.audit.result import AuditReport, PartitionAudit
    from kafka_ferry.runs.audit.audit import Progress

_STYLES: Final = {"same": "green", "differs": "red", "nothing": "yellow", "not compared": "yellow"}
_MOST_SHOWN: Final = 50


@contextmanager
def comparison_bar(name: str, *, hidden: bool) -> Iterator[Progress]:
    """A bar of the offsets to compare, while the body compares them.

    Args:
        name: what is compared.
        hidden: whether to draw nothing.
    """
    if hidden:
        yield lambda *_: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TextColumn("offsets"), console=messages) as progress:
        task = progress.add_task(name)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def show_audit(report: AuditReport, page: Path | None) -> None:
    """Print an audit's result, and where its page is."""
    shown = [part for part in report.partitions if part.state != "same"]
    if shown:
        _show_partitions(shown)
    for finding in islice(report.findings, _MOST_SHOWN):
        out.print(f"{finding.kind.upper()} {finding.sentence}", style="red")
    listed = sum(len(part.findings) for part in report.partitions)
    if listed > _MOST_SHOWN:
        out.print(f"and {listed - _MOST_SHOWN:,} more findings", style="red")
    for sentence in report.statements:
        out.print(sentence, style="dim")
    out.print(report.headline, style=_STYLES[report.state])
    if page:
        out.print(f"report:   {page}")


def _show_partitions(parts: list[PartitionAudit]) -> None:
    numbers = ("SOURCE", "TARGET", "SAME", "MISSING", "DOUBLED", "REORDERED", "ALTERED", "FOREIGN")
    columns = ("PARTITION", "REMOTE TOPIC", *numbers, "STATE")
    show_table(columns, map(_row, parts[:_MOST_SHOWN]), numbers=numbers)
    if len(parts) > _MOST_SHOWN:
        out.print(f"and {len(parts) - _MOST_SHOWN:,} more partitions")


def _row(part: PartitionAudit) -> tuple[object, ...]:
    counts = part.counts
    records = counts.source_records, counts.target_records, counts.matched, counts.missing
    deviations = counts.doubled, counts.reordered, counts.altered, counts.foreign
    return (part.pair, part.pair.remote_topic, *records, *deviations, part.state)
