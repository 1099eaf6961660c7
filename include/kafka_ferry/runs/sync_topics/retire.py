"""Reads the state of remote topics whose source topics are gone, and deletes those that are due."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from kafka_ferry.clock import now_ms
from kafka_ferry.config import Flow
from kafka_ferry.control import ClusterControl, read_positions
from kafka_ferry.errors import AccessDenied, FerryError
from kafka_ferry.ledger import (
    AppliedEntry,
    LedgerTable,
    ReleasedTopic,
    append_entry,
)
from kafka_ferry.model import ClusterState, Plan, position_group
from kafka_ferry.model.changes import Retirement
from kafka_ferry.model.cluster_state import Mark
from kafka_ferry.model.positions import SEE_POSITIONS, is_position_group
from kafka_ferry.model.rights import how_to_grant
from kafka_ferry.plan.topics.retire import NOBODY_KNOWS, missing_topics
from kafka_ferry.runs.state.run_context import RunContext
from kafka_ferry.runs.sync_topics.delete_topics import delete_released, release
from kafka_ferry.runs.sync_topics.records_of_others import records_of_others
from kafka_ferry.wire import connect
from kafka_ferry.wire.any_broker import unknown_everywhere

_GROUPS: Final = position_group("")
# Not the plan's time, which has lain in the state folder.
_judged_at: Final = now_ms


def with_missing(
    flow: Flow,
    source: ClusterControl,
    target: ClusterControl,
    ledger: LedgerTable,
    state: ClusterState,
) -> ClusterState:
    """``state`` with what must be known of topics that may be gone, if the flow retires their copies."""
    if flow.on_source_topic_deleted != "retire":
        return state
    missing = missing_topics(flow, state.source.names, state.ledger.copied, state.ledger.marks)
    if not missing:
        return state
    existing, refused = target.readable_topics(missing.values())
    unknown = state.unknown
    try:
        shared = other_flows_into(flow, target, existing) if existing else {}
    except FerryError as error:
        shared = dict.fromkeys(existing, NOBODY_KNOWS)
        unknown += (f"Which other flows copy to {', '.join(sorted(existing))} is unknown. {error}",)
    marks = state.ledger.marks
    created = {name: it for name, it in existing.items() if name in marks and marks[name].created}
    return replace(
        state,
        source=replace(state.source, gone=frozenset(source.unknown(missing))),
        target=replace(
            state.target,
            topics={**state.target.topics, **existing},
            of_others=records_of_others(flow, target, ledger, created),
            refused={
                **state.target.refused,
                **{name: str(refusal) for name, refusal in refused.items()},
            },
        ),
        other_flows=replace(state.other_flows, shared=shared),
        unknown=unknown,
    )


def retire_topics(run: RunContext, target: ClusterControl, plan: Plan) -> list[str]:
    """Delete the remote topics that are due by ``plan``; a repetition finishes what was interrupted.

    Returns:
        A sentence for each that was not deleted.

    Raises:
        FerryError: if the target rejects the ledger's record.
    """
    now, missed = _judged_at(), run.ledger.applied().missed
    _note_missed(run, plan, missed)
    planned = [retirement for retirement in plan.topics.retirements if retirement.is_due(plan.at)]
    if not planned:
        return []
    marks, after = run.ledger.marks(), run.flow.retire_after_ms
    is_wanted = run.flow.on_source_topic_deleted == "retire"
    # Only the ledger says what the flow has created, and as whose copy.
    due = [
        copy
        for copy in planned
        if is_wanted
        and _is_created(marks.get(copy.remote_topic), copy)
        and missed.get(copy.remote_topic_id, now) + after <= now
    ]
    strange = [
        f"{copy.remote_topic}: not deleted, since the flow does not say on.source.topic.deleted: retire, or the ledger "
        f"does not say that the flow has created it for {copy.topic}, or that the source lacked that topic for so long."
        for copy in planned
        if copy not in due
    ]
    return [*strange, *(_delete(run, target, plan, due) if due else ())]


def _is_created(mark: Mark | None, retirement: Retirement) -> bool:
    """Whether the flow has created just this remote topic, for just this topic of the source."""
    if mark is None or not mark.created:
        return False
    return (mark.topic, mark.remote_topic_id) == (retirement.topic, retirement.remote_topic_id)


def _delete(
    run: RunContext, target: ClusterControl, plan: Plan, due: Sequence[Retirement]
) -> list[str]:
    # A plan may be hours old, and a deletion cannot be undone.
    source = ClusterControl(run.flow.source)
    cluster_id = source.cluster_id()
    if cluster_id != plan.source_cluster_id:
        moved = f"since {run.flow.source.alias} is another cluster by now ({cluster_id})."
        return [f"{copy.remote_topic}: not deleted, {moved}" for copy in due]
    gone = source.unknown([retirement.topic for retirement in due])
    try:
        with connect(run.flow.source) as wire:
            gone = unknown_everywhere(wire, gone)
    except FerryError as error:
        return [f"{copy.remote_topic}: not deleted. {error}" for copy in due]
    back = [
        f"{copy.remote_topic}: not deleted, since {copy.topic} is on the source again, or on some of its brokers still."
        for copy in due
        if copy.topic not in gone
    ]
    there, refused = target.readable_topics([copy.remote_topic for copy in due])
    of_others = {name: str(error) for name, error in refused.items()}
    of_others |= records_of_others(run.flow, target, run.ledger, there)
    back += [f"{name}: not deleted: {why}" for name, why in of_others.items()]
    ids = {
        copy.remote_topic: copy.remote_topic_id
        for copy in due
        if copy.topic in gone and copy.remote_topic not in of_others
    }
    released = run.ledger.released_topics()
    topics = [
        ReleasedTopic(remote_topic=name, remote_topic_id=topic_id)
        for name, topic_id in ids.items()
        if topic_id not in released
    ]
    release(run, topics)
    try:
        errors = delete_released(run, target, ids)
    except FerryError as error:
        return [*back, str(error)]
    return [*back, *(f"{name}: not deleted. {error}" for name, error in errors.items())]


def _note_missed(run: RunContext, plan: Plan, known: Mapping[str, int]) -> None:
    """Record in the ledger since when topics are missing, and which are back."""
    flow = run.flow
    missed = {it.remote_topic_id: it.topic for it in plan.topics.retirements}
    new = {id_: topic for id_, topic in missed.items() if id_ not in known}
    # A plan may be old, and a newer run have seen that the topic is back: its time would begin while it is there.
    gone = ClusterControl(flow.source).unknown(new.values()) if new else set()
    news = {id_: _judged_at() for id_, topic in new.items() if topic in gone}
    news |= dict.fromkeys(known.keys() - missed.keys(), 0)
    if news:
        append_entry(flow, AppliedEntry(flow=flow.name, run=plan.run, at=now_ms(), missed=news))
        run.project_ledger()


def other_flows_into(
    flow: Flow, target: ClusterControl, topics: Iterable[str]
) -> Mapping[str, str]:
    """By topic of ``topics`` that another flow has positions in, that flow.

    Raises:
        AccessDenied: if the flow may not see all groups of the target, or their offsets.
    """
    own = position_group(flow.name)
    shared: dict[str, str] = {}
    for group in target.all_group_names():
        if is_position_group(group) and group != own:
            name = group.removeprefix(_GROUPS)
            try:
                positions = read_positions(flow.target, name)
            except AccessDenied as error:
                raise AccessDenied(error.message, advice=how_to_grant(SEE_POSITIONS)) from error
            shared |= dict.fromkeys((tp.topic for tp in positions), name)
    return {topic: shared[topic] for topic in topics if topic in shared}
