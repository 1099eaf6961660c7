"""A plan as the lines of a task's log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from kafka_ferry.plan.plan import PLAINLY_TRANSLATED

if TYPE_CHECKING:
    from kafka_ferry.plan import AdvisedAcl, OffsetsChoice, Plan

_NAMES_SHOWN = 10


def plan_lines(plan: Plan) -> Iterator[str]:
    """Tables of what is copied and of how offsets are kept, by topic; then what else the plan says."""
    rows = [("topic", "becomes", "partitions", "offsets")]
    for (topic, remote), group in groupby(plan.ranges, attrgetter("topic", "remote_topic")):
        ranges = list(group)
        offsets = sum(len(range_) for range_ in ranges)
        rows.append((topic, remote, str(len(ranges)), f"{offsets:,}"))
    yield f"{plan.flow}: {plan.offsets:,} offsets to copy"
    if len(rows) > 1:
        yield from _table(rows, "<<>>")
    yield from _choices([choice for choice in plan.choices if choice.reason != PLAINLY_TRANSLATED])
    for creation in plan.creations:
        yield f"creates {creation.remote_topic} with {creation.partitions} partitions"
    for growth in plan.growths:
        yield f"gives {growth.remote_topic} {growth.partitions} partitions"
    skipped = sorted(plan.skipped, key=attrgetter("reason", "topic"))
    for reason, same in groupby(skipped, attrgetter("reason")):
        yield f"skips {_some([skip.topic for skip in same])}: {reason}"
    yield from _advice(plan.advised_acls)
    for note in plan.notes:
        yield f"NOTE {note}"
    for refusal in plan.refused:
        yield f"REFUSES {refusal}"


def _choices(choices: Sequence[OffsetsChoice]) -> Iterator[str]:
    """How offsets are kept and why; what passing over those without a record takes."""
    rows = [("topic", "offsets", "gaps", "filled in", "why")]
    for choice in choices:
        kept = "preserved" if choice.preserved else "translated"
        costs = (f"{choice.gaps:,}", f"{choice.fill_ms / 1000:,.1f} s")
        rows.append((choice.topic, kept, *(costs if choice.preserved else ("", "")), choice.reason))
    if choices:
        yield from _table(rows, "<<>><")


def _advice(acls: Sequence[AdvisedAcl]) -> Iterator[str]:
    for (permission, topic, principal), group in groupby(
        acls, attrgetter("permission", "remote_topic", "principal")
    ):
        operations = ", ".join(acl.operation for acl in group)
        yield f"advises to {permission} {operations} on {topic} to {principal}"


def _table(rows: Sequence[tuple[str, ...]], alignment: str) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = zip(row, alignment, widths, strict=True)
        yield "".join(f"  {cell:{side}{width}}" for cell, side, width in cells).rstrip()


def _some(names: Sequence[str]) -> str:
    more = len(names) - _NAMES_SHOWN
    shown = ", ".join(names[:_NAMES_SHOWN])
    return f"{shown} and {more} more" if more > 0 else shown
