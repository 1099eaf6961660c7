"""What one range of the ledger says of an offset."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_ferry.ledger.proofs import Proof
from kafka_ferry.model import TopicPartition, Window
from kafka_ferry.runs.where import Whereabouts, _whereabouts
from tests.unit.certificates.builders import a_certificate, a_range

ROW: dict[str, Any] = {
    **{"ledger_offset": 7, "run": "run-1", "at": 1_000, "writer": 3, "since": None, "until": None},
    **{"topic": "orders", "topic_id": "source-id", "partition": 0, "start": 0, "end": 20},
    **{"remote_topic": "left.orders", "remote_topic_id": "target-id"},
    "reasons": [("aborted", 2), ("lost", 5)],
    "lost": [{"start": 0, "end": 5}],
    "segments": [
        {"source": 5, "target": 100, "records": 5},
        {"source": 12, "target": 105, "records": 8},
    ],
}
PROOFS = [(7, Proof("too early", 1)), (8, Proof("run-1", 2)), (20, Proof("again", 3))]


def of(offset: int, log_start: int | None = 0, **changes: Any) -> Whereabouts:
    return _whereabouts(
        ROW | changes, offset, log_start, PROOFS, [a_certificate(1), a_certificate(2)]
    )


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
    assert of(10, reasons=[("control", 1), ("aborted", 1)]).reason == "aborted or control"
    assert of(10, reasons=[]).reason == "unknown"


@pytest.mark.parametrize(
    ("log_start", "state"),
    [(0, "there"), (104, "there"), (105, "expired"), (None, "topic deleted")],
)
def test_whether_the_record_is_still_there(log_start: int | None, state: str) -> None:
    assert of(9, log_start).state == state


def test_the_first_verification_after_the_range_proves_it() -> None:
    assert of(5).proof == Proof("run-1", 2)
    assert of(5, ledger_offset=20).proof is None
    assert of(5, since=1, until=9).proof == Proof("run-1", 2)
    assert of(5, since=1, until=9).window == Window(1, 9)


def test_the_first_certificate_that_has_the_range_is_named() -> None:
    assert a_range(0)["ledger_offset"] == ROW["ledger_offset"]
    assert of(5).certificate == 1
    assert of(5, ledger_offset=70).certificate == 0
    assert of(5, partition=9).certificate == 0
