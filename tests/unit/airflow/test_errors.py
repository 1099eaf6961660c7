"""Airflow repeats a task if that can help, and fails it at once otherwise."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from kafka_ferry.errors import AccessDenied, ClusterUnreachable, FerryError
from kafka_ferry_airflow.errors import FAILURE_CALLBACKS, airflow_errors, as_airflow


@pytest.mark.parametrize(
    ("error", "is_final"),
    [
        (ClusterUnreachable("No broker answers."), False),
        (AccessDenied("READ is missing.", advice="Grant it."), True),
        (FerryError("It is wrong."), True),
    ],
)
def test_whether_a_retry_can_help_is_the_errors_word(error: FerryError, is_final: bool) -> None:
    with pytest.raises(AirflowException) as caught, airflow_errors():
        raise error
    assert isinstance(caught.value, AirflowFailException) == is_final
    assert str(caught.value) == str(error)


def test_the_reason_is_the_last_thing_in_a_tasks_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    error = FerryError("Two are wrong:", details=["orders is.", "payments is."])
    task = SimpleNamespace()
    FAILURE_CALLBACKS["on_execute_callback"]({"task": task})
    ((failed,), (tried_again,)) = task.on_failure_callback, task.on_retry_callback
    failed({"exception": as_airflow(error)})
    assert caplog.messages == ["::endgroup::", "Two are wrong:", "  orders is.", "  payments is."]
    tried_again({"exception": KeyError("no word of ours")})
    assert len(caplog.messages) == 4


def test_any_other_error_passes_as_it_is() -> None:
    with pytest.raises(ZeroDivisionError), airflow_errors():
        _ = 1 // 0
