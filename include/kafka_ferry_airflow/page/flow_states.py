"""Which of a flow's runs says how the flow is. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from kafka_ferry.report.summary import newest_whole

if TYPE_CHECKING:
    from kafka_ferry.report.summary import RunSummary
    from kafka_ferry_airflow.page.dag_runs import DagRunState, DagState

_PROVED: Final = "verified"


@dataclass(frozen=True, slots=True)
class FlowState:
    """How a flow is.

    Attributes:
        state: the state that is shown.
        published: the run whose report says why; None if no run was published.
        unpublished: the run that has ended without a report, if that gives the state.
    """

    state: str
    published: RunSummary | None = None
    unpublished: DagRunState | None = None


def state_of(history: Sequence[RunSummary], dag: DagState | None) -> FlowState:
    """The state of the newest run of the whole flow; where that has proved all of it, the state of the last run.

    A run of some topics, a backfill, a dry run, and an older run that is published again have not looked at
    what the newest run of the whole flow has found, and do not verify a flow of which none has ended.

    Args:
        history: the published runs in the order in which they ended.
        dag: the flow's DAG.
    """
    whole = [one for one in history if one.scope.is_whole]
    of_whole = _state(newest_whole(history), whole, dag.last_whole if dag else None)
    if of_whole.state not in (_PROVED, ""):
        return of_whole
    of_last = _state(history[-1] if history else None, history, dag.last_ended if dag else None)
    if of_last.state == _PROVED and not of_whole.state:
        return replace(of_last, state="not verified")
    return of_last if of_last.state else FlowState("never run")


def outcome_of(summary: RunSummary | None, known: DagRunState | None) -> str:
    """What a run has shown: what it has published, or else nothing."""
    if summary:
        return summary.state
    if known is None or known.state != "success":
        return ""
    return "dry run" if known.is_dry else "not proved"


def _state(
    published: RunSummary | None, known: Sequence[RunSummary], ended: DagRunState | None
) -> FlowState:
    """The state of a published run, or of the DAG's run ``ended`` where that is newer than all ``known`` ones."""
    if ended is None or _is_published(ended, known):
        return FlowState(published.state if published else "", published)
    # Tasks that a person has set to success prove nothing.
    state = "failed" if ended.state == "failed" else outcome_of(None, ended)
    return FlowState(state, published, ended)


def _is_published(ended: DagRunState, known: Sequence[RunSummary]) -> bool:
    """Whether a run of the DAG has published a report since it has last begun, or a newer run has."""
    began = ended.began_at or ended.ended_at or 0
    return any(
        one.planned_at >= began
        or (one.run == ended.run and (ended.state == "success" or one.finished_at >= began))
        for one in known
    )
