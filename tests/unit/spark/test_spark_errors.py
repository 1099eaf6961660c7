"""What Spark breaks off with is told as one of our errors, which may pass."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.errors import PySparkException

from kafka_ferry.errors import CheckpointInUse, SparkFailed
from kafka_ferry.spark.spark_errors import spark_failures


@pytest.mark.parametrize(
    "gone", [ConnectionRefusedError(111, "refused"), Py4JNetworkError("empty")]
)
def test_a_driver_that_is_killed_is_named_and_another_try_may_help(gone: Exception) -> None:
    with (
        pytest.raises(SparkFailed, match="driver was killed during the query of a") as caught,
        spark_failures("the query of a", advice=""),
    ):
        raise gone

    assert caught.value.transient


def test_two_queries_in_one_checkpoint_are_an_error_of_their_own() -> None:
    with pytest.raises(CheckpointInUse), spark_failures("the query of a", advice=""):
        raise PySparkException("[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log.")


def test_the_innermost_error_is_told_with_all_of_its_lines() -> None:
    told = """Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times
        Traceback (most recent call last):
          File "partition_queue.py", line 166, in copied
        pydantic_core._pydantic_core.ValidationError: 1 validation error for CopiedRange
        reasons.lost
          Input should be greater than or equal to 0

	at org.apache.spark.api.python.BasePythonRunner
        ... 1 more"""
    with (
        pytest.raises(SparkFailed) as caught,
        spark_failures("the query of a", advice=""),
    ):
        raise PySparkException(told)

    assert str(caught.value).startswith(
        "Spark broke off the query of a: pydantic_core._pydantic_core.ValidationError: 1 validation error for "
        "CopiedRange reasons.lost Input should be greater than or equal to 0"
    )
    assert "org.apache" not in str(caught.value)
