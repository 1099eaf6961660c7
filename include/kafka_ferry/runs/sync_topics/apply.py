"""Makes a plan's changes on the target: topics, configs, access; a failure stops nothing else."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Final

from kafka_ferry.batched import batched
from kafka_ferry.clock import now_ms
from kafka_ferry.config import Flow
from kafka_ferry.control import ClusterControl, read_positions
from kafka_ferry.errors import FerryError
from kafka_ferry.ledger import OwnershipEntry, append_entry
from kafka_ferry.model import Note, Plan, Range, Refusal, TopicPartition
from kafka_ferry.model.cluster_state import Mark, Topic
from kafka_ferry.plan.removals import held_sentences, takes_away, withhold
from kafka_ferry.plan.retention import Retention, shorter_retention
from kafka_ferry.plan.topics.ownership import find_marked, new_marks, unlike_their_marks
from kafka_ferry.runs.state.known_positions import without_position
from kafka_ferry.runs.state.run_context import RunContext
from kafka_ferry.runs.sync_topics.acls import apply_access
from kafka_ferry.runs.sync_topics.other_ledgers import NEVER, MarkOf, marks_in_other_ledgers
from kafka_ferry.runs.sync_topics.retire import retire_topics
from kafka_ferry.runs.sync_topics.topic_configs import ConfigChanges

# Keeps a ledger record far below max.message.bytes.
_MARKS_AT_ONCE: Final = 1_000
_ANOTHER: Final = FerryError(
    "it was deleted since the run was planned.", advice="The next run looks at what is there."
)


def apply_changes(run: RunContext, target: ClusterControl, plan: Plan) -> Plan:
    """Make the changes of ``plan``; a repetition makes those that are not made yet.

    Every remote topic that the plan copies to is marked in the ledger, with how its offsets are
    kept, before anything is written to it.

    Args:
        run: the run; the ledger's topic exists.
        target: the target.
        plan: its plan.

    Returns:
        The plan, in which topics that failed are refused, and ``unapplied`` names the other changes
        that could not be made.

    Raises:
        FerryError: if the target rejects the ledger's record.
    """
    if takes_away(plan):
        with run.by_topic() as by_topic:
            return _apply(by_topic, target, plan)
    return _apply(run, target, plan)


def _apply(run: RunContext, target: ClusterControl, plan: Plan) -> Plan:
    unapplied: list[str] = []
    # Where no person is asked, the file says nothing.
    is_approved = run.flow.approval != "never" and bool(run.folder.approver())
    if not (plan.options.approve_removals or is_approved):
        unapplied, plan = held_sentences(plan), withhold(plan)
    configs = ConfigChanges(run, target, plan)
    configs.announce()
    errors = configs.create() | _grow(target, plan)
    errors |= mark_topics(run, target, plan, without=errors.keys(), announced=configs.announced)
    configs.alter()
    errors |= configs.confirm(without=errors.keys())
    plan = _with_ids(_refuse(plan, errors), run.ledger.marks())
    unapplied += configs.failures.sentences
    unapplied += apply_access(run, plan)
    if run.flow.sync_schemas != "none":
        from kafka_ferry.runs.sync_topics.schemas import mirror_schemas  # noqa: PLC0415  (no flow without needs it)

        plan, problems = mirror_schemas(run, plan)
        unapplied += problems
    # A run of some topics does not know which of the others are missing.
    if plan.options.is_whole:
        unapplied += retire_topics(run, target, plan)
    # Each note once, and nothing that only an earlier attempt could not change.
    notes = (
        *plan.remarks.notes,
        *(Note("", sentence) for sentence in configs.failures.notes),
        *_retention(run.flow, plan, configs.confirmed),
    )
    remarks = replace(plan.remarks, notes=tuple(dict.fromkeys(notes)), unapplied=tuple(unapplied))
    return replace(plan, remarks=remarks)


def _grow(target: ClusterControl, plan: Plan) -> dict[str, FerryError]:
    """Give remote topics more partitions; an error for each that could not grow, or is another one by now.

    A step may be repeated long after, and partitions cannot be taken away again.
    """
    planned = {it.remote_topic: it.remote_topic_id for it in (*plan.ranges, *plan.pins)}
    names = [growth.remote_topic for growth in plan.topics.growths]
    ids = target.topic_ids(names) if names else {}
    others = {name for name in names if planned.get(name) and planned[name] != ids.get(name)}
    growths = [growth for growth in plan.topics.growths if growth.remote_topic not in others]
    return dict.fromkeys(others, _ANOTHER) | target.grow_topics(growths)


def _retention(flow: Flow, plan: Plan, confirmed: Mapping[str, Topic]) -> Iterator[Note]:
    """What is said of the retention of topics that were created or changed: only now the target's defaults show."""
    for choice in plan.choices:
        if remote := confirmed.get(choice.remote_topic):
            kept = Retention(choice.kept_ms, choice.kept_bytes)
            if note := shorter_retention(choice.topic, kept, remote, flow.configs_of(choice.topic)):
                yield note


def _with_ids(plan: Plan, marks: Mapping[str, Mark]) -> Plan:
    """The plan with the ids of the remote topics that were created for it: no others are to be written to."""

    def pick_known(ranges: Sequence[Range]) -> tuple[Range, ...]:
        return tuple(
            replace(range_, remote_topic_id=marks[range_.remote_topic].remote_topic_id)
            if range_.remote_topic in marks and not range_.remote_topic_id
            else range_
            for range_ in ranges
        )

    return replace(plan, ranges=pick_known(plan.ranges), pins=pick_known(plan.pins))


def _refuse(plan: Plan, errors: Mapping[str, FerryError]) -> Plan:
    """The plan without the remote topics in ``errors``, which become refusals."""
    topics = {choice.remote_topic: choice.topic for choice in plan.choices}
    unpinned = {range_.source for range_ in plan.pins if range_.remote_topic in errors}
    refused = tuple(
        Refusal(topics.get(remote, remote), f"{remote}: {error.message}", error.advice)
        for remote, error in errors.items()
    )
    advised = tuple(acl for acl in plan.access.advised_acls if acl.remote_topic not in errors)
    return replace(
        plan,
        ranges=tuple(
            range_
            for range_ in plan.ranges
            if range_.remote_topic not in errors and range_.source not in unpinned
        ),
        pins=tuple(range_ for range_ in plan.pins if range_.remote_topic not in errors),
        choices=tuple(choice for choice in plan.choices if choice.remote_topic not in errors),
        access=replace(plan.access, advised_acls=advised),
        remarks=replace(plan.remarks, refused=plan.remarks.refused + refused),
    )


def mark_topics(
    run: RunContext,
    target: ClusterControl,
    plan: Plan,
    *,
    without: AbstractSet[str],
    announced: Collection[str] = (),
) -> dict[str, FerryError]:
    """Mark the remote topics of ``plan`` that have no mark; a repetition changes nothing.

    Args:
        run: the run; the ledger's topic exists.
        target: the target.
        plan: its plan; the topics that it creates exist already.
        without: the remote topics that could not be created.
        announced: those that an earlier attempt, or another run, may have created.

    Returns:
        An error for each topic whose mark says by now that its offsets are kept differently, or that another
        flow has marked first.

    Raises:
        FerryError: if the target rejects the marks.
    """
    flow, ledger = run.flow, run.ledger
    run.project_ledger()
    choices = [choice for choice in plan.choices if choice.remote_topic not in without]
    new = {creation.remote_topic for creation in plan.topics.creations} - without
    ids = target.topic_ids([choice.remote_topic for choice in choices], wait_for=new)
    known = ledger.marks()
    created = new.difference(announced)
    marked = {name for name, mark in known.items() if mark.remote_topic_id == ids.get(name)}
    # An interrupted run may have created topics and not marked them; nor has it written there.
    doubtful = ledger.applied().creations.keys() & ids.keys() - created - marked
    created |= doubtful - _holding_records(flow, target, doubtful)
    # Where flows share topics, their positions tell what each of them brings.
    adopts = flow.on_foreign_records == "adopt"
    free = set[str]() if adopts else _free(run, plan, ids, created)
    taken = _taken_topics(run, target, free)
    choices = [choice for choice in choices if ids.get(choice.remote_topic) not in taken]
    empty = set[str]() if adopts else _empty(run, ids, ids.keys() - created - marked)
    marks = new_marks(choices, ids, known, created, empty)
    for some in batched(marks, _MARKS_AT_ONCE):
        entry = OwnershipEntry(flow=flow.name, run=plan.run, at=now_ms(), marks=some)
        append_entry(flow, entry)
    if marks:
        run.project_ledger()
    # Each flow sees its own marks and all before them: of two, only the first one goes on.
    taken |= _taken_topics(run, target, free - taken.keys())
    rivals = {} if adopts else find_marked(ids, taken | ledger.other_owners())
    return unlike_their_marks(choices, ids, known) | rivals


def _holding_records(flow: Flow, target: ClusterControl, names: AbstractSet[str]) -> set[str]:
    """The remote topics that may hold a record, or may have held one."""
    if not names:
        return set()
    topics, wait_s = target.topics(names), flow.partition_wait_ms / 1000
    bounds = target.log_bounds(topics.values(), "read_uncommitted", wait_s=wait_s)
    empty = {
        name
        for name, topic in topics.items()
        if all(
            (known := bounds.get(TopicPartition(name, number))) and not known.end
            for number in range(topic.partitions)
        )
    }
    return {*names} - empty


def _empty(run: RunContext, ids: Mapping[str, str], names: AbstractSet[str]) -> set[str]:
    """The remote topics without a mark that hold no record: a plan refuses others unless the flow has copied there."""
    topics = [Topic(name, ids[name], 1) for name in names]
    if not topics:
        return set()
    committed = read_positions(run.flow.target, run.flow.name)
    strange = without_position(without_position(topics, committed), run.ledger.positions())
    return {topic.name for topic in strange}


def _free(
    run: RunContext, plan: Plan, ids: Mapping[str, str], created: AbstractSet[str]
) -> set[str]:
    """The ids of the remote topics that the plan copies to for the first time, and that the flow has not created."""
    marks = run.ledger.marks()
    created = created | {name for name, mark in marks.items() if mark.created}
    first = {
        range_.remote_topic for range_ in plan.ranges if range_.start < range_.end
    } & ids.keys() - created
    ends = run.ledger.target_ends(Topic(name, ids[name], 1) for name in first)
    return {ids[name] for name in first - {tp.topic for tp in ends}} - {""}


def _taken_topics(
    run: RunContext, target: ClusterControl, topic_ids: AbstractSet[str]
) -> dict[str, str]:
    """By id, which of remote topics a flow with another ledger has marked before this one, and that flow."""
    if not topic_ids:
        return {}
    marked = run.ledger.mark_times()
    own = {
        topic_id: MarkOf(marked[topic_id], run.flow.name) if topic_id in marked else NEVER
        for topic_id in topic_ids
    }
    return marks_in_other_ledgers(run.flow, target, own)
