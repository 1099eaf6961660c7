"""The wheel alone, with no file copied: what Airflow finds where the package is installed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests import PROJECT

NOT_SOURCES = shutil.ignore_patterns("__pycache__")
# Airflow reads entry points when it starts, so it is asked in a process of its own.
ASK = """
import json
from airflow.dag_processing.bundles.manager import DagBundlesManager
from airflow.dag_processing.dagbag import DagBag
from airflow.plugins_manager import _get_plugins
from airflow.providers_manager import ProvidersManager

plugins, errors = _get_plugins()
bundle = DagBundlesManager().get_bundle("kafka-ferry")
bag = DagBag(bundle.path, bundle_name=bundle.name)
print(json.dumps({
    "provider": ProvidersManager().providers["kafka-ferry"].version,
    "plugins": {it.name: str(it.source) for it in plugins},
    "errors": errors,
    "dags": sorted(bag.dags),
    "import errors": bag.import_errors,
    "pools": sorted({task.pool for dag in bag.dags.values() for task in dag.tasks}),
    "files": sorted({task.application for dag in bag.dags.values() for task in dag.tasks
                     if task.task_id == "verify"}),
}))
"""
BUNDLES = [
    {
        "name": "kafka-ferry",
        "classpath": "kafka_ferry_airflow.dags.bundle.KafkaFerryDagBundle",
        "kwargs": {},
    }
]
FLOW = """
source: {alias: left, bootstrap.servers: "left:9092"}
target: {alias: right, bootstrap.servers: "right:9092"}
topics: [orders]
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of installed packages: the wheel instead of the checkout, and all others."""
    copy = tmp_path_factory.mktemp("checkout")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(PROJECT / name, copy)
    for name in ("include", "dags", "spark_jobs"):
        shutil.copytree(PROJECT / name, copy / name, symlinks=True, ignore=NOT_SOURCES)
    dist = tmp_path_factory.mktemp("dist")
    build = ["uv", "build", "--quiet", "--wheel", "--no-build-isolation", "--out-dir", str(dist)]
    subprocess.run([*build, "--python", sys.executable], cwd=copy, check=True, timeout=120)
    site = tmp_path_factory.mktemp("site-packages")
    (wheel,) = dist.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(site)
    for package in Path(sysconfig.get_path("purelib")).iterdir():
        if "kafka_ferry" not in package.name:
            (site / package.name).symlink_to(package)
    return site


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Airflow's home, with one flow and no DAG file."""
    (tmp_path / "include" / "configs").mkdir(parents=True)
    (tmp_path / "include" / "configs" / "flow.yaml").write_text(FLOW)
    return tmp_path


def ask(site: Path, home: Path) -> dict[str, Any]:
    environment = {name: value for name, value in os.environ.items() if "FERRY_" not in name} | {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(BUNDLES),
        "PYTHONPATH": str(site),
    }
    done = subprocess.run(
        [sys.executable, "-S", "-c", ASK],
        cwd=home,
        env=environment,
        stdout=subprocess.PIPE,
        check=True,
        timeout=200,
    )
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def test_an_airflow_with_the_wheel_has_provider_plugin_dags_and_pools(
    site: Path, home: Path
) -> None:
    found = ask(site, home)

    assert found["provider"] == "0.1.0"
    assert "kafka_ferry_airflow.plugin:KafkaFerryPlugin" in found["plugins"]["kafka_ferry"]
    assert found["errors"] == found["import errors"] == {}
    assert found["dags"] == [
        f"{kind}_left_to_right" for kind in ("failback", "failover", "mirror", "plan")
    ]
    assert "kafka_ferry_right" in found["pools"]
    assert all(Path(file).is_relative_to(site) for file in found["files"])
    assert all(Path(file).is_file() for file in found["files"])


def test_a_plugin_file_of_an_earlier_version_does_not_load_the_plugin_twice(
    site: Path, home: Path
) -> None:
    (home / "plugins").mkdir()
    copy = home / "plugins" / "kafka_ferry_plugin.py"
    copy.write_text("from kafka_ferry_airflow.plugin import KafkaFerryPlugin\n")

    found = ask(site, home)

    assert found["plugins"]["kafka_ferry"] == "$PLUGINS_FOLDER/kafka_ferry_plugin.py"
    ((plugin, reason),) = found["errors"].items()
    assert "kafka-ferry==0.1.0" in plugin
    assert "already registered, skipping" in reason
