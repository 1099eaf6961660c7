"""Compares the offsets that a run has moved groups to with what is proved of the copy. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kafka_ferry.groups.moves import GroupMoves
from kafka_ferry.model.cluster_state import LogBounds
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.printable import one_line
from kafka_ferry.verify.checks import Check, Suite
from kafka_ferry.verify.counts import count
from kafka_ferry.verify.rows import UNKNOWN


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A group's offset on the target that the run has committed or found there.

    Attributes:
        group: the group.
        topic: the source's topic.
        partition: the partition, on both clusters.
        remote_topic: the topic on the target.
        committed: what the group has committed on the source.
        offset: the corresponding offset on the target.
        verified_end: the target offset after the last record that is copied and verified; -1 where
            there is none, or where the target's own records lie between the copied ones.
        log_start: the first offset of the target's log.
        log_end: the offset after its last one.
        past_verified: by how many offsets the group is past both ``verified_end`` and ``log_start``:
            records that it has not read may lie between.
        past_end: by how many offsets it is past the log's end.
    """

    group: str
    topic: str
    partition: int
    remote_topic: str
    committed: int
    offset: int
    verified_end: int
    log_start: int
    log_end: int
    past_verified: int
    past_end: int

    def __str__(self) -> str:
        return f"group {one_line(self.group)}, {TopicPartition(self.remote_topic, self.partition)}"


def group_rows(
    moves: GroupMoves,
    verified: Mapping[TopicPartition, int],
    logs: Mapping[TopicPartition, LogBounds],
) -> list[GroupRow]:
    """A row for each offset that the step has committed on the target, or already found there.

    Args:
        moves: what became of the groups.
        verified: by *target* partition, the offset after the last verified record; absent where it
            is unknown.
        logs: by *target* partition, what a ``read_uncommitted`` consumer can read of it; without those of
            topics that are gone from the target, and whose offsets have gone with them.
    """
    rows = []
    for group, move in moves.partitions("written", "unchanged"):
        log = move.target and logs.get(move.target)
        if not (move.target and log) or move.offset is None or move.committed is None:
            continue
        end = verified.get(move.target, UNKNOWN)
        may_be_at = max(end, log.start)
        rows.append(
            GroupRow(
                group=group.group.name,
                topic=move.source.topic,
                partition=move.source.partition,
                remote_topic=move.target.topic,
                committed=move.committed.offset,
                offset=move.offset,
                verified_end=end,
                log_start=log.start,
                log_end=log.end,
                past_verified=0 if end == UNKNOWN else max(0, move.offset - may_be_at),
                past_end=max(0, move.offset - log.end),
            )
        )
    return rows


GROUPS: Final = Suite[GroupRow](
    "groups",
    "groups",
    "critical",
    (
        Check(
            "groups",
            "no group is past what is verified",
            "past_verified",
            lambda row: (
                f"it is at {row.offset}, {count(row.past_verified, 'offset')} past the last verified "
                f"record, which ends at {row.verified_end}"
            ),
            "A consumer that begins there may skip records. Set the group back on the target, by "
            "kafka-consumer-groups.sh --reset-offsets, and report it: no run should do that.",
        ),
        Check(
            "groups-end",
            "no group is past the end of the target's log",
            "past_end",
            lambda row: f"it is at {row.offset}, and the log ends at {row.log_end}",
            "The target has lost records since, by an unclean leader election, or the remote topic was "
            "recreated. Set the group back before its consumers begin there.",
        ),
    ),
)
