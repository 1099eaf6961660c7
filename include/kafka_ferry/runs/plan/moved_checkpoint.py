"""What a plan says of a state folder that was moved."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kafka_ferry.model import Note, Plan
from kafka_ferry.spark.checkpoint import QueryCheckpoint

if TYPE_CHECKING:
    from kafka_ferry.runs.state.run_context import RunContext


def note_moved_checkpoint(run: RunContext, plan: Plan) -> Plan:
    """The plan with a note where the checkpoint of a copying query, or of a shard's, is not where it was used last."""
    if not plan.ranges:
        return plan
    names = [name for name in run.state.folders() if name.startswith("checkpoint")]
    notes = tuple(
        Note(
            "",
            f"Spark's checkpoint was at {checkpoint.moved_from} before: it begins again at {checkpoint.uri}. "
            "Nothing is lost by that, since positions are on the target.",
        )
        for checkpoint in map(QueryCheckpoint, map(run.state.folder, names))
        if checkpoint.moved_from
    )
    return replace(plan, remarks=replace(plan.remarks, notes=(*plan.remarks.notes, *notes)))
