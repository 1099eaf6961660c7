"""Executors that have nothing of a flow's copy for it all the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kafka_sandbox.cluster import KafkaCluster
from kafka_sandbox.logins.secure import Authority, SecureBroker
from tests.support.records.builders import Record, create_topic, produce
from tests.support.runs.flows import assert_same
from tests.support.spark.cluster import SparkCluster

WORD = "l0gin-pa5sword"


@pytest.mark.long
def test_executors_need_neither_the_flows_file_nor_its_connection(
    folder: Path, backup: KafkaCluster
) -> None:
    """The cluster is started without the connection, and in another folder than the driver."""
    root = Authority("root")
    flow = {
        "source": {"alias": folder.name, "airflow.connection": "site"},
        "target": {"alias": "backup", "bootstrap.servers": backup.bootstrap},
        "topics": ["orders"],
        "replication.factor": 1,
        "state.dir": str(folder / "state"),
    }
    (folder / "flow.yaml").write_text(json.dumps(flow))
    with (
        SecureBroker(folder / "site", root, {"ann": WORD}) as site,
        SparkCluster(folder / "spark", workers=1, runs=1) as cluster,
    ):
        create_topic(site.bootstrap, "orders", partitions=2)
        produce(site.bootstrap, "orders", [Record(key=b"%d" % i) for i in range(20)])
        extra = {
            "bootstrap.servers": site.listener("SASL_SSL"),
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "ann",
            "sasl.password": WORD,
            "ssl.ca.pem": root.pem,
        }
        variable = {"AIRFLOW_CONN_SITE": json.dumps({"conn_type": "kafka", "extra": extra})}

        done = subprocess.run(
            [sys.executable, "-m", "kafka_ferry", "run", "--config", "flow.yaml", "--json"],
            cwd=folder,
            env=os.environ | cluster.environment | variable,
            capture_output=True,
            text=True,
            check=False,
        )

        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["records"] == 20
        assert_same(site, "orders", backup, f"{folder.name}.orders")
        left = [
            file
            for place in ("spark", "state")
            for file in (folder / place).rglob("*")
            if file.is_file() and WORD.encode() in file.read_bytes()
        ]
        assert list((folder / "spark").rglob("stderr")), "no executor ran on the cluster"
    assert not left
    assert WORD not in done.stdout + done.stderr
