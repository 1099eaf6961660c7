"""Divides a micro-batch's ranges among Spark tasks. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, replace
from itertools import chain, groupby
from operator import attrgetter

from kafka_ferry.model.plan import Plan
from kafka_ferry.model.ranges import Range
from kafka_ferry.model.rate import UNLIMITED, Rate
from kafka_ferry.plan.schedule.priority import by_urgency
from kafka_ferry.plan.schedule.sharding import Writers, divide, load_of, loads_of, shares


@dataclass(frozen=True, slots=True)
class TaskRanges:
    """What one Spark task copies: the ranges of one writer, or of several under a rate limit.

    Attributes:
        ranges: the ranges, a writer's next to each other.
        rate: how much the task may send in a second.
        since: the end of the ledger when the run was planned: newer runs are in it after that.
    """

    ranges: tuple[Range, ...]
    rate: Rate = UNLIMITED
    since: int = 0


def plan_again(ranges: Iterable[Range], plan: Plan, shard: int | None) -> list[Range]:
    """The ranges of an earlier start that this start is to copy too: each as it is planned now, up to its earlier end.

    They are of the same partitions of the same topics, with the same destination, and they end no later.
    Those of another shard are that shard's now: two shards that shared a writer would fence each other. Nothing but
    its end is believed of an earlier start: its file is in the state folder, where others may write.

    Args:
        ranges: what Spark planned when the query was started before, from a file that may be wrong.
        plan: what this start is to copy.
        shard: which shard of it; None for all of it.
    """
    planned = {range_.source: range_ for range_ in plan.of_shard(shard)}
    return [
        replace(now, end=range_.end)
        for range_ in ranges
        if (now := planned.get(range_.source))
        and (range_.topic_id, range_.target) == (now.topic_id, now.target)
        and (range_.preserved, range_.backfill) == (now.preserved, now.backfill)
        and (range_.transform, range_.schema_ids) == (now.transform, now.schema_ids)
        and now.start < range_.end <= now.end
    ]


def task_ranges(
    ranges: Iterable[Range],
    writers: Writers,
    plan: Plan,
    shard: int | None = None,
    *,
    rate: Rate = UNLIMITED,
    at_a_time: int = 1,
) -> list[TaskRanges]:
    """One task for each writer of either kind that has ranges, the most urgent first.

    Args:
        ranges: what to copy, regardless of the writers that they were planned for.
        writers: the current writers.
        plan: the run's plan, with estimates of their sizes.
        shard: which of the plan's shards they are; None for all of it.
        rate: the most that all of the run's shards together may send in a second. Under a limit there
            are no more tasks than run at a time, each with its share.
        at_a_time: how many tasks run at a time.
    """
    owned = [replace(range_, writer=writers.of(range_.target)) for range_ in ranges]
    owner = attrgetter("owner")
    groups = groupby(sorted(owned, key=owner), key=owner)
    tasks = by_urgency([tuple(group) for _, group in groups])
    if rate.is_limited:
        return _limit(tasks, plan, shard, rate, at_a_time)
    return [TaskRanges(task, since=plan.ledger_end) for task in tasks]


def _limit(
    tasks: Sequence[tuple[Range, ...]],
    plan: Plan,
    shard: int | None,
    rate: Rate,
    at_a_time: int,
) -> list[TaskRanges]:
    loads = loads_of(plan.ranges, plan.estimates)
    if shard is not None:
        of_shards = [load_of(writers, loads) for writers in plan.shards]
        rate = _rates(rate, of_shards)[shard]
    # A writer of both kinds counts twice, which only makes the shares slightly less even.
    of_task = [load_of({range_.writer for range_ in task}, loads) for task in tasks]
    parts = divide(of_task, at_a_time)
    limits = _rates(rate, [sum(of_task[at] for at in part) for part in parts])
    return [
        TaskRanges(tuple(chain.from_iterable(tasks[at] for at in part)), limit, plan.ledger_end)
        for part, limit in zip(parts, limits, strict=True)
    ]


def _rates(whole: Rate, loads: Sequence[int]) -> list[Rate]:
    """What each part gets of a rate, by its load."""
    limits = (shares(limit, loads) if limit else [0] * len(loads) for limit in astuple(whole))
    return [Rate(*of_part) for of_part in zip(*limits, strict=True)]
