"""The flows' DAGs, their runs and tasks in Airflow's database."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.models.pool import Pool
from airflow.models.taskinstance import TaskInstance
from airflow.utils.state import DagRunState as State
from airflow.utils.state import TaskInstanceState
from airflow.utils.types import DagRunType
from sqlalchemy import func, select

from kafka_ferry.clock import ms_of

if TYPE_CHECKING:
    from sqlalchemy.orm import Session


_MOST_FAILED: Final = 100


def _option(name: str) -> Any:
    """What the form of a run says, as text; "" where it says nothing."""
    return func.coalesce(DagRun.conf[name].as_string(), "")


# As databases write JSON's true.
_TRUE: Final = ("true", "1")
_ENDED: Final[tuple[Any, ...]] = (
    DagRun.state.in_((State.SUCCESS, State.FAILED)),
    func.lower(_option("dry_run")).not_in(_TRUE),
)
_WHOLE: Final[tuple[Any, ...]] = (
    DagRun.run_type != DagRunType.BACKFILL_JOB,
    _option("topics").in_(("", "[]")),
    _option("since") == "",
)


@dataclass(frozen=True, slots=True)
class DagRunState:
    """A run of a DAG; times in milliseconds since 1970.

    Attributes:
        run: the run's id.
        state: Airflow's name of its state.
        kind: how it was triggered: ``scheduled``, ``manual``, ``backfill`` or ``asset_triggered``.
        began_at: when it began, None if it has not.
        ended_at: when it ended, None if it has not.
        due_at: when it may have begun at the earliest.
        is_dry: whether its form says that it only plans.
    """

    run: str
    state: str
    kind: str
    began_at: int | None
    ended_at: int | None
    due_at: int | None
    is_dry: bool = False

    @property
    def goes_on(self) -> bool:
        """Whether it has not ended."""
        return self.state in ("queued", "running")


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """A task that waits for a person's answer.

    Attributes:
        run: its run's id.
        task: its id.
        since: when it began to wait, in milliseconds since 1970.
    """

    run: str
    task: str
    since: int | None


@dataclass(frozen=True, slots=True)
class DagState:
    """A flow's DAG.

    Attributes:
        dag_id: its id.
        paused: whether it is paused.
        schedule: its timetable in a word or two, "" where it has none.
        next_run_at: when its next run is due, in milliseconds since 1970; None where none is.
        latest: its latest run, None if it never had one.
        last_ended: the latest run that has ended, and was no dry run.
        last_whole: likewise, of the runs for all that the flow copies.
        question: the oldest one that a person has to answer, None without one.
        failed_backfills: the newest runs of Airflow's backfills that have failed, the newest first: no later run does
            what they did not.
    """

    dag_id: str
    paused: bool
    schedule: str
    next_run_at: int | None
    latest: DagRunState | None
    last_ended: DagRunState | None = None
    last_whole: DagRunState | None = None
    question: OpenQuestion | None = None
    failed_backfills: tuple[str, ...] = ()


def dag_states(session: Session, dag_ids: Collection[str]) -> dict[str, DagState]:
    """The DAGs among ``dag_ids`` that exist, by id."""
    latest = _newest(session, dag_ids)
    last_ended = _newest(session, dag_ids, *_ENDED)
    last_whole = _newest(session, dag_ids, *_ENDED, *_WHOLE)
    questions = _questions(session, dag_ids)
    failed = _failed_backfills(session, dag_ids)
    dags = session.execute(
        select(
            DagModel.dag_id,
            DagModel.is_paused,
            DagModel.timetable_summary,
            DagModel.next_dagrun_create_after,
        ).where(DagModel.dag_id.in_(dag_ids))
    )
    return {
        dag.dag_id: DagState(
            dag.dag_id,
            dag.is_paused,
            dag.timetable_summary or "",
            None if dag.is_paused else _ms(dag.next_dagrun_create_after),
            latest.get(dag.dag_id),
            last_ended.get(dag.dag_id),
            last_whole.get(dag.dag_id),
            questions.get(dag.dag_id),
            tuple(failed[dag.dag_id]),
        )
        for dag in dags
    }


def _newest(session: Session, dag_ids: Collection[str], *conditions: Any) -> dict[str, DagRunState]:
    """By DAG, the newest run that fulfils the conditions."""
    # From the newest one on: what older runs were asked for is not read.
    newest = (
        select(DagRun.id)
        .where(DagRun.dag_id == DagModel.dag_id, *conditions)
        .order_by(DagRun.id.desc())
        .limit(1)
        .scalar_subquery()
    )
    wanted = _runs().where(DagRun.id.in_(select(newest).where(DagModel.dag_id.in_(dag_ids))))
    return {row.dag_id: _run(row) for row in session.execute(wanted)}


def missing_pools(session: Session, names: Collection[str]) -> set[str]:
    """The pools that Airflow does not have."""
    return {*names} - {*session.scalars(select(Pool.pool).where(Pool.pool.in_(names)))}


def _questions(session: Session, dag_ids: Collection[str]) -> dict[str, OpenQuestion]:
    """The oldest question of each DAG."""
    waiting = session.execute(
        select(
            TaskInstance.dag_id,
            TaskInstance.run_id,
            TaskInstance.task_id,
            TaskInstance.start_date,
        )
        .where(
            TaskInstance.dag_id.in_(dag_ids),
            TaskInstance.state == TaskInstanceState.AWAITING_INPUT,
        )
        .order_by(TaskInstance.start_date.desc())
    )
    return {
        row.dag_id: OpenQuestion(row.run_id, row.task_id, _ms(row.start_date)) for row in waiting
    }


def _failed_backfills(session: Session, dag_ids: Collection[str]) -> dict[str, list[str]]:
    newest = func.row_number().over(partition_by=DagRun.dag_id, order_by=DagRun.id.desc())
    failed = (
        select(DagRun.dag_id, DagRun.run_id, newest.label("place"))
        .where(
            DagRun.dag_id.in_(dag_ids),
            DagRun.run_type == DagRunType.BACKFILL_JOB,
            DagRun.state == State.FAILED,
        )
        .subquery()
    )
    # A user who may begin a backfill chooses how many runs it has.
    shown = select(failed).where(failed.c.place <= _MOST_FAILED).order_by(failed.c.place)
    runs = defaultdict[str, list[str]](list)
    for row in session.execute(shown):
        runs[row.dag_id].append(row.run_id)
    return runs


def newest_runs(session: Session, dag_id: str, limit: int) -> list[DagRunState]:
    """The newest runs of a DAG, the newest first."""
    wanted = _runs().where(DagRun.dag_id == dag_id).order_by(DagRun.id.desc()).limit(limit)
    return [_run(row) for row in session.execute(wanted)]


def dag_run(session: Session, dag_id: str, run: str) -> DagRunState | None:
    """One run of a DAG, None if Airflow knows none of that id."""
    wanted = _runs().where(DagRun.dag_id == dag_id, DagRun.run_id == run)
    row = session.execute(wanted).first()
    return _run(row) if row else None


def tasks_of(session: Session, dag_id: str, run: str) -> list[dict[str, Any]]:
    """The tasks of a run in the order in which they began: id, map index, state and tries."""
    rows = session.execute(
        select(
            TaskInstance.task_id,
            TaskInstance.map_index,
            TaskInstance.state,
            TaskInstance.try_number,
            TaskInstance.start_date,
        ).where(TaskInstance.dag_id == dag_id, TaskInstance.run_id == run)
    )
    known = [
        {
            "task": row.task_id,
            "map_index": row.map_index,
            "state": str(row.state) if row.state else None,
            "tries": row.try_number,
            "began_at": _ms(row.start_date),
        }
        for row in rows
    ]
    return sorted(known, key=lambda task: (task["began_at"] or 2**62, task["map_index"]))


def _runs() -> Any:
    return select(
        DagRun.dag_id,
        DagRun.run_id,
        DagRun.state.label("state"),
        DagRun.run_type,
        DagRun.start_date,
        DagRun.end_date,
        DagRun.run_after,
        # Not all of it: a user who triggers a run chooses how large it is.
        DagRun.conf["dry_run"].as_string().label("dry_run"),
    )


def _run(row: Any) -> DagRunState:
    return DagRunState(
        row.run_id,
        str(row.state),
        str(row.run_type),
        _ms(row.start_date),
        _ms(row.end_date),
        _ms(row.run_after),
        str(row.dry_run).lower() in _TRUE,
    )


def _ms(at: datetime | None) -> int | None:
    return None if at is None else ms_of(at)
