"""Checks whether a log's batches are those of a partition's own producer, in sequence."""

from __future__ import annotations

from dataclasses import replace

from kafka_ferry.batches import BatchHeader, next_sequence
from kafka_ferry.model.positions import ProducerState


class Trail:
    """Follows a producer's batches through a log, by their headers.

    Args:
        producer: the producer, as of ``start``.
        start: the first offset to check.
        log_start: where the log starts.
        is_compacted: whether log compaction may have removed records.

    Attributes:
        producer: the producer, as of the last batch: where its broker had forgotten it, a later epoch of it begins,
            with a control record.
        expected: the sequence number of the next record, None where no batch says.
    """

    def __init__(
        self, producer: ProducerState, start: int, log_start: int, *, is_compacted: bool
    ) -> None:
        self.producer = producer
        self._start = max(start, log_start)
        self._is_compacted = is_compacted
        self.expected: int | None = producer.sequence if log_start <= start else None

    def problem(self, header: BatchHeader) -> str:
        """What is wrong with the next batch, as a sentence; "" if it is the producer's next one, or a control batch."""
        producer = self.producer
        if header.producer_id == producer.producer_id and header.producer_epoch > producer.epoch:
            self.producer = producer = replace(producer, epoch=header.producer_epoch)
            self.expected = 0 if header.is_control else None
        if header.is_control:
            return ""
        if (header.producer_id, header.producer_epoch) != (producer.producer_id, producer.epoch):
            return f"another producer (id {header.producer_id}) has written to it."
        begun = next_sequence(header.base_sequence, max(0, self._start - header.base_offset))
        expected, self.expected = (
            self.expected,
            next_sequence(header.base_sequence, header.last_offset_delta + 1),
        )
        if expected in (None, begun) or self._is_compacted:
            return ""
        return (
            f"the flow's own producer has sequence number {begun} where {expected} was expected: "
            "a writer that was treated as dead has written again."
        )
