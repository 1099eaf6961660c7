"""Topics with nothing in them, or nothing new, keep no step from doing for the others what it does without them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pytest

from kafka_ferry.config import Flow
from kafka_ferry.errors import FerryError
from kafka_ferry.model import RunOptions, TopicPartition, Window
from kafka_ferry.report import RunReport
from kafka_ferry.runs import STEPS, Run
from kafka_ferry.runs.audit.audit import Audit
from kafka_ferry.runs.audit.request import AuditRequest
from kafka_ferry.runs.certificates import faults_of, find_certificates
from kafka_ferry.runs.failover.failover import failover
from kafka_ferry.runs.plan.backfill import pin_positions
from kafka_ferry.runs.publish.publish import publish_run
from kafka_ferry.spark.session import SparkSource, no_spark, terminal_spark
from tests.support.records.builders import Record, add_partitions, delete_before
from tests.support.records.groups import commit_alone
from tests.support.runs.flows import content, copy_planned, failures, make_flow, plan_now
from tests.support.runs.pair import Pair
from tests.support.runs.proof import NO_SPARK, plan_a_day_later, recount_here

PARTITIONS: Final = 2
RECORDS: Final = 10
"""Of each partition that is used."""
READ: Final = 4
"""How many of them the group has read."""
EVER: Final = Window(0, 2**62)
KINDS: Final = {
    "empty": "no record was ever written",
    "expired": "all records were deleted before the first run",
    "emptied": "all records were deleted after it",
    "quiet": "no record was written after it",
    "half": "one partition was never written to",
    "grown": "records and a partition came after it",
}


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSource]:
    with terminal_spark("nothing new", 2) as spark:
        yield spark


@dataclass(frozen=True)
class Source:
    """The topics of a round.

    Attributes:
        pair: the clusters.
        busy: a topic with records before each run.
        others: the others, each with its kind.
        group: a group that has read something of each of them that had anything.
    """

    pair: Pair
    busy: str
    others: dict[str, str]
    group: str

    @classmethod
    def of(cls, pair: Pair, kinds: Sequence[str]) -> Source:
        """The topics before the first run."""
        names = {pair.topic(kind, partitions=PARTITIONS): kind for kind in kinds}
        this = cls(pair, pair.topic("busy", partitions=PARTITIONS), names, pair.unique("reader"))
        this._write(this.busy)
        for topic, kind in names.items():
            if kind != "empty":
                this._write(topic, range(1) if kind == "half" else range(PARTITIONS))
        this._commit(READ)
        for topic in this._of_kind("expired"):
            this._delete_all(topic)
        return this

    def go_on(self) -> None:
        """What happens between two runs."""
        self._write(self.busy)
        for topic in self._of_kind("grown"):
            add_partitions(self.pair.primary, topic, PARTITIONS + 1)
            self._write(topic, range(PARTITIONS + 1))
        for topic in self._of_kind("emptied"):
            self._delete_all(topic)

    def flow(self, name: str, topics: Sequence[str], **options: Any) -> Flow:
        """A flow of some of them into names of its own."""
        folder = self.pair.folder / f"{self.pair.folder.name}-{name}"
        return make_flow(
            folder,
            *(self.pair.primary, self.pair.backup, topics),
            groups=[self.group],
            sync_group_offsets_enabled=True,
            certificates_enabled=True,
            writers=2,
            **options,
        )

    def _of_kind(self, kind: str) -> list[str]:
        return [topic for topic, of_topic in self.others.items() if of_topic == kind]

    def _write(self, topic: str, partitions: Sequence[int] = range(PARTITIONS)) -> None:
        records = [
            Record(key=b"%d" % number, value=topic.encode(), partition=partition)
            for number in range(RECORDS)
            for partition in partitions
        ]
        self.pair.produce(topic, records)

    def _delete_all(self, topic: str) -> None:
        for partition in range(PARTITIONS):
            delete_before(self.pair.primary, topic, RECORDS, partition)

    def _commit(self, read: int) -> None:
        """The group commits in each partition what it has read, and 0 where there was nothing."""
        used = {"empty": 0, "half": 1}
        offsets = {
            TopicPartition(topic, number): read if number < used.get(kind, PARTITIONS) else 0
            for topic, kind in {self.busy: "busy", **self.others}.items()
            for number in range(PARTITIONS)
        }
        commit_alone(self.pair.primary, self.group, offsets)


@dataclass(frozen=True)
class Steps:
    """The steps of a flow's runs, each of which has to succeed."""

    flow: Flow
    spark: SparkSource | None

    def run(self, name: str, options: RunOptions | None = None) -> RunReport:
        """A whole run."""
        this = Run(self.flow, name)
        if options:
            this.plan(options)
            plan = this.sync_topics()
        else:
            plan = plan_now(self.flow, name)
        assert not plan.remarks.refused, plan.remarks.refused
        if self.spark:
            this.mirror(self.spark)
        else:
            assert failures(pin_positions(self.flow, name, plan.pins)) == []
            assert failures(copy_planned(self.flow, plan)) == []
        this.verify(self.spark or NO_SPARK)
        this.sync_groups()
        report = publish_run(this._context, STEPS[:-1])
        assert report.state == "verified", report.problems
        return report

    def outlooks(self) -> dict[str, dict[TopicPartition, Any]]:
        """Where the group's consumers would go on, with the source up and down, by source partition."""
        found = {}
        for name, is_down in (("up", False), ("down", True)):
            outlook = failover(self.flow, dry_run=True, source_down=is_down)
            (group,) = outlook.groups
            # What came before the first run is not on the target then, and the group has read a part of it.
            if self.flow.auto_offset_reset == "latest":
                assert (group.state, "are not on backup" in group.reason) == ("stuck", True), group
            else:
                assert (group.state, outlook.problems) == ("ready", ()), (name, group)
            found[name] = {
                one.source: (one.offset, one.first and one.first.key) for one in group.partitions
            }
        return found

    def audit(self) -> dict[str, dict[str, Any]]:
        """What an audit of the flow counts, by topic; it finds nothing wrong."""
        this = Audit(self.flow, AuditRequest())
        told = json.loads(this.compare(this.plan(), no_spark, lambda *_: None).to_json())
        assert told["skipped"] == []
        found: dict[str, dict[str, Any]] = defaultdict(dict)
        for part in told["partitions"]:
            assert (part["findings"], part["reason"]) == ([], ""), part
            found[part["pair"]["topic"]][part["pair"]["partition"]] = part["counts"]
        return found


def seen(source: Source, steps: Steps, report: RunReport) -> dict[str, Any]:
    """What came of the busy topic."""
    flow, busy = steps.flow, source.busy
    outlooks = steps.outlooks()
    assert all(at is not None for found in outlooks.values() for at, _ in found.values())
    # What the source had deleted before the first run is not to be had.
    goes_on = flow.model_copy(update={"on_source_truncation": "continue"})
    backfilled = replace(steps, flow=goes_on).run("fill", RunOptions(window=EVER))
    assert list(faults_of(flow, find_certificates(flow), ())) == []
    return {
        "copied": content(source.pair.copied(flow, busy)),
        "ranges": sorted(
            (row.partition, row.start, row.end, row.recount.target_records)
            for row in report.proof.ranges
            if row.topic == busy
        ),
        "group": {
            name: {tp: key for tp, (_, key) in found.items() if tp.topic == busy}
            for name, found in outlooks.items()
        },
        "backfilled": {
            (row.partition, row.start, row.end, row.recount.target_records)
            for row in backfilled.proof.ranges
            if row.topic == busy
        },
        # Where a rule leaves records out, or a backfill puts older ones last, an audit says so.
        "audit": steps.audit()[busy] if _is_exact(flow) else {},
    }


def _is_exact(flow: Flow) -> bool:
    return not flow.transform and flow.auto_offset_reset == "earliest"


def compare(
    pair: Pair,
    monkeypatch: pytest.MonkeyPatch,
    kinds: Sequence[str],
    spark: SparkSource | None = None,
    **options: Any,
) -> None:
    """The busy topic alone, and beside topics of ``kinds``, comes to the same in every step."""
    source = Source.of(pair, kinds)
    alone, beside = (
        Steps(source.flow(name, topics, **options), spark)
        for name, topics in (("alone", [source.busy]), ("beside", [source.busy, *source.others]))
    )
    for steps in (alone, beside):
        steps.run("run-1")
    source.go_on()
    with monkeypatch.context() as patch:
        plan_a_day_later(patch)
        reports = [steps.run("run-2") for steps in (alone, beside)]
        # By now nothing is new in any of them.
        for steps in (alone, beside):
            steps.run("run-3")
    assert seen(source, beside, reports[1]) == seen(source, alone, reports[0])


@pytest.mark.long
def test_a_topic_comes_to_the_same_beside_others_with_nothing_new(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    recount_here(monkeypatch)
    compare(pair, monkeypatch, list(KINDS))


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("offsets", "start", "has_rule"),
    [
        ("translated", "latest", False),
        ("preserved", "latest", True),
    ],
)
def test_so_it_does_whatever_the_options(
    pair: Pair,
    monkeypatch: pytest.MonkeyPatch,
    spark: SparkSource,
    offsets: str,
    start: str,
    has_rule: bool,
) -> None:
    options: dict[str, Any] = {"offsets": offsets, "auto_offset_reset": start}
    if offsets == "preserved":
        # Older records cannot be added after the end of a log that keeps the source's offsets.
        options["backfill_topic"] = "separate"
    if has_rule:
        options["transform"] = [{"topics": [".*"], "where": "key != X'33'"}]
    else:
        recount_here(monkeypatch)
    compare(pair, monkeypatch, list(KINDS), spark if has_rule else None, **options)


def test_a_flow_that_was_never_run_has_nothing_to_verify(pair: Pair) -> None:
    flow = pair.flow([pair.topic("orders")])
    with pytest.raises(FerryError, match="has never been run: backup has no topic ferry-ledger"):
        Run.latest(flow)
