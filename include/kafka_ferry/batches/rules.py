"""Whether a source batch is copied unopened, rebuilt or dropped: one table, and its lookup."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kafka_ferry.batches.converted_batch import Reason, Rebuilt
from kafka_ferry.batches.record_format.header import NEWEST_FORMAT, Batch
from kafka_ferry.batches.topic_limits import TopicLimits


@dataclass(frozen=True, slots=True)
class Case:
    """A source batch and its context.

    Attributes:
        batch: the batch.
        start: first source offset that is wanted of it.
        end: source offset after the last one that is wanted of it.
        topic_limits: the target topic's limits.
        is_aborted: whether it is data of an aborted transaction.
        has_neighbours: whether it is one of several small batches in a row.
        left_out: why a filter leaves all of its records out, if one does.
        is_thinned: whether one leaves some of them out.
    """

    batch: Batch
    start: int
    end: int
    topic_limits: TopicLimits
    is_aborted: bool = False
    has_neighbours: bool = False
    left_out: Reason | None = None
    is_thinned: bool = False

    @property
    def is_small(self) -> bool:
        """Whether it should be joined with its neighbours."""
        return self.batch.header.size < self.topic_limits.join_below

    @property
    def is_whole(self) -> bool:
        """Whether all its offsets are wanted."""
        header = self.batch.header
        return (self.start, self.end) == (header.base_offset, header.next_offset)

    @property
    def is_dense(self) -> bool:
        """Whether each of its offsets has a record."""
        return self.batch.header.records == self.batch.header.last_offset_delta + 1

    @property
    def stored_crc(self) -> int:
        """The CRC with which the source has it; -1 of an old message format."""
        return self.batch.header.crc if self.batch.stored_format == NEWEST_FORMAT else -1

    @property
    def codec(self) -> int:
        """The codec with which it arrives."""
        return self.topic_limits.codec_for(self.batch.header.codec)


Rule = tuple[Callable[[Case], bool], Reason | Rebuilt]


# The first rule that holds decides; the comments name the broker's own checks.
DROPPED: Final[tuple[Rule, ...]] = (
    # A client's control batch is refused; no consumer sees the records of the other two.
    (lambda case: case.batch.header.is_control, Reason.CONTROL),
    (lambda case: case.is_aborted, Reason.ABORTED),
    (lambda case: case.batch.header.records == 0, Reason.COMPACTED),
)
REBUILT: Final[tuple[Rule, ...]] = (
    # ProduceRequest.validateRecords: v2 only.
    (lambda case: case.batch.stored_format < 2, Rebuilt.OLD_FORMAT),
    (lambda case: not case.is_whole, Rebuilt.RANGE_EDGE),
    (lambda case: case.is_thinned, Rebuilt.WINDOW_EDGE),
    # LogValidator.validateBatch: the offsets must be as many as the records.
    (lambda case: not case.is_dense, Rebuilt.OFFSET_GAPS),
    # A CreateTime topic would fall back to the producer's time, which no consumer saw.
    (lambda case: case.batch.header.is_log_append_time, Rebuilt.LOG_APPEND_TIME),
    # The broker would recompress it, which changes the stored digest.
    (lambda case: case.codec != case.batch.header.codec, Rebuilt.OTHER_CODEC),
    # UnifiedLog.append: RecordTooLarge. A single record cannot be divided: the broker reports it.
    (
        lambda case: (
            case.batch.header.size > case.topic_limits.max_batch_bytes
            and case.batch.header.records > 1
        ),
        Rebuilt.TOO_LARGE,
    ),
    # One request per small batch would make a copy slow.
    (lambda case: case.has_neighbours, Rebuilt.JOINED),
)


def judge(case: Case) -> Reason | Rebuilt | None:
    """Why a batch is dropped or rebuilt, None if it is copied unopened."""
    return _first(DROPPED, case) or case.left_out or _first(REBUILT, case)


def _first(rules: tuple[Rule, ...], case: Case) -> Reason | Rebuilt | None:
    return next((verdict for holds, verdict in rules if holds(case)), None)
