"""What a verdict says of itself in a line."""

from __future__ import annotations

import pytest

from kafka_ferry.verify import Verdict
from kafka_ferry.verify.verdict import ExpectationResult

TRUE = ExpectationResult("no offset was copied twice", "partitions", True, "critical")
FALSE = ExpectationResult("no offset was copied twice", "partitions", False, "critical")


@pytest.mark.parametrize(
    ("verdict", "said"),
    [
        (
            Verdict(True, (TRUE, TRUE), ranges=6, records=1000),
            "Proved complete: 1,000 records in 6 ranges read back, 2 of 2 checks are true",
        ),
        (
            Verdict(True, (TRUE,), ranges=1, records=1),
            "Proved complete: 1 record in 1 range read back, 1 of 1 checks are true",
        ),
        (
            Verdict(False, (TRUE, FALSE), ranges=6, records=999),
            "Not proved complete: 999 records in 6 ranges read back, 1 of 2 checks are true",
        ),
        (
            Verdict(True, (TRUE, TRUE), ranges=6, records=1000, compacted=500),
            "Proved complete: 1,000 records in 6 ranges read back (500 more are not there any more, which the "
            "target's log compaction may explain; ferry audit compares keys), 2 of 2 checks are true",
        ),
        (
            Verdict(True, (TRUE,), ranges=2, records=20, accepted=1_180),
            "Proved complete: 20 records in 2 ranges read back (1,180 more are missing, and accepted: repair --leave), "
            "1 of 1 checks are true",
        ),
        (
            Verdict(True, (TRUE,), ranges=2, records=20, expired=1_180),
            "Proved complete: 20 records in 2 ranges read back (1,180 more lie before the start of the target's log: "
            "retention or DeleteRecords has taken them, or a disk has lost them), 1 of 1 checks are true",
        ),
        (Verdict(True, (TRUE,)), "Nothing new was read back: 1 of 1 checks are true"),
    ],
)
def test_only_what_was_read_back_is_called_proved(verdict: Verdict, said: str) -> None:
    assert verdict.summary == said
