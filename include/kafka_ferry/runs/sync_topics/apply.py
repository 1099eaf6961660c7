"""Makes a plan's changes on the target: topics, configs, access; a failure stops nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from kafka_ferry.control import ClusterControl
from kafka_ferry.errors import FerryError
from kafka_ferry.model import Note, Plan, Refusal
from kafka_ferry.runs.state.run_context import RunContext
from kafka_ferry.runs.sync_topics.acls import apply_access
from kafka_ferry.runs.sync_topics.ownership import mark_topics
from kafka_ferry.runs.sync_topics.retire import retire_topics
from kafka_ferry.runs.sync_topics.topic_configs import ConfigChanges


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
    # This attempt may succeed where an earlier one failed.
    plan = replace(plan, unapplied=())
    configs = ConfigChanges(run, target, plan)
    configs.announce()
    errors = configs.create() | target.grow_topics(plan.growths)
    errors |= mark_topics(run, target, plan, without=errors.keys())
    configs.alter()
    configs.confirm(without=errors.keys())
    plan = _with_notes(_refuse(plan, errors), configs.notes)
    unapplied = configs.unapplied
    unapplied += apply_access(run, plan)
    # A run of some topics does not know which of the others are missing.
    if plan.options.is_whole:
        unapplied += retire_topics(run, target, plan)
    return replace(plan, unapplied=tuple(unapplied))


def _with_notes(plan: Plan, sentences: Iterable[str]) -> Plan:
    """The plan with notes on the whole flow, each once."""
    notes = (Note("", None, sentence) for sentence in sentences)
    return replace(plan, notes=tuple(dict.fromkeys((*plan.notes, *notes))))


def _refuse(plan: Plan, errors: Mapping[str, FerryError]) -> Plan:
    """The plan without the remote topics in ``errors``, which become refusals."""
    topics = {choice.remote_topic: choice.topic for choice in plan.choices}
    unpinned = {range_.source for range_ in plan.pins if range_.remote_topic in errors}
    refused = tuple(
        Refusal(topics.get(remote, remote), None, f"{remote}: {error.message}", error.advice)
        for remote, error in errors.items()
    )
    return replace(
        plan,
        ranges=tuple(
            range_
            for range_ in plan.ranges
            if range_.remote_topic not in errors and range_.source not in unpinned
        ),
        pins=tuple(range_ for range_ in plan.pins if range_.remote_topic not in errors),
        choices=tuple(choice for choice in plan.choices if choice.remote_topic not in errors),
        advised_acls=tuple(acl for acl in plan.advised_acls if acl.remote_topic not in errors),
        refused=plan.refused + refused,
    )
