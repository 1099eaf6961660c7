"""What a run has copied so far by the ledger, which has each transaction's counts as it is committed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kafka_ferry.config import Flow
from kafka_ferry.ledger import BackfillEntry, TransactionEntry, ledger_topic, read_ledger
from kafka_ferry.model import Plan, TopicPartition
from kafka_ferry.model.waits import NO_WAITS


@dataclass(slots=True)
class CopiedCounts:
    """What was copied of one topic, or of several.

    Attributes:
        planned: offsets to copy.
        done: how many of them are accounted for.
        records: records copied.
        bytes: bytes of their batches.
        partitions: partitions to copy.
    """

    planned: int = 0
    done: int = 0
    records: int = 0
    bytes: int = 0
    partitions: int = 0

    @property
    def left(self) -> int:
        """Offsets still to be copied."""
        return self.planned - self.done

    @classmethod
    def together(cls, several: Iterable[CopiedCounts]) -> CopiedCounts:
        """The sum of them."""
        whole = cls()
        for one in several:
            whole.planned += one.planned
            whole.done += one.done
            whole.records += one.records
            whole.bytes += one.bytes
            whole.partitions += one.partitions
        return whole


class ProgressCounts:
    """Counts what a run copies.

    Args:
        flow: the flow.
        plan: what is copied.
        shard: the shard to count; None for all of them.

    Attributes:
        topics: by source topic, only those that have something to copy.
        waits: what copying waited for until each task's last transaction, all together.
    """

    def __init__(self, flow: Flow, plan: Plan, shard: int | None = None) -> None:
        self._flow, self._run = flow, plan.run
        self._next = plan.ledger_end
        self._ranges = {it.source: it for it in plan.of_shard(shard) if len(it)}
        self._done: dict[TopicPartition, int] = dict.fromkeys(self._ranges, 0)
        self.waits = NO_WAITS
        topics: dict[str, CopiedCounts] = defaultdict(CopiedCounts)
        for range_ in self._ranges.values():
            topics[range_.topic].planned += len(range_)
            topics[range_.topic].partitions += 1
        self.topics: Mapping[str, CopiedCounts] = dict(topics)

    @property
    def whole(self) -> CopiedCounts:
        """All topics together."""
        return CopiedCounts.together(self.topics.values())

    def update(self) -> None:
        """Read what is new in the ledger.

        Raises:
            FerryError: if it cannot be read now.
        """
        ledger = ledger_topic(self._flow.source.alias)
        for at, entry in read_ledger(self._flow.target, ledger, self._next):
            self._next = at + 1
            if isinstance(entry, TransactionEntry | BackfillEntry) and entry.run == self._run:
                self._count(entry)

    def _count(self, entry: TransactionEntry | BackfillEntry) -> None:
        if entry.flow != self._flow.name:
            return
        if any(TopicPartition(it.topic, it.partition) in self._ranges for it in entry.ranges):
            self.waits += entry.waits
        for copied in entry.ranges:
            source = TopicPartition(copied.topic, copied.partition)
            range_ = self._ranges.get(source)
            if range_ is None:
                continue
            topic = self.topics[source.topic]
            topic.records += copied.records
            topic.bytes += copied.bytes
            done = min(max(copied.end - range_.start, self._done[source]), len(range_))
            topic.done += done - self._done[source]
            self._done[source] = done
