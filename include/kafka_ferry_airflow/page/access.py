"""Access control: a flow is shown to users who may read its DAG, and nothing without a login."""

from __future__ import annotations

from typing import Annotated, Any, Final

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView, DagAccessEntity
from airflow.api_fastapi.core_api.security import GetUserDep, get_user, requires_access_dag
from fastapi import Depends, HTTPException, Request
from pydantic import StringConstraints

from kafka_ferry.config import Flow
from kafka_ferry_airflow.flow_files import FlowFiles

SignedIn = Depends(get_user)
"""Refuses a request (401) without a session or a token of Airflow's."""
_PREFIX: Final = "mirror_"
# What the page shows of a DAG: its runs, and the states and errors of their tasks.
_SHOWN: Final = (DagAccessEntity.RUN, DagAccessEntity.TASK_INSTANCE)


def dag_id_of(slug: str) -> str:
    """The DAG of the flow with that slug."""
    return f"{_PREFIX}{slug}"


def readable_dags(request: Request, user: GetUserDep) -> set[str]:
    """The flows' DAGs that the user may read, including their runs and tasks."""
    dag_ids: set[str] = get_auth_manager().get_authorized_dag_ids(user=user, method="GET")
    return {
        dag_id
        for dag_id in dag_ids
        if dag_id.startswith(_PREFIX) and _may_read_runs(dag_id, request, user)
    }


def _may_read_runs(dag_id: str, request: Request, user: GetUserDep) -> bool:
    try:
        for entity in _SHOWN:
            _require(entity, dag_id, request, user)
    except HTTPException:
        return False
    return True


def _require(
    entity: DagAccessEntity | None, dag_id: str, request: Request, user: GetUserDep
) -> None:
    check: Any = requires_access_dag("GET", entity, dag_id)
    check(request, user)


def sees_problems(user: GetUserDep) -> bool:
    """Whether the user may see errors in DAG files, and so in flow files."""
    view: bool = get_auth_manager().is_authorized_view(
        access_view=AccessView.IMPORT_ERRORS, user=user
    )
    return view


def flow_files_of(request: Request) -> FlowFiles:
    """The files that the application was made for."""
    files: FlowFiles = request.app.state.flow_files
    return files


def readable_flow(
    slug: Annotated[str, StringConstraints(pattern=r"^[^\x00]*$", max_length=1_000)],
    request: Request,
    user: GetUserDep,
    files: Annotated[FlowFiles, Depends(flow_files_of)],
) -> Flow:
    """The requested flow.

    Raises:
        HTTPException: 403, if the user may not read its DAG, or the DAG's runs and tasks; 404, if there is none.
    """
    # A user who may read the DAG may not be allowed to read these.
    for entity in (None, *_SHOWN):
        _require(entity, dag_id_of(slug), request, user)
    flow = files.read().flows.get(slug)
    if flow is None:
        raise HTTPException(404, f"There is no flow {slug} in {files.folder}.")
    return flow


ReadableDags = Annotated[set[str], Depends(readable_dags)]
SeesProblems = Annotated[bool, Depends(sees_problems)]
Files = Annotated[FlowFiles, Depends(flow_files_of)]
ReadableFlow = Annotated[Flow, Depends(readable_flow)]
