"""Where the reading of a range stands, and what its next batches become."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from kafka_ferry.batches import (
    AbortFilter,
    BatchFilter,
    ConvertedBatch,
    MalformedBatch,
    TopicLimits,
    TransactionFates,
    converted_batches,
)
from kafka_ferry.copy.outcome import Failure
from kafka_ferry.model.ranges import Range, TopicPartition
from kafka_ferry.retry import RETRY_S
from kafka_ferry.wire import Expected, Fetched

LookAhead = Callable[[int, Mapping[int, int]], Mapping[int, bool]]
"""See ``TransactionFates.judged``."""


@dataclass(frozen=True, slots=True)
class Read:
    """What was read of one range.

    Attributes:
        range: the range.
        converted_batches: what its next batches become, in order; they join what was read before.
        failure: why nothing more will come of it, if so.
    """

    range: Range
    converted_batches: tuple[ConvertedBatch, ...] = ()
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class ReadRules:
    """How ranges are read.

    Attributes:
        max_bytes: soft bound of one fetch response, in bytes.
        wait_s: how long a partition may give nothing while leaders move and brokers restart.
        committed: whether only committed records are copied.
        skip_lost: go on at the log's start where records were deleted before they were copied.
        rewind: go back to where the source's log was truncated, if that is below the position.
        limits_by_topic: what each remote topic takes.
        filters: by source partition, what leaves records of it out.
    """

    max_bytes: int
    wait_s: float = RETRY_S
    committed: bool = True
    skip_lost: bool = False
    rewind: bool = False
    limits_by_topic: Mapping[str, TopicLimits] = field(default_factory=dict)
    filters: Mapping[TopicPartition, Sequence[BatchFilter]] = field(default_factory=dict)


@dataclass(slots=True)
class Cursor:
    """Where the reading of one range stands.

    Attributes:
        range: the range.
        at: the next source offset to account for.
        leader_epoch: of the last batch before it, -1 where none is known.
        begun: whether the broker has confirmed that the log is the one that was copied before.
        transient_failures: how many there were in a row.
        failing_since: when the first of them was, by the monotonic clock.
        not_before: when to ask again after one.
        is_asked: whether a request for it is on its way.
        must_be_alone: whether the next request has to be for it alone.
        wave: how urgent it is; the least comes first.
        fates: what is known of its producers' transactions.
    """

    range: Range
    at: int
    leader_epoch: int
    begun: bool = False
    transient_failures: int = 0
    failing_since: float = 0.0
    not_before: float = 0.0
    is_asked: bool = False
    must_be_alone: bool = False
    wave: int = 0
    fates: TransactionFates = field(default_factory=TransactionFates)

    @property
    def expected(self) -> Expected:
        """What must still be true of the partition."""
        return Expected(self.range.topic_id, self.leader_epoch)

    def convert(
        self, fetched: Fetched, rules: ReadRules, room: int, look_ahead: LookAhead
    ) -> tuple[list[ConvertedBatch], str]:
        """What an answer's batches become, up to one that is malformed, and what is wrong with that one.

        Batches that grow when they are rebuilt end it when they are more than ``room`` bytes.
        """
        topic_limits = rules.limits_by_topic.get(self.range.remote_topic, TopicLimits())
        filters = rules.filters.get(self.range.source, ())

        def convert(aborted: AbortFilter) -> tuple[list[ConvertedBatch], str]:
            found, left = list[ConvertedBatch](), room
            try:
                for converted in converted_batches(
                    fetched.records, aborted, self.at, self.range.end, topic_limits, filters
                ):
                    found.append(converted)
                    left -= converted.batch.header.size if converted.batch else 0
                    if left < 0:
                        break
            except MalformedBatch as error:
                return found, str(error)
            return found, ""

        if not rules.committed:
            return convert(AbortFilter(()))
        return self.fates.judged(fetched.aborted, convert, look_ahead)
