"""Where copying a partition with preserved offsets begins or continues, and the gaps that it has to fill."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.model.remarks import Refusal
from kafka_ferry.plan.topics.configs import wanted_configs

if TYPE_CHECKING:
    from kafka_ferry.config import Flow, MirrorStart
    from kafka_ferry.model.cluster_state import ClusterState, LogBounds, TopicStarts
    from kafka_ferry.model.positions import Position
    from kafka_ferry.model.topic_pair import Pair

# Measured on a current broker, on a machine with two cores.
# Which of the two "auto" is, the writer finds out.
_MS_PER_GAP: Final = {"transactions": 6.0, "markers": 0.04, "auto": 6.0}
_MS_PER_EMPTY_RECORD: Final = 0.0003


@dataclass(frozen=True, slots=True)
class Start:
    """Where a partition's copying begins.

    Attributes:
        offset: the first source offset to copy.
        log_start: where the target's log is to start; the offsets between the two are gaps. -1 where
            the log has begun before.
    """

    offset: int
    log_start: int = -1


def start_of(mirror_start: MirrorStart, first: int) -> Start:
    """Where the mirror of a partition begins by ``offsets.start``.

    Args:
        mirror_start: the option.
        first: the first offset that is copied.
    """
    log_start = first if mirror_start == "log-start" else mirror_start
    return Start(max(log_start, first), log_start)


def first_offset(
    flow: Flow, pair: Pair, number: int, bounds: LogBounds, state: ClusterState
) -> int:
    """The first offset to copy of a partition that was never copied."""
    first = state.starts.offsets.get(TopicPartition(pair.topic, number))
    if first is not None:
        return max(first, bounds.start)
    return bounds.end if begins_at_end(flow, pair, state) else bounds.start


def fill_end(position: Position | None) -> int:
    """The offset to which the target's log is still to be moved before copying; -1 where that is done."""
    return position.producer.unfilled_to if position and position.producer else -1


def refused_start(flow: Flow, pair: Pair, starts: TopicStarts) -> Refusal | None:
    """Why ``topics.start`` cannot apply to a topic, if so."""
    if reason := starts.refused.get(pair.topic):
        message = f"topics.start is {flow.topics_start.of(pair.topic)}. {reason}"
        return Refusal(pair.topic, message, "Name a group that has read the topic, or a time.")
    text = flow.topics_start.explicit_value(pair.topic)
    if not text or not pair.positions or pair.remote is None:
        return None
    before = starts.begun.get(pair.remote.topic_id)
    if before is None or text == (before or "earliest"):
        return None
    return Refusal(
        pair.topic,
        f"topics.start is {text}, but its copy was begun "
        + (f"with {before}." if before else "without that option."),
        f"Set it to {before or 'earliest'} for this topic: more of its past is copied by `ferry backfill`. "
        f"To begin again, give the copy up: `ferry repair --topic {pair.remote_topic}` shows what is lost by it.",
    )


def begins_at_end(flow: Flow, pair: Pair, state: ClusterState) -> bool:
    """Whether only future records of ``pair`` are copied (``auto.offset.reset: latest``).

    This applies to topics that the flow's first run has found and of which nothing was copied: a topic
    or a partition that was created later is copied from its start, so that nothing is lost.
    """
    if flow.auto_offset_reset == "earliest" or pair.positions:
        return False
    if flow.topics_start.explicit_value(pair.topic):
        return False
    return state.is_first_run or (
        pair.mark is not None and pair.mark.remote_topic_id in state.ledger.first_marked
    )


def start_at(flow: Flow, pair: Pair, number: int, bounds: LogBounds, state: ClusterState) -> Start:
    """Where copying the partition ``number`` of ``pair`` begins or continues."""
    position = pair.position(number)
    if position is None:
        first = first_offset(flow, pair, number, bounds, state)
        start = start_of(flow.offsets_start.of(pair.topic), first)
        return start if _may_be_cut(flow, pair) else replace(start, log_start=0)
    return Start(position.offset, fill_end(position))


def next_start(
    flow: Flow, pair: Pair, number: int, bounds: LogBounds, state: ClusterState
) -> Start:
    """The start offset; and ``log_start``, where the target's log is to start if it does not yet.

    Either the source's start has moved, or the target's broker died before it had persisted its
    log start, so that deleted records are visible again.
    """
    start = start_at(flow, pair, number, bounds, state)
    target = TopicPartition(pair.remote_topic, number)
    remote = state.target.bounds.get(target)
    if start.log_start >= 0 or remote is None or not _may_be_cut(flow, pair):
        return start
    first = state.ledger.first_copied.get(target, 0)
    wanted = start_by_ledger(flow, pair, first)
    is_proved = TopicPartition(pair.topic, number) not in state.source.logs.unproved_starts
    follows = flow.on_source_start_moved == "follow" and is_proved
    if follows and bounds.start > max(remote.start, first):
        wanted = bounds.start
    return Start(start.offset, wanted) if wanted > remote.start else start


def start_by_ledger(flow: Flow, pair: Pair, first: int) -> int:
    """Where the target's log is to start, whatever the source's does, or 0 where it cannot be moved.

    Args:
        flow: the flow.
        pair: the topic.
        first: the first offset that was ever copied to the partition, by the ledger.
    """
    if not _may_be_cut(flow, pair):
        return 0
    mirror_start = flow.offsets_start.of(pair.topic)
    return first if mirror_start == "log-start" else min(mirror_start, first)


def _may_be_cut(flow: Flow, pair: Pair) -> bool:
    """Whether the target lets the start of the remote topic's log be moved.

    Brokers refuse DeleteRecords where ``cleanup.policy`` is ``compact`` alone (POLICY_VIOLATION).
    """
    if pair.remote:
        return pair.remote.configs.get("cleanup.policy") != "compact"
    wanted = wanted_configs(flow, pair.source) if pair.source else {}
    return wanted.get("cleanup.policy") != "compact"


@dataclass(frozen=True, slots=True)
class Rest:
    """The remaining work for a partition whose offsets are preserved.

    Attributes:
        source: the partition on the source.
        start: the first offset to copy that the source still has.
        end: the offset after the last one to copy.
        below: offsets below the mirror's start, filled with empty records until they are deleted.
        absent: offsets to fill that the source no longer has.
    """

    source: TopicPartition
    start: int
    end: int
    below: int
    absent: int

    def __len__(self) -> int:
        return max(0, self.end - self.start)

    def gaps(self, density: float) -> int:
        """How many offsets are to be filled if ``density`` of those to be copied have a record."""
        return self.absent + round((1 - density) * len(self))

    def fill_ms(self, fill: str, density: float) -> float:
        """How long filling them may take with a value of the option ``fill``."""
        gaps_ms = self.gaps(density) * _MS_PER_GAP[fill]
        return gaps_ms + self.below * _MS_PER_EMPTY_RECORD


def rest_of(flow: Flow, pair: Pair, state: ClusterState) -> Iterator[Rest]:
    """The remaining work for each partition of ``pair`` that has a leader."""
    for number in range(pair.source.partitions if pair.source else 0):
        source = TopicPartition(pair.topic, number)
        bounds = state.source.logs.bounds.get(source)
        if bounds:
            begin = start_at(flow, pair, number, bounds, state)
            start = max(begin.offset, bounds.start)
            at = begin.offset if begin.log_start < 0 else begin.log_start
            yield Rest(source, start, bounds.end, max(0, begin.log_start), start - at)
