"""Reads ranges with the records changed, batch by batch, in the task itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from kafka_ferry.batches import ConvertedBatch, MalformedBatch, TooLarge, TopicLimits, in_parts
from kafka_ferry.config.options.transform import ErrorPolicy
from kafka_ferry.copy.source.cursor import Read
from kafka_ferry.copy.source.reader import Reader
from kafka_ferry.copy.source.record_errors import RecordErrors
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.model.results.failures import Failure
from kafka_ferry.transform import TransformedBatch

BatchChange = Callable[[ConvertedBatch, TopicPartition, TopicLimits], TransformedBatch]
"""What becomes of a converted batch of a source partition; ``MalformedBatch`` if it cannot be read, ``TooLarge`` if it
has more than ``OPENED_AT_ONCE``."""


class ChangedReader:
    """A ``Reader`` of what becomes of the records that another one reads.

    Args:
        reader: reads the records; closed with this one.
        changes: by source topic, what becomes of its batches; those of other topics stay as they are.
        limits_by_topic: what remote topics take.
        on_error: what becomes of a record that cannot be changed.
        what: what cannot be done to it, such as ``a transform rule cannot be applied``.
        advice: what to do where that stops a range.
    """

    def __init__(
        self,
        reader: Reader,
        changes: Mapping[str, BatchChange],
        limits_by_topic: Mapping[str, TopicLimits],
        on_error: ErrorPolicy,
        what: str,
        advice: str,
    ) -> None:
        self._reader, self._changes, self._limits_by_topic = reader, changes, limits_by_topic
        self._on_error, self._what, self._advice = on_error, what, advice
        self._failed: set[TopicPartition] = set()

    @property
    def round_trip_s(self) -> float:
        """See ``Reader``."""
        return self._reader.round_trip_s

    def next(self, timeout_s: float) -> Sequence[Read] | None:
        """See ``Reader``."""
        reads = self._reader.next(timeout_s)
        return None if reads is None else [self._change(read) for read in reads]

    def drop(self, source: TopicPartition) -> None:
        """See ``Reader``."""
        self._failed.add(source)
        self._reader.drop(source)

    def close(self) -> None:
        """See ``Reader``."""
        self._reader.close()

    def _change(self, read: Read) -> Read:
        range_, failure = read.range, read.failure
        change = self._changes.get(range_.topic)
        if change is None:
            return read
        errors = RecordErrors(range_, self._on_error, self._what, self._advice)
        topic_limits = self._limits_by_topic.get(range_.remote_topic, TopicLimits())
        is_dropped = range_.source in self._failed
        for converted in read.converted_batches:
            if is_dropped or errors.failure:
                break
            at = converted.start
            try:
                for became in self._became(change, converted, range_.source, topic_limits):
                    error_texts = {
                        offset: text
                        for offset, text in became.errors.items()
                        if offset not in read.set_aside
                    }
                    errors.add(became.converted, error_texts)
                    if errors.failure:
                        break
                    at = became.converted[-1].end
            except MalformedBatch as error:
                message = f"the source sent {error}."
                failure = Failure.of(range_, at, message, transient=False)
                is_dropped = True
                break
        if is_dropped or errors.failure:
            self.drop(range_.source)
        changed = errors.read(failure)
        # Records of batches that are left out, since the range stops before them, are not set aside either.
        reached = changed.converted_batches[-1].end if changed.converted_batches else range_.start
        before = {at: why for at, why in read.set_aside.items() if at < reached}
        set_aside = {**before, **changed.set_aside}
        return Read(range_, changed.converted_batches, changed.failure, set_aside)

    @staticmethod
    def _became(
        change: BatchChange,
        converted: ConvertedBatch,
        source: TopicPartition,
        topic_limits: TopicLimits,
    ) -> Iterator[TransformedBatch]:
        """What becomes of a converted batch, or of each part of one that is too large."""
        try:
            yield change(converted, source, topic_limits)
            return
        except TooLarge:
            pass
        for part in in_parts(converted):
            yield change(part, source, topic_limits)
