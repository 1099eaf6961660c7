"""The suite of a whole run: what fails it, what a user adds, and how long proofs stay."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_ferry.config import Flow
from kafka_ferry.errors import VerificationFailed
from kafka_ferry.groups.moves import GroupMoves
from kafka_ferry.model import TopicPartition
from kafka_ferry.runs import Run
from kafka_ferry.runs.state.flow_state import flow_state
from kafka_ferry.runs.state.run_folder import RunFolder
from tests.support.records.builders import Record, create_topic, delete_before, set_config
from tests.support.records.groups import commit_alone
from tests.support.runs.flows import copy_planned, remote
from tests.support.runs.pair import Pair
from tests.support.runs.proof import NO_SPARK, recount_here

OWN = """\
partitions:
  - type: expect_column_values_to_be_between
    kwargs: {column: covered_end, max_value: 4}
    description: logs are short
    severity: warning
topics:
  - type: expect_colum_values_to_be_unique
    kwargs: {column: topic}
"""


def planned(flow: Flow, run: str) -> Run:
    this = Run(flow, run)
    this.plan()
    this.sync_topics()
    return this


def mirror(run: Run) -> None:
    """The step without Spark."""
    with run._folder.step("mirror"):
        copy_planned(run.flow, run.stored_plan())


def verified(flow: Flow, run: str) -> Run:
    this = planned(flow, run)
    mirror(this)
    this.verify(NO_SPARK)
    return this


def test_everything_that_is_synced_is_judged_and_told_as_the_flow_weighs_it(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    recount_here(monkeypatch, docs=True)
    topic, group = pair.unique("orders"), pair.unique("billing")
    create_topic(pair.primary.bootstrap, topic, 2, retention_ms="86400000")
    pair.produce(topic, [Record(b"k", b"v", partition=0)] * 5)
    commit_alone(pair.primary, group, {TopicPartition(topic, 0): 3})
    (pair.folder / "expectations").mkdir()
    flow = pair.flow(
        [topic],
        groups=group,
        sync_group_offsets_enabled=True,
        verify_expectations=str(pair.folder / "expectations"),
        verify_severity={"drift": "warning"},
        reports_keep_runs=1,
    )

    run = verified(flow, "run-1")
    run.sync_groups()
    report = run.publish()
    assert report.proof.verdict is not None
    assert all(check.success for check in report.proof.verdict.expectations)
    assert {check.table for check in report.proof.verdict.expectations} == {
        "ranges",
        "partitions",
        "topics",
        "groups",
    }
    (pages,) = _pages(flow)
    assert {page.stem for page in pages.glob("*.html")} == {
        "ranges",
        "warnings",
        "partitions",
        "topics",
        "groups",
    }

    # Another client changes a config while a run is under way, and a user's file has a mistake in it.
    pair.produce(topic, [Record(b"k", b"v", partition=0)])
    (pair.folder / "expectations" / "all.yaml").write_text(OWN)
    run = planned(flow, "run-2")
    set_config(pair.backup, remote(flow, topic), "retention.ms", "3600000")
    mirror(run)
    with pytest.raises(VerificationFailed) as caught:
        run.verify(NO_SPARK)
    assert f"{pair.folder}/expectations/all.yaml, line 7: there is no expectation" in str(
        caught.value
    )
    found = run.reconciliation()
    assert found is not None and found.verdict is not None
    assert _warnings(found.verdict.warnings) == [
        "retention.ms is 3600000, and this flow has set 86400000",
        "covered_end is 6",
    ]

    # The next run verifies the same again, has a drift, and moves a group too far.
    (pair.folder / "expectations" / "all.yaml").unlink()
    run = verified(flow, "run-3")
    found = run.reconciliation()
    assert found is not None and found.verdict is not None
    assert [row.drifted_configs for row in found.topics] == [1]
    assert _warnings(found.verdict.warnings) == ["retention.ms is 3600000"]
    _move_group_too_far(flow, "run-3", run.sync_groups())
    with pytest.raises(VerificationFailed, match="1 offset past the last verified record"):
        run.publish()
    report = run.report()
    assert report is not None and report.state == "incomplete"
    assert "verified, but not its groups" in (run.report_path or pair.folder).read_text()

    # Of two published runs the older one is forgotten, with all older pages; run-2 may still go on.
    assert flow_state(flow).folder("runs").folders() == ["run-2", "run-3"]
    (pages,) = _pages(flow)
    assert pages.name.endswith("run-3")
    assert (pages / "groups.html").is_file()

    run.sync_groups()
    assert run.publish().state == "verified"


def _pages(flow: Flow) -> list[Path]:
    docs = flow_state(flow).local_path
    assert docs is not None
    return sorted((docs / "data_docs" / "runs").iterdir())


def _warnings(sentences: tuple[str, ...]) -> list[str]:
    return [sentence.partition(" (expected")[0].partition(": ")[2] for sentence in sentences]


def _move_group_too_far(flow: Flow, run: str, moves: GroupMoves) -> None:
    """Have the record of the groups say what a fault of the translation would have done."""
    stored = moves.to_json().replace('"offset": 3,', '"offset": 8,')
    folder = RunFolder(flow_state(flow).folder("runs"), run)
    folder.save_groups(GroupMoves.from_json(stored))


def test_a_plan_that_a_later_run_has_gone_past_is_made_again_as_the_message_says(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    recount_here(monkeypatch)
    topic = pair.topic("passed")
    pair.produce(topic, [Record(value=b"%d" % i, partition=0) for i in range(10)])
    flow = pair.flow([topic], on_source_truncation="continue")
    planned(flow, "run-1")
    delete_before(pair.primary, topic, 1)
    verified(flow, "run-2")

    old = Run(flow, "run-1")
    mirror(old)
    with pytest.raises(VerificationFailed) as raised:
        old.verify(NO_SPARK)
    assert "planned [0, 10), covered [1, 10), and the position is 10 already" in str(raised.value)
    assert "clear its task plan, with the tasks after it" in str(raised.value)

    assert verified(flow, "run-1").reconciliation()
