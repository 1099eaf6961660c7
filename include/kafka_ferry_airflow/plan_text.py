"""A plan as the lines of a task's log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafka_ferry.plan import Plan

_NAMES_SHOWN = 10


def plan_lines(plan: Plan) -> Iterator[str]:
    """A table of what is copied, by topic; then what is created, skipped, noted and refused, and why."""
    rows = [("topic", "becomes", "partitions", "offsets")]
    for (topic, remote), group in groupby(plan.ranges, attrgetter("topic", "remote_topic")):
        ranges = list(group)
        offsets = sum(len(range_) for range_ in ranges)
        rows.append((topic, remote, str(len(ranges)), f"{offsets:,}"))
    yield f"{plan.flow}: {plan.offsets:,} offsets to copy"
    if len(rows) > 1:
        yield from _table(rows)
    for creation in plan.creations:
        yield f"creates {creation.remote_topic} with {creation.partitions} partitions"
    for growth in plan.growths:
        yield f"gives {growth.remote_topic} {growth.partitions} partitions"
    skipped = sorted(plan.skipped, key=attrgetter("reason", "topic"))
    for reason, same in groupby(skipped, attrgetter("reason")):
        yield f"skips {_some([skip.topic for skip in same])}: {reason}"
    for note in plan.notes:
        yield f"NOTE {note}"
    for refusal in plan.refused:
        yield f"REFUSES {refusal}"


def _table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for topic, remote, partitions, offsets in rows:
        yield (
            f"  {topic:{widths[0]}}  {remote:{widths[1]}}"
            f"  {partitions:>{widths[2]}}  {offsets:>{widths[3]}}"
        )


def _some(names: Sequence[str]) -> str:
    more = len(names) - _NAMES_SHOWN
    shown = ", ".join(names[:_NAMES_SHOWN])
    return f"{shown} and {more} more" if more > 0 else shown
