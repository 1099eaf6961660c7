"""Why partitions were not copied to their end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kafka_ferry.errors import FerryError, with_advice
from kafka_ferry.model.ranges import Range, TopicPartition
from kafka_ferry.model.remarks import Refusal


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a range was not copied to its end.

    Attributes:
        source: the source's partition.
        target: the target's partition.
        offset: the source offset at which it stopped.
        message: what happened, with the broker's own words.
        transient: whether the next run may succeed without a change.
        fenced: whether it stopped because another run took over.
        advice: what to do, "" where nothing is known.
        shard: the run's shard that was to copy it, None where the run has none.
    """

    source: TopicPartition
    target: TopicPartition
    offset: int
    message: str
    transient: bool
    fenced: bool = False
    advice: str = ""
    shard: int | None = None

    @classmethod
    def of(
        cls,
        range_: Range,
        offset: int,
        message: str,
        transient: bool,
        fenced: bool = False,
        advice: str = "",
    ) -> Failure:
        """The failure of a range; arguments as the attributes."""
        return cls(range_.source, range_.target, offset, message, transient, fenced, advice)

    @property
    def reason(self) -> str:
        """What happened and what to do, as sentences."""
        return with_advice(self.message, self.advice)

    def __str__(self) -> str:
        of_shard = "" if self.shard is None else f"Shard {self.shard}: "
        return f"{of_shard}{self.source} -> {self.target} stopped at offset {self.offset}: {self.reason}"


class RangesFailed(FerryError):
    """Some partitions were not copied to their end; the others were.

    Attributes:
        failures: why, for each partition.
        refused: topics and partitions that the run's plan refuses.

    Args:
        failures: as the attribute.
        transient: as for ``FerryError``.
        refused: as the attribute.
    """

    exit_code = 6

    def __init__(
        self, failures: Sequence[Failure], *, transient: bool, refused: Sequence[Refusal] = ()
    ) -> None:
        counts = []
        if refused:
            counts.append(f"{len(refused)} refused by the plan")
        if failures:
            they = "partition" if len(failures) == 1 else "partitions"
            counts.append(f"{len(failures)} {they} not copied to the end")
        advice = (
            "\nWhat a plan refuses is refused for the whole run. Once the cause is gone, run again (a backfill "
            "with the same window); in Airflow, clear the task plan."
        )
        super().__init__(
            f"{', '.join(counts)}:",
            advice=advice if refused else "",
            details=[*map(str, refused), *map(str, failures)],
        )
        self.failures = tuple(failures)
        self.refused = tuple(refused)
        self.transient = transient
