"""What a verification looks at when remote topics are no longer those that were copied into."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pytest

from kafka_ferry.batches import Segment
from kafka_ferry.config import Flow
from kafka_ferry.errors import AccessDenied, FerryError, VerificationFailed
from kafka_ferry.ledger import LedgerEnd, LedgerRange, VerificationEntry
from kafka_ferry.model import LogBounds, Plan, Position, ProducerState, Range, Topic, TopicPartition
from kafka_ferry.model.changes import Applied
from kafka_ferry.model.cluster_state import Mark
from kafka_ferry.runs.state.run_context import RunContext
from kafka_ferry.runs.state.run_folder import RunFolder
from kafka_ferry.runs.verify import target_rows
from kafka_ferry.runs.verify import verify as verify_module
from kafka_ferry.spark import recount
from kafka_ferry.state import StateFolder
from kafka_ferry.verify import PartitionRecount, PartitionRow, RangeRow, Recount, Verdict
from kafka_ferry.verify.claim import RangeClaim
from tests.support.runs.proof import judge_failures_alone
from tests.unit.ledger.entries import a_copied_range

NO_SPARK: Any = lambda: None  # noqa: E731
ORDERS, CUSTOMERS = TopicPartition("primary.orders", 0), TopicPartition("primary.customers", 0)
THERE = {tp.topic: Topic(tp.topic, f"id of {tp.topic}", partitions=1) for tp in (ORDERS, CUSTOMERS)}
Verified = tuple[Verdict, tuple[RangeRow, ...], tuple[PartitionRow, ...]]


@dataclass
class Ledger:
    """A ledger that holds ``entries``, none of them verified, and ``verified`` ones."""

    entries: list[LedgerRange] = field(default_factory=list)
    verified: list[LedgerRange] = field(default_factory=list)
    given_up: frozenset[str] = frozenset()

    def released_topics(self) -> frozenset[str]:
        return self.given_up

    def applied(self) -> Applied:
        return Applied()

    def project(self, *_: object, **__: object) -> int:
        return len(self.entries)

    def verified_through(self) -> int:
        return 0

    def marks(self) -> dict[str, Mark]:
        return {}

    def backfilled_topics(self) -> frozenset[str]:
        return frozenset()

    def target_ends(
        self, _: Iterable[Topic], *, before: int | None = None
    ) -> dict[TopicPartition, LedgerEnd]:
        return {}

    def ranges(self, *, since: int, of_run: str) -> Iterator[LedgerRange]:
        return iter(self.entries)

    def ranges_in_topic(self, start: int, end: int) -> Iterator[LedgerRange]:
        return iter(self.entries)

    def read(self, _: object, columns: list[str]) -> pa.Table:
        """The preserved ranges, and those that were verified before; nothing was accepted or found wrong."""
        if "accepted" in columns or "failed" in columns:
            return pa.table({name: pa.array([], pa.list_(pa.null())) for name in columns})
        rows = [entry.copied.model_dump() for entry in [*self.entries, *self.verified]]
        preserved = [row for row in rows if row["preserved"]]
        return pa.Table.from_pylist(preserved).select(columns)


class Target:
    """A target that holds all that was copied into the topics that it has.

    Attributes:
        topics: those that there are now.
        hidden: the names of those that it refuses to describe.
        unread: target partitions that may not be read.
        asked: target partitions that were read back, with what the ledger claims.
        logs: what can be read of partitions with preserved offsets; all that was copied by default.
        appended: what was written to the ledger.
    """

    def __init__(self) -> None:
        self.topics: dict[str, Topic] = dict(THERE)
        self.hidden: set[str] = set()
        self.unread: set[TopicPartition] = set()
        self.positions: dict[TopicPartition, Position] = {}
        self.asked: dict[TopicPartition, list[RangeClaim]] = {}
        self.logs: dict[TopicPartition, LogBounds] = {}
        self.uncommitted = 0
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
        partitions: Mapping[TopicPartition, Sequence[RangeClaim]],
    ) -> dict[TopicPartition, PartitionRecount]:
        assert {tp.topic for tp in partitions} <= self.topics.keys()
        self.asked = {tp: list(claims) for tp, claims in partitions.items()}
        sent = {entry.copied.segments: entry.copied for entry in self.ledger.entries}
        return {
            tp: PartitionRecount(
                tuple(
                    Recount(sent[claim.segments].records, sent[claim.segments].digest)
                    for claim in claims
                ),
                0,
                self.uncommitted,
                unread="It may not be read." if tp in self.unread else "",
            )
            for tp, claims in partitions.items()
        }


def asked(target: Target) -> dict[TopicPartition, int]:
    """How many ranges were read back of each partition."""
    return {tp: len(claims) for tp, claims in target.asked.items()}


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> Target:
    """The target, in the place of everything that would ask brokers."""
    judge_failures_alone(monkeypatch)
    made = Target()

    class Control:
        alias = "backup"

        def __init__(self, _: object) -> None: ...

        def cluster_id(self) -> str:
            return "B"

        def readable_topics(
            self, names: set[str]
        ) -> tuple[dict[str, Topic], dict[str, FerryError]]:
            there = names & made.topics.keys() - made.hidden
            refused = {
                name: AccessDenied(f"{name} may not be seen.") for name in names & made.hidden
            }
            return {name: made.topics[name] for name in there}, refused

        def log_bounds(
            self, topics: Iterable[Topic], _: str = "read_committed", *, wait_s: float
        ) -> dict[TopicPartition, LogBounds]:
            ends = {tp: LogBounds(0, found.offset) for tp, found in made.positions.items()}
            asked = {topic.name for topic in topics}
            return {tp: log for tp, log in (ends | made.logs).items() if tp.topic in asked}

    monkeypatch.setattr(verify_module, "ClusterControl", Control)
    monkeypatch.setattr(recount, "recount_all", made.recount)
    monkeypatch.setattr(target_rows, "ends_before", lambda *_: {})
    monkeypatch.setattr(verify_module, "require_own_writers", lambda *_: None)
    monkeypatch.setattr(verify_module, "wait_until_settled", lambda *_: None)
    monkeypatch.setattr(target_rows, "read_positions", lambda *_: made.positions)
    monkeypatch.setattr(verify_module, "append_entry", lambda _, entry: made.appended.append(entry))
    return made


@pytest.fixture
def verify(flow: Flow, target: Target) -> Callable[..., Verified]:
    """Verifies run-2, which planned the given offsets of orders-0 and of customers-0."""

    def do(*ranges: Range, **planned: tuple[int, int]) -> Verified:
        state = StateFolder(flow.state_path)
        folder = RunFolder(state.folder("runs"), "run-2")
        ranges += tuple(
            Range(topic, 0, *ends, f"id of {topic}", f"primary.{topic}", 0)
            for topic, ends in planned.items()
        )
        folder.save_plan(Plan(flow.name, "run-2", 1, "A", "B", ranges=ranges))
        ledger: Any = target.ledger
        try:
            run = RunContext(flow, "run-2", state, folder, ledger)
            verify_module.verify_run(NO_SPARK, run)
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
    assert asked(target) == {ORDERS: 1}
    assert verdict.warnings == (
        "orders-0 [0, 100): 100 records went into primary.orders, which was deleted since "
        "(expected: the remote topic that was copied into is still there)",
    )
    assert [(row.start, row.recount.gone) for row in ranges] == [(20, 0), (0, 100)]
    assert (partition.coverage.covered_start, partition.coverage.covered_end) == (20, 130)
    assert [entry.records for entry in target.appended] == [110], "so it is not said again"


def test_a_run_that_had_copied_into_both_topics_is_judged_by_the_new_one(
    target: Target, verify: Callable[..., Verified]
) -> None:
    """Its first attempt, before another client deleted the remote topic, and its second one."""
    target.copied(0, 100, "run-2", remote_topic_id="of the old one")
    target.copied(0, 100, "run-2")

    verdict, _, (partition,) = verify(orders=(0, 100))

    assert verdict.success
    assert partition.coverage.overlap_offsets == 0


def test_what_an_earlier_run_copied_into_a_topic_that_is_gone_fails_nothing(
    target: Target, verify: Callable[..., Verified]
) -> None:
    target.copied(0, 100, "run-1")
    target.copied(0, 10, topic="customers")
    del target.topics[ORDERS.topic]

    verdict, _, _ = verify(customers=(0, 10))

    assert verdict.success
    assert asked(target) == {CUSTOMERS: 1}
    assert "100 records went into primary.orders, which was deleted" in verdict.warnings[0]
    assert target.appended


def test_what_was_given_up_fails_nothing_though_it_is_still_there(
    target: Target, verify: Callable[..., Verified]
) -> None:
    target.copied(0, 100, "run-1")
    target.copied(0, 10, topic="customers")
    target.ledger.given_up = frozenset([THERE[ORDERS.topic].topic_id])

    verdict, _, _ = verify(customers=(0, 10))

    assert verdict.success
    assert asked(target) == {CUSTOMERS: 1}
    assert "100 records went into primary.orders" in verdict.warnings[0]


@pytest.mark.parametrize("recreated", [False, True], ids=["deleted", "recreated"])
def test_a_run_whose_own_copy_is_gone_is_not_proved_and_the_other_topics_are_read_back(
    target: Target, verify: Callable[..., Verified], recreated: bool
) -> None:
    target.copied(0, 100)
    target.copied(0, 10, topic="customers")
    if recreated:
        target.topics[ORDERS.topic] = Topic(ORDERS.topic, "another id", partitions=1)
    else:
        del target.topics[ORDERS.topic]

    verdict, _, _ = verify(orders=(0, 100), customers=(0, 10))

    assert not verdict.success
    # Where the plan does not say which topic it was planned for, a recreated one shows by what it lacks.
    gone = ("orders-0 [0, 100): ",) if recreated else ("primary.orders: ",)
    assert all(failure.startswith(gone) for failure in verdict.failures)
    assert asked(target) == {CUSTOMERS: 1}
    assert "primary.orders, which was deleted since" in verdict.warnings[0]


def test_both_incarnations_of_a_source_topic_are_read_back_from_their_one_remote_topic(
    target: Target, verify: Callable[..., Verified]
) -> None:
    """``on.source.topic.recreated: append``."""
    target.copied(0, 100, "run-1", topic_id="of the old one")
    target.copied(0, 30, segments=(Segment(0, 1101, 30),))

    verdict, _, partitions = verify(orders=(0, 30))

    assert verdict.success
    assert not verdict.warnings
    assert asked(target) == {ORDERS: 2}
    assert [(row.coverage.covered_end, row.planned_end) for row in partitions] == [
        (100, -1),
        (30, 30),
    ]


class TestPreservedOffsets:
    """orders-0 is mirrored from offset 20 on, at its own offsets."""

    PRODUCER = ProducerState(7, 0, 80)

    def plan(self, start: int, end: int, log_start: int = -1) -> Range:
        return Range(
            *("orders", 0, start, end, "id of orders", ORDERS.topic, 0),
            preserved=True,
            log_start=log_start,
        )

    def copied(self, target: Target, start: int, end: int, run: str = "run-2", **more: Any) -> None:
        fields = {"segments": (Segment(start, start, end - start),), "producer": self.PRODUCER}
        target.copied(start, end, run, **{"preserved": True} | fields | more)

    def test_are_looked_up_with_all_that_the_ledger_claims(
        self, target: Target, verify: Callable[..., Verified]
    ) -> None:
        self.copied(target, 20, 60, "run-1")
        self.copied(target, 60, 100, adopted=10)

        verdict, ranges, (partition,) = verify(self.plan(20, 100))

        assert verdict.success
        assert target.asked[ORDERS] == [
            RangeClaim((Segment(20, 20, 40),), 20, 60, True, 7, is_first=True),
            RangeClaim((Segment(60, 60, 40),), 60, 100, True, 7),
        ]
        assert [
            (row.preserved, row.ledger.adopted, row.recount.digest_comparable) for row in ranges
        ] == [
            (True, 0, True),
            (True, 10, True),
        ]
        assert partition.preserved

    def test_begin_where_the_ledger_does_verified_or_not(
        self, target: Target, verify: Callable[..., Verified]
    ) -> None:
        self.copied(target, 20, 60, "run-1")
        target.ledger.verified.append(target.ledger.entries.pop())
        self.copied(target, 60, 100)

        verify(self.plan(60, 100))

        assert [claim.is_first for claim in target.asked[ORDERS]] == [False]

    def test_begin_again_in_a_topic_that_was_recreated(
        self, target: Target, verify: Callable[..., Verified]
    ) -> None:
        self.copied(target, 0, 50, "run-1", remote_topic_id="of the old one")
        self.copied(target, 20, 100)

        verify(self.plan(20, 100))

        assert [claim.is_first for claim in target.asked[ORDERS]] == [True]

    def test_of_translated_ranges_no_claim_is_the_first(
        self, target: Target, verify: Callable[..., Verified]
    ) -> None:
        target.copied(20, 100)
        verify(orders=(20, 100))
        assert target.asked[ORDERS] == [RangeClaim((Segment(20, 1020, 80),), 20, 100)]

    def test_that_the_ledger_has_shifted_fail_the_run(
        self, target: Target, verify: Callable[..., Verified]
    ) -> None:
        self.copied(target, 20, 100, segments=(Segment(20, 21, 80),))
        verdict, _, _ = verify(self.plan(20, 100))
        assert verdict.failures == (
            "orders-0 [20, 100): 80 records at other offsets in primary.orders-0 "
            "(expected: records keep their source's offsets)",
        )

    def test_show_what_an_attempt_has_left_that_broke_off(
        self, target: Target, verify: Callable[..., Verified]
    ) -> None:
        self.copied(target, 20, 100)
        target.uncommitted = 30
        verdict, _, (partition,) = verify(self.plan(20, 100))
        assert verdict.success
        assert partition.log.uncommitted == 30

    def test_fail_where_the_targets_log_is_shorter_than_the_ledger_says(
        self, target: Target, verify: Callable[..., Verified]
    ) -> None:
        self.copied(target, 20, 100)
        target.logs[ORDERS] = LogBounds(20, 93)
        verdict, _, _ = verify(self.plan(20, 100))
        assert "do not get to its last 7 offsets" in verdict.failures[0]

    def test_fail_where_the_targets_log_does_not_follow_the_sources_although_nothing_is_new(
        self, target: Target, verify: Callable[..., Verified]
    ) -> None:
        target.positions[ORDERS] = Position(100)
        target.logs[ORDERS] = LogBounds(20, 100)
        verdict, _, _ = verify(self.plan(100, 100, log_start=70))
        assert "primary.orders still shows 50 offsets before its start" in verdict.failures[0]
        target.logs[ORDERS] = LogBounds(70, 100)
        assert verify(self.plan(100, 100, log_start=70))[0].success


@pytest.mark.parametrize("compacts", [False, True])
def test_what_may_not_be_read_fails_by_name_and_the_rest_is_verified(
    target: Target, verify: Callable[..., Verified], compacts: bool
) -> None:
    configs = {"cleanup.policy": "compact"} if compacts else {}
    target.topics[ORDERS.topic] = replace(THERE[ORDERS.topic], configs=configs)
    target.copied(0, 100)
    target.copied(0, 10, topic="customers")
    target.unread.add(ORDERS)

    verdict, (unread, read), partitions = verify(orders=(0, 100), customers=(0, 10))

    assert verdict.failures == (
        "orders-0 [0, 100): primary.orders-0 was not read back: It may not be read. "
        "(expected: every range was read back)",
    )
    assert (verdict.ranges, verdict.records) == (1, 10)
    assert (unread.topic, unread.recount.found, unread.recount.digest_comparable) == (
        "orders",
        0,
        False,
    )
    assert read.recount.found == 10
    assert [row.topic for row in partitions] == ["customers", "orders"]


def test_what_may_not_be_described_is_not_taken_for_deleted(
    target: Target, verify: Callable[..., Verified]
) -> None:
    target.copied(0, 100)
    target.copied(0, 10, topic="customers")
    target.hidden.add(ORDERS.topic)

    verdict, ranges, _ = verify(orders=(0, 100), customers=(0, 10))

    assert not verdict.success
    assert not verdict.warnings
    assert verdict.failures == (
        "orders-0 [0, 100): primary.orders-0 was not read back: primary.orders may not be seen. "
        "(expected: every range was read back)",
        "primary.orders: primary.orders may not be seen. (expected: the remote topic can be described)",
    )
    assert {row.topic: (row.recount.found, row.recount.gone) for row in ranges} == {
        "orders": (0, 0),
        "customers": (10, 0),
    }
