"""The library's errors as Airflow's: whether a retry can help decides which one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from kafka_ferry.errors import FerryError, masked_errors


def as_airflow(error: FerryError) -> AirflowException:
    """The exception that makes Airflow try again, or fail the task at once."""
    kind = AirflowException if error.transient else AirflowFailException
    return kind(str(error))


@contextmanager
def airflow_errors() -> Iterator[None]:
    """Runs a library call inside a task.

    Raises:
        AirflowFailException: a retry cannot help.
        AirflowException: a later try may succeed.
    """
    try:
        with masked_errors():
            yield
    except FerryError as error:
        raise as_airflow(error) from error
