"""Transactions that a truncation of the source's log has cut in two, and that have ended otherwise since.

A log that is truncated within a transaction, or right before its marker, shows it as open again. What ends it is the
producer's next marker: of records below the place where the logs part, which were copied, or were left out as aborted,
the source then says the opposite.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from kafka_ferry.batches import Reason
from kafka_ferry.ledger.queries.copied_ranges import ranges_with
from kafka_ferry.model import TopicPartition
from kafka_ferry.retry import retry
from kafka_ferry.wire import connect
from kafka_ferry.wire.partitions.at_offset import ended_otherwise
from kafka_ferry.wire.partitions.partition_log import led_logs

if TYPE_CHECKING:
    from kafka_ferry.config import Cluster
    from kafka_ferry.ledger import LedgerTable


def split_transactions(
    source: Cluster, ledger: LedgerTable, diverged: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The first such transaction of each *source* partition, by the offset of its first record.

    Args:
        source: the source.
        ledger: the flow's ledger, projected.
        diverged: where the logs part from those that were copied; where that is unknown, nothing is asked.

    Raises:
        FerryError: if the source cannot be read.
    """
    known = {tp: at for tp, at in diverged.items() if at >= 0}
    split: dict[TopicPartition, int] = {}
    if not known:
        return split
    with connect(source) as cluster:
        for tp, log in retry(partial(led_logs, cluster, list(known))).items():
            firsts = ended_otherwise(cluster, log, known[tp], partial(_was_aborted, ledger, tp))
            if (first := next(firsts, None)) is not None:
                split[tp] = first
    return split


def _was_aborted(ledger: LedgerTable, source: TopicPartition, offset: int) -> bool | None:
    """Whether a record was left out as aborted; a range that had both does not say so of what a rule left out.

    None where the flow has not copied from there, as below the offset at which it began.
    """
    ranges = ranges_with(ledger, source, offset)
    ordinary = [it.copied for it in ranges if it.window is None]
    # Below where the flow began, backfills have copied, each a part.
    copied = ordinary[-1:] or [it.copied for it in ranges]
    if any(it.source <= offset < it.source + it.records for one in copied for it in one.segments):
        return False
    reasons = {reason for one in copied for reason, offsets in one.reasons.items() if offsets}
    if Reason.OUTSIDE_WINDOW in reasons:
        return None
    return Reason.ABORTED in reasons if copied else None
