"""What one range of the ledger says of an offset."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from kafka_ferry.batches import Batch, Segment, split_batches
from kafka_ferry.config import Cluster
from kafka_ferry.config.client.cluster import ClientProperties
from kafka_ferry.errors import CorruptBatch
from kafka_ferry.ledger import LedgerRange
from kafka_ferry.ledger.proofs import Proof, Verification
from kafka_ferry.model import TopicPartition, Window
from kafka_ferry.runs.where import Whereabouts, _record_at, _whereabouts
from kafka_ferry.verify.recount_by_offset import record_spans
from tests.support.records.batches import Record, a_batch, with_payload
from tests.unit.certificates.builders import a_certificate, a_range
from tests.unit.ledger.entries import a_copied_range

COPIED = a_copied_range(
    0,
    20,
    topic_id="source-id",
    remote_topic="left.orders",
    remote_topic_id="target-id",
    reasons={"aborted": 2, "lost": 5},
    lost=((0, 5),),
    segments=(Segment(5, 100, 5), Segment(12, 105, 8)),
)
ENTRY = LedgerRange(7, "run-1", COPIED, 1_000, writer=3)
THERE = Cluster(alias="there", properties=ClientProperties({"bootstrap.servers": "b:1"}))
VERIFIED = [
    Verification(Proof("too early", 1), 7, (), frozenset()),
    Verification(Proof("run-1", 2), 8, (), frozenset(["former-id"])),
    Verification(Proof("again", 3), 20, (), frozenset()),
]


def of(offset: int, log_start: int | None = 0, entry: LedgerRange = ENTRY) -> Whereabouts:
    return _whereabouts(entry, offset, log_start, VERIFIED, [a_certificate(1), a_certificate(2)])


def with_copied(**changes: Any) -> LedgerRange:
    return ENTRY._replace(copied=COPIED.model_copy(update=changes))


@pytest.mark.parametrize(
    ("offset", "target_offset", "reason"),
    [
        (5, 100, ""),
        (9, 104, ""),
        (12, 105, ""),
        (19, 112, ""),
        (10, None, "aborted"),
        (4, None, "lost"),
    ],
)
def test_an_offset_has_a_place_or_a_reason(
    offset: int, target_offset: int | None, reason: str
) -> None:
    found = of(offset)

    assert (found.target_offset, found.reason) == (target_offset, reason)
    assert found.target == TopicPartition("left.orders", 0)
    assert found.state == ("" if target_offset is None else "there")


def test_several_reasons_are_all_named_where_the_ledger_does_not_say_which() -> None:
    assert (
        of(10, entry=with_copied(reasons={"control": 1, "aborted": 1})).reason
        == "aborted or control"
    )
    assert of(10, entry=with_copied(reasons={})).reason == "unknown"


@pytest.mark.parametrize(
    ("log_start", "state"),
    [(0, "there"), (104, "there"), (105, "expired"), (None, "topic deleted")],
)
def test_whether_the_record_is_still_there(log_start: int | None, state: str) -> None:
    assert of(9, log_start).state == state


def test_the_first_verification_after_the_range_proves_it() -> None:
    assert of(5).proof == Proof("run-1", 2)
    # It has looked at nothing of a copy that was gone.
    assert of(5, entry=with_copied(remote_topic_id="former-id")).proof == Proof("again", 3)
    assert of(5, entry=ENTRY._replace(ledger_offset=20)).proof is None
    backfilled = of(5, entry=ENTRY._replace(window=Window(1, 9)))
    assert (backfilled.proof, backfilled.window) == (Proof("run-1", 2), Window(1, 9))


def test_the_first_certificate_that_has_the_range_is_named() -> None:
    assert a_range(0)["ledger_offset"] == ENTRY.ledger_offset
    assert of(5).certificate == 1
    assert of(5, entry=ENTRY._replace(ledger_offset=70)).certificate == 0
    assert of(5, entry=with_copied(partition=9)).certificate == 0


def the_record(batch: Batch) -> object:
    return _record_at(batch, 30, TopicPartition("orders", 0), THERE)


@pytest.mark.parametrize("look", [the_record, lambda batch: record_spans(batch, 0)[15]])
def test_a_batch_that_a_producer_has_packed_is_never_opened_whole(
    look: Callable[[Batch], object],
) -> None:
    """A few kilobytes that become 8 MiB; as after log compaction, it has to be opened to know its offsets."""
    records = [Record(1_000, b"k", bytes(2**19))] * 16
    (batch,) = split_batches(a_batch(records, deltas=range(0, 32, 2), codec=4))
    tracemalloc.start()
    assert look(batch)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * 2**20


def test_a_batch_that_cannot_be_read_is_named() -> None:
    (batch,) = split_batches(with_payload(a_batch(2, at=30), b"junk"))
    with pytest.raises(CorruptBatch, match=r"orders-0 on there holds a batch at offset 30"):
        the_record(batch)
