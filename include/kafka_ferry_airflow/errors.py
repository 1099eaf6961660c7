"""The library's errors as Airflow's: whether a retry can help decides which one."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from kafka_ferry.errors import FerryError, mask_errors

if TYPE_CHECKING:
    from airflow.sdk import Context

log = logging.getLogger(__name__)


def as_airflow(error: FerryError) -> AirflowException:
    """The exception that makes Airflow try again, or fail the task at once."""
    kind = AirflowException if error.transient else AirflowFailException
    return kind(str(error))


def log_reason(context: Context) -> None:
    """Writes why a task failed, a line for each sentence: the last thing in its log, after Airflow's stack.

    For the callbacks of a task that fails, or is tried again.
    """
    error = context.get("exception")
    if isinstance(error, AirflowException):
        # Callbacks are called within a group of lines, "Post Execute", which Airflow's page shows folded.
        log.info("::endgroup::")
        for line in str(error).splitlines():
            log.error("%s", line)


def have_reason_logged(context: Context) -> None:
    """Gives a task that begins the callbacks that write why it failed, in its own process alone.

    Of a task that is known to have such callbacks and whose process has not come about, Airflow hands the whole run
    to the DAG processor, which ends at a number in the run's configuration that has more than 64 bits.
    """
    task: Any = context["task"]
    task.on_failure_callback = task.on_retry_callback = [log_reason]


FAILURE_CALLBACKS: Final[Mapping[str, Any]] = {"on_execute_callback": have_reason_logged}
"""The callbacks of each task, as arguments of its operator."""


@contextmanager
def airflow_errors() -> Iterator[None]:
    """Runs a library call inside a task.

    Raises:
        AirflowFailException: a retry cannot help.
        AirflowException: a later try may succeed.
    """
    try:
        with mask_errors():
            yield
    except FerryError as error:
        raise as_airflow(error) from error
