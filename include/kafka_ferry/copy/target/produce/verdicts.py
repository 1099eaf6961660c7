"""Interprets the target's answers, for each range and for the open transaction."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from kafka_ferry.batches import ConvertedBatch, MalformedBatch, Rejected, TopicLimits, cut_at
from kafka_ferry.copy.target.dead_letters import ABOUT_RECORDS, Rejections, advice_on_records
from kafka_ferry.copy.target.produce.partition_queue import Outgoing, PartitionQueue
from kafka_ferry.copy.target.produce.pipeline import Answer
from kafka_ferry.copy.target.writer import StartOver
from kafka_ferry.errors import BrokerError
from kafka_ferry.model.ranges import Range, TopicPartition
from kafka_ferry.model.results.failures import Failure
from kafka_ferry.model.rights import Right, advice_on
from kafka_ferry.retry import RETRY_S
from kafka_ferry.wire.error_codes import (
    NONE,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
    UNKNOWN_TOPIC_OR_PARTITION,
    error_name,
    fault,
    is_definite,
    is_transient,
)

# A planned topic that brokers do not know for so long is gone.
_UNKNOWN_S: Final = 4.0
# Far beyond any log's end.
_LAST_OFFSET: Final = 2**62
# Beside it DUPLICATE_SEQUENCE_NUMBER, INVALID_TXN_STATE, INVALID_PRODUCER_ID_MAPPING, UNKNOWN_PRODUCER_ID,
# TRANSACTION_ABORTABLE: the transaction is void.
_VOID: Final = frozenset({OUT_OF_ORDER_SEQUENCE_NUMBER, 46, 48, 49, 59, 120})


class Verdicts:
    """Judges answers, over all transactions of a writer.

    Args:
        dead_letters: the topic for records that are set aside; None where none are.
        takes_rejected: whether records that the target rejects are; otherwise their range fails.
        wait_s: how long a partition may accept no records, for transient reasons, before it fails.

    Attributes:
        failures: ranges that are no longer written, by *source* partition.
        waiting: those that are set aside for a while, since their partitions accepted no records when
            they were last tried, by *source* partition.
        void: why the open transaction cannot be committed, once that is known.
    """

    def __init__(
        self,
        dead_letters: TopicPartition | None,
        wait_s: float = RETRY_S,
        *,
        takes_rejected: bool = True,
    ) -> None:
        self.failures: dict[TopicPartition, Failure] = {}
        self.waiting: set[TopicPartition] = set()
        self.void: StartOver | None = None
        self._dead_letters = dead_letters
        self._takes_rejected = takes_rejected and dead_letters is not None
        self._refused: dict[TopicPartition, Failure] = {}
        self._rejections: dict[TopicPartition, Rejections] = defaultdict(Rejections)
        # In the open transaction, by *source* partition: the offset of the first batch with such records.
        self._rejected_at: dict[TopicPartition, int] = {}
        self._wait_s = wait_s
        self._waiting_since: dict[TopicPartition, float] = {}

    def write_again(self, ranges: Iterable[Range]) -> None:
        """Prepare for writing everything since the last commit again, up to what was refused.

        Args:
            ranges: those that are tried now.
        """
        self._rejected_at.clear()
        for source in self._refused:
            self.failures.pop(source, None)
        self.waiting -= {range_.source for range_ in ranges}

    def after_commit(self, reached: Mapping[TopicPartition, int]) -> None:
        """Record that a transaction has moved these *source* partitions to new positions."""
        for source, position in reached.items():
            self._waiting_since.pop(source, None)
            if rejections := self._rejections.get(source):
                rejections.forget_before(position)

    def sort_out(
        self, range_: Range, converted: ConvertedBatch, topic_limits: TopicLimits
    ) -> Iterator[tuple[ConvertedBatch, list[tuple[Rejected, str]]]]:
        """The parts of ``converted`` that may be sent, each with the records that were taken out of it."""
        if range_.source in self.failures:
            return
        refused = self._refused.get(range_.source)
        if refused and converted.end > refused.offset:
            self.failures[range_.source] = refused
            if converted.start >= refused.offset:
                return
        try:
            if refused and converted.end > refused.offset:
                converted, _ = cut_at(converted, refused.offset)
            rejections = self._rejections.get(range_.source)
            yield from (
                rejections.sort_out(converted, topic_limits) if rejections else [(converted, [])]
            )
        except MalformedBatch as error:
            # The batch had not been opened until now.
            self.fail(range_, converted.start, f"the source sent {error}.")

    def set_aside(self, range_: Range, epoch: int, errors: Mapping[int, str]) -> None:
        """Note that records are to be taken out of batches of a leader epoch, with the reason by source offset."""
        self._rejections[range_.source].errors[epoch] |= errors

    def judge(self, queue: PartitionQueue, out: Outgoing, answer: Answer) -> None:
        """Process a broker's answer for one batch.

        Raises:
            FerryError: if it concerns all ranges: a fence, a missing permission, the flow's own topics.
        """
        refused = self._refused.get(queue.range.source) if queue.range else None
        after_refused = refused is not None and out.converted.start >= refused.offset
        what = str(out.range or "the ledger")
        if answer.code == NONE and after_refused:
            self.make_void(f"{refused} A later batch was accepted.", excludes=True)
        elif answer.code == NONE and answer.base_offset > _LAST_OFFSET:
            # Its end might be no number of Kafka's, and no table has room for it.
            at = f"{answer.base_offset:,}"
            self.make_void(
                f"Writing {what}: the target says that it is at offset {at}, which no log has."
            )
        elif answer.code == NONE:
            if not queue.note_stored(out, answer.base_offset):
                # What it has stored of this transaction may be gone, and would be committed without it.
                lost = "its log has lost records (an unclean leader election?)"
                self.make_void(f"Writing {what}: {lost}.")
        elif after_refused or self._is_after_rejected(queue, out, answer.code):
            return
        elif answer.code in _VOID:
            self.make_void(f"Writing {what}: {error_name(answer.code)}.")
        elif is_transient(answer.code) and out.range:
            self.fail_for_now(out.range, out.converted.start, answer.code)
        else:
            needed = [Right.topic("WRITE", out.range.target.topic)] if out.range else []
            error = fault(answer.code, f"Writing {what}", *needed)
            if out.range is None or not isinstance(error, BrokerError):
                raise error
            self.refuse(queue, out, answer)

    def _is_after_rejected(self, queue: PartitionQueue, out: Outgoing, code: int) -> bool:
        """Whether a batch is out of order because the one before it was rejected: nothing else is wrong with it."""
        rejected_at = self._rejected_at.get(queue.range.source) if queue.range else None
        is_later = rejected_at is not None and out.converted.start > rejected_at
        return code == OUT_OF_ORDER_SEQUENCE_NUMBER and is_later

    def refuse(self, queue: PartitionQueue, out: Outgoing, answer: Answer) -> None:
        """Handle a rejected batch: set records aside, or stop the range before it."""
        range_, converted = out.range, out.converted
        assert range_ is not None
        error = error_name(answer.code) + (f": {answer.words}" if answer.words else "")
        if queue.range is None:
            message = f"{self._dead_letters} refused its dead letter: {error}."
            self._refused[range_.source] = Failure.of(
                range_, converted.start, message, transient=False
            )
            self.make_void(message, excludes=True)
        elif self._takes_rejected and answer.code in ABOUT_RECORDS:
            message = (
                f"{range_.target} refused records of [{converted.start}, {converted.end}): {error}."
            )
            self.make_void(message, excludes=True)
            self._rejected_at.setdefault(range_.source, converted.start)
            try:
                self._rejections[range_.source].learn(converted, answer.code, error, answer.records)
            except MalformedBatch as malformed:
                self.fail(range_, converted.start, f"the source sent {malformed}; {message}")
        else:
            denied = advice_on(answer.code, [Right.topic("WRITE", range_.target.topic)])
            advice = denied or advice_on_records(answer.code)
            at = f"[{converted.start}, {converted.end})"
            message = f"the target refused the batch of offsets {at}, {out.size:,} bytes: {error}."
            failure = Failure.of(
                range_, converted.start, message, is_transient(answer.code), advice=advice
            )
            self._refused[range_.source] = self.failures[range_.source] = failure
            queue.waiting.clear()
            # The next run writes them again: letters that may be in the transaction already, and a batch that is there
            # after all.
            if self._has_letters(range_.source, converted.start) or not is_definite(answer.code):
                self.make_void(message, advice=advice, excludes=True)

    def _has_letters(self, source: TopicPartition, offset: int) -> bool:
        """Whether records from ``offset`` on go to the dead letter topic."""
        rejections = self._rejections.get(source)
        by_epoch = rejections.errors.values() if rejections else ()
        return any(at >= offset for errors in by_epoch for at in errors)

    def fail_for_now(self, range_: Range, offset: int, code: int, why: str = "") -> None:
        """Handle a transient error of one partition: it is set aside, and the transaction is void.

        Args:
            range_: the range that is copied into it.
            offset: the source offset before which it stopped.
            code: Kafka's error code.
            why: what is known beyond that.
        """
        source = range_.source
        self.make_void(f"{range_.target}: {error_name(code)}.", excludes=True)
        self.waiting.add(source)
        now = time.monotonic()
        waited = now - self._waiting_since.setdefault(source, now)
        is_unknown = code == UNKNOWN_TOPIC_OR_PARTITION
        if waited >= (min(self._wait_s, _UNKNOWN_S) if is_unknown else self._wait_s):
            kept = f"the target kept answering {error_name(code)}"
            self.fail(range_, offset, f"{kept}: {why}." if why else f"{kept}.", code)

    def fail(
        self, range_: Range, offset: int, message: str, code: int = NONE, *, advice: str = ""
    ) -> None:
        """Stop writing a range; the broker's ``code`` says whether the error is transient."""
        failure = Failure.of(range_, offset, message, is_transient(code), advice=advice)
        self.failures[range_.source] = failure

    def make_void(self, why: str, *, advice: str = "", excludes: bool = False) -> None:
        """Mark the open transaction as impossible to commit."""
        if self.void is None:
            self.void = StartOver(why, advice=advice, excludes=excludes)
        else:
            self.void.excludes &= excludes
