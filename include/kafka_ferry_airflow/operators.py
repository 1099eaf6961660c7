"""The operator that runs a step of a mirror in Spark."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from kafka_ferry.spark.properties import LIGHT_JVM
from kafka_ferry_airflow.connections import provide_connections
from kafka_ferry_airflow.errors import as_airflow
from kafka_ferry_airflow.project import Project

if TYPE_CHECKING:
    from airflow.sdk import Connection, Context

    from kafka_ferry.config import Flow

LOCAL = "local[*]"
# What a task's log needs, and what makes the driver start sooner.
CONF = {
    "spark.log.level": "WARN",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.extraJavaOptions": LIGHT_JVM,
}


class FerrySparkSubmitOperator(SparkSubmitOperator):
    """Submits ``spark_jobs/{step}.py`` for this run of a flow and tells its failure by name.

    Differs from its parent in three ways. It fails with what the library said in the job (topic,
    partition, offset and reason) instead of an exit code, and for good where no retry can help.
    Without its connection, Spark runs in this machine's own processes (``local[*]``) and the log
    says so; its parent would look for YARN. And the job runs on the interpreter that runs Airflow.

    Args:
        step: ``mirror`` or ``verify``.
        project: where the Spark jobs and the library's wheel are.
        flow: what is mirrored.
        way_back_of: the flow of the file that ``flow`` is the way back of, if it is one.
        conn_id: the Spark connection.
        conf: Spark properties, beside and above ``CONF``.
        kwargs: as for ``SparkSubmitOperator``.
    """

    def __init__(
        self,
        *,
        step: str,
        project: Project,
        flow: Flow,
        way_back_of: Flow | None = None,
        conn_id: str = "spark_default",
        conf: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        named = (way_back_of or flow).name
        arguments = ["--config", flow.file, "--flow", named, "--run-id", "{{ run_id }}"]
        if way_back_of:
            arguments.append("--way-back")
        super().__init__(
            conn_id=conn_id,
            conf=CONF | (conf or {}),
            application=str(project.spark_job(step)),
            application_args=arguments,
            name=f"ferry {step} {flow.name}",
            **kwargs,
        )
        self.step = step
        self.project = project
        self.flow = flow

    def execute(self, context: Context) -> None:
        """Submits the job, which inherits the connections of the flow's clusters, and waits for its end.

        Raises:
            AirflowFailException: the step failed and no retry can help; or a cluster's connection
                is not there.
            AirflowException: the step failed, or Spark did; a retry may help.
        """
        from kafka_ferry.runs import Run  # noqa: PLC0415  (PySpark and Great Expectations)

        provide_connections(self.flow)
        run = Run(self.flow, context["run_id"])
        run.forget(self.step)
        self._prepare(self._connection())
        try:
            super().execute(context)
        except Exception as error:
            failure = run.failure(self.step)
            if failure is None:
                raise
            raise as_airflow(failure) from error

    def _connection(self) -> Connection:
        """The connection; if there is none, one to this machine takes its place."""
        try:
            return BaseHook.get_connection(self._conn_id)
        except AirflowNotFoundException:
            self.log.warning(
                "There is no connection %r: Spark runs on this machine, as %s. To run it "
                "elsewhere, create the connection, as airflow_settings.yaml does.",
                self._conn_id,
                LOCAL,
            )
        local = json.dumps({"conn_type": "spark", "host": LOCAL})
        os.environ[f"AIRFLOW_CONN_{self._conn_id.upper()}"] = local
        return BaseHook.get_connection(self._conn_id)

    def _prepare(self, connection: Connection) -> None:
        """Makes the environment, which spark-submit inherits, and the library fit the master."""
        # spark-submit looks for Spark with the python3 that it finds first.
        binaries = Path(sys.executable).parent
        os.environ["PATH"] = f"{binaries}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        # spark.pyspark.python, where it is set, wins over these.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
        library = self.project.library
        if (connection.host or "").startswith("local"):
            # Nobody else need reach it.
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        elif library:
            # Not for local workers: they import what is installed, and a wheel could be older.
            self.py_files = ",".join(filter(None, [self.py_files, str(library)]))
