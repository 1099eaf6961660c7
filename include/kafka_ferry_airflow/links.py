"""Buttons on each task of a flow: to its page, to the run's report, to the Data Docs, to Spark's own page.

They are the plugin's links for all operators: Airflow gets them in the API server when a user opens a
task, even while the task runs. A task's own links are known only when it has ended.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from airflow.sdk import BaseOperatorLink
from airflow.sdk.configuration import conf

from kafka_ferry_airflow.page.store_reads import READS
from kafka_ferry_airflow.page.urls import docs_url, page_url, report_url

if TYPE_CHECKING:
    from airflow.sdk import Connection
    from airflow.sdk.types import TaskInstanceKey

    from kafka_ferry.config import Flow
    from kafka_ferry.state import StateFolder
    from kafka_ferry_airflow.flow_files import FlowFiles

log = logging.getLogger(__name__)

_DAGS: Final = ("mirror_", "plan_", "failover_", "failback_")
_SPARK_STEPS: Final = ("mirror", "verify")
_HISTORY_EXTRA: Final = "history-url"
_DEFAULT_BASE: Final = "http://localhost:8080/"

Flows = Callable[[], Mapping[str, "Flow"]]


def absolute(path: str) -> str:
    """The whole address of a path below Airflow's base URL."""
    return f"{_base_url()}{path}"


def history_conf(connection: Connection) -> dict[str, str]:
    """The Spark property that names the history server, if the Spark connection's extra ``history-url`` does."""
    from kafka_ferry.runs.mirror.spark_ui import HISTORY_URL  # noqa: PLC0415  (PyArrow)

    url = connection.extra_dejson.get(_HISTORY_EXTRA)
    if not isinstance(url, str) or urlsplit(url).scheme not in ("http", "https"):
        return {}
    return {HISTORY_URL: url}


def operator_links(root: Path) -> tuple[BaseOperatorLink, ...]:
    """The links for a plugin's ``global_operator_extra_links``.

    Args:
        root: the folder that holds ``include/configs``: see ``project_root``.
    """

    @cache
    def files() -> FlowFiles:
        from kafka_ferry_airflow.flow_files import FlowFiles  # noqa: PLC0415  (every process has us)
        from kafka_ferry_airflow.project import Project  # noqa: PLC0415

        # Relative paths of flows start at the same place as in the DAG processor and the tasks.
        os.environ.setdefault("FERRY_HOME", str(root))
        return FlowFiles(Project(root))

    def flows() -> Mapping[str, Flow]:
        return files().read().flows

    return _Mirror(flows), _Report(flows), _DataDocs(flows), _Spark(flows)


class _FlowLink(BaseOperatorLink):
    """A link of a flow's tasks; tasks of other DAGs have none.

    Args:
        flows: gives the flows by slug.
    """

    def __init__(self, flows: Flows) -> None:
        self._flows = flows

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002
        """The address, "" where there is nothing to show: Airflow then shows no button."""
        kind = next((kind for kind in _DAGS if ti_key.dag_id.startswith(kind)), None)
        if kind is None:
            return ""
        try:
            flow = self._flows().get(ti_key.dag_id.removeprefix(kind))
            if flow is None:
                return ""
            # In the API server: a store that does not answer costs a button, and no thread.
            return READS.read(flow.state_path, lambda: self._of(flow, ti_key))
        except Exception:
            # A link that fails would remove those of all other plugins.
            log.warning("No link %s for %s", self.name, ti_key, exc_info=True)
            return ""

    def _of(self, flow: Flow, key: TaskInstanceKey) -> str:
        raise NotImplementedError


class _Mirror(_FlowLink):
    name = "Mirror"

    def _of(self, flow: Flow, key: TaskInstanceKey) -> str:
        return _below_base(page_url(flow.slug, run=key.run_id if _is_run(key) else None))


class _Report(_FlowLink):
    name = "Report"

    def _of(self, flow: Flow, key: TaskInstanceKey) -> str:
        from kafka_ferry.runs.state.run_folder import REPORT, RunFolder  # noqa: PLC0415  (PyArrow)

        runs = _state(flow).folder("runs")
        exists = _is_run(key) and RunFolder(runs, key.run_id).files.stamp(REPORT)
        return _below_base(report_url(flow.slug, key.run_id)) if exists else ""


class _DataDocs(_FlowLink):
    name = "Data Docs"

    def _of(self, flow: Flow, key: TaskInstanceKey) -> str:
        exists = _is_run(key) and _state(flow).folder("data_docs").stamp("index.html")
        return _below_base(docs_url(flow.slug)) if exists else ""


class _Spark(_FlowLink):
    name = "Spark"

    def _of(self, flow: Flow, key: TaskInstanceKey) -> str:
        from kafka_ferry.model.results.steps import StepPart  # noqa: PLC0415  (Pydantic)
        from kafka_ferry.runs.mirror.spark_ui import application_url  # noqa: PLC0415  (PyArrow)

        if not _is_run(key) or key.task_id not in _SPARK_STEPS:
            return ""
        shard = key.map_index if key.map_index >= 0 else None
        return application_url(flow, key.run_id, StepPart(key.task_id, shard))


def _is_run(key: TaskInstanceKey) -> bool:
    """Whether a task belongs to a run of the flow itself, and not to a DAG that a person triggers."""
    return key.dag_id.startswith(_DAGS[0])


def _state(flow: Flow) -> StateFolder:
    from kafka_ferry.runs.state.flow_state import flow_state  # noqa: PLC0415  (PyArrow)

    return flow_state(flow)


def _below_base(path: str) -> str:
    """A path in this Airflow, which works under any host name that the browser uses."""
    return f"{urlsplit(_base_url()).path}{path}"


def _base_url() -> str:
    return str(conf.get("api", "base_url", fallback=_DEFAULT_BASE)).rstrip("/")
