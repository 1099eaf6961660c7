"""Every flow file becomes one sound DAG, or one import error that says what to mend."""
# Airflow reads its environment when it is imported.
# ruff: noqa: PLC0415

from __future__ import annotations

import socket
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING

import attrs
import pytest

from kafka_ferry.errors import ConfigError
from tests import PROJECT

if TYPE_CHECKING:
    from airflow.dag_processing.dagbag import DagBag
    from airflow.sdk import DAG
    from airflow.timetables.base import DataInterval

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

    return lambda: DagBag(PROJECT / "dags", bundle_name="dags-folder")


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
    assert sorted(bag.dags) == [f"failback_{FLOW}", f"failover_{FLOW}", DAG_ID, f"plan_{FLOW}"]


def test_a_dag_runs_the_steps_in_order(load: Load) -> None:
    dag = load().dags[DAG_ID]

    assert [task.task_id for task in dag.topological_sort()] == [*STEPS, "update_assets"]
    assert dag.task_dict["verify"].upstream_task_ids == {"mirror", "sync_topics"}
    # One that fails emits no event, and publish fails where one topic did.
    assert dag.task_dict["update_assets"].upstream_task_ids == {"sync_groups", "sync_topics"}


def test_an_emergency_has_dags_that_are_started_by_hand(load: Load) -> None:
    dags = load().dags
    over, back = dags[f"failover_{FLOW}"], dags[f"failback_{FLOW}"]

    for dag in (over, back):
        assert not dag.timetable.can_be_scheduled
        assert dag.is_paused_upon_creation is False
        assert "Start the applications on" in dag.doc_md
        assert dag.params["dry_run"] is True
        assert dag.params["confirm"] == ""
        for param in (dag.params.get_param(name) for name in dag.params):
            assert param.schema["title"]
            # Airflow marks what may not be empty with a red star.
            assert "null" in param.schema["type"]
    assert set(over.params) == {"groups", "dry_run", "confirm", "source_down"}
    assert [task.task_id for task in over.tasks] == ["failover"]
    assert [task.task_id for task in back.topological_sort()] == ["confirm", *STEPS, "move_groups"]
    # What is dangerous stands behind what is not.
    names = sorted(dag.dag_display_name for dag in dags.values())
    assert names == [DAG_ID, f"{DAG_ID} (failback)", f"{DAG_ID} (failover)", f"plan_{FLOW}"]
    mirror = back.task_dict["mirror"]
    assert mirror.flow.name == "backup->primary"
    assert mirror.application_args[3:] == ["primary->backup", "--reverse-flow"]


def test_a_flow_that_is_paused_can_be_planned(load: Load) -> None:
    """The plan's own DAG needs no unpausing, which would start a run of the flow."""
    dag = load().dags[f"plan_{FLOW}"]

    assert not dag.timetable.can_be_scheduled
    assert dag.is_paused_upon_creation is False
    assert [task.task_id for task in dag.tasks] == ["plan"]
    assert set(dag.params) == {"topics", "since", "until"}
    assert f"mirror_{FLOW}" in dag.doc_md


def test_a_dag_is_tagged_with_what_it_does_and_its_clusters(load: Load) -> None:
    dags = load().dags
    for kind in ("mirror", "plan", "failover", "failback"):
        own = {"kafka-ferry", kind, "source:primary", "target:backup"}
        assert dags[f"{kind}_{FLOW}"].tags == own


def test_every_task_is_tried_again_with_growing_pauses(load: Load) -> None:
    for task in load().dags[DAG_ID].tasks:
        assert task.retries >= 1
        # 1 would mean the same pause each time.
        assert task.retry_exponential_backoff > 1
        assert task.max_retry_delay > task.retry_delay


def intervals(dag: DAG, count: int) -> list[DataInterval]:
    """Those of the first runs, as the scheduler would make them."""
    from airflow.serialization.serialized_objects import DagSerialization

    stored = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    start = stored.start_date
    runs = islice(stored.iter_dagrun_infos_between(start, start + timedelta(days=9)), count)
    return [run.data_interval for run in runs]


@pytest.mark.parametrize(
    ("schedule", "length"),
    [
        ("'@hourly'", timedelta(hours=1)),
        ("'*/15 * * * *'", timedelta(minutes=15)),
        ("20 minutes", timedelta(minutes=20)),
        ("PT6H", timedelta(hours=6)),
    ],
)
def test_each_run_owns_a_span_of_time(
    load: Load, configs: Path, schedule: str, length: timedelta
) -> None:
    (configs / "good.yaml").write_text(GOOD + f"schedule: {schedule}\n")
    owned = intervals(load().dags["mirror_left_to_right"], 5)

    assert all(interval.end - interval.start == length for interval in owned)
    assert [later.start for later in owned[1:]] == [earlier.end for earlier in owned[:-1]]


def test_a_timetable_goes_by_the_flows_own_clock(load: Load, configs: Path) -> None:
    # From the night in which it goes forward on.
    (configs / "good.yaml").write_text(
        GOOD + "schedule: 0 6 * * *\ntimezone: Europe/Berlin\nstart.date: 2026-03-28T06:00\n"
    )
    first, second = intervals(load().dags["mirror_left_to_right"], 2)

    assert first.start == datetime(2026, 3, 28, 5, tzinfo=UTC)
    assert first.end == second.start == datetime(2026, 3, 29, 4, tzinfo=UTC)


@pytest.mark.parametrize(
    ("option", "condition"), [("", "AssetAll"), ("schedule.assets.when: any\n", "AssetAny")]
)
def test_a_flow_may_wait_for_assets(load: Load, configs: Path, option: str, condition: str) -> None:
    waits = "schedule.assets: [backup/left.a, 's3://bucket/b']\n"
    (configs / "good.yaml").write_text(GOOD + waits + option)
    timetable = load().dags["mirror_left_to_right"].timetable

    assert type(timetable.asset_condition).__name__ == condition
    assert [attrs.asdict(it) for it in timetable.asset_condition.objects] == [
        {"name": "backup/left.a"},
        {"uri": "s3://bucket/b"},
    ]


def test_a_flow_may_wait_for_assets_and_run_by_the_clock_too(load: Load, configs: Path) -> None:
    (configs / "good.yaml").write_text(GOOD + "schedule: '@daily'\nschedule.assets: [a]\n")
    dag = load().dags["mirror_left_to_right"]

    assert dag.timetable.can_be_scheduled
    assert [it.end - it.start for it in intervals(dag, 2)] == [timedelta(days=1)] * 2


@pytest.mark.parametrize(
    ("option", "reference"),
    [
        ("", "DagRunQueuedAtDeadline"),
        ("deadline.from: logical-date\n", "DagRunLogicalDateDeadline"),
    ],
)
def test_a_deadline_is_airflows(load: Load, configs: Path, option: str, reference: str) -> None:
    (configs / "good.yaml").write_text(GOOD + "deadline: 45 minutes\n" + option)
    (deadline,) = load().dags["mirror_left_to_right"].deadline

    assert deadline.interval == timedelta(minutes=45)
    assert deadline.reference.reference_name == reference
    assert callable(resolve_name(deadline.callback.path))
    assert deadline.callback.kwargs["flow"] == "left->right"


def test_a_run_that_is_started_by_hand_has_a_form(load: Load) -> None:
    from airflow.serialization.serialized_objects import DagSerialization

    dag = load().dags[DAG_ID]
    stored = DagSerialization.from_dict(DagSerialization.to_dict(dag))

    assert list(stored.params) == [
        "topics",
        "dry_run",
        "verify_all",
        "approve_removals",
        "rate_limit",
        "since",
        "until",
    ]
    # A run of the timetable has them as they are.
    stored.params.validate()
    for good in (
        {"topics": ["orders", "pay.*"], "dry_run": True, "rate_limit": "10MiB"},
        {"since": "2026-11-01T00:00:00Z", "until": "2026-11-02T00:00:00+01:00"},
    ):
        stored.params.deep_merge(good).validate()
    for bad in ({"topics": "orders"}, {"dry_run": "yes"}, {"rate_limit": "fast"}):
        with pytest.raises(ValueError, match="Invalid input"):
            stored.params.deep_merge(bad).validate()
    # Airflow says no more than the expression.
    with pytest.raises(ValueError, match=r"'10MBps' does not match .*KiB\|MiB\|GiB"):
        stored.params.deep_merge({"rate_limit": "10MBps"}).validate()


def test_spark_jobs_share_a_pool_only_where_a_user_makes_it(
    load: Load, configs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kafka_ferry_airflow import pools

    def pool_with(option: str) -> set[str]:
        (configs / "good.yaml").write_text(GOOD + option)
        tasks = load().dags["mirror_left_to_right"].task_dict
        assert tasks["plan"].pool == "default_pool"
        return {tasks[name].pool for name in ("mirror", "verify")}

    # A task in a pool that there is not would wait for ever.
    monkeypatch.setattr(pools, "_are_made", lambda: False)
    assert pool_with("") == {"default_pool"}
    assert pool_with("pool: night\n") == {"night"}
    monkeypatch.setattr(pools, "_are_made", lambda: True)
    assert pool_with("") == {"kafka_ferry_right"}
    assert pool_with("pool: source\n") == {"kafka_ferry_left"}
    monkeypatch.setenv("FERRY_POOL", "all")
    assert pool_with("pool: source\n") == {"all"}


def test_a_flow_may_name_the_connection_that_says_where_spark_runs(
    load: Load, configs: Path
) -> None:
    (configs / "good.yaml").write_text(GOOD + "spark.connection: ferry_spark\n")
    tasks = load().dags["mirror_left_to_right"].task_dict

    # What the hook of the operator's own base class is made with.
    assert {tasks[name]._conn_id for name in ("mirror", "verify")} == {"ferry_spark"}


def test_of_flows_that_wait_the_more_urgent_goes_first(load: Load, configs: Path) -> None:
    (configs / "good.yaml").write_text(GOOD + "priority: 7\n")
    tasks = load().dags["mirror_left_to_right"].task_dict

    for name in ("mirror", "verify"):
        # Its own, and not the sum with all tasks after it.
        assert tasks[name].weight_rule == "absolute"
        assert tasks[name].priority_weight == 7


def test_a_flow_in_shards_copies_each_in_a_task_of_its_own(load: Load, configs: Path) -> None:
    from airflow.serialization.serialized_objects import DagSerialization

    (configs / "good.yaml").write_text(GOOD + "shards: 3\n")
    dag = load().dags["mirror_left_to_right"]
    mirror = dag.task_dict["mirror"]

    assert mirror.is_mapped
    # Airflow's limit would let only one shard copy at a time.
    assert mirror.max_active_tis_per_dag is None
    assert dag.task_dict["verify"].max_active_tis_per_dag == 1
    assert SECRET not in str(DagSerialization.to_dict(dag))
    one = mirror.unmap({"shard": 2, "shard_name": "shard 2: a"})
    assert one.application_args[-2:] == ["--shard", "2"]
    assert one.shard_name == "shard 2: a"
    # Whoever may edit the XCom of plan gives the task nothing else.
    (given,) = mirror.expand_input.value.callables
    edited = {"shard": 2, "shard_name": "a", "conf": {"spark.pyspark.python": "/tmp/mine"}}
    assert given(edited) == {"shard": 2, "shard_name": "a"}


@pytest.mark.parametrize("shards", [1, 3])
def test_nothing_that_a_flow_says_is_a_template_and_no_callback_is_left_to_the_dag_processor(
    load: Load, configs: Path, shards: int
) -> None:
    """Airflow would fill in other teams' connections and variables, also those in the name of a flow's file.

    Of a task with callbacks whose process has not come about, it would send the run's configuration to the DAG
    processor, which ends where that has a number of more than 64 bits.
    """
    (configs / "{{ conn.other.password }}.yaml").write_text(
        f'{GOOD}approval: always\nshards: {shards}\naudit.schedule: "0 3 * * 0"\n'
    )
    bag = load()
    assert bag.import_errors == {}
    for dag in bag.dags.values():
        for task in dag.tasks:
            told = {name: getattr(task, name, None) for name in task.template_fields}
            assert "{{ conn" not in str(told), (dag.dag_id, task.task_id)
            assert not (task.on_failure_callback or task.on_retry_callback)


def test_only_the_topics_that_are_proved_are_assets(load: Load, configs: Path) -> None:
    (configs / "good.yaml").write_text(GOOD)
    dags = load().dags
    (alias,) = dags["mirror_left_to_right"].task_dict["update_assets"].outlets
    assert alias.name == "kafka_ferry/left_to_right"
    assert "update_assets" not in dags["failback_left_to_right"].task_dict
    (configs / "good.yaml").write_text(GOOD + "asset.events: none\n")
    assert "update_assets" not in load().dags["mirror_left_to_right"].task_dict


def test_the_process_of_a_task_makes_its_own_dag_only(
    load: Load, configs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (configs / "good.yaml").write_text(GOOD)
    (configs / "mm2.properties").write_text(TWO_WAYS)
    for asked in ("mirror_a_to_b", "plan_a_to_b", "failback_left_to_right"):
        # As Airflow's task runner does.
        monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", asked)
        dags = load().dags
        assert asked in dags
        assert {name.partition("_")[2] for name in dags} == {asked.partition("_")[2]}


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


def test_dags_are_made_without_looking_anything_up_and_tasks_may_look_up_what_they_are_allowed(
    load: Load, configs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.serialization.serialized_objects import DagSerialization

    monkeypatch.setenv("FERRY_TEST", SECRET)
    reference = "${env:FERRY_TEST}"
    (configs / "good.yaml").write_text(
        GOOD.replace(SECRET, reference) + "config.providers: [env]\nnotify: slack:ferry_ops\n"
    )
    bag = load()
    assert bag.import_errors == {}
    dag = bag.dags["mirror_left_to_right"]
    assert SECRET not in str(DagSerialization.to_dict(dag))

    source = dag.task_dict["plan"].flow.source
    with pytest.raises(ConfigError, match="FERRY_CONFIG_PROVIDERS allows nothing"):
        source.client_properties("consumer")
    monkeypatch.setenv("FERRY_CONFIG_PROVIDERS", "env:FERRY_.*")
    assert SECRET in source.client_properties("consumer")["sasl.jaas.config"]


def test_a_flow_without_a_timetable_is_started_by_hand_only(load: Load, configs: Path) -> None:
    (configs / "good.yaml").write_text(GOOD + "schedule: ''\nstart.date: 2999-12-31\n")
    dags = load().dags

    assert not dags["mirror_left_to_right"].timetable.can_be_scheduled
    # Airflow leaves out tasks whose start is after the run's logical date, and calls a run without tasks successful.
    assert len(dags) == 4
    assert not [task for dag in dags.values() for task in dag.tasks if task.start_date]


@pytest.mark.parametrize("approval", ["changes", "always"])
def test_a_flow_that_asks_for_approval_waits_before_anything_is_changed(
    load: Load, configs: Path, approval: str
) -> None:
    (configs / "good.yaml").write_text(GOOD + f"approval: {approval}\n")
    dag = load().dags["mirror_left_to_right"]

    tasks = [task.task_id for task in dag.topological_sort()]
    assert tasks == ["plan", "approve", *STEPS[1:], "update_assets"]
    assert dag.task_dict["sync_topics"].upstream_task_ids == {"approve"}


def test_a_flow_that_is_switched_off_is_no_dag_and_no_error(load: Load, configs: Path) -> None:
    (configs / "good.yaml").write_text(GOOD + "enabled: false\n")
    bag = load()

    assert (bag.dags, bag.import_errors) == ({}, {})


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("source: [", "bad.yaml: "),
        (GOOD.replace("left", "l") + "timetable: '@daily'", "bad.yaml:12: timetable: "),
        (
            GOOD.replace("left", "l") + "schedule: 99 * * * *",
            "bad.yaml:12: schedule: has '99' as its minute",
        ),
        (
            GOOD.replace("left", "l") + "start.date: 2024-02-30",
            "bad.yaml:12: start.date: must be a day or a moment",
        ),
        (
            GOOD.replace("left", "l") + "topics.rename: &a [*a]",
            "bad.yaml: line 12: contains itself",
        ),
        (GOOD.replace("left", "l") + f"a: {'[' * 100_000}", "bad.yaml: line 12: nests more than"),
    ],
    ids=[
        "unreadable",
        "unknown key",
        "a time that does not exist",
        "a day that no calendar has",
        "a list that contains itself",
        "a list of a hundred thousand levels",
    ],
)
def test_a_bad_flow_file_is_named_and_takes_no_other_dag_away(
    content: str, expected: str, load: Load, configs: Path
) -> None:
    (configs / "good.yaml").write_text(GOOD)
    (configs / "zbad.yaml").write_text(content)
    from kafka_ferry_airflow.flow_files import FlowFiles, check_flow
    from kafka_ferry_airflow.project import Project

    bag = load()

    assert mirrors(bag) == ["mirror_left_to_right"]
    (error,) = bag.import_errors.values()
    assert expected in error
    assert SECRET not in error
    # Those who may see import errors see the same on the page.
    (problem,) = FlowFiles(Project(PROJECT), check_flow).read().problems
    assert str(problem) in error


def test_several_problems_of_one_file_are_a_line_each(load: Load, configs: Path) -> None:
    (configs / "bad.yaml").write_text(f"{GOOD}timetable: '@daily'\nretires: 3\n")

    (error,) = load().import_errors.values()

    assert "\\n" not in error
    named = [line for line in error.splitlines() if "timetable:" in line or "retires:" in line]
    assert len(named) == 2


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
    assert "FERRY_CLUSTERS: wrong: is not a cluster of any file" in error


def test_a_missing_folder_of_flows_is_named(load: Load, configs: Path) -> None:
    configs.rmdir()

    (error,) = load().import_errors.values()
    assert f"{configs}: file: is not a folder" in error


def test_a_flow_that_asks_for_audits_has_a_dag_of_them(configs: Path, load: Load) -> None:
    (configs / "left.yaml").write_text(f'{GOOD}audit.schedule: "0 3 * * 0"\npriority: 7\n')
    bag = load()
    assert bag.import_errors == {}
    dag = bag.dags["audit_left_to_right"]
    assert "audit" in dag.tags
    (audit,) = dag.tasks
    mirrored = bag.dags["mirror_left_to_right"].get_task("verify")
    assert (audit.task_id, audit.pool, audit.priority_weight) == ("audit", mirrored.pool, 7)
    assert audit.application.endswith("spark_jobs/audit.py")
    assert audit.application_args == [
        *("--config", str(configs / "left.yaml"), "--flow", "left->right")
    ]

    (configs / "left.yaml").write_text(GOOD)
    assert not [name for name in load().dags if name.startswith("audit_")]
