"""What a source has deleted of a backfill's window, of which no copy was made. Pure.

Timestamps of deleted records are gone with them. What may have been of the window is what was deleted right before
the first record that is not older than the window, without what the ledger has, and without what was on the source
before the window began::

    offsets    [0 ..... older ......... copied ......... start ....... end)
                |       |               |                |
                |       |               the ledger has   the log starts here, with no record
                |       may be gone     these            that is older than the window
                were on the source before the window began
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.model.remarks import Note, Refusal
from kafka_ferry.plan.backfill.windows import Span, gaps, whole_spans, within

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.model.ranges import Settled
    from kafka_ferry.model.run_options import Window

_NAMED: Final = 5


def deleted_offsets(settled: Iterable[Settled], offsets: Span, window: Window) -> list[Span]:
    """Which of ``offsets``, all of which the source has deleted, the ledger does not have for all of ``window``."""
    return gaps(whole_spans(within(settled, offsets, window), window), offsets)


def judge_deleted(
    flow: Flow, source: TopicPartition, start: int, deleted: list[Span], *, is_left: bool
) -> Refusal | Note:
    """What is said of a partition that has ``deleted`` offsets.

    The backfill copies what is left of the window, and notes the rest. Where nothing is left it fails, unless the
    flow goes on after such a loss in its own runs too.

    Args:
        flow: the flow.
        source: the partition.
        start: where its log starts.
        deleted: what ``deleted_offsets`` gives, at least one span.
        is_left: whether the log has offsets of the window.
    """
    named = ", ".join(f"[{begin}, {end})" for begin, end in deleted[:_NAMED])
    if len(deleted) > _NAMED:
        named += f" and {len(deleted) - _NAMED:,} more intervals"
    nothing_left = "" if is_left else " and has no record of the window"
    reason = (
        f"the source's log starts at {start}{nothing_left}. The source has deleted the offsets {named}, and by the "
        "ledger the target does not have them: records of the window among them cannot be copied."
    )
    if is_left or flow.on_source_truncation == "continue":
        return Note(source.topic, reason, partition=source.partition, of_deleted=True)
    return Refusal(
        source.topic,
        reason,
        "To repeat this run copies no more. Choose a window in which the source still has records, or leave the "
        "topic out of the backfill. Or set on.source.truncation: continue, and the backfill only notes it.",
        partition=source.partition,
    )
