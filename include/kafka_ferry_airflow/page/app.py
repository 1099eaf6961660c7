"""The application that serves the page: its API, its files, reports and Data Docs. Every route asks for a login."""

from __future__ import annotations

import logging
import mimetypes
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final

from airflow.api_fastapi.common.db.common import SessionDep
from fastapi import Depends, FastAPI, HTTPException, Query, Response
from fastapi.responses import FileResponse, RedirectResponse

from kafka_ferry.model import TopicPartition
from kafka_ferry.report.offsets import OffsetsRow
from kafka_ferry.report.views import GroupView, PartitionView, TopicView
from kafka_ferry.runs.views import FlowViews, RangeView
from kafka_ferry_airflow.flow_files import FlowFiles, check_flow
from kafka_ferry_airflow.page.access import (
    Files,
    ReadableDags,
    ReadableFlow,
    SeesProblems,
    SignedIn,
    dag_id_of,
)
from kafka_ferry_airflow.page.answers import (
    RunRow,
    details_answer,
    flow_answer,
    group_counts,
    history_answer,
    partition_counts,
    record_answer,
    run_answer,
    run_rows,
)
from kafka_ferry_airflow.page.dag_runs import dag_run, dag_states, newest_runs, tasks_of
from kafka_ferry_airflow.page.rows import TableQuery, part_of
from kafka_ferry_airflow.project import Project

_LOG: Final = logging.getLogger(__name__)
STATIC: Final = Path(__file__).parent / "static"
_MOST_ROWS: Final = 500
_DAG_RUNS: Final = 500
# The page contains foreign text: it loads nothing, and has no login.
_ALONE: Final = {
    "Content-Security-Policy": "sandbox allow-scripts allow-popups; default-src 'none'; "
    "style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "private, no-cache",
}


def make_app(project: Project) -> FastAPI:
    """The application, to be mounted at ``urls.PREFIX``.

    Args:
        project: where the flows' files are.
    """
    app = FastAPI(
        title="Kafka Ferry",
        dependencies=[SignedIn],
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
    )
    app.state.flow_files = FlowFiles(project, check_flow)
    app.add_api_route("/static/{name}", _static)
    for path, answer in _API.items():
        app.add_api_route(f"/api{path}", answer, response_model=None)
    return app


def _asked(
    search: str = "",
    sort: str = "",
    order: Annotated[str, Query(pattern="^(asc|desc)$")] = "asc",
    offset: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=1, le=_MOST_ROWS)] = 50,
) -> TableQuery:
    return TableQuery(search, sort, order == "desc", offset, limit)


AskedPart = Annotated[TableQuery, Depends(_asked)]
PartitionNumber = Annotated[int | None, Query(ge=0)]


def _table(
    rows: Sequence[Any], asked: TableQuery, kind: type[Any], *searched: str
) -> dict[str, Any]:
    """The requested part of a table.

    Raises:
        HTTPException: 422, for a column that does not exist.
    """
    if asked.sort and asked.sort not in kind.__dataclass_fields__:
        listed = ", ".join(kind.__dataclass_fields__)
        raise HTTPException(422, f"There is no column {asked.sort}; there are {listed}.")
    part = part_of(rows, asked, searched)
    return {"total": part.total, "rows": [asdict(row) for row in part.rows]}


def _flows(
    dags: ReadableDags, sees_problems: SeesProblems, files: Files, session: SessionDep
) -> dict[str, Any]:
    found = files.read()
    flows = {dag_id_of(slug): flow for slug, flow in found.flows.items()}
    readable = flows.keys() & dags
    states = dag_states(session, readable)
    problems = [str(problem) for problem in found.problems]
    rows = []
    for dag_id in sorted(readable):
        flow, state = flows[dag_id], states.get(dag_id)
        try:
            rows.append(flow_answer(flow, state))
        except Exception as error:
            # A state folder that is missing, or may not be read, hides no other flow.
            _LOG.exception("The files of the runs of %s cannot be read.", flow.name)
            reason = f"the files of its runs in {flow.state_path} cannot be read"
            problems.append(f"{flow.file}: state.dir: {reason} ({type(error).__name__})")
            rows.append(flow_answer(flow, state, history=()))
    return {
        "flows": rows,
        "problems": problems if sees_problems else [],
        "folder": str(files.folder) if sees_problems else "",
    }


def _flow(flow: ReadableFlow, session: SessionDep) -> dict[str, Any]:
    dag_id = dag_id_of(flow.slug)
    return details_answer(flow, dag_states(session, [dag_id]).get(dag_id))


def _topics(flow: ReadableFlow, asked: AskedPart) -> dict[str, Any]:
    rows = FlowViews(flow).topics()
    found = _table(rows, asked, TopicView, "topic", "remote_topic", "health")
    return found | {"counts": partition_counts(rows)}


def _partitions(flow: ReadableFlow, asked: AskedPart, topic: str = "") -> dict[str, Any]:
    rows = FlowViews(flow).partitions()
    if topic:
        rows = tuple(row for row in rows if row.topic == topic)
    found = _table(rows, asked, PartitionView, "topic", "partition", "remote_topic", "health")
    return found | {"counts": partition_counts(rows)}


def _offsets(
    flow: ReadableFlow, topic: str = "", partition: PartitionNumber = None
) -> dict[str, Any]:
    return {"bars": [asdict(bar) for bar in FlowViews(flow).offsets(topic or None, partition)]}


def _offsets_rows(flow: ReadableFlow, asked: AskedPart, topic: str = "") -> dict[str, Any]:
    return _table(FlowViews(flow).offsets_rows(topic or None), asked, OffsetsRow, "name")


def _offsets_ranges(
    flow: ReadableFlow, asked: AskedPart, topic: str, partition: Annotated[int, Query(ge=0)]
) -> dict[str, Any]:
    rows = FlowViews(flow).ranges_of(topic, partition)
    return _table(rows, asked, RangeView, "run", "start", "end", "reasons")


def _offsets_record(
    flow: ReadableFlow,
    topic: str,
    partition: Annotated[int, Query(ge=0)],
    offset: Annotated[int, Query(ge=0)],
) -> dict[str, Any]:
    return record_answer(flow, TopicPartition(topic, partition), offset)


def _history(flow: ReadableFlow) -> dict[str, Any]:
    return history_answer(flow)


def _runs(flow: ReadableFlow, asked: AskedPart, session: SessionDep) -> dict[str, Any]:
    rows = run_rows(flow, newest_runs(session, dag_id_of(flow.slug), _DAG_RUNS))
    return _table(rows, asked, RunRow, "run", "kind", "state", "outcome", "headline")


def _run(flow: ReadableFlow, run: str, session: SessionDep) -> dict[str, Any]:
    dag_id = dag_id_of(flow.slug)
    known, view = dag_run(session, dag_id, run), FlowViews(flow).run(run)
    if known is None and view is None:
        raise HTTPException(404, f"{flow.name} has no run {run}.")
    return run_answer(view, known, tasks_of(session, dag_id, run) if known else ())


def _ranges(flow: ReadableFlow, run: str, asked: AskedPart) -> dict[str, Any]:
    rows = FlowViews(flow).ranges(run)
    return _table(rows, asked, RangeView, "topic", "partition", "remote_topic", "reasons")


def _groups(flow: ReadableFlow, asked: AskedPart) -> dict[str, Any]:
    rows = FlowViews(flow).groups()
    found = _table(
        rows, asked, GroupView, "group", "topic", "partition", "remote_topic", "action", "reason"
    )
    return found | group_counts(rows)


def _report(flow: ReadableFlow, run: str) -> Response:
    page = FlowViews(flow).report_page(run)
    if page is None:
        raise HTTPException(404, f"There is no report of the run {run} of {flow.name}.")
    return Response(page, media_type="text/html; charset=utf-8", headers=_ALONE)


def _docs(flow: ReadableFlow, name: str) -> Response:
    if not name:
        return RedirectResponse("index.html")
    page = FlowViews(flow).docs_page(name)
    if page is None:
        raise HTTPException(404, f"There is no page {name} in the Data Docs of {flow.name}.")
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    return Response(page, media_type=kind, headers=_ALONE)


def _static(name: str) -> FileResponse:
    file = STATIC / name
    # Only files directly in the folder: a name has no slash, but may be "..".
    if file.parent != STATIC or not file.is_file():
        raise HTTPException(404, "There is no such file.")
    return FileResponse(
        file, headers={"Cache-Control": "private, no-cache", "X-Content-Type-Options": "nosniff"}
    )


_API: Final[dict[str, Callable[..., Any]]] = {
    "/flows": _flows,
    "/flows/{slug}": _flow,
    "/flows/{slug}/topics": _topics,
    "/flows/{slug}/partitions": _partitions,
    "/flows/{slug}/history": _history,
    "/flows/{slug}/offsets": _offsets,
    "/flows/{slug}/offsets/rows": _offsets_rows,
    "/flows/{slug}/offsets/ranges": _offsets_ranges,
    "/flows/{slug}/offsets/record": _offsets_record,
    "/flows/{slug}/groups": _groups,
    "/flows/{slug}/runs": _runs,
    "/flows/{slug}/runs/{run}": _run,
    "/flows/{slug}/runs/{run}/ranges": _ranges,
    "/flows/{slug}/runs/{run}/report": _report,
    "/flows/{slug}/docs/{name:path}": _docs,
}
