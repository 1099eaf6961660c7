"""What was read back before the step ``verify``, and what of it that step may take."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_ferry.batches import Segment
from kafka_ferry.model import TopicPartition
from kafka_ferry.model.results.steps import StepPart
from kafka_ferry.runs.state import stored_recounts
from kafka_ferry.runs.state.stored_recounts import StoredRecounts
from kafka_ferry.state import StateFolder
from kafka_ferry.verify import PartitionRecount, Recount
from kafka_ferry.verify.claim import RangeClaim
from kafka_ferry.verify.rows import RuleEvaluation

ORDERS, CUSTOMERS = TopicPartition("primary.orders", 0), TopicPartition("primary.customers", 11)
CLAIMS = {
    ORDERS: [
        RangeClaim((Segment(0, 0, 5), Segment(9, 9, 2**40)), 0, 2**60, True, 2**50, is_first=True),
        RangeClaim((), 7, 7, True),
    ],
    CUSTOMERS: [RangeClaim((Segment(3, 1000, 5),), 3, 8)],
}
FOUND = {
    ORDERS: PartitionRecount((Recount(2**40, "a", 1), Recount(0, "b")), 3, uncommitted=7),
    CUSTOMERS: PartitionRecount((Recount(5, "c"),), 0),
}


@pytest.fixture
def stored(tmp_path: Path) -> StoredRecounts:
    return StoredRecounts(StateFolder(str(tmp_path)))


def test_what_was_read_is_taken_as_it_was_found(stored: StoredRecounts) -> None:
    stored.save(StepPart("mirror"), CLAIMS, FOUND)
    assert stored.of(CLAIMS) == FOUND


def test_shards_are_taken_together(stored: StoredRecounts) -> None:
    for shard, tp in enumerate(CLAIMS):
        stored.save(StepPart("mirror", shard), CLAIMS, {tp: FOUND[tp]})
    assert stored.of(CLAIMS) == FOUND


def test_what_rules_gave_again_is_taken_with_it(stored: StoredRecounts) -> None:
    given = {(7, "orders", 0, 3): RuleEvaluation(5, 1, 2, ("this", "that"))}
    stored.save(StepPart("mirror", 0), CLAIMS, FOUND, given)
    stored.save(StepPart("mirror", 1), {}, {})
    assert stored.evaluations() == given


def test_another_claim_was_not_read(stored: StoredRecounts) -> None:
    stored.save(StepPart("mirror"), CLAIMS, FOUND)
    more = CLAIMS | {CUSTOMERS: [*CLAIMS[CUSTOMERS], RangeClaim((Segment(8, 1005, 1),), 8, 9)]}
    assert stored.of(more) == {ORDERS: FOUND[ORDERS]}
    assert stored.of({CUSTOMERS: [CLAIMS[CUSTOMERS][0]._replace(end=9)]}) == {}


@pytest.mark.parametrize("hours", [1, -1], ids=["", "the clock was set back"])
def test_what_was_read_long_ago_is_not_taken(
    stored: StoredRecounts, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    stored.save(StepPart("mirror"), CLAIMS, FOUND)
    later = stored_recounts.now_ms() + hours * 3_600_000
    monkeypatch.setattr(stored_recounts, "now_ms", lambda: later)
    assert stored.of(CLAIMS) == {}
    assert stored.evaluations() == {}


def test_a_file_that_is_torn_is_not_taken_and_fails_nothing(
    stored: StoredRecounts, tmp_path: Path
) -> None:
    stored.save(StepPart("mirror", 0), CLAIMS, {ORDERS: FOUND[ORDERS]})
    stored.save(StepPart("mirror", 1), CLAIMS, {CUSTOMERS: FOUND[CUSTOMERS]})
    file = tmp_path / "recounts-mirror-1.json"
    file.write_text(file.read_text()[:40])
    assert stored.of(CLAIMS) == {ORDERS: FOUND[ORDERS]}


def test_what_is_forgotten_is_not_taken(stored: StoredRecounts) -> None:
    stored.save(StepPart("mirror", 0), CLAIMS, {ORDERS: FOUND[ORDERS]})
    stored.forget()
    assert stored.of(CLAIMS) == {}
