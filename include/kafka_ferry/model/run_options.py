"""A run's options in addition to its flow's."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kafka_ferry.config.types.name_filter import NameFilter, PatternError, checked_patterns
from kafka_ferry.errors import ConfigError
from kafka_ferry.model.rate import Rate

if TYPE_CHECKING:
    from kafka_ferry.config import Flow


@dataclass(frozen=True, slots=True)
class Window:
    """The window of record timestamps that a backfill is for.

    Attributes:
        since_ms: the first timestamp in it, in milliseconds since 1970.
        until_ms: the first one after it.
    """

    since_ms: int
    until_ms: int

    def __post_init__(self) -> None:
        if self.since_ms >= self.until_ms:
            raise ValueError("a window must end after it begins")

    def __str__(self) -> str:
        return f"[{self.since}, {self.until})"

    @property
    def since(self) -> str:
        """The first moment in it, as an option takes it."""
        return _moment(self.since_ms)

    @property
    def until(self) -> str:
        """The first moment after it, as an option takes it."""
        return _moment(self.until_ms)


def _moment(at_ms: int) -> str:
    try:
        moment = datetime.fromtimestamp(at_ms / 1000, UTC)
    except (OverflowError, OSError, ValueError):
        return str(at_ms)
    precision = "milliseconds" if at_ms % 60_000 else "minutes"
    return moment.isoformat(timespec=precision).replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of one run; stored in its plan, so that every step and every retry has them.

    Attributes:
        topics: names or Java regular expressions: only these of the flow's topics; empty for all.
        dry_run: whether the run ends with its plan.
        verify_all: whether all that the flow ever copied is verified again, not only what is new.
        max_bytes_per_s: the most bytes that the run's writers together send to the target in a
            second; 0 for no limit.
        approve_removals: whether a person has approved of removals that are more than ``removals.max``.
        window: of a backfill, the timestamps of the records to copy; None for an ordinary run.
    """

    topics: tuple[str, ...] = ()
    dry_run: bool = False
    verify_all: bool = False
    max_bytes_per_s: int = 0
    approve_removals: bool = False
    window: Window | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the run is for all that its flow copies, and so proves all of it when it is verified."""
        return not self.topics and self.window is None

    @property
    def topic_filter(self) -> NameFilter | None:
        """The run's topics; None where it is for all of its flow's.

        Raises:
            ConfigError: a pattern is not valid.
        """
        if not self.topics:
            return None
        try:
            checked_patterns(self.topics)
        except PatternError as error:
            raise ConfigError("the run's options", "topics", str(error)) from None
        return NameFilter(self.topics, (), file="the run's options")


ORDINARY = RunOptions()
"""A run without any options."""


def rate_of(flow: Flow, options: RunOptions) -> Rate:
    """The most that a run may send: the flow's limits, or the run's own where that is less."""
    limits = (flow.rate_limit_bytes, options.max_bytes_per_s)
    return Rate(min(filter(None, limits), default=0), flow.rate_limit_records)
