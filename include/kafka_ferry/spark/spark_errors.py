"""Spark's failures as our own errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException

from kafka_ferry.errors import SparkFailed


@contextmanager
def spark_failures(what: str, *, advice: str) -> Iterator[None]:
    """Raise Spark's exceptions in the body as our own error.

    Args:
        what: what Spark does in the body, for the message: ``"the query of orders"``.
        advice: what to check.

    Raises:
        SparkFailed: if Spark raises, with its reason and without the stack traces of two languages;
            or if its JVM is gone.
    """
    try:
        yield
    # PySpark has names of its own for some of the JVM's errors; trouble with files and tasks that
    # fail too often are not among them.
    except (PySparkException, Py4JJavaError) as error:
        raise SparkFailed(f"Spark broke off {what}: {_reason(error)}", advice=advice) from error
    except (Py4JNetworkError, ConnectionError) as error:
        raise SparkFailed(f"Spark's driver was killed during {what}.", advice=advice) from error


def _reason(error: PySparkException | Py4JJavaError) -> str:
    lines = [line.strip() for line in str(error).splitlines()]
    told = [line for line in lines if line and not line.startswith(("at ", "File ", "Traceback"))]
    return next((line for line in told if "Error: " in line or "Exception: " in line), told[0])
