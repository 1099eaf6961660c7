"""What becomes of a range."""

from __future__ import annotations

from dataclasses import dataclass

from kafka_ferry.batches import NO_AGES, Spread
from kafka_ferry.model.ranges import Range
from kafka_ferry.model.results.failures import Failure
from kafka_ferry.model.waits import NO_WAITS, Waits
from kafka_ferry.schemas.ids import MirroredSchema


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a range.

    Attributes:
        range: the range as it was planned.
        position: the next source offset by the end, committed.
        failure: why it is not the range's end, None where it is.
        began_at: when its task began to copy, in milliseconds since 1970.
        ended_at: when its task had copied all of its ranges.
        read_ages: how old its records were when they were read.
        stored_ages: how old they were when they were committed on the target.
        waits: what its task waited for, with all of its ranges.
        late_schemas: of the first of a task's outcomes, the schemas of all of its records that the run did not know.
    """

    range: Range
    position: int
    failure: Failure | None = None
    began_at: int = 0
    ended_at: int = 0
    read_ages: Spread = NO_AGES
    stored_ages: Spread = NO_AGES
    waits: Waits = NO_WAITS
    late_schemas: tuple[MirroredSchema, ...] = ()
