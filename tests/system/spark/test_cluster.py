"""A standalone Spark cluster of two workers that have nothing of Kafka Ferry: all of it is sent to them."""

from __future__ import annotations

import json
import shutil
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from kafka_ferry.config import load_flow
from kafka_ferry.runs import Run
from tests import PROJECT
from tests.support.airflow.dags import task_context
from tests.support.records.builders import Record
from tests.support.runs.pair import Pair
from tests.support.spark.cluster import SparkCluster

pytestmark = pytest.mark.timeout(600)


def packed_environment(folder: Path) -> Path:
    """What ``docs/deployment.md`` packs, but for its size: the packages stay where they are.

    The library is not among them: it is installed for this checkout, not in this folder.
    """
    made = folder / "environment"
    venv.create(made, with_pip=False, symlinks=True)
    packages = made / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    (packages / "packages.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return Path(shutil.make_archive(str(made), "gztar", made))


def connect(monkeypatch: pytest.MonkeyPatch, cluster: SparkCluster, archive: Path) -> None:
    """The connection of ``docs/deployment.md``, and an Airflow that is not on the cluster's machines."""
    extra = {
        "deploy-mode": "client",
        "spark.archives": f"{archive}#environment",
        "spark.pyspark.python": "python3",
        "spark.executorEnv.PATH": f"./environment/bin:{Path(sys.executable).parent}:/usr/bin:/bin",
    }
    connection = {"conn_type": "spark", "host": cluster.master, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    for name, value in cluster.environment.items():
        monkeypatch.setenv(name, value)
    # The operator sets these; they are put back after the test.
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.delenv("PYSPARK_PYTHON")
    monkeypatch.delenv("PYSPARK_DRIVER_PYTHON", raising=False)


@pytest.mark.long
def test_two_workers_are_sent_the_library_and_its_packages(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_HOME", str(pair.folder / "airflow"))
    # Airflow reads its environment when it is imported.
    from kafka_ferry_airflow import FerrySparkSubmitOperator, Project  # noqa: PLC0415

    topic = pair.topic("orders", partitions=8)
    pair.produce(topic, [Record(key=b"%d" % i, value=b"v") for i in range(400)])
    flow = load_flow(Path(pair.flow([topic]).file))
    run = Run(flow, "run-1")
    with SparkCluster(pair.folder / "spark", workers=2, runs=1) as cluster:
        connect(monkeypatch, cluster, packed_environment(pair.folder))
        run.plan()
        prepared = run.sync_topics()
        # Only what is verified again is read by an application of its own.
        for step in ("mirror", "verify", "verify"):
            task = FerrySparkSubmitOperator(
                task_id=step, step=step, project=Project(PROJECT), flow=flow
            )
            task.render_template_fields({"run_id": run.run_id})
            task.execute(task_context(run.run_id, plan_prepared=prepared.digest))
        run.sync_groups()
        report = run.publish()

        worked = [
            list((pair.folder / "spark" / f"work-{n}").glob("app-*/*/stderr")) for n in (0, 1)
        ]
    assert report.counts.records == 400
    pair.assert_same(flow, topic)
    # An executor of each application on each worker, and another one where Spark has replaced it.
    applications = [{executor.parts[-3] for executor in executors} for executors in worked]
    assert [len(of_worker) for of_worker in applications] == [2, 2]
    sent = list((pair.folder / "spark").rglob("environment/bin/python3"))
    assert len(sent) >= 4, "not every executor was sent the packages"
