"""Makes a backfill's plan: records below the positions that an ordinary plan would continue from. Pure.

Where the ordinary plan would continue with a partition is its position; whatever prevents that (a
recreated topic, a truncated log) prevents the backfill too. Nothing else of the ordinary plan is
applied: configs, access and deleted topics wait for the flow's own runs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kafka_ferry.model.plan import Plan, TopicChanges
from kafka_ferry.model.ranges import Range
from kafka_ferry.model.remarks import Note, PlanRemarks
from kafka_ferry.model.run_options import ORDINARY, RunOptions
from kafka_ferry.model.topic_pair import Pair
from kafka_ferry.plan.backfill.topic_backfill import TopicBackfill, WindowFacts
from kafka_ferry.plan.make_plan import empty_plan, make_plan
from kafka_ferry.plan.offsets.start_offsets import begins_at_end
from kafka_ferry.plan.schedule.estimates import estimates
from kafka_ferry.plan.schedule.priority import with_expiries
from kafka_ferry.plan.schedule.sharding import shards_of
from kafka_ferry.plan.topics.rules import rule_changes

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.model.cluster_state import ClusterState


def plan_backfill(
    flow: Flow, state: ClusterState, facts: WindowFacts, *, run: str, at: int, options: RunOptions
) -> Plan:
    """Plan a backfill of ``flow``.

    Args:
        flow: the flow.
        state: the state of both clusters.
        facts: what else must be known for the window.
        run: the run's id.
        at: now, in milliseconds since 1970.
        options: the run's options, with a window.

    Raises:
        ConfigError, FerryError: as ``make_plan``.
    """
    window = options.window
    assert window
    # A backfill does nothing for groups.
    state = replace(state, source=replace(state.source, groups=None))
    narrow = make_plan(flow, state, run=run, at=at, options=replace(options, window=None))
    topics = [
        TopicBackfill(flow, state, facts, window, narrow, choice) for choice in narrow.choices
    ]
    ranges = [range_ for topic in topics if not topic.refusal for range_ in topic.ranges]
    ordinary = narrow
    if ranges and state.is_first_run and options.topics:
        # With auto.offset.reset: latest, the first run starts at the logs' ends; this run counts as the first.
        ordinary = make_plan(flow, state, run=run, at=at, options=ORDINARY)
    pins = _pins(flow, state, ordinary, {range_.topic for range_ in ranges}) if ranges else ()
    touched = {range_.topic for range_ in (*ranges, *pins)}
    remote = {choice.remote_topic for choice in ordinary.choices if choice.topic in touched}
    sizes = tuple(estimates(state.source.logs, ranges))
    return replace(
        empty_plan(flow, state, run=run, at=at, options=options),
        ranges=with_expiries(flow, state.source, ranges, at),
        pins=pins,
        rules=tuple(rule_changes(flow, ranges, state.ledger.rules)),
        shards=shards_of(flow, (*ranges, *pins), sizes),
        estimates=sizes,
        choices=tuple(choice for choice in ordinary.choices if choice.topic in touched),
        topics=_topic_changes(ordinary.topics, remote, topics),
        remarks=_remarks(narrow.remarks, topics),
    )


def _pins(
    flow: Flow, state: ClusterState, ordinary: Plan, backfilled: Collection[str]
) -> tuple[Range, ...]:
    """The ranges at logs' ends with which ordinary runs begin there, although a backfill came first."""
    return tuple(
        range_
        for range_ in ordinary.ranges
        # All partitions: otherwise later runs would treat the others as new and copy them from their starts.
        if (state.is_first_run or range_.topic in backfilled)
        and begins_at_end(flow, Pair.of(range_.topic, range_.remote_topic, state), state)
    )


def _topic_changes(
    ordinary: TopicChanges, remote: Collection[str], topics: Sequence[TopicBackfill]
) -> TopicChanges:
    """The remote topics that a backfill needs; those in ``remote`` are the ordinary plan's."""
    return TopicChanges(
        creations=(
            *(change for change in ordinary.creations if change.remote_topic in remote),
            *(change for topic in topics if topic.is_work for change in topic.creations),
        ),
        growths=(
            *(change for change in ordinary.growths if change.remote_topic in remote),
            *(change for topic in topics if topic.is_work for change in topic.growths),
        ),
    )


def _remarks(ordinary: PlanRemarks, topics: Sequence[TopicBackfill]) -> PlanRemarks:
    return PlanRemarks(
        skipped=ordinary.skipped,
        refused=(*ordinary.refused, *(refusal for topic in topics for refusal in topic.refusals)),
        notes=(
            *(note for note in ordinary.notes if not note.of_first_copy),
            *(note for topic in topics for note in topic.notes),
            *_of_unread(topics),
        ),
    )


def _of_unread(topics: Sequence[TopicBackfill]) -> Iterator[Note]:
    some = [topic.unread for topic in topics if topic.unread and not topic.refusal]
    if some:
        yield Note(
            "",
            f"Not looked at: {sum(some):,} offsets below the flow's positions, in {len(some):,} topic(s), after the "
            "first record that is newer than the window by more than backfill.disorder.ms. What is of the window there "
            "came later than that; with -1 it is looked for.",
        )
