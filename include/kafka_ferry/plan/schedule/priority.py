"""Copies first what the source would delete first. Pure.

When the record at a range's start may be deleted is an estimate, which only orders the work. The time
of a log's first record is known, and its bytes; both are assumed to have arrived evenly since. What
``plan.schedule.retention_risks`` knows for certain, that some of a range is deleted before the next run,
takes precedence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kafka_ferry.model.ranges import Range, TopicPartition
from kafka_ferry.plan.retention import retention_bytes, retention_ms
from kafka_ferry.plan.schedule.retention_risks import pace_of

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.model.cluster_state import LogBounds, SourceLogs, SourceState, Topic

_NEVER: Final = -1
# Longer than that, retention.ms means "forever".
_INT64_MAX: Final = 2**63 - 1
# Brokers do not delete by the minute: ranges closer than that are equally urgent.
_LEAST_MS: Final = 60 * 60 * 1000


def with_expiries(
    flow: Flow, source: SourceState, ranges: Iterable[Range], at: int
) -> tuple[Range, ...]:
    """The ranges, each with about when the source may delete the first of its records.

    Args:
        flow: the flow.
        source: the source's topics and logs.
        ranges: what the run copies.
        at: now, in milliseconds since 1970.
    """
    pace = pace_of(flow, at)
    next_run = pace.next_run if pace else None
    return tuple(
        replace(range_, expires_at=_expiry(source, range_, at, next_run)) for range_ in ranges
    )


def _expiry(source: SourceState, range_: Range, at: int, next_run: int | None) -> int:
    topic, bounds = source.topics.get(range_.topic), source.logs.bounds.get(range_.source)
    if topic is None or bounds is None or not len(range_):
        return _NEVER
    times = [
        *_by_age(source.logs, topic, range_, bounds, at),
        *_by_bytes(source.logs, topic, range_, bounds, at),
    ]
    still_there = max(range_.start, bounds.start)
    if next_run is not None and source.logs.expiring.get(range_.source, 0) > still_there:
        times.append(next_run)
    first = min(times, default=_INT64_MAX)
    return first if first < _INT64_MAX else _NEVER


def _by_age(
    logs: SourceLogs, topic: Topic, range_: Range, bounds: LogBounds, at: int
) -> Iterable[int]:
    kept, oldest = retention_ms(topic), logs.oldest.get(range_.source)
    if kept is not None and oldest is not None:
        since_then = max(0, at - oldest)
        yield oldest + round(since_then * _share_before(range_, bounds)) + kept


def _by_bytes(
    logs: SourceLogs, topic: Topic, range_: Range, bounds: LogBounds, at: int
) -> Iterable[int]:
    kept, size = retention_bytes(topic), logs.sizes.get(range_.source)
    oldest = logs.oldest.get(range_.source)
    if kept is None or not size or oldest is None:
        return
    in_a_ms = size / max(1, at - oldest)
    until_then = max(0, kept - size) + size * _share_before(range_, bounds)
    yield at + round(until_then / in_a_ms)


def _share_before(range_: Range, bounds: LogBounds) -> float:
    """Which part of the log lies before the range."""
    held = bounds.end - bounds.start
    return min(1.0, max(0.0, (range_.start - bounds.start) / held)) if held > 0 else 0.0


def by_urgency(groups: Iterable[tuple[Range, ...]]) -> list[tuple[Range, ...]]:
    """The groups of ranges, the one with the earliest expiry first."""
    return sorted(groups, key=lambda group: min(map(_sooner, group), default=_INT64_MAX))


def waves(ranges: Iterable[Range], now: int) -> Mapping[TopicPartition, int]:
    """By source partition, the number of the wave in which a range is copied: 0 for the first.

    Ranges of a wave are copied in parallel, since requests are better filled then. A wave ends where
    a range has more than twice as long as the wave's first; what never expires comes last.
    """
    turns: dict[TopicPartition, int] = {}
    wave, until = 0, -1
    for range_ in sorted(ranges, key=_sooner):
        left = max(_LEAST_MS, _sooner(range_) - now)
        if left > until and turns:
            wave += 1
        if left > until:
            until = 2 * left
        turns[range_.source] = wave
    return turns


def _sooner(range_: Range) -> int:
    return _INT64_MAX if range_.expires_at < 0 else range_.expires_at
