"""The command line says what is wrong, where, and with which exit status."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
import regex

from kafka_ferry.control import ClusterControl
from kafka_ferry.model import TopicPartition
from kafka_sandbox.broker import Broker, free_port
from kafka_sandbox.cluster import KafkaCluster
from kafka_sandbox.network.proxied import ProxyAddress
from tests.support.records.builders import Record, delete_topic, recreate_topic
from tests.support.records.groups import commit_alone
from tests.support.records.histories import named
from tests.support.runs.command_line import ferry, ferry_process
from tests.support.runs.flows import copy_now, remote, write_flow
from tests.support.runs.pair import Pair


def test_a_plan_lists_what_would_be_done_and_changes_nothing(pair: Pair) -> None:
    topic = pair.topic(
        "planned", [Record(value=b"x", partition=p) for p in (0, 1, 1)], partitions=2
    )
    file = write_flow(pair.folder, pair.primary, pair.backup, [topic])

    first, second = ferry("plan", "--config", file, "--json"), ferry("plan", "--config", file)

    plan = json.loads(first.stdout)
    assert (first.returncode, second.returncode) == (2, 2)
    assert [(r["partition"], r["start"], r["end"]) for r in plan["ranges"]] == [
        (0, 0, 1),
        (1, 0, 2),
    ]
    assert plan["creations"][0]["remote_topic"] == f"{pair.folder.name}.{topic}"
    assert "about 3 records (" in second.stdout
    assert "in 2 partitions; topics to create: 1" in second.stdout

    assert not (pair.folder / "state").exists() or not list(
        (pair.folder / "state").rglob("plan.json")
    )


def test_a_run_of_the_command_line_is_repeated_by_its_id(pair: Pair) -> None:
    brief = str(23 * 3_600_000)
    topic = pair.topic("repeated", [Record(value=b"x")] * 3, retention_ms=brief)
    file = write_flow(pair.folder, pair.primary, pair.backup, [topic], schedule="@daily")

    first = ferry_process("run", "--config", file, "--json")
    run_id = json.loads(first.stdout)["run"]
    again = ferry("run", "--config", file, "--run-id", run_id, "--json")

    assert (first.returncode, again.returncode) == (0, 0), again.stderr
    assert f"RISK {topic}-0: retention.ms={brief} is less than the time" in " ".join(
        first.stderr.split()
    )
    report = json.loads(again.stdout)
    assert (report["run"], report["records"]) == (run_id, 3)


@pytest.mark.parametrize(
    "command",
    [("plan",), ("run",), ("failback", "--copy-only"), ("failback", "--dry-run", "--json")],
)
def test_too_few_brokers_are_told_before_anything_is_done(
    pair: Pair, command: tuple[str, ...]
) -> None:
    topic = pair.topic("wide", [Record(value=b"x")])
    there = pair.unique("there")
    file = write_flow(
        pair.folder, pair.primary, pair.backup, [topic], into=there, replication_factor=9
    )
    done = ferry(*command, "--config", file)
    assert (done.returncode, done.stdout) == (9, "")
    assert regex.search(rf"{file}:\d+: replication.factor: is 9, and ", done.stderr)
    assert "cannot be created there. Set it to at most " in done.stderr


SECRET = {
    "transform": [
        {"topics": [".*"], "format": {"value": "json"}, "set": {"value.a": "secret('s')"}}
    ],
    "config_providers": ["env"],
    "transform_secrets": {"s": "${env:FERRY_UNSET}"},
}
FUNCTION = {"transform": [{"topics": [".*"], "function": "masks.none"}]}


@pytest.mark.parametrize(
    ("options", "command", "said"),
    [
        (SECRET, "plan", "is not set in the environment of this process"),
        (SECRET, "run", "is not set in the environment of this process"),
        (FUNCTION, "run", "masks.py, which does not exist"),
    ],
)
def test_what_a_rule_needs_and_has_not_is_told_before_anything_is_done(
    pair: Pair, options: dict[str, object], command: str, said: str
) -> None:
    topic = pair.topic("ruled", [Record(value=b'{"a":1}')])
    flow = pair.flow([topic], **options)

    done = ferry(command, "--config", flow.file)

    assert (done.returncode, done.stdout) == (9, "")
    assert said in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert ClusterControl(flow.target).unknown([remote(flow, topic)])


def test_a_state_folder_that_is_a_file_is_told_before_anything_is_done(pair: Pair) -> None:
    topic = pair.topic("stateless", [Record(value=b"x")])
    state = pair.folder / "a-file"
    state.touch()
    flow = pair.flow([topic], state_dir=str(state))

    done = ferry("run", "--config", flow.file)

    assert (done.returncode, done.stdout) == (9, "")
    assert "must be a folder that this user may read and write" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert ClusterControl(flow.target).unknown([remote(flow, topic)])


def test_the_lag_is_what_the_positions_have_not_reached(pair: Pair) -> None:
    topic = pair.topic("lagging", partitions=2)
    flow = pair.flow([topic])
    pair.produce(topic, [Record(value=b"x", partition=0)] * 5)
    copy_now(flow)
    pair.produce(topic, [Record(value=b"x", partition=p) for p in (0, 0, 1)])

    def lag(*options: str) -> list[dict[str, object]]:
        done = ferry("lag", "--config", flow.file, *options, "--json")
        assert done.returncode == 0, done.stderr
        rows: list[dict[str, object]] = json.loads(done.stdout)
        return rows

    rows = lag()
    shown = [(r["partition"], r["position"], r["log_end"], r["lag"]) for r in rows]
    assert shown == [(0, 5, 7, 2), (1, None, 1, 1)]
    assert lag("--topics", topic) == rows
    shown_to_people = ferry("lag", "--config", flow.file).stdout
    assert shown_to_people.startswith("Nothing is proved complete yet; 3 offsets behind.\n")
    nothing = ferry("lag", "--config", flow.file, "--topics", "another")
    assert (nothing.returncode, "matches another" in nothing.stderr) == (9, True)

    group = pair.unique("billing")
    commit_alone(pair.primary, group, {TopicPartition(topic, 0): 3})
    (row,) = lag("--group", group)
    assert (row["group"], row["partition"], row["position"], row["lag"]) == (group, 0, 3, 4)
    # Nothing is verified yet, so nothing is translated.
    assert row["to_offset"] is None
    unknown = ferry("lag", "--config", flow.file, "--group", "unknown")
    assert (unknown.returncode, unknown.stdout) == (10, "")
    assert "ERROR: There is no group unknown on " in unknown.stderr


def test_the_lag_of_topics_whose_names_were_swapped_blames_no_recreated_topic(pair: Pair) -> None:
    one, other = pair.topic("one", named("one", 3)), pair.topic("other", named("other", 2))
    names = {one: pair.unique("first"), other: pair.unique("second")}
    copy_now(pair.flow([one, other], topics_rename=names))
    flow = pair.flow([one, other], topics_rename={one: names[other], other: names[one]})

    done = ferry("lag", "--config", flow.file)

    assert done.returncode == 0, done.stderr
    assert "5 offsets behind" in done.stdout
    assert done.stderr.count("is the copy of another topic, by the ledger") == 2
    assert "recreated" not in done.stderr


@pytest.mark.parametrize(
    "command", [("run",), ("backfill", "--since", "2026-01-01", "--until", "2026-01-02")]
)
def test_a_dry_run_fails_where_the_run_would(pair: Pair, command: tuple[str, ...]) -> None:
    topic = pair.topic("there", [Record(value=b"x")])
    file = pair.flow([topic, "not-there"]).file
    tried = ferry(*command, "--config", file, "--dry-run")
    assert tried.returncode == 6
    assert "REFUSED not-there: " in tried.stdout
    assert "1 refused by the plan" in tried.stderr
    others = ferry(*command, "--config", file, "--dry-run", "--topics", topic)
    assert others.returncode == 0, others.stderr


def test_the_lag_of_a_topic_that_is_not_the_one_that_was_copied_is_all_that_the_source_holds(
    pair: Pair,
) -> None:
    recreated, lost = (pair.topic(name, [Record(value=b"x")] * 3) for name in ("anew", "lost"))
    copy_now(pair.flow([recreated, lost]))
    flow = pair.flow([recreated, lost, f"{lost}s"])
    recreate_topic(pair.primary, recreated)
    pair.produce(recreated, [Record(value=b"y")] * 2)
    delete_topic(pair.backup, f"{flow.source.alias}.{lost}")

    done = ferry("lag", "--config", flow.file, "--short")
    assert done.stdout == "Nothing is proved complete yet; 5 offsets behind.\n"
    said = " ".join(done.stderr.split())
    assert f"{recreated} was deleted on {flow.source.alias} and recreated since it was" in said
    assert f"The copy of {lost} on {flow.target.alias} was deleted, or" in said
    assert f"{lost}s: {flow.source.alias} has no topic of this name. Did you mean '{lost}'?" in said
    assert done.returncode == 9
    rows = json.loads(ferry("lag", "--config", flow.file, "--json").stdout)
    shown = {(row["topic"], row["gone"], row["position"], row["lag"]) for row in rows}
    assert shown == {(recreated, "source recreated", None, 2), (lost, "copy gone", None, 3)}


@pytest.mark.parametrize(
    ("change", "status", "said"),
    [
        (('"topics"', '"topcis"'), 9, "topcis: is not an option of a flow. Did you mean 'topics'?"),
        (('["orders"]', '["(orders"]'), 9, "(orders"),
        (('"alias": "backup"', '"name": "backup"'), 9, "target"),
        (('"writers": 4', '"writers": 0'), 9, "writers"),
    ],
    ids=["unknown key", "bad regex", "cluster without an alias", "out of bounds"],
)
def test_a_wrong_file_is_named_with_key_and_reason(
    change: tuple[str, str], status: int, said: str, pair: Pair
) -> None:
    file = write_flow(pair.folder, pair.primary, pair.backup, ["orders"])
    file.write_text(json.dumps(json.loads(file.read_text())).replace(*change))

    result = ferry("plan", "--config", file)

    assert result.returncode == status
    assert str(file) in result.stderr
    assert said in result.stderr
    assert "Traceback" not in result.stderr


def test_a_cluster_is_never_mirrored_into_itself(folder: Path, primary: KafkaCluster) -> None:
    """MirrorMaker 2 situation 16: there topics named a.a.a.x without end."""
    other_name = ProxyAddress(primary.bootstrap.replace("127.0.0.1", "localhost"))
    result = ferry("plan", "--config", write_flow(folder, primary, other_name, ["orders"]))

    assert result.returncode == 9
    assert "are one cluster" in result.stderr
    assert "Check source.bootstrap.servers in " in result.stderr


@pytest.mark.parametrize(
    ("step", "down"), [("plan", "source"), ("run", "target"), ("lag", "source")]
)
def test_a_cluster_that_is_down_is_named_after_as_long_as_the_flow_says(
    folder: Path, primary: KafkaCluster, step: str, down: str
) -> None:
    nobody = Broker(folder / "nobody", port=free_port())
    clusters = (nobody, primary) if down == "source" else (primary, nobody)
    file = write_flow(folder, *clusters, ["orders"], admin_timeout_ms=1_000)
    began = time.monotonic()

    done = ferry(step, "--config", file)

    assert done.returncode == 3
    assert f"Check {down}.bootstrap.servers in {file}" in done.stderr
    if (step, down) == ("lag", "source"):
        assert "How many records are not copied is unknown." in done.stderr
    assert "Traceback" not in done.stderr
    # Not the minute that it is by default, nor the 15 seconds of a request.
    assert time.monotonic() - began < 12
