"""A flow's partitions, topics and groups as flat rows for a page, made from reports. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from kafka_ferry.batches import Reason
from kafka_ferry.groups.moves import GroupMoves
from kafka_ferry.model import TopicPartition
from kafka_ferry.report.run_report import RunReport

Health = Literal["verified", "not verified", "failed", "refused"]
_WORST: Final[tuple[Health, ...]] = ("failed", "refused", "not verified", "verified")


@dataclass(frozen=True, slots=True)
class PartitionView:
    """One partition of a flow, as the last run that included it left it.

    Attributes:
        topic: the source's topic.
        partition: the partition, on both clusters.
        remote_topic: the topic on the target.
        health: ``verified`` where that run proved all that could be read, ``not verified`` where an
            earlier one did or none, ``failed`` or ``refused`` where that run says so of it.
        records: records copied since the flow began.
        bytes: bytes of their batches.
        copied: records that the run copied.
        position: the source offset up to which the target accounts for all, None where unknown.
        records_behind: offsets not yet accounted for; None where unknown.
        seconds_behind: how old the first of them is; None where unknown.
        verified_until: all that could be read at that time is proved, in milliseconds since 1970; 0
            where that is not known.
        lost: source offsets that were deleted before they were copied, since the flow began.
        left_out: all offsets without a record on the target since the flow began, by reason.
        preserved: whether records keep their offsets.
        run: that run.
    """

    topic: str
    partition: int
    remote_topic: str
    health: Health
    records: int
    bytes: int
    copied: int
    position: int | None
    records_behind: int | None
    seconds_behind: float | None
    verified_until: int
    lost: int
    left_out: Mapping[str, int]
    preserved: bool
    run: str


@dataclass(frozen=True, slots=True)
class TopicView:
    """All partitions of a topic together; attributes as in ``PartitionView``.

    Attributes:
        partitions: how many there are.
        health: the worst of them.
        seconds_behind: that of the partition that is furthest behind.
        verified_until: that of the partition whose verification is the oldest.
    """

    topic: str
    remote_topic: str
    partitions: int
    health: Health
    records: int
    bytes: int
    copied: int
    records_behind: int | None
    seconds_behind: float | None
    verified_until: int
    lost: int
    preserved: bool


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group's offset in one partition.

    Attributes:
        group: the group's name.
        type: what kind of group it is.
        state: its state on the source.
        topic: the source's topic, "" for a group that has no partition here.
        partition: the partition, -1 then.
        committed: its offset on the source, None where it was deleted there.
        lag: source offsets that it has not read yet, None where not known.
        remote_topic: the topic on the target, "" where there is none.
        offset: its counterpart on the target, None where there is no correct answer.
        kind: how exact that is.
        action: what was done with it.
        reason: why nothing was done, or why there is no answer.
    """

    group: str
    type: str
    state: str
    topic: str
    partition: int
    committed: int | None
    lag: int | None
    remote_topic: str
    offset: int | None
    kind: str
    action: str
    reason: str


def partition_views(report: RunReport) -> list[PartitionView]:
    """A run's partitions, by topic and partition."""
    measures = report.measures
    newest = max((row.verified_until for row in measures.partitions), default=0)
    # A partition has a row for each of its incarnations; the last one is the current one.
    ends = {(row.topic, row.partition): row.coverage.covered_end for row in report.proof.partitions}
    positions = {(row.topic, row.partition): row.position for row in report.proof.partitions}
    preserved = {choice.topic for choice in report.topics.choices if choice.preserved}
    failed = {failure.source for failure in report.problems.failures}
    refused = {(refusal.topic, refusal.partition) for refusal in report.problems.refused}

    def health(topic: str, partition: int, verified_until: int) -> Health:
        if TopicPartition(topic, partition) in failed:
            return "failed"
        if refused & {(topic, None), (topic, partition)}:
            return "refused"
        return "verified" if verified_until == newest > 0 else "not verified"

    views = []
    for row in measures.partitions:
        key = (row.topic, row.partition)
        position = max(positions.get(key, -1), ends.get(key, -1))
        views.append(
            PartitionView(
                topic=row.topic,
                partition=row.partition,
                remote_topic=row.remote_topic,
                health=health(*key, row.verified_until),
                records=row.total_records,
                bytes=row.total_bytes,
                copied=row.records,
                position=position if position >= 0 else None,
                records_behind=row.records_behind,
                seconds_behind=row.seconds_behind,
                verified_until=row.verified_until,
                lost=row.total_reasons.get(Reason.LOST, 0),
                left_out=row.total_reasons,
                preserved=row.topic in preserved,
                run=report.run,
            )
        )
    return views


def latest(views: Iterable[Sequence[PartitionView]]) -> list[PartitionView]:
    """The last view of each partition, by topic and partition.

    Args:
        views: of several runs, the oldest first: a run of some topics has no views of the others.
    """
    known = {(view.topic, view.partition): view for run in views for view in run}
    return [known[key] for key in sorted(known)]


def topic_views(partitions: Iterable[PartitionView]) -> list[TopicView]:
    """The topics of these partitions, by name."""
    topics: dict[str, list[PartitionView]] = defaultdict(list)
    for view in partitions:
        topics[view.topic].append(view)
    return [_topic(topic, views) for topic, views in sorted(topics.items())]


def _topic(topic: str, views: Sequence[PartitionView]) -> TopicView:
    behind = [view.records_behind for view in views if view.records_behind is not None]
    seconds = [view.seconds_behind for view in views if view.seconds_behind is not None]
    return TopicView(
        topic=topic,
        remote_topic=views[-1].remote_topic,
        partitions=len(views),
        health=min((view.health for view in views), key=_WORST.index),
        records=sum(view.records for view in views),
        bytes=sum(view.bytes for view in views),
        copied=sum(view.copied for view in views),
        records_behind=sum(behind) if behind else None,
        seconds_behind=max(seconds) if seconds else None,
        verified_until=min(view.verified_until for view in views),
        lost=sum(view.lost for view in views),
        preserved=views[-1].preserved,
    )


def group_views(moves: GroupMoves) -> Iterator[GroupView]:
    """Each partition of each group; a group without any has one row that says why."""
    for one in moves.groups:
        group = (one.group.name, one.group.type, one.group.state)
        if not one.partitions:
            yield GroupView(*group, "", -1, None, None, "", None, "", "held", one.reason)
        for move in one.partitions:
            yield GroupView(
                *group,
                topic=move.source.topic,
                partition=move.source.partition,
                committed=move.committed.offset if move.committed else None,
                lag=move.lag,
                remote_topic=move.target.topic if move.target else "",
                offset=move.offset,
                kind=str(move.kind or ""),
                action=move.action,
                reason=move.reason or one.reason,
            )
