"""Where an offset of a Spark query is on the target, and whether that is certain. Pure.

A consumer group may read a few records again; many queries may not, since their sinks identify batches by
number. So here an answer counts only if the records before it on the target are exactly those that the
query has read. Anything else is a doubt, and the user decides.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from kafka_ferry.groups.routes import Route
from kafka_ferry.groups.translation import Kind, OffsetMap
from kafka_ferry.model.cluster_state import LogBounds
from kafka_ferry.model.ranges import TopicPartition

_UNVERIFIED: Final = "nothing of it is copied and verified"


@dataclass(frozen=True, slots=True)
class Placed:
    """Where an offset of the query is on the target.

    Attributes:
        source: the partition that the query reads.
        offset: the next offset that it reads there.
        target: the partition on the target; None if the flow has none for it.
        at: the offset there; None where there is no answer at all.
        kind: how exact that is.
        doubt: why the records before ``at`` are not exactly those before ``offset``; "" if they are.
    """

    source: TopicPartition
    offset: int
    target: TopicPartition | None = None
    at: int | None = None
    kind: Kind | None = None
    doubt: str = ""

    @property
    def sentence(self) -> str:
        """The doubt, with the partition and the offset."""
        return f"{self.source}, read up to offset {self.offset}: {self.doubt}."


@dataclass(frozen=True)
class Placing:
    """The input of placing offsets.

    Attributes:
        remote: the remote topic of each source topic that the flow copies.
        routes: the offset maps, by source partition, as far as verified.
        target_logs: the target's logs, by its partitions.
        source_logs: the source's logs, by its partitions; empty where it does not answer.
        diverged: where the source's logs part from those that were copied, by its partitions; -1 where that is unknown.
        lost: the target's partitions that no longer have the last record that was copied.
    """

    remote: Mapping[str, str]
    routes: Mapping[TopicPartition, Route]
    target_logs: Mapping[TopicPartition, LogBounds]
    source_logs: Mapping[TopicPartition, LogBounds]
    diverged: Mapping[TopicPartition, int] = field(default_factory=dict)
    lost: Collection[TopicPartition] = ()

    def __call__(self, source: TopicPartition, offset: int) -> Placed:
        """Where ``offset``, the next one that the query reads, is on the target."""
        name = self.remote.get(source.topic)
        if name is None:
            return Placed(source, offset, doubt="the flow copies no such topic")
        route = self.routes.get(source)
        placed = Placed(source, offset, TopicPartition(name, source.partition))
        if route:
            placed = replace(placed, target=route.target)
        assert placed.target
        log = self.target_logs.get(placed.target)
        if log is None:
            return replace(placed, doubt=f"{placed.target} is not on the target, or has no leader")
        here = self.source_logs.get(source)
        if route is None:
            return self._without_map(placed, log)
        placed = _by_map(placed, route, log, here)
        doubt = placed.doubt or self._doubt_of_logs(source, placed)
        return replace(placed, doubt=doubt)

    def _doubt_of_logs(self, source: TopicPartition, placed: Placed) -> str:
        if placed.target in self.lost:
            return f"the log of {placed.target} has lost records that were copied"
        diverged_at = self.diverged.get(source, placed.offset)
        if placed.offset <= diverged_at:
            return ""
        where = f" at {diverged_at}" if diverged_at >= 0 else " or restored from a backup"
        return f"its log was truncated{where}, below what was copied, and may have had other records there"

    def _without_map(self, placed: Placed, log: LogBounds) -> Placed:
        """Place an offset of an unknown partition, which is possible if it had nothing to read."""
        here = self.source_logs.get(placed.source)
        unread = placed.offset == 0 or (here and here.start == here.end == placed.offset)
        if unread and log.start == log.end:
            return replace(placed, at=log.end, kind="exact")
        return replace(placed, at=log.start, kind="clamped", doubt=_UNVERIFIED)


def _by_map(placed: Placed, route: Route, log: LogBounds, here: LogBounds | None) -> Placed:
    span, offset = route.map, placed.offset
    translation = span.translate(offset, log_start=log.start, log_end=log.end)
    if translation is None:
        return replace(
            placed, doubt="it lies between offsets that are copied, and nothing is known of it"
        )
    placed = replace(placed, at=translation.offset, kind=translation.kind)
    if offset > span.end:
        return replace(placed, doubt=f"only what is before {span.end} is copied and verified")
    if offset < span.start:
        return replace(placed, doubt=f"the copy begins at {span.start}")
    if left_out := route.count_left_out(max(offset, here.start if here else 0), span.end):
        return replace(
            placed,
            doubt=f"{left_out:,} offsets from there on are before the copy, and in no backfill",
        )
    # Without the log's bounds, "clamped" means that no record was ever copied.
    meant = span.translate(offset)
    if meant and meant.kind != "clamped" and meant.offset != translation.offset:
        return replace(
            placed,
            doubt=f"its counterpart {meant.offset} is no longer on the target, whose log is "
            f"[{log.start}, {log.end})",
        )
    return replace(placed, doubt=_why_doubled(placed, span))


def _why_doubled(placed: Placed, span: OffsetMap) -> str:
    """Why records that the query has read are also after the counterpart, "" where none are.

    This happens in a partition that was not copied in order, such as after a backfill.
    """
    assert placed.at is not None
    unread = span.reverse(placed.at)
    if unread is None or unread.kind == "clamped" or unread.offset >= placed.offset:
        return ""
    return (
        f"it was not copied in order, and records from {unread.offset} on are after the "
        f"counterpart {placed.at} on the target"
    )
