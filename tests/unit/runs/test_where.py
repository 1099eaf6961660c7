"""What one range of the ledger says of an offset."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_ferry.batches import Segment
from kafka_ferry.ledger import LedgerRange
from kafka_ferry.ledger.proofs import Proof, Verification
from kafka_ferry.model import TopicPartition, Window
from kafka_ferry.runs.where import Whereabouts, _whereabouts
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
