"""Marks remote topics as the flow's own, with how their offsets are kept, before anything is written."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Final

from kafka_ferry.clock import now_ms
from kafka_ferry.control import ClusterControl
from kafka_ferry.errors import FerryError
from kafka_ferry.ledger import OwnershipEntry, append_entry
from kafka_ferry.model import Plan
from kafka_ferry.plan.topics.ownership import new_marks, unlike_their_marks
from kafka_ferry.runs.state.run_context import RunContext

# Keeps a ledger record far below max.message.bytes.
_MARKS_AT_ONCE: Final = 1_000


def mark_topics(
    run: RunContext,
    target: ClusterControl,
    plan: Plan,
    *,
    without: AbstractSet[str] = frozenset(),
) -> dict[str, FerryError]:
    """Mark the remote topics of ``plan`` that have no mark; a repetition changes nothing.

    Args:
        run: the run; the ledger's topic exists.
        target: the target.
        plan: its plan; the topics that it creates exist already.
        without: the remote topics that could not be created.

    Returns:
        An error for each topic whose mark says by now that its offsets are kept differently.

    Raises:
        FerryError: if the target rejects the marks.
    """
    flow, ledger = run.flow, run.ledger
    run.project_ledger()
    choices = [choice for choice in plan.choices if choice.remote_topic not in without]
    created = {creation.remote_topic for creation in plan.topics.creations} - without
    ids = target.topic_ids([choice.remote_topic for choice in choices], wait_for=created)
    known = ledger.marks()
    # An interrupted run may have created topics and not marked them.
    announced = ledger.applied().creations.keys()
    marks = new_marks(choices, ids, known, created | announced)
    for first in range(0, len(marks), _MARKS_AT_ONCE):
        some = marks[first : first + _MARKS_AT_ONCE]
        entry = OwnershipEntry(flow=flow.name, run=plan.run, at=now_ms(), marks=some)
        append_entry(flow, entry)
    if marks:
        run.project_ledger()
    return unlike_their_marks(choices, ids, known)
