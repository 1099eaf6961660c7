"""Takes over what an earlier attempt has written and not committed, once it was compared with the source."""

from __future__ import annotations

from typing import Final

from kafka_ferry.batches import Absent, ConvertedBatch, Reason
from kafka_ferry.copy.target.preserved.gap_filler import Fail
from kafka_ferry.copy.target.preserved.partition_queue import PreservedQueue
from kafka_ferry.copy.target.preserved.uncommitted_tail import Ahead, Misplaced
from kafka_ferry.copy.target.produce.partition_queue import Outgoing
from kafka_ferry.copy.target.transaction import Transaction
from kafka_ferry.model.ranges import Range, TopicPartition

_BY_RULE: Final = (
    " The source's record is taken as {rule} leaves it now, and this flow itself wrote what is there, in an "
    "attempt that did not commit it. If the rule, its function or a secret has changed since, set it back, "
    "run once, and change it then."
)
_BY_NO_RULE: Final = (
    " This flow itself wrote what is there, in an attempt that did not commit it. If the topic had a transform "
    "rule then, set it back, run once, and take it away then. Otherwise the source has lost or changed records."
)
_GIVE_UP: Final = (
    " Or run `ferry repair --config ... --flow '{flow}' --topic {topic} --yes`: this copy is given up, and the "
    "next run copies it again."
)


class Adoption:
    """Accounts for records that the target has after positions.

    Args:
        transaction: the writer's.
        fail: stops a partition.
    """

    def __init__(self, transaction: Transaction, fail: Fail) -> None:
        self._transaction, self._fail = transaction, fail

    def begin(
        self, queue: PreservedQueue, tp: TopicPartition, written: tuple[int, int], position: int
    ) -> None:
        """Note that the log of ``tp`` goes on after what is known of it.

        Args:
            queue: the partition's queue.
            tp: the partition on the target.
            written: the offsets ``[start, end)`` that are to be compared.
            position: the partition's position.
        """
        known_to, end = written
        queue.ahead = Ahead(
            self._transaction.coordination,
            tp,
            known_to,
            end,
            queue.producer,
            is_compacted=self._transaction.limits_by_topic[tp.topic].keys_required,
            may_be_refused=self._transaction.takes_letters,
        )
        if known_to < position:
            # Only control records lie between the log's start and the first range.
            between = known_to, min(position, end)
            absent = Absent(*between, Reason.CONTROL)
            self.adopt(queue, ConvertedBatch(*between, absent=(absent,)))
            queue.tally = None

    def adopt(self, queue: PreservedQueue, converted: ConvertedBatch) -> None:
        """Account for a converted batch of an earlier attempt, if the target holds exactly that."""
        assert queue.ahead is not None and queue.range is not None
        try:
            adopted = queue.ahead.adopt(converted)
        except Misplaced as error:
            message = error.message + self._cause(queue.range) if error.is_own else error.message
            self._fail(queue, error.offset, message, advice=not error.is_own)
            return
        why = "the target refused it when it was first tried, or its log has been compacted since"
        self._transaction.put_letters(queue.range, [(letter, why) for letter in adopted.letters])
        for part in adopted.converted_batches:
            queue.account(Outgoing(part, queue.range, part.first, adopted=True))
            self._transaction.uncommitted_segments += len(part.runs)
        queue.count_adopted(adopted.batches)
        if converted.end >= queue.ahead.end:
            # Only the broker has counted records that both sides have removed since.
            if queue.ahead.next_sequence is not None:
                queue.counted = queue.ahead.next_sequence
            queue.epoch = queue.ahead.epoch
            queue.ahead, queue.sequence = None, queue.counted

    def _cause(self, range_: Range) -> str:
        """Why records of the flow's own differ from what it would write now."""
        flow, rule = (
            self._transaction.settings.flow,
            self._transaction.settings.rule_name(range_.topic),
        )
        differs = _BY_RULE.format(rule=rule) if rule else _BY_NO_RULE
        return differs + _GIVE_UP.format(flow=flow, topic=range_.remote_topic)
