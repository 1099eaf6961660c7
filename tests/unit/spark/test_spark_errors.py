"""What Spark breaks off with is told as one of our errors, which may pass."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JNetworkError

from kafka_ferry.errors import SparkFailed
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
