"""The operator that runs a step of a mirror in Spark."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import javaproperties
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowException, AirflowNotFoundException

from kafka_ferry.errors import ConfigError, SparkNeeded
from kafka_ferry.memory_file import memory_file
from kafka_ferry.spark.properties import driver_options, set_environment
from kafka_ferry.spark.security.private_sockets import short_folder, temporary_files_in
from kafka_ferry.spark.session import no_spark
from kafka_ferry_airflow.concurrency import await_other_runs
from kafka_ferry_airflow.connections import provide_connections
from kafka_ferry_airflow.dags.approval import PREPARED
from kafka_ferry_airflow.errors import FAILURE_CALLBACKS, airflow_errors, as_airflow
from kafka_ferry_airflow.links import history_conf
from kafka_ferry_airflow.process_guard import ProcessGuard
from kafka_ferry_airflow.project import Project

if TYPE_CHECKING:
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
    from airflow.sdk import Connection, Context

    from kafka_ferry.config import Flow
    from kafka_ferry.errors import FerryError
    from kafka_ferry.runs import Run
    from kafka_ferry.runs.audit.scheduled import ScheduledAudit

LOCAL = "local[*]"
_DEFAULT: Final = "spark_default"
# Lines that a task's log needs.
CONF = {
    "spark.log.level": "WARN",
    "spark.ui.showConsoleProgress": "false",
    # Here too, for a driver that Spark starts elsewhere, before our own code runs.
    "spark.ui.killEnabled": "false",
}
_DRIVER_OPTIONS = "spark.driver.extraJavaOptions"
_ENDED = (
    "The task {} was terminated, and its Spark application with it. What was committed "
    "stays; the next try copies the rest."
)


class FerrySparkSubmitOperator(SparkSubmitOperator):
    """Submits ``spark_jobs/{step}.py`` for this run of a flow and reports its failure by name.

    Differs from its parent in six ways. Where there is no work for Spark, it executes the step itself
    and submits nothing: nothing is to be copied, or all of it was read back by the application that has
    copied it. It fails with the library's error in the job (topic, partition, offset and reason)
    instead of an exit code, and without retries where none can help.
    Without its connection, Spark runs in this machine's own processes (``local[*]``) and the log
    says so; its parent would look for YARN. The job runs on the interpreter that runs Airflow. None of
    its arguments is a template, in which the name of a flow's file could ask for any connection. And
    however the task ends, its Spark processes on this machine end with it: see ``ProcessGuard``.

    Args:
        step: ``mirror`` or ``verify``.
        shard: the only shard of the run that is copied; None for all. May be expanded over.
        shard_name: its name in Airflow's pages.
        project: where the Spark jobs and the library's wheel are.
        flow: what is mirrored.
        reverse_of: the file's flow of which ``flow`` is the reverse flow, if it is one.
        conn_id: the Spark connection. Its extras named ``spark.*`` are Spark properties, which override
            the others.
        conf: Spark properties, which override ``CONF``.
        kwargs: as for ``SparkSubmitOperator``.
    """

    template_fields = ()

    def __init__(
        self,
        *,
        step: str,
        project: Project,
        flow: Flow,
        reverse_of: Flow | None = None,
        shard: int | None = None,
        shard_name: str = "",
        conn_id: str = _DEFAULT,
        conf: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        flow_name = (reverse_of or flow).name
        arguments = ["--config", flow.file, "--flow", flow_name]
        if reverse_of:
            arguments.append("--reverse-flow")
        if shard is not None:
            arguments += ["--shard", str(shard)]
        super().__init__(
            conn_id=conn_id,
            conf=CONF | (conf or {}),
            application=str(project.spark_job(step)),
            application_args=arguments,
            name=f"ferry {step} {flow.name}" + ("" if shard is None else f" shard {shard}"),
            **{**FAILURE_CALLBACKS, **kwargs},  # a mapped task has them among its arguments
        )
        self.step = step
        self.project = project
        self.flow = flow
        self.shard = shard
        self.shard_name = shard_name
        self._guard: ProcessGuard | None = None
        self._is_killed = False

    def execute(self, context: Context) -> None:
        """Submits the job, which inherits the connections of the flow's clusters, and waits for its end.

        Raises:
            AirflowFailException: the step failed and no retry can help; or a cluster's connection
                is not there.
            AirflowException: the step failed, or Spark did; a retry may help.
            AirflowRescheduleException: another run copies, and this one is to copy a shard.
        """
        if self.shard is not None:
            await_other_runs(context)
        provide_connections(self.flow)
        if self._is_done_without_spark(context):
            return
        # A run's id may begin with a dash.
        self.application_args = [*(self.application_args or ()), f"--run-id={context['run_id']}"]
        if self.step == "mirror":
            self.application_args += ["--plan", _prepared_digest(context)]
        connection = self._connection()
        self._prepare(connection)
        if not _resumes(self._get_hook()):
            self._forget(context)
        try:
            with (
                self._private_files(connection),
                ProcessGuard() as self._guard,
                self._properties_in_file(),
            ):
                if self._is_killed:
                    raise AirflowException("It was terminated before Spark was started.")
                super().execute(context)
        except Exception as error:
            if self._is_killed:
                raise AirflowException(_ENDED.format(self.step)) from error
            failure = self._failure(context)
            if failure is None:
                raise
            raise as_airflow(failure) from error

    @contextmanager
    def _private_files(self, connection: Connection) -> Iterator[None]:
        """Gives the driver's JVM on this machine a folder of its own for temporary files."""
        if (self._deploy_mode or connection.extra_dejson.get("deploy-mode")) == "cluster":
            yield
            return
        with TemporaryDirectory(
            prefix="ferry-", dir=short_folder(), ignore_cleanup_errors=True
        ) as folder:
            conf = self.conf or {}
            options = f"{conf.get(_DRIVER_OPTIONS, '')} {temporary_files_in(folder)}"
            self.conf = {**conf, _DRIVER_OPTIONS: options.strip()}
            yield

    @contextmanager
    def _properties_in_file(self) -> Iterator[None]:
        """Passes the connection's properties in a file: any user can see a process's arguments."""
        own = _properties(BaseHook.get_connection(self._conn_id))
        if not own:
            self._hook = self._get_hook()
            yield
            return
        # Arguments win over a properties file, so the connection's properties must not be arguments.
        self.conf = {name: text for name, text in (self.conf or {}).items() if name not in own}
        with memory_file(_as_file(own, self.properties_file)) as self.properties_file:
            self._hook = self._get_hook()
            yield

    def submit_job(self, context: Context) -> str | None:
        """Submits a driver to a cluster, unless the task finds one that it has submitted before."""
        self._forget(context)
        return super().submit_job(context)

    def on_kill(self) -> None:
        """Ends the task's Spark processes on this machine, and asks a cluster to end its driver elsewhere."""
        self._is_killed = True
        if self._guard:
            self._guard.end_all()
        if self._hook:
            super().on_kill()

    def _is_done_without_spark(self, context: Context) -> bool:
        """Executes the step in this process, unless there is work for Spark.

        Raises:
            AirflowFailException: the step failed and no retry can help.
            AirflowException: the step failed; a retry may help.
        """
        run = self._run(context)
        with airflow_errors():
            try:
                if run.needs_spark(self.step, self.shard):
                    return False
                self.log.info("There is no work for Spark")
                if self.step == "mirror":
                    run.mirror(no_spark, self.shard, expected=_prepared_digest(context))
                else:
                    run.verify(no_spark)
            except SparkNeeded:
                return False
        return True

    def _run(self, context: Context) -> Run:
        from kafka_ferry.runs import Run  # noqa: PLC0415  (PySpark and Great Expectations)

        return Run(self.flow, context["run_id"])

    def _forget(self, context: Context) -> None:
        self._run(context).forget(self.step, self.shard)

    def _failure(self, context: Context) -> FerryError | None:
        return self._run(context).failure(self.step, self.shard)

    def _connection(self) -> Connection:
        """The connection; if the default one does not exist, one to this machine takes its place.

        Raises:
            AirflowFailException: it is not one for Spark.
        """
        try:
            connection = BaseHook.get_connection(self._conn_id)
            if connection.conn_type != "spark":
                reason = f"the connection {self._conn_id!r} is of the type {connection.conn_type}, not spark"
                raise as_airflow(ConfigError(self.flow.file, "spark.connection", reason))
            return connection
        except AirflowNotFoundException:
            if self._conn_id != _DEFAULT:
                raise
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
        """Adapts the environment, which spark-submit inherits, and the library to the master."""
        # spark-submit looks for Spark with the python3 that it finds first.
        binaries = Path(sys.executable).parent
        os.environ["PATH"] = f"{binaries}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        # spark.pyspark.python, where it is set, wins over these.
        set_environment()
        self.conf = {
            _DRIVER_OPTIONS: driver_options(),
            **(self.conf or {}),
            **history_conf(connection),
        }
        library = self.project.library
        if (connection.host or "").startswith("local"):
            # Only this machine need reach it.
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        elif library:
            # Not for local workers: they import the installed library, and a wheel could be older.
            self.py_files = ",".join(filter(None, [self.py_files, str(library)]))


class AuditOperator(FerrySparkSubmitOperator):
    """Audits a flow's topics: in this process if they are small, else by ``spark_jobs/audit.py``.

    A retry continues what was interrupted.

    Args:
        kwargs: as for ``FerrySparkSubmitOperator``.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(step="audit", **kwargs)

    def _is_done_without_spark(self, context: Context) -> bool:
        audit = self._audit(context)
        with airflow_errors():
            if audit.needs_spark():
                return False
            audit.run(no_spark)
        return True

    def _forget(self, context: Context) -> None:
        self._audit(context).forget()

    def _failure(self, context: Context) -> FerryError | None:
        return self._audit(context).failure()

    def _audit(self, context: Context) -> ScheduledAudit:
        from kafka_ferry.runs.audit.scheduled import ScheduledAudit  # noqa: PLC0415  (PyArrow)

        return ScheduledAudit(self.flow, context["run_id"])


def _prepared_digest(context: Context) -> str:
    """The digest of the plan that the task ``sync_topics`` has left: a writer in the state folder has no XCom."""
    return str(context["ti"].xcom_pull(task_ids="sync_topics", key=PREPARED) or "")


def _properties(connection: Connection) -> dict[str, str]:
    """The Spark properties among a connection's extras: all those named ``spark.*``."""
    return {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in connection.extra_dejson.items()
        if name.startswith("spark.")
    }


def _as_file(properties: Mapping[str, str], other: str | None) -> str:
    """The properties below those that Spark would read without them: of equal keys, the last counts."""
    home = os.environ.get("SPARK_CONF_DIR") or f"{os.environ.get('SPARK_HOME', '')}/conf"
    defaults = Path(other or f"{home}/spark-defaults.conf")
    before = defaults.read_text() if defaults.is_file() else ""
    lines = (javaproperties.join_key_value(name, text) for name, text in properties.items())
    return "\n".join((before, *lines, ""))


def _resumes(hook: SparkSubmitHook) -> bool:
    """Whether the driver is elsewhere, outlives the task, and is found again by the next try."""
    return (
        hook._should_track_driver_status
        or hook._should_track_driver_via_k8s_api()
        or hook._should_track_yarn_application_via_rm_api()
    )
