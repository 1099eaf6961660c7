"""When a flow runs, and how Airflow divides the work."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from typing import Annotated, Any, Final, Literal
from zoneinfo import ZoneInfo

import regex
from pydantic import BeforeValidator, Field, field_validator, model_validator

from kafka_ferry.clock import read_day_or_moment
from kafka_ferry.config.options.base import ConnectionId, Options
from kafka_ferry.config.types.durations import PATTERN, is_duration, near_duration, read_duration
from kafka_ferry.config.types.problems import did_you_mean
from kafka_ferry.config.types.values import AlsoText, Bytes, Names, Number, Truth

_PRESETS: Final = ("@hourly", "@daily", "@weekly", "@monthly", "@quarterly", "@yearly")
_CRON: Final = r"[A-Za-z0-9*/,?#-]+( +[A-Za-z0-9*/,?#-]+){4}"
_CRON_FIELDS: Final = {
    "minute": "0-59",
    "hour": "0-23",
    "day of the month": "1-31",
    "month": "1-12",
    "day of the week": "0-7, of which 0 and 7 are Sunday",
}
# Airflow's database has room for 256 and 1,500 characters, PostgreSQL's index for 2,700 bytes, and 1,000 characters for
# the description of a cron expression, which may be six times as long: a longer one would end the scheduler, or keep
# all flows from the database.
_LONGEST_POOL: Final = 250
_LONGEST_ASSET: Final = 1_500
_MOST_ASSETS: Final = 100
_LONGEST_CRON: Final = 150
_FIRST_YEAR: Final = 1970
_LAST_YEAR: Final = 2999


def _as_duration(value: Any) -> Any:
    if value is None or isinstance(value, timedelta):
        return value
    text = str(value).strip()
    return read_duration(text) if text else None


def _refuse_impossible_times(cron: str) -> None:
    """Refuses a cron expression that is never due; Airflow parses it with the same library."""
    from croniter import croniter  # noqa: PLC0415  (a fifth of a second, and few commands ask it)

    try:
        croniter(cron, datetime(2026, 1, 1)).get_next(datetime)
    except Exception:  # its own errors, and index or type errors for unexpected text
        raise ValueError(_why_never_due(cron)) from None


def _why_never_due(cron: str) -> str:
    """Why a cron expression of five fields is never due: one of its fields, or all of them together."""
    from croniter import croniter  # noqa: PLC0415  (as above)

    for at, (field, value) in enumerate(zip(_CRON_FIELDS, cron.split(), strict=False)):
        alone = ["*"] * len(_CRON_FIELDS)
        alone[at] = value
        if not croniter.is_valid(" ".join(alone)):
            return f"has {value!r} as its {field}, which must be within {_CRON_FIELDS[field]}"
    return f"is never due: no month has such a day as '{cron}' says"


def _near_schedule(schedule: str) -> str:
    """What is near to a text that is no schedule, in a sentence; may be empty."""
    if schedule.isdecimal():
        return f". A number needs its unit, such as '{schedule} minutes'"
    if near := near_duration(schedule):
        return f". Did you mean '{near}'?"
    if near := did_you_mean(schedule.strip().lower(), _PRESETS, cutoff=0.6):
        return f". {near}"
    fields = len(schedule.split())
    if fields > 1 and fields != len(_CRON_FIELDS) and regex.search(r"[*/0-9]", schedule):
        return f". It has {fields} fields: it needs {', '.join(_CRON_FIELDS)}."
    return ""


def checked_schedule(schedule: str | None) -> str | None:
    """A schedule as it is; None for an empty one.

    Raises:
        ValueError: it is neither a cron expression that is ever due, nor a preset or a span of time.
    """
    if not schedule:
        return None
    if is_duration(schedule):
        read_duration(schedule)
    elif schedule not in _PRESETS:
        if len(schedule) > _LONGEST_CRON:
            raise ValueError(
                f"must have {_LONGEST_CRON} characters at most, and has {len(schedule):,}"
            )
        if not regex.fullmatch(_CRON, schedule):
            listed = ", ".join(_PRESETS)
            raise ValueError(
                f"must be a cron expression (five fields), one of {listed}, or a span of time such as 15 minutes, "
                f"and not '{schedule}'{_near_schedule(schedule)}"
            )
        if regex.search(r"\br\b", schedule, regex.IGNORECASE):
            # For croniter it is any number, for Airflow another one whenever it asks: the flow would never run.
            raise ValueError("has R, which is another time whenever it is read: write a number")
        _refuse_impossible_times(schedule)
    return schedule


Duration = Annotated[timedelta | None, BeforeValidator(_as_duration), AlsoText(PATTERN)]


class ScheduleOptions(Options):
    """The options of a flow about its schedule and its share of resources."""

    schedule: str | None = Field(
        default="@hourly",
        description="When the flow runs: a cron expression or preset, or a span of time such as "
        "15 minutes or PT15M; empty for manual runs only.",
    )
    schedule_assets: Names = Field(
        default=(),
        description="Names or URIs of Airflow assets: the flow runs when they are updated. Then "
        "schedule counts only if the file sets it, and the flow runs for either.",
    )
    schedule_assets_when: Literal["all", "any"] = Field(
        default="all",
        description="Whether the flow runs when all of these assets were updated since its last run, "
        "or any one of them.",
    )
    timezone: str = Field(
        default="UTC",
        description="The time zone of the cron expression and of start.date, such as Europe/Berlin.",
    )
    start_date: date | datetime = Field(
        default=date(2026, 1, 1),
        description="The first day of the timetable, or its first moment: 2026-01-01 or "
        "2026-01-01T06:00.",
    )
    catchup: Truth = Field(
        default=False,
        description="Whether runs that the timetable missed since start.date are caught up.",
    )
    deadline: Duration = Field(
        default=None,
        description="How long a run may take, such as 45 minutes: if it has not ended by then, the "
        "channels of notify are notified. The run continues.",
    )
    deadline_from: Literal["queued", "logical-date"] = Field(
        default="queued",
        description="The start of the deadline: the time at which the run was queued, or its "
        "logical date, where its interval begins.",
    )
    pool: str = Field(
        default="target",
        min_length=1,
        max_length=_LONGEST_POOL,
        description="The Airflow pool whose slots the flow's Spark jobs share with those of other "
        "flows: that of the target cluster, with source that of the source cluster, or one by name.",
    )
    spark_connection: ConnectionId = Field(
        default="spark_default",
        min_length=1,
        description="The Airflow connection that says where the flow's Spark jobs run. Without a "
        "connection spark_default, they run on the task's own machine.",
    )
    priority: Number = Field(
        default=1,
        ge=1,
        le=1_000_000,
        description="Of several flows that wait for a slot of the same pool, those with the highest "
        "number go first.",
    )
    retries: Number = Field(
        default=2, ge=0, le=1000, description="How often a failed task is retried within a run."
    )
    shards: Number = Field(
        default=1,
        ge=1,
        le=1000,
        description="The number of parts of a run's copying: one Airflow task each, which copies "
        "independently and can be rerun alone. At most the number of writers.",
    )
    shard_by: Literal["size", "topic"] = Field(
        default="size",
        description="How shards are formed: by size, so that all shards take about as long; by topic, "
        "of whole topics, the same ones in each run.",
    )
    rate_limit_bytes: Bytes = Field(
        default=0,
        ge=0,
        description="The maximum number of bytes per second that a run sends to the target, all of its "
        "tasks together; 0 for no limit. A single run may be given a lower limit, but not a higher one.",
    )
    rate_limit_records: Number = Field(
        default=0,
        ge=0,
        description="The most records that a run sends to the target in a second, all of its tasks "
        "together; 0 for no limit. Where both limits are set, a run keeps to both.",
    )
    asset_events: Literal["verified", "copied", "none"] = Field(
        default="verified",
        description="Which topics' assets a run updates once their ranges are verified: all, even "
        "without new records; only those of which it copied records; or none.",
    )

    @model_validator(mode="before")
    @classmethod
    def _assets_alone(cls, data: Any) -> Any:
        """A flow that waits for assets has a timetable only if its file sets one."""
        if not isinstance(data, dict) or "schedule" in data:
            return data
        waits = data.get("schedule.assets") or data.get("schedule_assets")
        return {**data, "schedule": None} if waits else data

    @field_validator("schedule", mode="before")
    @classmethod
    def _is_no_number(cls, schedule: object) -> object:
        is_number = isinstance(schedule, int) and not isinstance(schedule, bool)
        return checked_schedule(str(schedule)) if is_number else schedule

    @field_validator("schedule")
    @classmethod
    def _known_form(cls, schedule: str | None) -> str | None:
        return checked_schedule(schedule)

    @field_validator("schedule_assets")
    @classmethod
    def _names_of_assets(cls, assets: tuple[str, ...]) -> tuple[str, ...]:
        if len(assets) > _MOST_ASSETS:
            raise ValueError(f"has {len(assets):,} names, and may have {_MOST_ASSETS}")
        for asset in assets:
            if (size := len(asset.encode())) > _LONGEST_ASSET:
                raise ValueError(
                    f"must be names of {_LONGEST_ASSET:,} bytes at most, and {asset:.20}... has {size:,}"
                )
        return assets

    @field_validator("timezone")
    @classmethod
    def _known_timezone(cls, timezone: str) -> str:
        try:
            ZoneInfo(timezone)
        except (ValueError, OSError, LookupError):
            from zoneinfo import available_timezones  # noqa: PLC0415  (it reads a folder)

            # Not EST for CEST.
            near = did_you_mean(timezone, sorted(available_timezones()), cutoff=0.88)
            reason = f"must be a time zone such as UTC or Europe/Berlin, and not '{timezone:.80}'"
            raise ValueError(f"{reason}. {near}" if near else reason) from None
        return timezone

    @field_validator("start_date", mode="before")
    @classmethod
    def _day_or_moment(cls, start: Any) -> Any:
        return start if isinstance(start, date) else read_day_or_moment(str(start))

    @field_validator("start_date")
    @classmethod
    def _within_reach(cls, start: date | datetime) -> date | datetime:
        # Next to the first and the last possible year, no time zone can be applied.
        if not _FIRST_YEAR <= start.year <= _LAST_YEAR:
            raise ValueError(f"must be between {_FIRST_YEAR} and {_LAST_YEAR}")
        return start

    @property
    def schedule_interval(self) -> timedelta | None:
        """The interval between runs, where the schedule is a span of time."""
        if self.schedule and is_duration(self.schedule):
            return read_duration(self.schedule)
        return None

    @property
    def begins(self) -> datetime:
        """The first moment of the timetable, with its time zone."""
        start = self.start_date
        moment = start if isinstance(start, datetime) else datetime.combine(start, time())
        return moment if moment.tzinfo else moment.replace(tzinfo=ZoneInfo(self.timezone))
