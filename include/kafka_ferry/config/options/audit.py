"""Whether, when and how a flow's copy is audited on a timetable."""

from __future__ import annotations

from pydantic import Field, field_validator

from kafka_ferry.config.options.base import Options
from kafka_ferry.config.options.schedule import Duration, checked_schedule
from kafka_ferry.config.types.values import Bytes, Number


class AuditOptions(Options):
    """The options of a flow about its scheduled audits."""

    audit_schedule: str | None = Field(
        default=None,
        description="When the flow's topics are audited, record by record and without the ledger: a cron "
        "expression or preset, or a span of time such as 7 days. The flow then has a DAG of audits; "
        "without it, ferry audit does the same.",
    )
    audit_sample: Number = Field(
        default=1,
        ge=1,
        description="An audit counts all records, and compares the content of one block of records in this many; "
        "1 compares all.",
    )
    audit_lag: Duration = Field(
        default=None,
        description="How far the copy may be behind when it is audited, such as 2 hours: newer records at the "
        "end of a partition are not called missing. Without it, audits allow for no lag.",
    )
    audit_rate: Bytes = Field(
        default=0,
        ge=0,
        description="The maximum number of bytes per second that an audit reads from both clusters together; "
        "0 for no limit.",
    )

    @field_validator("audit_schedule")
    @classmethod
    def _audit_schedule_form(cls, schedule: str | None) -> str | None:
        return checked_schedule(schedule)
