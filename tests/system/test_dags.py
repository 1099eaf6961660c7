"""Every flow file becomes one sound DAG, or one import error that says what to mend."""
# Airflow reads its environment when it is imported.
# ruff: noqa: PLC0415

from __future__ import annotations

import socket
from collections.abc import Callable
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from airflow.dag_processing.dagbag import DagBag

ROOT = Path(__file__).parents[2]
FLOW = "primary_to_backup"
DAG_ID = f"mirror_{FLOW}"
STEPS = ["plan", "sync_topics", "mirror", "verify", "sync_groups", "publish"]
Load = Callable[[], "DagBag"]

SECRET = "correct-horse-battery-staple"
GOOD = f"""
source:
  alias: left
  bootstrap.servers: left:9092
  security.protocol: SASL_PLAINTEXT
  sasl.mechanism: PLAIN
  sasl.jaas.config: >-
    org.apache.kafka.common.security.plain.PlainLoginModule required
    username="u" password="{SECRET}";
target: {{alias: right, bootstrap.servers: "right:9092"}}
topics: [a, b|c]
"""
TWO_WAYS = """
clusters = a, b
a.bootstrap.servers = a:9092
b.bootstrap.servers = b:9092
a->b.enabled = true
b->a.enabled = true
"""


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Reads the project's DAG files as Airflow's DAG processor does."""
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    monkeypatch.setenv("AIRFLOW__CORE__LOAD_EXAMPLES", "False")
    monkeypatch.setenv("FERRY_HOME", str(tmp_path))
    from airflow.dag_processing.dagbag import DagBag

    return lambda: DagBag(ROOT / "dags", bundle_name="dags-folder")


@pytest.fixture
def configs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of flow files that takes the place of the project's own."""
    folder = tmp_path / "configs"
    folder.mkdir()
    monkeypatch.setenv("FERRY_CONFIGS", str(folder))
    return folder


def mirrors(bag: DagBag) -> list[str]:
    """The DAGs with a timetable of their own."""
    return sorted(name for name in bag.dags if name.startswith("mirror_"))


@pytest.fixture
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("Reading DAG files reached for the network.")

    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.mark.usefixtures("_no_network")
def test_the_projects_own_flow_is_a_dag_without_asking_a_broker(load: Load) -> None:
    bag = load()

    assert bag.import_errors == {}
    assert sorted(bag.dags) == [f"failback_{FLOW}", f"failover_{FLOW}", DAG_ID]


def test_a_dag_runs_the_steps_in_order(load: Load) -> None:
    dag = load().dags[DAG_ID]

    assert [task.task_id for task in dag.topological_sort()] == STEPS
    assert dag.task_dict["verify"].upstream_task_ids == {"mirror", "sync_topics"}


def test_an_emergency_has_dags_that_are_started_by_hand(load: Load) -> None:
    dags = load().dags
    over, back = dags[f"failover_{FLOW}"], dags[f"failback_{FLOW}"]

    for dag in (over, back):
        assert not dag.timetable.can_be_scheduled
        assert dag.is_paused_upon_creation is False
        assert "Start the applications on" in dag.doc_md
    assert set(over.params) == {"groups", "dry_run", "source_down"}
    assert [task.task_id for task in over.tasks] == ["failover"]
    assert [task.task_id for task in back.topological_sort()] == [*STEPS, "move_groups"]
    mirror = back.task_dict["mirror"]
    assert mirror.flow.name == "backup->primary"
    assert mirror.application_args[3:] == [
        "primary->backup",
        "--run-id",
        "{{ run_id }}",
        "--way-back",
    ]


def test_a_dag_is_tagged_with_its_clusters(load: Load) -> None:
    assert load().dags[DAG_ID].tags == {"kafka-ferry", "source:primary", "target:backup"}


def test_every_task_is_tried_again_with_growing_pauses(load: Load) -> None:
    for task in load().dags[DAG_ID].tasks:
        assert task.retries >= 1
        # 1 would mean the same pause each time.
        assert task.retry_exponential_backoff > 1
        assert task.max_retry_delay > task.retry_delay


def test_each_run_owns_a_span_of_time(load: Load) -> None:
    from airflow.serialization.serialized_objects import DagSerialization

    dag = DagSerialization.from_dict(DagSerialization.to_dict(load().dags[DAG_ID]))
    start = dag.start_date
    runs = islice(dag.iter_dagrun_infos_between(start, start + timedelta(days=1)), 5)
    intervals = [run.data_interval for run in runs]

    assert all(interval.end - interval.start == timedelta(hours=1) for interval in intervals)
    assert [later.start for later in intervals[1:]] == [earlier.end for earlier in intervals[:-1]]


def test_one_mirror_of_a_flow_runs_at_a_time(load: Load) -> None:
    dag = load().dags[DAG_ID]

    assert dag.max_active_runs == 1
    assert dag.task_dict["mirror"].max_active_tis_per_dag == 1
    assert dag.task_dict["sync_groups"].max_active_tis_per_dag == 1


def test_nothing_secret_is_in_a_dag(load: Load, configs: Path) -> None:
    from airflow.serialization.serialized_objects import DagSerialization

    (configs / "good.yaml").write_text(GOOD)
    dag = load().dags["mirror_left_to_right"]

    assert SECRET not in str(DagSerialization.to_dict(dag))
    assert "left:9092" in dag.doc_md
    assert r"`b\|c`" in dag.doc_md


def test_a_flow_without_a_timetable_is_started_by_hand_only(load: Load, configs: Path) -> None:
    (configs / "good.yaml").write_text(GOOD + "schedule: ''\n")

    assert not load().dags["mirror_left_to_right"].timetable.can_be_scheduled


@pytest.mark.parametrize("approval", ["changes", "always"])
def test_a_flow_that_asks_for_approval_waits_before_anything_is_changed(
    load: Load, configs: Path, approval: str
) -> None:
    (configs / "good.yaml").write_text(GOOD + f"approval: {approval}\n")
    dag = load().dags["mirror_left_to_right"]

    assert [task.task_id for task in dag.topological_sort()] == ["plan", "approve", *STEPS[1:]]
    assert dag.task_dict["sync_topics"].upstream_task_ids == {"approve"}


def test_a_flow_that_is_switched_off_is_no_dag_and_no_error(load: Load, configs: Path) -> None:
    (configs / "good.yaml").write_text(GOOD + "enabled: false\n")
    bag = load()

    assert (bag.dags, bag.import_errors) == ({}, {})


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("source: [", "bad.yaml: "),
        (GOOD.replace("left", "l") + "timetable: '@daily'", "bad.yaml: timetable: "),
        (GOOD.replace("left", "l") + "schedule: 99 * * * *", "bad.yaml: schedule: [99 * * * *]"),
        (GOOD, "zbad.yaml: left->right: is in "),
    ],
    ids=["unreadable", "unknown key", "a time that does not exist", "a flow of another file"],
)
def test_a_bad_flow_file_is_named_and_takes_no_other_dag_away(
    content: str, expected: str, load: Load, configs: Path
) -> None:
    (configs / "good.yaml").write_text(GOOD)
    (configs / "zbad.yaml").write_text(content)
    bag = load()

    assert mirrors(bag) == ["mirror_left_to_right"]
    (error,) = bag.import_errors.values()
    assert expected in error
    assert SECRET not in error


def test_only_the_flows_into_the_clusters_named_are_dags(
    load: Load, configs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (configs / "good.yaml").write_text(GOOD)
    (configs / "mm2.properties").write_text(TWO_WAYS)
    monkeypatch.setenv("FERRY_CLUSTERS", "right, a")
    bag = load()

    assert mirrors(bag) == ["mirror_b_to_a", "mirror_left_to_right"]
    assert bag.import_errors == {}


def test_a_dag_says_what_stands_in_its_flows_file_in_vain(load: Load, configs: Path) -> None:
    (configs / "mm2.properties").write_text(TWO_WAYS + "a->b.offset.lag.max = 5\n")
    dags = load().dags

    assert "- `a->b.offset.lag.max`: translation is exact" in dags["mirror_a_to_b"].doc_md
    assert "without effect" not in dags["mirror_b_to_a"].doc_md


def test_a_cluster_named_that_no_file_knows_is_an_error(
    load: Load, configs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (configs / "good.yaml").write_text(GOOD)
    monkeypatch.setenv("FERRY_CLUSTERS", "right, wrong")
    bag = load()

    assert mirrors(bag) == ["mirror_left_to_right"]
    (error,) = bag.import_errors.values()
    assert "FERRY_CLUSTERS: wrong: is a cluster of no file" in error


def test_a_missing_folder_of_flows_is_named(load: Load, configs: Path) -> None:
    configs.rmdir()

    (error,) = load().import_errors.values()
    assert f"{configs}: file: is no folder" in error
