"""Making a plan from what was found on both clusters. Pure: changes nothing and asks nobody."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, TypeVar

from kafka_ferry.config import Flow
from kafka_ferry.plan.acls import advised_acls
from kafka_ferry.plan.facts import Found, LogBounds, Topic
from kafka_ferry.plan.offsets import choose_offsets, with_costs
from kafka_ferry.plan.plan import (
    Creation,
    Growth,
    Note,
    OffsetsChoice,
    Plan,
    Refusal,
    Skipped,
)
from kafka_ferry.plan.positions import Position
from kafka_ferry.plan.ranges import Range, TopicPartition, writer_of
from kafka_ferry.plan.selection import policy_of, select_topics
from kafka_ferry.plan.situations import Pair, Place, judge_partition, judge_topic
from kafka_ferry.plan.starts import Start, next_start, unfilled_to

# Brokers forget the offsets of a group without members after seven days by default.
_REFRESH_AFTER_MS: Final = 24 * 60 * 60 * 1000
_MAX_NAME: Final = 249

# MirrorMaker 2's config.properties.exclude, and the codec: batches bring their own.
_CONFIGS_NOT_COPIED: Final = frozenset(
    {
        "compression.type",
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "message.timestamp.difference.max.ms",
        "message.timestamp.before.max.ms",
        "message.timestamp.after.max.ms",
        "message.timestamp.type",
        "unclean.leader.election.enable",
        "min.insync.replicas",
    }
)

_Step = Range | Creation | Growth | Skipped | Refusal | Note | OffsetsChoice
_Kind = TypeVar("_Kind", Range, Creation, Growth, Skipped, Refusal, Note, OffsetsChoice)


def make_plan(flow: Flow, found: Found, *, run: str, at: int) -> Plan:
    """Plan a run of ``flow``.

    Args:
        flow: the flow.
        found: the state of both clusters.
        run: the run's id.
        at: now, in milliseconds since 1970.
    """
    steps = list(_steps(flow, found, at))

    def all_of(kind: type[_Kind]) -> tuple[_Kind, ...]:
        return tuple(step for step in steps if isinstance(step, kind))

    return Plan(
        flow=flow.name,
        run=run,
        at=at,
        source_cluster_id=found.source_cluster_id,
        target_cluster_id=found.target_cluster_id,
        ledger_end=found.ledger_end,
        ranges=all_of(Range),
        creations=all_of(Creation),
        growths=all_of(Growth),
        skipped=all_of(Skipped),
        refused=all_of(Refusal),
        notes=all_of(Note),
        choices=all_of(OffsetsChoice),
        advised_acls=tuple(advised_acls(flow, all_of(OffsetsChoice))),
    )


def _steps(flow: Flow, found: Found, at: int) -> Iterator[_Step]:
    """All that the plan is to hold, topic by topic."""
    selected, skipped = select_topics(flow, found.source_names)
    yield from skipped
    policy = policy_of(flow)
    for name in selected:
        if name in found.source_topics:
            pair = Pair.of(name, policy.remote_topic(name), found)
            yield from _topic(flow, found, pair, found.source_topics[name], at)
        else:
            yield Skipped(name, "it was deleted while the run was planned")
    gone, _ = select_topics(flow, found.copied.keys() - found.source_names)
    for name in gone:
        yield from judge_topic(flow, Pair.of(name, found.copied[name], found))


def _topic(flow: Flow, found: Found, pair: Pair, topic: Topic, at: int) -> Iterator[_Step]:
    unfaithful = _unfaithful(pair)
    if unfaithful:
        yield unfaithful
        return
    choice = choose_offsets(flow, pair, found)
    if isinstance(choice, Refusal):
        yield choice
        return
    pair = replace(pair, preserved=choice.preserved)
    verdicts = list(judge_topic(flow, pair))
    yield from verdicts
    if any(isinstance(verdict, Refusal) for verdict in verdicts):
        return
    choice = with_costs(flow, pair, found, choice)
    yield choice
    if isinstance(choice, Refusal):
        return
    pair = replace(pair, preserved=choice.preserved)
    if pair.remote is None:
        yield _creation(topic, pair.remote_topic, flow.replication_factor)
    elif pair.remote.partitions < topic.partitions:
        yield Growth(pair.remote_topic, topic.partitions)
    elif pair.remote.partitions > topic.partitions:
        yield Note(
            topic.name,
            None,
            f"{pair.remote_topic} has {pair.remote.partitions} partitions, the source's topic has "
            f"{topic.partitions}: the others stay empty, and producers that choose partitions by "
            "key choose others on the target.",
        )
    for number in range(topic.partitions):
        yield from _partition(flow, found, pair, topic, number, at)


def _unfaithful(pair: Pair) -> Refusal | None:
    """Why the remote topic cannot be a faithful copy, whatever the flow's options say."""
    if len(pair.remote_topic) > _MAX_NAME:
        return Refusal(
            pair.topic,
            None,
            f"{pair.remote_topic} is longer than {_MAX_NAME} characters.",
            "Rename it.",
        )
    if pair.released:
        return Refusal(
            pair.topic,
            None,
            f"{pair.remote_topic} on the target was given up, and is still there.",
            f"Run `ferry repair --topic {pair.remote_topic} --yes` again, which deletes it.",
        )
    configs = pair.remote.configs if pair.remote else {}
    timestamps = configs.get("message.timestamp.type", "CreateTime")
    if timestamps != "CreateTime":
        return Refusal(
            pair.topic,
            None,
            f"{pair.remote_topic} on the target has message.timestamp.type={timestamps}, "
            "which would replace the records' timestamps.",
            "Set it to CreateTime.",
        )
    return None


def _creation(topic: Topic, remote_name: str, replication_factor: int) -> Creation:
    configs = {name: topic.configs[name] for name in sorted(topic.overrides - _CONFIGS_NOT_COPIED)}
    return Creation(remote_name, topic.partitions, replication_factor, configs)


def _partition(
    flow: Flow, found: Found, pair: Pair, topic: Topic, number: int, at: int
) -> Iterator[Range | Refusal | Note]:
    source, target = TopicPartition(topic.name, number), TopicPartition(pair.remote_topic, number)
    bounds = found.bounds.get(source)
    if bounds is None:
        yield Refusal(
            topic.name,
            number,
            "the partition has no leader.",
            "Is one of the source's brokers down?",
        )
        return
    position = pair.position(number)
    begin = Start(bounds.start)
    if pair.preserved:
        begin = next_start(flow, pair, number, bounds, found)
    start, log_start = begin.offset, begin.log_start
    if position:
        place = _place(found, pair, position, source, target)
        start, verdicts = judge_partition(flow, place, source)
        yield from verdicts
        if any(isinstance(verdict, Refusal) for verdict in verdicts):
            return
    elif start > bounds.end:
        reason = f"its mirror is to begin at {start}, and its log ends at {bounds.end}."
        yield Refusal(topic.name, number, reason, "Set offsets.start no higher than that.")
        return
    # An empty log, too, is to begin, end and start where the source's does.
    must_move = log_start >= 0 and start > 0
    stored = pair.positions.get(number)
    if must_move or _is_due(stored, start, bounds, at, anew=position is None):
        yield Range(
            topic=topic.name,
            partition=number,
            start=start,
            end=bounds.end,
            topic_id=topic.topic_id,
            remote_topic=pair.remote_topic,
            writer=writer_of(target, flow.writers),
            remote_topic_id=pair.remote.topic_id if pair.remote else "",
            preserved=pair.preserved,
            log_start=log_start,
        )


def _place(
    found: Found, pair: Pair, position: Position, source: TopicPartition, target: TopicPartition
) -> Place:
    remote = found.remote_bounds.get(target)
    # Until the target's log was brought to its start, it ends below the position.
    is_filled = pair.preserved and unfilled_to(position) < 0
    return Place(
        position.offset,
        found.bounds[source],
        found.diverged.get(source),
        pair.remote_topic,
        pair.preserved,
        remote.end if remote and is_filled else None,
    )


def _is_due(stored: Position | None, start: int, bounds: LogBounds, at: int, *, anew: bool) -> bool:
    """Whether there is something to copy, or a stored position to replace or to keep from expiry."""
    if start != bounds.end:
        return start < bounds.end
    if stored is None:
        return False
    aged = stored.origin == "ledger" or at - stored.at > _REFRESH_AFTER_MS
    return anew or aged or stored.offset != start
