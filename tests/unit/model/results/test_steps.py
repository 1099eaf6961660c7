"""A step's record keeps what the step raised as data."""

from __future__ import annotations

import pytest

from kafka_ferry.model.remarks import Refusal
from kafka_ferry.model.results.failures import Failure
from kafka_ferry.model.results.steps import StepPart, StepRecord
from tests.support.runs.reports import a_failure

PART = StepPart("mirror", 2)
REFUSAL = Refusal("clicks", "it was recreated.", "Delete it.", 3)


@pytest.mark.parametrize(
    ("record", "problems"),
    [
        (StepRecord(PART, 1), ()),
        (StepRecord(PART, 1, "It failed."), ("It failed.",)),
        (StepRecord(PART, 1, "Groups:", details=("a: no.", "b: no.")), ("a: no.", "b: no.")),
        (
            StepRecord(PART, 1, "2:", (a_failure(shard=1),), (REFUSAL,)),
            (REFUSAL, a_failure(shard=1)),
        ),
        (
            StepRecord(PART, 1, "1:", (a_failure(),), details=("Spark: no.",)),
            (a_failure(), "Spark: no."),
        ),
    ],
)
def test_a_record_is_read_back_with_each_problem(
    record: StepRecord, problems: tuple[Refusal | Failure | str, ...]
) -> None:
    assert StepRecord.from_json(record.to_json()).problems == problems


def test_a_part_is_named_by_its_step_and_shard() -> None:
    assert (str(PART), str(StepPart("verify"))) == ("mirror-2", "verify")
