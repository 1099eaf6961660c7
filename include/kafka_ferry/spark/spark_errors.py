"""Spark's failures as our own errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from typing import Final

import regex
from py4j.protocol import Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException

from kafka_ferry.errors import CheckpointInUse, SparkFailed

_MOST_LINES: Final = 8
# Spark's condition.
_TWO_QUERIES: Final = "[CONCURRENT_STREAM_LOG_UPDATE]"
# MALFORMED_LOG_FILE ends with the first line of a file in a query's checkpoint, which may be a link to any file.
_FOREIGN_LINE: Final = regex.compile(
    "(?<=failed to read correct log version from ).*", regex.DOTALL
)


@contextmanager
def spark_failures(what: str, *, advice: str) -> Iterator[None]:
    """Raise Spark's exceptions in the body as our own error.

    Args:
        what: what Spark does in the body, for the message: ``"the query of orders"``.
        advice: what to check.

    Raises:
        SparkFailed: if Spark raises, with its reason and without the stack traces of two languages;
            or if its JVM is gone.
        CheckpointInUse: if it raises because two queries use one checkpoint.
    """
    try:
        yield
    # PySpark has names of its own for some of the JVM's errors; trouble with files and tasks that
    # fail too often are not among them.
    except (PySparkException, Py4JJavaError) as error:
        failure = CheckpointInUse if _TWO_QUERIES in str(error) else SparkFailed
        raise failure(f"Spark broke off {what}: {reason_of(error)}", advice=advice) from error
    except (Py4JNetworkError, ConnectionError) as error:
        raise SparkFailed(f"Spark's driver was killed during {what}.", advice=advice) from error


def reason_of(error: PySparkException | Py4JJavaError) -> str:
    """The innermost error's own words, which may take several lines."""
    lines = [line.strip().removeprefix(": ") for line in str(error).splitlines()]
    candidates = [n for n, line in enumerate(lines) if line and not _is_of_trace(line)]
    first = next(
        (n for n in candidates if "Error: " in lines[n] or "Exception: " in lines[n]), candidates[0]
    )
    words = takewhile(lambda line: line and not _is_of_trace(line), lines[first:])
    return str(_FOREIGN_LINE.sub("its first line.", " ".join(list(words)[:_MOST_LINES])))


def _is_of_trace(line: str) -> bool:
    return line.startswith(("at ", "File ", "Traceback", "... ", "Caused by: "))
