"""Recovery from the ledger, where Kafka has left a transaction open or lost a position.

Rare enough to read the whole ledger.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from kafka_ferry.batches import Segment
from kafka_ferry.batches.epochs import EpochHistory
from kafka_ferry.config import Flow
from kafka_ferry.ledger import (
    BackfillEntry,
    CopiedRange,
    CopyingEntry,
    ledger_topic,
    read_ledger,
)
from kafka_ferry.ledger.epochs import epoch_history
from kafka_ferry.ledger.topic import wait_until_settled
from kafka_ferry.model.positions import Position
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.retry import retry
from kafka_ferry.wire import WireCluster
from kafka_ferry.wire.partitions.partition_log import partition_logs
from kafka_ferry.wire.transactions.endings import TransactionOutcome


class LedgerRecovery:
    """What the ledger of ``flow`` says of *target* partitions.

    Every method raises ``FerryError`` if the ledger cannot be read, or if transactions that are
    open in it hide its newest records for a minute.
    """

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._ledger = TopicPartition(ledger_topic(flow.source.alias), 0)

    def outcomes(
        self, open_: Mapping[TopicPartition, int], last: TransactionOutcome
    ) -> Mapping[TopicPartition, TransactionOutcome]:
        """How transactions that Kafka left open were to end: committed ones have a record in the ledger.

        Args:
            open_: where the open part begins, by partition.
            last: how the last transaction ended. No other is open in the flow's own topics.

        Returns:
            Committed for a partition whose open part the ledger knows of, else aborted. Where the
            ledger itself is open, the flow's own topics alone: it can be read once it has ended.
        """
        letters = TopicPartition(self._flow.dead_letter_name, 0)
        if self._ledger in open_:
            own = self._ledger.topic, self._flow.dead_letter_name
            return {tp: last for tp in open_ if tp.topic in own}
        outcomes = dict.fromkeys(open_, TransactionOutcome.ABORTED)
        for copied in self._newest_incarnation(open_, backfills=True):
            tp = TopicPartition(copied.remote_topic, copied.partition)
            if _has_offset(copied.segments, open_[tp]):
                outcomes[tp] = TransactionOutcome.COMMITTED
        if letters in open_ and any(_has_offset(it, open_[letters]) for it in self._letters()):
            outcomes[letters] = TransactionOutcome.COMMITTED
        return outcomes

    def positions(
        self, cluster: WireCluster, topic_ids: Mapping[TopicPartition, str]
    ) -> dict[TopicPartition, Position]:
        """Positions for partitions that were copied before and have none in the flow's group.

        Args:
            cluster: the target.
            topic_ids: the ids of the partitions' topics: what went into earlier topics does not count.
        """
        logs = retry(lambda: partition_logs(cluster, topic_ids))
        if not any(log.end for log in logs.values()):
            # Usually the partition was never written to.
            return {}
        positions = {}
        for copied in self._newest_incarnation(topic_ids):
            tp = TopicPartition(copied.remote_topic, copied.partition)
            if copied.remote_topic_id == topic_ids[tp]:
                positions[tp] = Position(
                    copied.end,
                    copied.topic_id,
                    copied.remote_topic_id,
                    origin="ledger",
                    leader_epoch=copied.leader_epoch,
                    producer=copied.producer,
                )
        return positions

    def epochs(self, target: TopicPartition, position: Position) -> EpochHistory:
        """The source's leader epochs of what was copied to a partition, up to ``position``."""
        return epoch_history(
            copied
            for copied in self._newest_incarnation([target])
            if (copied.topic_id, copied.remote_topic_id)
            == (position.topic_id, position.remote_topic_id)
        )

    def _letters(self) -> Iterator[Sequence[Segment]]:
        """Where the flow's dead letters are, a range's after the other's."""
        for entry in self._copying_entries():
            yield from (copied.letters for copied in entry.ranges)

    def _copying_entries(self) -> Iterator[CopyingEntry]:
        """The flow's entries with copied ranges, in the ledger's order."""
        for _, entry in read_ledger(self._flow.target, self._ledger.topic, 0):
            if isinstance(entry, CopyingEntry) and entry.flow == self._flow.name:
                yield entry

    def _newest_incarnation(
        self, partitions: Collection[TopicPartition], *, backfills: bool = False
    ) -> Iterator[CopiedRange]:
        """The ranges that went into the current topics of the partitions' names, in the ledger's order."""
        wait_until_settled(self._flow.target, self._ledger.topic)
        incarnations: dict[TopicPartition, list[CopiedRange]] = {}
        for entry in self._copying_entries():
            # A backfill writes to the same partitions, and moves no position.
            if isinstance(entry, BackfillEntry) and not backfills:
                continue
            for copied in entry.ranges:
                tp = TopicPartition(copied.remote_topic, copied.partition)
                if tp in partitions:
                    incarnation = incarnations.setdefault(tp, [])
                    if incarnation and incarnation[-1].remote_topic_id != copied.remote_topic_id:
                        incarnation.clear()
                    incarnation.append(copied)
        for incarnation in incarnations.values():
            yield from incarnation


def _has_offset(segments: Sequence[Segment], target: int) -> bool:
    return any(it.target <= target < it.target + it.records for it in segments)
