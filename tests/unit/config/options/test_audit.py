"""When and how a flow is audited."""

from __future__ import annotations

from datetime import timedelta

import pytest
from pydantic import ValidationError

from kafka_ferry.config.options.audit import AuditOptions


def of(**options: object) -> AuditOptions:
    return AuditOptions.model_validate({f"audit.{name}": value for name, value in options.items()})


def test_a_flow_is_audited_only_if_it_asks_for_it() -> None:
    assert of().audit_schedule is None
    assert of(schedule="").audit_schedule is None
    assert of(schedule="@weekly").audit_schedule == "@weekly"
    assert of(lag="2 hours", rate="8MiB").audit_lag == timedelta(hours=2)
    assert of(rate="8MiB").audit_rate == 8 * 2**20


@pytest.mark.parametrize("wrong", [{"schedule": "often"}, {"sample": 0}, {"lag": "soon"}])
def test_what_makes_no_sense_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        of(**wrong)
