"""The ranges that a run copies, partition by partition, or why it copies none. Pure, as the plan is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from kafka_ferry.config import Flow
from kafka_ferry.model.cluster_state import ClusterState, SourceLogs, Topic
from kafka_ferry.model.ranges import Range, TopicPartition
from kafka_ferry.model.remarks import Note, Refusal
from kafka_ferry.model.topic_pair import Pair
from kafka_ferry.plan.offsets.start_offsets import (
    Start,
    begins_at_end,
    fill_end,
    first_offset,
    next_start,
    start_of,
)
from kafka_ferry.plan.schedule.sharding import writers_of
from kafka_ferry.plan.topics.provenance import origins_beyond
from kafka_ferry.plan.topics.refusals import Place, judge_partition

# Brokers forget the offsets of a group without members after seven days by default.
_REFRESH_AFTER_MS: Final = 24 * 60 * 60 * 1000


def partition_steps(
    flow: Flow, state: ClusterState, pair: Pair, topic: Topic, numbers: Iterable[int], at: int
) -> Iterator[Range | Refusal | Note]:
    """What a run does about partitions of a topic.

    Args:
        flow: the flow.
        state: the state of both clusters.
        pair: the topic and its remote topic, with how offsets are kept.
        topic: the topic on the source.
        numbers: the partitions.
        at: now, in milliseconds since 1970.
    """
    origins = origins_beyond(state, pair)
    # Once a topic: of a function it takes the file.
    transform = flow.fingerprint_of(topic.name)
    left_out, are_remote, at_end = list[int](), 0, begins_at_end(flow, pair, state)
    for number in numbers:
        for step in _partition(flow, state, pair, topic, number, at):
            if isinstance(step, Range):
                are_remote += state.source.logs.remote_offsets(step.source, step.start, step.end)
                flows = state.other_flows
                since = flows.returned.get(topic.name, flows.returned_end)
                is_hidden = step.target in state.positions.hidden
                yield replace(
                    step,
                    origins=origins,
                    returned_since=since,
                    transform=transform,
                    is_hidden=is_hidden,
                )
                if step.begin or (at_end and not pair.position(number)):
                    left_out.append(step.start - state.source.logs.bounds[step.source].start)
            else:
                yield step
    if any(left_out):
        option = (
            "auto.offset.reset (latest)"
            if at_end
            else f"topics.start ({flow.topics_start.of(topic.name)})"
        )
        yield Note(
            topic.name,
            f"its first copy begins by {option}: "
            f"{sum(left_out):,} older offsets are left out. "
            "`ferry backfill` copies those of a time.",
            of_first_copy=True,
        )
    if are_remote:
        yield Note(
            topic.name,
            f"~{are_remote:,} offsets to copy are read from the source's remote storage.",
        )


def _partition(
    flow: Flow, state: ClusterState, pair: Pair, topic: Topic, number: int, at: int
) -> Iterator[Range | Refusal | Note]:
    source, target = TopicPartition(topic.name, number), TopicPartition(pair.remote_topic, number)
    bounds = state.source.logs.bounds.get(source)
    if bounds is None:
        advice = "Is one of the source's brokers down?"
        yield Refusal(topic.name, "the partition has no leader.", advice, partition=number)
        return
    position = pair.position(number)
    begin = Start(first_offset(flow, pair, number, bounds, state))
    if pair.preserved:
        begin = next_start(flow, pair, number, bounds, state)
    start, log_start = begin.offset, begin.log_start
    if not position and start > bounds.end:
        reason = f"its mirror is to begin at {start}, but its log ends at {bounds.end}."
        advice = "Set offsets.start or topics.start no higher than that."
        yield Refusal(topic.name, reason, advice, partition=number)
        return
    place = _place(flow, state, pair, start, source)
    start, verdicts = judge_partition(flow, place, source)
    yield from verdicts
    if any(isinstance(verdict, Refusal) for verdict in verdicts):
        return
    # An empty log too must start and end where the source's does.
    must_move = log_start >= 0 and start > 0
    is_begun_by_option = position is None and source in state.starts.offsets
    begins_late = is_begun_by_option or begins_at_end(flow, pair, state)
    is_new = begins_late or (number == 0 and _is_unknown(pair, state.source.logs))
    if must_move or is_new or _is_due(state, pair, source, start, at):
        yield Range(
            topic=topic.name,
            partition=number,
            start=start,
            end=bounds.end,
            topic_id=topic.topic_id,
            remote_topic=pair.remote_topic,
            writer=writers_of(flow).of(target),
            remote_topic_id=pair.remote.topic_id if pair.remote else "",
            preserved=pair.preserved,
            log_start=log_start,
            start_epoch=-1 if position else state.starts.epochs.get(source, -1),
            begin=flow.topics_start.of(topic.name) if is_begun_by_option else "",
            replaces=pair.replaced_topic(number),
        )


def _is_unknown(pair: Pair, logs: SourceLogs) -> bool:
    """Whether nothing on the target says yet that the remote topic is a copy, and of what.

    An empty range does: flows that copy from there must know where the topic came from
    (``plan.topics.provenance``) before the first record arrives, or two flows would copy an empty topic
    back and forth forever, under longer and longer names.
    """
    partitions = range(pair.source.partitions if pair.source else 0)
    bounds = (logs.bounds.get(TopicPartition(pair.topic, number)) for number in partitions)
    return not pair.positions and all(log is None or log.start == log.end for log in bounds)


def _place(
    flow: Flow, state: ClusterState, pair: Pair, start: int, source: TopicPartition
) -> Place:
    """Where a partition's copying would continue, or begin at ``start``."""
    logs, positions = state.source.logs, state.positions
    bounds, target = logs.bounds[source], TopicPartition(pair.remote_topic, source.partition)
    mismatch, position = state.target.mismatches.get(target), pair.position(source.partition)
    if position is None:
        # A ledger that has lost its newest records may have lost the first ones of a partition.
        name, preserved = pair.remote_topic, pair.preserved
        return Place(start, bounds, remote_topic=name, preserved=preserved, mismatch=mismatch)
    remote = state.target.bounds.get(target)
    # Until the target's log has been moved to its start, it ends below the position.
    is_filled = pair.preserved and fill_end(position) < 0
    begins_at = None
    if target in positions.unconfirmed:
        mirror_start = flow.offsets_start.of(pair.topic) if pair.preserved else "log-start"
        begins_at = start_of(mirror_start, bounds.start).offset
    return Place(
        position.offset,
        bounds,
        logs.diverged.get(source),
        pair.remote_topic,
        pair.preserved,
        remote.end if remote and is_filled else None,
        split=logs.split.get(source),
        moved_to=positions.moved.get(target),
        begins_at=begins_at,
        mismatch=mismatch,
        is_beyond=target in state.target.beyond,
        is_compacted=any(topic.is_compacted for topic in (pair.source, pair.remote) if topic),
    )


def _is_due(state: ClusterState, pair: Pair, source: TopicPartition, start: int, at: int) -> bool:
    """Whether there is something to copy, or a stored position to replace or to keep from expiry."""
    end, stored = state.source.logs.bounds[source].end, pair.positions.get(source.partition)
    if start != end:
        return start < end
    if stored is None:
        return False
    # The group gets its position back, and an open transaction its end, even where nothing is to be copied.
    target, positions = TopicPartition(pair.remote_topic, source.partition), state.positions
    is_lost = target in positions.moved or target in positions.hidden
    aged = stored.origin == "ledger" or at - stored.at > _REFRESH_AFTER_MS
    return is_lost or aged or stored.offset != start or not pair.position(source.partition)
