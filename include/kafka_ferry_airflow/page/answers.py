"""The answers of the page's API, as plain values; all times are in milliseconds since 1970."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any, Final

from kafka_ferry.config import Flow
from kafka_ferry.flat import flat_values
from kafka_ferry.model import TopicPartition
from kafka_ferry.plan import policy_of
from kafka_ferry.report import RunReport
from kafka_ferry.report.notice import AFTER_REFUSALS
from kafka_ferry.report.summary import RunSummary, newest_whole
from kafka_ferry.report.views import GroupView, PartitionView, TopicView
from kafka_ferry.runs.views import FlowViews, RunView
from kafka_ferry.runs.where import where_by_ledger
from kafka_ferry.verify.verdict import advice_on
from kafka_ferry_airflow.page.access import dag_id_of
from kafka_ferry_airflow.page.dag_runs import DagRunState, DagState
from kafka_ferry_airflow.page.flow_states import outcome_of, state_of

PLOTTED: Final = 240
"""Runs in a plot: ten days of an hourly flow."""
_SPARK: Final = 24
_LISTED: Final = 200


def flow_answer(
    flow: Flow, dag: DagState | None, missing_pool: str, history: Sequence[RunSummary]
) -> dict[str, Any]:
    """A flow in the list of all flows, by the ``history`` of its runs."""
    whole = [one for one in history if one.scope.is_whole]
    last = history[-1] if history else None
    current = newest_whole(history) or last
    return {
        "slug": flow.slug,
        "name": flow.name,
        "source": flow.source.alias,
        "target": flow.target.alias,
        "dag_id": dag_id_of(flow.slug),
        "dag": asdict(dag) if dag else None,
        "missing_pool": missing_pool,
        "status": state_of(history, dag).state,
        "activity": dag.latest.state if dag and dag.latest and dag.latest.goes_on else None,
        "last": flat_values(last) if last else None,
        "current": flat_values(current) if current else None,
        # A backfill, or a run for one topic, does not say how far the flow's copy is proved.
        "behind": [one.lag.records_behind for one in whole[-_SPARK:]],
    }


def no_pool(pool: str) -> str:
    """What a pool that Airflow does not have means for a flow's runs."""
    return (
        f"Airflow has no pool {pool!r}: the tasks mirror and verify stay scheduled until there is one. "
        "Create it (Admin, Pools)."
    )


def details_answer(flow: Flow, dag: DagState | None, missing_pool: str = "") -> dict[str, Any]:
    """A flow on a page of its own."""
    showing = FlowViews(flow)
    topics = showing.topics()
    history = showing.history()
    is_heartbeats_topic = policy_of(flow).is_heartbeats_topic
    state = state_of(history, dag)
    report = showing.report(state.published.run) if state.published else None
    ended = state.unpublished
    of_ended = _failure(showing, ended.run) if ended and ended.state == "failed" else []
    waits = [_kind("No pool", "failed", [no_pool(missing_pool)])] if missing_pool else []
    days = [it for it in dag.failed_backfills if it != (ended and ended.run)] if dag else []
    undone = [_kind("Failed backfills", "failed", [*map(_of_backfill, days)])] if days else []
    return flow_answer(flow, dag, missing_pool, history) | {
        "topics": list(flow.topics),
        "topics_exclude": list(flow.topics_exclude),
        "file": flow.file,
        "state": f"{flow.state_path.rstrip('/')}/{flow.slug}",
        "has_docs": showing.has_docs,
        "totals": {
            "topics": len(topics),
            "partitions": sum(topic.partitions for topic in topics),
            "records": sum(topic.records for topic in topics),
            "heartbeats": sum(
                topic.records for topic in topics if is_heartbeats_topic(topic.topic)
            ),
            "bytes": sum(topic.bytes for topic in topics),
            "lost": sum(topic.lost for topic in topics),
        },
        "reasons": _count_left_out(showing.partitions()),
        "attention": [*waits, *of_ended, *undone, *(attention(report) if report else ())],
    }


def _of_backfill(run: str) -> str:
    return f"{run} has failed, and no later run copies its interval: clear its failed task, or delete it."


def _failure(showing: FlowViews, run: str) -> list[dict[str, Any]]:
    """Why a run has failed that has no report."""
    no_reason = f"{run} has failed before it had a report: the logs of its tasks say why."
    return _errors(showing.run(run)) or [_kind("Failed", "failed", [no_reason])]


def history_answer(flow: Flow) -> dict[str, Any]:
    """What is plotted of a flow: its last runs, oldest first."""
    runs = FlowViews(flow).history()[-PLOTTED:]
    return {
        "runs": [
            {
                "run": one.run,
                "at": one.finished_at,
                "state": one.state,
                "records": one.copied.records - one.copied.heartbeats,
                "bytes": one.copied.bytes,
                "copying_seconds": one.copied.copying_seconds,
                "records_behind": one.lag.records_behind if one.scope.is_whole else None,
                "seconds_behind": one.lag.seconds_behind if one.scope.is_whole else None,
            }
            for one in runs
        ]
    }


def record_answer(flow: Flow, source: TopicPartition, offset: int) -> dict[str, Any]:
    """What the ledger says of one record of the source, oldest first; no cluster is asked."""
    return {
        "found": [
            {
                "run": one.run,
                "at": one.at,
                "ledger_offset": one.ledger_offset,
                "remote_topic": one.target.topic,
                "offset": one.target_offset,
                "reason": one.reason,
                "backfill": one.window is not None,
                "proved_by": one.proof.run if one.proof else "",
                "proved_at": one.proof.at if one.proof else 0,
                "certificate": one.certificate,
            }
            for one in where_by_ledger(flow, source, offset)
        ]
    }


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run in the list of a flow's runs: as Airflow knows it, as it was published, or both.

    Attributes:
        run: its id.
        at: when it ended, or began if it is running, or is due.
        kind: how it was triggered, "" for one that Airflow does not know.
        state: Airflow's name of its state, "" likewise.
        outcome: the report's state; of a run without one what a success of Airflow's means then, "" of another.
        headline: the same in a sentence.
        records: records copied.
        heartbeats: how many of them are in topics of heartbeats.
        bytes: bytes of their batches.
        seconds: from its plan to its report.
        records_behind: offsets not yet accounted for when it had ended.
        lost: offsets that were lost before they were copied.
        partial: whether it was only for some topics.
        since: of a backfill, where its window begins; -1 otherwise.
        until: of a backfill, where its window ends; -1 otherwise.
    """

    run: str
    at: int
    kind: str
    state: str
    outcome: str
    headline: str
    records: int | None
    heartbeats: int
    bytes: int | None
    seconds: float | None
    records_behind: int | None
    lost: int | None
    partial: bool
    since: int
    until: int


def run_rows(flow: Flow, known: Sequence[DagRunState]) -> list[RunRow]:
    """All runs that are in the history or among ``known``, the newest first."""
    dag_runs = {one.run: one for one in known}
    published = {one.run: one for one in FlowViews(flow).history()}
    rows = [_run_row(run, dag_runs.get(run), published.get(run)) for run in dag_runs | published]
    return sorted(rows, key=lambda row: row.at, reverse=True)


def _run_row(run: str, known: DagRunState | None, summary: RunSummary | None) -> RunRow:
    ended = known and (known.ended_at or known.began_at or known.due_at)
    return RunRow(
        run=run,
        at=summary.finished_at if summary else ended or 0,
        kind=known.kind if known else "",
        state=known.state if known else "",
        outcome=outcome_of(summary, known),
        headline=summary.headline if summary else "",
        records=summary.copied.records if summary else None,
        heartbeats=summary.copied.heartbeats if summary else 0,
        bytes=summary.copied.bytes if summary else None,
        seconds=(summary.finished_at - summary.planned_at) / 1000 if summary else None,
        records_behind=summary.lag.records_behind if summary else None,
        lost=summary.problems.lost if summary else None,
        partial=bool(summary and summary.scope.partial),
        since=summary.scope.since if summary else -1,
        until=summary.scope.until if summary else -1,
    )


def run_answer(
    view: RunView | None, known: DagRunState | None, tasks: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """A run on a page of its own."""
    report = view.report if view else None
    verdict = report.proof.verdict if report else None
    return {
        "dag_run": asdict(known) if known else None,
        "outcome": outcome_of(view.summary if view else None, known),
        "tasks": list(tasks),
        "summary": flat_values(view.summary) if view and view.summary else None,
        "options": asdict(view.options) if view and view.options else None,
        "steps": [
            {"step": step.name} | (asdict(step.record) if step.record else {"seconds": None})
            for step in (view.steps if view else ())
        ],
        "has_report": report is not None,
        "batches": report.counts.batches if report else None,
        "reasons": dict(report.counts.reasons) if report else {},
        "rebuilt": dict(report.counts.rebuilt) if report else {},
        "rules": [str(rule) for rule in report.counts.rules] if report else [],
        "attention": attention(report) if report else _errors(view),
        "changes": list(report.topics.changes) if report else [],
        "expectations": [asdict(check) for check in verdict.expectations] if verdict else [],
    }


def group_counts(groups: Iterable[GroupView]) -> dict[str, Any]:
    """The number of groups and offsets, and what became of the offsets."""
    rows = list(groups)
    return {
        "groups": len({row.group for row in rows}),
        "actions": dict(Counter(row.action for row in rows if row.topic)),
    }


def attention(report: RunReport) -> list[dict[str, Any]]:
    """What needs attention, the worst first: a kind, its severity, the number, the first of them, and what to do."""
    problems, topics, verdict = report.problems, report.topics, report.proof.verdict
    measures = report.measures
    of_rules = list(chain.from_iterable(rule.doubts for rule in report.counts.rules))
    of_steps = tuple(chain.from_iterable(problems.step_failures.values()))
    kinds: list[tuple[str, str, Sequence[object]]] = [
        ("Failed", "failed", problems.failures),
        ("Failed steps", "failed", of_steps),
        ("Not ended", "failed", problems.unended),
        ("Cannot be mirrored", "failed", problems.refused),
        ("Not as expected", "failed", verdict.failures if verdict else ()),
        ("Lost before it was copied", "failed", report.counts.losses),
        ("Groups", "failed", problems.group_failures),
        ("Not changed on the target", "warning", problems.unapplied),
        ("Not as the flow says", "warning", topics.drifts),
        ("Worth knowing", "warning", verdict.warnings if verdict else ()),
        ("Transform rules", "warning", of_rules),
        ("To be deleted", "warning", topics.retirements),
        ("Not measured", "warning", measures.missing),
        ("Notes", "info", [note for note in topics.notes if note not in of_rules]),
    ]
    checks = verdict.expectations if verdict else ()
    advice = {
        "Cannot be mirrored": [f"What to do: {AFTER_REFUSALS}"],
        "Not as expected": advice_on(check for check in checks if check.failed),
        "Worth knowing": advice_on(check for check in checks if check.warned),
    }
    return [_kind(*kind, advice.get(kind[0], ())) for kind in kinds if kind[2]]


def _kind(
    title: str, level: str, problems: Sequence[object], advice: Sequence[str] = ()
) -> dict[str, Any]:
    return {
        "title": title,
        "level": level,
        "count": len(problems),
        "sentences": [*map(str, problems[:_LISTED])],
        "advice": [*advice],
    }


def _errors(view: RunView | None) -> list[dict[str, Any]]:
    """What went wrong in a run that was never published."""
    steps = view.steps if view else ()
    errors = [problem for step in steps if step.record for problem in step.record.problems]
    return [_kind("Failed", "failed", errors)] if errors else []


def _count_left_out(partitions: Iterable[PartitionView]) -> dict[str, int]:
    reasons: Counter[str] = Counter()
    for view in partitions:
        reasons.update(view.left_out)
    return dict(reasons)


def partition_counts(partitions: Iterable[PartitionView | TopicView]) -> dict[str, int]:
    """How many of each health there are."""
    return dict(Counter(view.health for view in partitions))
