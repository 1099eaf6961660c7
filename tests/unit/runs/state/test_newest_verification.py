"""What the newest verification could not prove."""

from __future__ import annotations

import pytest

from kafka_ferry.model import TopicPartition
from kafka_ferry.runs.state.newest_verification import NewestVerification
from kafka_ferry.runs.state.run_folder import Reconciliation
from kafka_ferry.verify.expectations.judge import Terms, judge
from tests.support.runs.reports import PARTITION, RANGE, changed

HERE = TopicPartition(RANGE.remote_topic, RANGE.partition)


@pytest.mark.parametrize(
    ("of_range", "of_partition", "unproved", "checks", "text"),
    [
        ({}, {}, set(), [], ""),
        (
            {"expired": 1, "target_records": 89},
            {},
            set(),
            [],
            "",
        ),
        (
            {"foreign": 1},
            {},
            {HERE},
            [],
            "failed: orders-3 [100, 200): 1 record of another producer in eu.orders-3 "
            "(expected: nothing lies between our records that the ledger does not have).",
        ),
        (
            {},
            {"target_beyond": 1, "beyond_at": 212, "beyond_by": 4001},
            {HERE},
            ["beyond"],
            "failed: orders-3 [100, 200): 1 record on the target after the ledger's last one, the first at offset 212 "
            "by producer 4001 (expected: nothing lies beyond what the ledger knows).",
        ),
        (
            {"foreign": 1},
            {"target_beyond": 1, "overlap_offsets": 1},
            {HERE},
            ["overlaps", "beyond"],
            ", and 2 more.",
        ),
    ],
    ids=["proved", "a warning", "a range", "after the last record", "several"],
)
def test_what_failed_is_named_with_where(of_range, of_partition, unproved, checks, text) -> None:
    rows = (changed(RANGE, **of_range),), (changed(PARTITION, **of_partition),)
    verdict = judge(
        {"ranges": rows[0], "partitions": rows[1], "topics": ()}, Terms("eu->us", "r", None, {})
    )
    found = NewestVerification("r", Reconciliation(*rows, verdict))

    assert found.unproved() == unproved
    assert [check.key for check in found.failed_checks()] == checks
    assert found.text.endswith(text)
    assert bool(found.text) == bool(unproved)
