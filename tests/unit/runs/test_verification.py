"""What a verification looks at when remote topics are no longer those that were copied into."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kafka_ferry.batches import Segment
from kafka_ferry.config import Flow, load_flow
from kafka_ferry.errors import VerificationFailed
from kafka_ferry.ledger import LedgerRange, VerificationEntry
from kafka_ferry.plan import Plan, Position, Range, Topic, TopicPartition
from kafka_ferry.runs import verification
from kafka_ferry.runs.folder import RunFolder
from kafka_ferry.state import StateFolder
from kafka_ferry.verify import PartitionRow, RangeRow, Recount, Verdict
from kafka_ferry.verify.recount import PartitionRecount
from tests.unit.ledger.entries import a_copied_range

NO_SPARK: Any = None
ORDERS, CUSTOMERS = TopicPartition("primary.orders", 0), TopicPartition("primary.customers", 0)
THERE = {tp.topic: Topic(tp.topic, f"id of {tp.topic}", partitions=1) for tp in (ORDERS, CUSTOMERS)}
Verified = tuple[Verdict, tuple[RangeRow, ...], tuple[PartitionRow, ...]]


@dataclass
class Ledger:
    """A ledger that holds ``entries``, none of them verified."""

    entries: list[LedgerRange] = field(default_factory=list)

    def project(self, *_: object) -> int:
        return len(self.entries)

    def verified_through(self) -> int:
        return 0

    def ranges(self, *, since: int, of_run: str) -> Iterator[LedgerRange]:
        return iter(self.entries)


class Target:
    """A target that holds all that was copied into the topics that it has.

    Attributes:
        topics: those that there are now.
        asked: target partitions that were read back, with the number of ranges.
        appended: what was written to the ledger.
    """

    def __init__(self) -> None:
        self.topics: dict[str, Topic] = dict(THERE)
        self.positions: dict[TopicPartition, Position] = {}
        self.asked: dict[TopicPartition, int] = {}
        self.appended: list[VerificationEntry] = []
        self.ledger = Ledger()

    def copied(self, start: int, end: int, run: str = "run-2", **more: Any) -> None:
        """A transaction of ``run``."""
        copied = a_copied_range(start, end, **more)
        entry = LedgerRange(len(self.ledger.entries), run, copied)
        self.ledger.entries.append(entry)
        self.positions[entry.target] = Position(end)

    def recount(
        self,
        _: object,
        __: object,
        partitions: Mapping[TopicPartition, Sequence[Sequence[Segment]]],
    ) -> dict[TopicPartition, PartitionRecount]:
        assert {tp.topic for tp in partitions} <= self.topics.keys()
        self.asked = {tp: len(ranges) for tp, ranges in partitions.items()}
        sent = {entry.copied.segments: entry.copied for entry in self.ledger.entries}
        return {
            tp: PartitionRecount(
                tuple(Recount(sent[s].records, sent[s].digest) for s in map(tuple, ranges)), 0
            )
            for tp, ranges in partitions.items()
        }


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> Target:
    """The target, in the place of everything that would ask brokers."""
    made = Target()

    class Control:
        def __init__(self, _: object) -> None: ...

        def topics(self, names: set[str]) -> dict[str, Topic]:
            return {name: made.topics[name] for name in names & made.topics.keys()}

    monkeypatch.setattr(verification, "ClusterControl", Control)
    monkeypatch.setattr(verification, "recount_all", made.recount)
    monkeypatch.setattr(verification, "read_positions", lambda *_: made.positions)
    monkeypatch.setattr(verification, "append_entry", lambda _, entry: made.appended.append(entry))
    return made


@pytest.fixture
def flow(tmp_path: Path) -> Flow:
    file = tmp_path / "flow.yaml"
    file.write_text(
        "source: {alias: primary, bootstrap.servers: 'a:1'}\n"
        "target: {alias: backup, bootstrap.servers: 'b:1'}\n"
        f"state.dir: {tmp_path}/state\n"
    )
    return load_flow(file)


@pytest.fixture
def verify(flow: Flow, target: Target) -> Callable[..., Verified]:
    """Verifies run-2, which planned the given offsets of orders-0 and of customers-0."""

    def do(**planned: tuple[int, int]) -> Verified:
        state = StateFolder(flow.state_path)
        folder = RunFolder(state.folder("runs"), "run-2")
        ranges = tuple(
            Range(topic, 0, *ends, f"id of {topic}", f"primary.{topic}", 0)
            for topic, ends in planned.items()
        )
        folder.save_plan(Plan(flow.name, "run-2", 1, "A", "B", ranges=ranges))
        ledger: Any = target.ledger
        try:
            verification.verify_run(NO_SPARK, flow, folder, ledger, state, "run-2")
        except VerificationFailed:
            assert not target.appended
        found = folder.reconciliation()
        assert found and found.verdict
        return found.verdict, found.ranges, found.partitions

    return do


def test_a_topic_that_was_copied_again_is_verified_without_what_went_into_the_old_one(
    target: Target, verify: Callable[..., Verified]
) -> None:
    target.copied(0, 100, "run-1", remote_topic_id="of the old one")
    target.copied(20, 130)

    verdict, ranges, (partition,) = verify(orders=(20, 130))

    assert verdict.success
    assert target.asked == {ORDERS: 1}
    assert verdict.warnings == (
        "orders-0 [0, 100): 100 records went into primary.orders, which was deleted since "
        "(expected: the remote topic that was copied into is still there)",
    )
    assert [(row.start, row.gone) for row in ranges] == [(20, 0), (0, 100)]
    assert (partition.covered_start, partition.covered_end) == (20, 130)
    assert [entry.records for entry in target.appended] == [110], "so it is not said again"


def test_a_run_that_had_copied_into_both_topics_is_judged_by_the_new_one(
    target: Target, verify: Callable[..., Verified]
) -> None:
    """Its first attempt, before somebody deleted the remote topic, and its second one."""
    target.copied(0, 100, "run-2", remote_topic_id="of the old one")
    target.copied(0, 100, "run-2")

    verdict, _, (partition,) = verify(orders=(0, 100))

    assert verdict.success
    assert partition.overlap_offsets == 0


def test_what_an_earlier_run_copied_into_a_topic_that_is_gone_fails_nothing(
    target: Target, verify: Callable[..., Verified]
) -> None:
    target.copied(0, 100, "run-1")
    target.copied(0, 10, topic="customers")
    del target.topics[ORDERS.topic]

    verdict, _, _ = verify(customers=(0, 10))

    assert verdict.success
    assert target.asked == {CUSTOMERS: 1}
    assert "100 records went into primary.orders, which was deleted" in verdict.warnings[0]
    assert target.appended


@pytest.mark.parametrize("anew", [False, True], ids=["deleted", "made anew"])
def test_a_run_whose_own_copy_is_gone_is_not_proved_and_the_other_topics_are_read_back(
    target: Target, verify: Callable[..., Verified], anew: bool
) -> None:
    target.copied(0, 100)
    target.copied(0, 10, topic="customers")
    if anew:
        target.topics[ORDERS.topic] = Topic(ORDERS.topic, "another id", partitions=1)
    else:
        del target.topics[ORDERS.topic]

    verdict, _, _ = verify(orders=(0, 100), customers=(0, 10))

    assert not verdict.success
    assert all(failure.startswith("orders-0 [0, 100): ") for failure in verdict.failures)
    assert target.asked == {CUSTOMERS: 1}
    assert "primary.orders, which was deleted since" in verdict.warnings[0]


def test_both_lives_of_a_source_topic_are_read_back_from_their_one_remote_topic(
    target: Target, verify: Callable[..., Verified]
) -> None:
    """``on.source.topic.recreated: append``."""
    target.copied(0, 100, "run-1", topic_id="of the old one")
    target.copied(0, 30, segments=(Segment(0, 1101, 30),))

    verdict, _, partitions = verify(orders=(0, 30))

    assert verdict.success
    assert not verdict.warnings
    assert target.asked == {ORDERS: 2}
    assert [(row.covered_end, row.planned_end) for row in partitions] == [(100, -1), (30, 30)]
