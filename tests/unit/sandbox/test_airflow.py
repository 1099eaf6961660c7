"""What the sandbox says of an Airflow of which a part has ended, or which keeps other variables."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from kafka_sandbox.airflow import Airflow
from tests.support.waiting import wait_until

# As `airflow standalone`, which starts a process for each component and waits for none of them.
LEADER = """
import subprocess, sys
for part in sys.argv[1:]:
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", part])
sys.stdin.read()
"""
PARTS = ["scheduler", "dag-processor", "api-server", "triggerer"]


@pytest.fixture
def leader(tmp_path: Path) -> Iterator[psutil.Process]:
    environment = {**os.environ, "AIRFLOW_HOME": str(tmp_path), "FERRY_CONFIG_PROVIDERS": "file"}
    command = [sys.executable, "-c", LEADER, *PARTS]
    child = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE)
    process = psutil.Process(child.pid)
    (tmp_path / "standalone.json").write_text(json.dumps({"pid": child.pid, "port": 8080}))
    wait_until(lambda: sorted(part.cmdline()[-1] for part in process.children()) == sorted(PARTS))
    yield process
    for part in process.children():
        part.kill()
    child.communicate()


def test_a_part_whose_process_has_ended_is_named(tmp_path: Path, leader: psutil.Process) -> None:
    airflow = Airflow(tmp_path)
    assert airflow.ended_parts == []

    scheduler = next(it for it in leader.children() if it.cmdline()[-1] == "scheduler")
    scheduler.kill()

    wait_until(lambda: airflow.ended_parts == ["scheduler"])


def test_variables_that_a_running_airflow_does_not_have_are_named(
    tmp_path: Path, leader: psutil.Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert leader.is_running()
    monkeypatch.setenv("FERRY_CONFIG_PROVIDERS", "env")

    assert "FERRY_CONFIG_PROVIDERS" in Airflow(tmp_path).other_variables


def test_an_airflow_that_does_not_run_has_lost_no_part(tmp_path: Path) -> None:
    airflow = Airflow(tmp_path)
    assert (airflow.ended_parts, airflow.other_variables) == ([], [])
