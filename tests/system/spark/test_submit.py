"""The Spark operator says what went wrong by name, and sends the library where it is needed."""
# Airflow reads its environment when it is imported.
# ruff: noqa: PLC0415

from __future__ import annotations

import json
from pathlib import Path

import pytest
import regex

from kafka_ferry.config import load_flow
from kafka_ferry.errors import StepFailed
from kafka_ferry.runs import Run
from tests.support.airflow.dags import task_context

SAID = "1 partition not copied to the end:\n  orders-3 at offset 7: too large"


class Submissions:
    """Stands for spark-submit: keeps the commands, and fails if it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

        self.commands: list[str] = []
        self.properties: list[str] = []
        self.modes: dict[str, int] = {}
        self.error: Exception | None = None

        def submit(hook: SparkSubmitHook, application: str) -> None:
            command = " ".join(hook._build_spark_submit_command(application))
            self.commands.append(command)
            for folder in regex.findall(r'java\.io\.tmpdir=([^"]+)"', command):
                self.modes[folder] = Path(folder).stat().st_mode & 0o777
            if file := hook._properties_file:
                self.properties.append(Path(file).read_text())
            if self.error:
                raise self.error

        monkeypatch.setattr(SparkSubmitHook, "submit", submit)


@pytest.fixture
def spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Submissions:
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    monkeypatch.setenv("FERRY_HOME", str(tmp_path))
    for name in (
        *("PATH", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_LOCAL_IP"),
        *("SPARK_HOME", "PYTHONSAFEPATH"),
    ):
        # Put back after the test, whatever the operator makes of it.
        monkeypatch.setenv(name, "/usr/bin")
    connect(monkeypatch, "local[*]")
    monkeypatch.setattr(Run, "needs_spark", lambda *_: True)
    return Submissions(monkeypatch)


def connect(monkeypatch: pytest.MonkeyPatch, master: str) -> None:
    connection = json.dumps({"conn_type": "spark", "host": master})
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", connection)


def run_step(root: Path, step: str = "mirror", **options: str | bool) -> None:
    """Executes a task of a step in Spark whose project has a built wheel."""
    from kafka_ferry_airflow import FerrySparkSubmitOperator, Project

    (root / "dist").mkdir()
    (root / "dist" / "kafka_ferry.zip").touch()
    file = root / "flow.yaml"
    file.write_text("""
        source: {alias: left, bootstrap.servers: "left:9092"}
        target: {alias: right, bootstrap.servers: "right:9092"}
    """)
    task = FerrySparkSubmitOperator(
        task_id=step, step=step, project=Project(root), flow=load_flow(file), **options
    )
    task.execute(task_context("run-1", plan_prepared="1f"))


@pytest.mark.parametrize(("transient", "kind"), [(True, "Airflow"), (False, "AirflowFail")])
def test_a_failed_step_tells_its_reason_and_whether_to_try_again(
    transient: bool, kind: str, tmp_path: Path, spark: Submissions, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark.error = RuntimeError("Error code is: 6.")
    failure = StepFailed(SAID, transient=transient, exit_code=6)
    monkeypatch.setattr(Run, "failure", lambda *_: failure)

    with pytest.raises(Exception, match="orders-3 at offset 7: too large") as caught:
        run_step(tmp_path)

    assert type(caught.value).__name__ == f"{kind}Exception"


def test_where_the_step_said_nothing_sparks_own_failure_is_told(
    tmp_path: Path, spark: Submissions
) -> None:
    spark.error = RuntimeError("Error code is: 1. There is no Java.")

    with pytest.raises(RuntimeError, match="There is no Java"):
        run_step(tmp_path)


def test_local_workers_use_the_installed_library(tmp_path: Path, spark: Submissions) -> None:
    run_step(tmp_path)

    (command,) = spark.commands
    assert "--master local[*]" in command
    assert "--py-files" not in command
    # As a text of its own, a run's id that begins with a dash would be no value.
    assert "--run-id=run-1 " in command


def test_the_driver_on_this_machine_keeps_its_temporary_files_to_itself(
    tmp_path: Path, spark: Submissions
) -> None:
    run_step(tmp_path)

    (command,) = spark.commands
    folder = regex.search(r'"-Djava\.io\.tmpdir=([^"]+)"', command)
    assert folder
    assert spark.modes == {folder[1]: 0o700}
    assert not Path(folder[1]).exists()


def test_a_driver_elsewhere_has_its_own_folder(
    tmp_path: Path, spark: Submissions, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = {"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster"}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))

    run_step(tmp_path, durable=False)

    (command,) = spark.commands
    assert "java.io.tmpdir" not in command


def test_a_connection_that_the_flow_names_must_exist(tmp_path: Path, spark: Submissions) -> None:
    from airflow.sdk.exceptions import AirflowNotFoundException

    with pytest.raises(AirflowNotFoundException, match="spark_for_mirrors"):
        run_step(tmp_path, conn_id="spark_for_mirrors")

    assert spark.commands == []


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn"])
def test_workers_elsewhere_are_sent_the_wheel(
    master: str, tmp_path: Path, spark: Submissions, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect(monkeypatch, master)

    run_step(tmp_path)

    (command,) = spark.commands
    assert f"--py-files {tmp_path}/dist/kafka_ferry.zip" in command


def test_the_connections_properties_are_no_arguments_and_on_no_disk(
    tmp_path: Path, spark: Submissions, monkeypatch: pytest.MonkeyPatch
) -> None:
    extra = {"spark.ssl.keyPassword": "hunter2", "spark.log.level": "INFO"}
    connection = {"conn_type": "spark", "host": "local[*]", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    run_step(tmp_path)

    (command,) = spark.commands
    assert "hunter2" not in command
    # What stands in an argument would win over the file.
    assert "spark.log.level" not in command
    name = command.partition("--properties-file ")[2].split()[0]
    assert name.startswith("/proc/") and not Path(name).exists()
    (told,) = spark.properties
    assert "spark.ssl.keyPassword=hunter2" in told and "spark.log.level=INFO" in told


@pytest.mark.parametrize("step", ["mirror", "verify"])
def test_a_step_without_work_for_spark_submits_nothing(
    step: str, tmp_path: Path, spark: Submissions, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    monkeypatch.setattr(Run, "needs_spark", lambda *_: False)
    monkeypatch.setattr(Run, step, lambda *_, **__: done.append(step))

    run_step(tmp_path, step)

    assert done == [step]
    assert spark.commands == []


def test_work_for_spark_that_turns_up_while_the_step_is_done_is_submitted(
    tmp_path: Path, spark: Submissions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Run, "needs_spark", lambda *_: False)
    monkeypatch.setattr(Run, "verify", lambda _, spark: spark())

    run_step(tmp_path, "verify")

    assert len(spark.commands) == 1


def test_a_step_that_fails_without_spark_says_why(
    tmp_path: Path, spark: Submissions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("FERRY_HOME", str(tmp_path))

    with pytest.raises(Exception, match=r"plan\.json.* Plan the run first") as caught:
        run_step(tmp_path)

    assert type(caught.value).__name__ == "AirflowFailException"
    assert spark.commands == []
