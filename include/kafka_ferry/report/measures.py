"""The numbers of a run's metrics, as the report stores them; ``report.metrics`` gives them their names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final

from kafka_ferry.as_json import AsJson
from kafka_ferry.batches import NO_AGES, Spread
from kafka_ferry.model.waits import NO_WAITS, Waits

if TYPE_CHECKING:
    from kafka_ferry.model import Position, TopicPartition


@dataclass(frozen=True, slots=True)
class PartitionMeasures:
    """One partition that the flow copies.

    Attributes:
        topic: the source's topic.
        partition: the partition, on both clusters.
        remote_topic: the topic on the target.
        total_records: records copied since the flow began, by the ledger.
        total_bytes: bytes of their batches, compressed as they are.
        total_reasons: source offsets without a record on the target since the flow began, by reason.
        records: records that this run copied.
        bytes: bytes of their batches.
        read_ages: how old the run's records were when they were read from the source.
        stored_ages: how old they were when they were committed on the target.
        records_behind: offsets on the source that were not yet accounted for when the run had ended;
            None where unknown.
        seconds_behind: how old the first of them is, 0 where there is none; None where unknown.
        verified_until: all that could be read of the partition at that time, in milliseconds since
            1970, is proved to be on the target; 0 where that is not known.
    """

    topic: str
    partition: int
    remote_topic: str
    total_records: int = 0
    total_bytes: int = 0
    total_reasons: Mapping[str, int] = field(default_factory=dict)
    records: int = 0
    bytes: int = 0
    read_ages: Spread = NO_AGES
    stored_ages: Spread = NO_AGES
    records_behind: int | None = None
    seconds_behind: float | None = None
    verified_until: int = 0


@dataclass(frozen=True)
class Measures(AsJson):
    """All that was measured of one run.

    Attributes:
        copying_seconds: how long the run copied, from the first task's start to the last one's end.
        verified_until: as for a partition, for the whole flow.
        partitions: by remote topic and partition.
        missing: what could not be measured or exported, a sentence each.
        waits: what the tasks that copied waited for, all together.
        flow_state: the state of the newest run of the whole flow, where that is another run, which has not proved
            all of it; "" otherwise.
    """

    WHAT: ClassVar = "a run's measures"

    copying_seconds: float = 0.0
    verified_until: int = 0
    partitions: tuple[PartitionMeasures, ...] = ()
    missing: tuple[str, ...] = ()
    waits: Waits = NO_WAITS
    flow_state: str = ""

    @property
    def records_behind(self) -> int | None:
        """The sum of all partitions; None where all are unknown."""
        known = [row.records_behind for row in self.partitions if row.records_behind is not None]
        return sum(known) if known else None

    @property
    def seconds_behind(self) -> float:
        """The lag in seconds of the partition that is furthest behind, as far as known."""
        return max((row.seconds_behind or 0.0 for row in self.partitions), default=0.0)


NOT_MEASURED: Final = Measures()


@dataclass(frozen=True)
class VerifiedUntil(AsJson):
    """Until when the copy was proved complete, by all runs so far; times in milliseconds since 1970.

    Attributes:
        flow: for all that the flow copies, 0 where no run was ever verified as a whole.
        partitions: by *target* partition.
        ends: likewise, the source offset up to which the ledger had the partition then.
    """

    WHAT: ClassVar = "a record of what is verified"

    flow: int = 0
    partitions: Mapping[str, int] = field(default_factory=dict)
    ends: Mapping[str, int] = field(default_factory=dict)

    def later(self, other: VerifiedUntil) -> VerifiedUntil:
        """The later one of each time."""
        known = {**self.partitions, **other.partitions}
        times = {tp: max(at, self.partitions.get(tp, 0)) for tp, at in known.items()}
        ends = {
            tp: (self if self.partitions.get(tp) == at else other).ends.get(tp, 0)
            for tp, at in times.items()
        }
        return VerifiedUntil(max(self.flow, other.flow), times, ends)

    def known_at(self, now: int) -> VerifiedUntil:
        """With 0 for each time that has not come yet: a run whose clock was ahead has stored it."""
        times = {tp: at if at <= now else 0 for tp, at in self.partitions.items()}
        return VerifiedUntil(self.flow if self.flow <= now else 0, times, self.ends)

    def within(self, positions: Mapping[TopicPartition, Position]) -> VerifiedUntil:
        """What the ledger has as well: a target that was restored from a backup lacks what was copied last.

        Args:
            positions: up to where the ledger has each *target* partition now.
        """
        reached = {str(tp): position.offset for tp, position in positions.items()}
        times = {
            tp: at
            for tp, at in self.partitions.items()
            if reached.get(tp, 0) >= self.ends.get(tp, 0)
        }
        is_whole = len(times) == len(self.partitions)
        return VerifiedUntil(self.flow if is_whole else 0, times, self.ends)
