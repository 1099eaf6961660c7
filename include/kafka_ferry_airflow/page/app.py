"""The application that serves the page: its API, its files, reports and Data Docs. Every route asks for a login."""

from __future__ import annotations

import logging
import mimetypes
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

from airflow.api_fastapi.common.db.common import SessionDep
from fastapi import Depends, FastAPI, HTTPException, Query, Request, Response
from fastapi.responses import FileResponse, JSONResponse, RedirectResponse
from pydantic import StringConstraints

from kafka_ferry.config import Flow
from kafka_ferry.errors import FerryError
from kafka_ferry.local_files import LinkRefused
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
    no_pool,
    partition_counts,
    record_answer,
    run_answer,
    run_rows,
)
from kafka_ferry_airflow.page.dag_runs import (
    dag_run,
    dag_states,
    missing_pools,
    newest_runs,
    tasks_of,
)
from kafka_ferry_airflow.page.rows import TableQuery, part_of
from kafka_ferry_airflow.page.store_reads import READS, StoreSilent
from kafka_ferry_airflow.pools import is_made, pool_of
from kafka_ferry_airflow.project import Project

_T = TypeVar("_T")
_LOG: Final = logging.getLogger(__name__)
STATIC: Final = Path(__file__).parent / "static"
_MOST_ROWS: Final = 500
_DAG_RUNS: Final = 500
_LONG: Final = 2**63 - 1
_INT: Final = 2**31 - 1
# Neither a file's name nor PostgreSQL's text holds NUL; no topic, run or page has a longer name.
Name = Annotated[str, StringConstraints(max_length=1_000, pattern=r"^[^\x00]*$")]
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
        dependencies=[SignedIn, Depends(_keep_private)],
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
    )
    app.state.flow_files = FlowFiles(project, check_flow)
    # A store that does not answer, or a file there that no run has written so.
    app.add_exception_handler(FerryError, _unreadable)
    app.add_exception_handler(LinkRefused, _not_there)
    app.add_api_route("/static/{name}", _static)
    for path, answer in _API.items():
        app.add_api_route(f"/api{path}", answer, response_model=None)
    return app


def _keep_private(response: Response) -> None:
    """No cache between Airflow and the browser, nor the browser after a logout, has what one user may see."""
    response.headers["Cache-Control"] = "private, no-store"
    response.headers["X-Content-Type-Options"] = "nosniff"


def _rows_query(
    search: Name = "",
    sort: Name = "",
    order: Annotated[str, Query(pattern="^(asc|desc)$")] = "asc",
    offset: Annotated[int, Query(ge=0, le=_LONG)] = 0,
    limit: Annotated[int, Query(ge=1, le=_MOST_ROWS)] = 50,
) -> TableQuery:
    return TableQuery(search, sort, order == "desc", offset, limit)


AskedPart = Annotated[TableQuery, Depends(_rows_query)]
PartitionNumber = Annotated[int | None, Query(ge=0, le=_INT)]


def _table(
    rows: Sequence[Any], query: TableQuery, kind: type[Any], *searched: str
) -> dict[str, Any]:
    """The requested part of a table.

    Raises:
        HTTPException: 422, for a column that does not exist.
    """
    if query.sort and query.sort not in kind.__dataclass_fields__:
        listed = ", ".join(kind.__dataclass_fields__)
        raise HTTPException(422, f"There is no column {query.sort}; there are {listed}.")
    part = part_of(rows, query, searched)
    return {"total": part.total, "rows": [asdict(row) for row in part.rows]}


def _release(session: SessionDep) -> None:
    """Give back the connection to Airflow's database, which has few: a store may let this request wait."""
    session.commit()


def begin(flow: Flow, work: Callable[[FlowViews], _T]) -> Callable[[], _T]:
    """Begin a read of a flow's state; what it returns waits for it, until the deadline of pages."""
    return READS.start(flow.state_path, lambda: work(FlowViews(flow)))


def stored(flow: Flow, work: Callable[[FlowViews], _T]) -> _T:
    """What ``work`` reads in a flow's state.

    Raises:
        StoreSilent: the state store does not answer within the deadline of pages.
    """
    return begin(flow, work)()


def _unreadable(_: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": str(error)}, 503)


def _not_there(_: Request, error: Exception) -> JSONResponse:
    _LOG.warning("%s", error)
    return JSONResponse({"detail": "A part of its path is a symbolic link."}, 404)


def _flows(
    dags: ReadableDags, sees_problems: SeesProblems, files: Files, session: SessionDep
) -> dict[str, Any]:
    flow_files = files.read()
    flows = {dag_id_of(slug): flow for slug, flow in flow_files.flows.items()}
    readable = flows.keys() & dags
    states = dag_states(session, readable)
    problems = [str(problem) for problem in flow_files.problems]
    pools = _lacking_pools(session, [flows[id_] for id_ in sorted(readable)], files)
    problems += [
        f"{flow.file}: pool: {no_pool(pools[flow.slug])}"
        for flow in (flows[id_] for id_ in sorted(readable))
        if flow.slug in pools
    ]
    _release(session)
    rows = []
    # All at once: the page waits for the slowest of the stores, and for none beyond the deadline.
    histories = {id_: begin(flows[id_], FlowViews.history) for id_ in readable}
    for dag_id in sorted(readable):
        flow, state = flows[dag_id], states.get(dag_id)
        pool = pools.get(flow.slug, "")
        try:
            rows.append(flow_answer(flow, state, pool, histories[dag_id]()))
        except StoreSilent as error:
            problems.append(f"{flow.file}: state.dir: {error}")
            rows.append(flow_answer(flow, state, pool, ()))
        except Exception as error:
            # A state folder that is missing, or may not be read, hides no other flow.
            _LOG.exception("The files of the runs of %s cannot be read.", flow.name)
            reason = f"the files of its runs in {flow.state_path} cannot be read"
            problems.append(f"{flow.file}: state.dir: {reason} ({type(error).__name__})")
            rows.append(flow_answer(flow, state, pool, ()))
    return {
        "flows": rows,
        "problems": problems if sees_problems else [],
        "folder": str(files.folder) if sees_problems else "",
    }


def _lacking_pools(session: SessionDep, flows: Sequence[Flow], files: FlowFiles) -> dict[str, str]:
    """By the slug of each flow whose Spark jobs would wait for ever: the pool that Airflow does not have."""
    pools = {flow.slug: pool_of(flow, files.project) for flow in flows}
    missing = missing_pools(session, {pool for pool in pools.values() if not is_made(pool)})
    return {slug: pool for slug, pool in pools.items() if pool in missing}


def _flow(flow: ReadableFlow, files: Files, session: SessionDep) -> dict[str, Any]:
    dag_id = dag_id_of(flow.slug)
    state = dag_states(session, [dag_id]).get(dag_id)
    pool = _lacking_pools(session, [flow], files).get(flow.slug, "")
    _release(session)
    return stored(flow, lambda _: details_answer(flow, state, pool))


def _topics(flow: ReadableFlow, asked: AskedPart) -> dict[str, Any]:
    rows = stored(flow, FlowViews.topics)
    table = _table(rows, asked, TopicView, "topic", "remote_topic", "health")
    return table | {"counts": partition_counts(rows)}


def _partitions(flow: ReadableFlow, asked: AskedPart, topic: Name = "") -> dict[str, Any]:
    rows = stored(flow, FlowViews.partitions)
    if topic:
        rows = tuple(row for row in rows if row.topic == topic)
    table = _table(rows, asked, PartitionView, "topic", "partition", "remote_topic", "health")
    return table | {"counts": partition_counts(rows)}


def _offsets(
    flow: ReadableFlow, topic: Name = "", partition: PartitionNumber = None
) -> dict[str, Any]:
    return {
        "bars": [
            asdict(bar)
            for bar in stored(flow, lambda views: views.offsets(topic or None, partition))
        ]
    }


def _offsets_rows(flow: ReadableFlow, asked: AskedPart, topic: Name = "") -> dict[str, Any]:
    return _table(
        stored(flow, lambda views: views.offsets_rows(topic or None)), asked, OffsetsRow, "name"
    )


def _offsets_ranges(
    flow: ReadableFlow,
    asked: AskedPart,
    topic: Name,
    partition: Annotated[int, Query(ge=0, le=_INT)],
) -> dict[str, Any]:
    rows = stored(flow, lambda views: views.ranges_of(topic, partition))
    return _table(rows, asked, RangeView, "run", "start", "end", "reasons")


def _offsets_record(
    flow: ReadableFlow,
    topic: Name,
    partition: Annotated[int, Query(ge=0, le=_INT)],
    offset: Annotated[int, Query(ge=0, le=_LONG)],
) -> dict[str, Any]:
    record = TopicPartition(topic, partition)
    return stored(flow, lambda _: record_answer(flow, record, offset))


def _history(flow: ReadableFlow) -> dict[str, Any]:
    return stored(flow, lambda _: history_answer(flow))


def _runs(flow: ReadableFlow, asked: AskedPart, session: SessionDep) -> dict[str, Any]:
    known = newest_runs(session, dag_id_of(flow.slug), _DAG_RUNS)
    _release(session)
    rows = stored(flow, lambda _: run_rows(flow, known))
    return _table(rows, asked, RunRow, "run", "kind", "state", "outcome", "headline")


def _run(flow: ReadableFlow, run: Name, session: SessionDep) -> dict[str, Any]:
    dag_id = dag_id_of(flow.slug)
    known = dag_run(session, dag_id, run)
    tasks = tasks_of(session, dag_id, run) if known else ()
    _release(session)
    view = stored(flow, lambda views: views.run(run))
    if known is None and view is None:
        raise HTTPException(404, f"{flow.name} has no run {run}.")
    return run_answer(view, known, tasks)


def _ranges(flow: ReadableFlow, run: Name, asked: AskedPart) -> dict[str, Any]:
    rows = stored(flow, lambda views: views.ranges(run))
    return _table(rows, asked, RangeView, "topic", "partition", "remote_topic", "reasons")


def _groups(flow: ReadableFlow, asked: AskedPart) -> dict[str, Any]:
    rows = stored(flow, FlowViews.groups)
    table = _table(
        rows, asked, GroupView, "group", "topic", "partition", "remote_topic", "action", "reason"
    )
    return table | group_counts(rows)


def _report(flow: ReadableFlow, run: Name) -> Response:
    page = stored(flow, lambda views: views.report_page(run))
    if page is None:
        raise HTTPException(404, f"There is no report of the run {run} of {flow.name}.")
    return Response(page, media_type="text/html; charset=utf-8", headers=_ALONE)


def _docs(flow: ReadableFlow, name: Name) -> Response:
    if not name:
        return RedirectResponse("index.html")
    page = stored(flow, lambda views: views.docs_page(name))
    if page is None:
        raise HTTPException(404, f"There is no page {name} in the Data Docs of {flow.name}.")
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    return Response(page, media_type=kind, headers=_ALONE)


def _static(name: Name) -> FileResponse:
    file = STATIC / name
    # Only names that are there: one that is asked for may be "..", or no name of a file at all.
    if name not in {it.name for it in STATIC.iterdir()}:
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
    "/flows/{slug}/data_docs/{name:path}": _docs,
}
