"""How a transaction was to end that is open in the ledger, where its coordinator has forgotten it.

The ledger cannot say it then, since what is open there is hidden. But Kafka has written a marker after the records
of each partition that had a leader, and the hidden entry says where those records are.
"""

from __future__ import annotations

from functools import partial

from kafka_ferry.batches import each_record, is_abort_marker, key_value_of
from kafka_ferry.ledger.copied_range import CopiedRange
from kafka_ferry.ledger.record import CopyingEntry, decode
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.retry import retry
from kafka_ferry.wire import WireCluster
from kafka_ferry.wire.partitions.at_offset import batch_at
from kafka_ferry.wire.partitions.fetch import corrupt_in
from kafka_ferry.wire.partitions.partition_log import partition_log
from kafka_ferry.wire.partitions.scan import stored_batches
from kafka_ferry.wire.transactions.endings import TransactionOutcome


def outcome_by_markers(
    cluster: WireCluster, ledger: TopicPartition, offset: int
) -> TransactionOutcome:
    """How the transaction ended that is open in the ledger from ``offset`` on.

    Unknown where it has copied no record, or Kafka has skipped the marker of each partition.

    Raises:
        LedgerError: what is open there is no entry of a ledger.
        FerryError: if the target does not answer for a minute.
    """
    unknown = TransactionOutcome.UNKNOWN
    log = retry(partial(partition_log, cluster, ledger))
    batch = retry(partial(batch_at, cluster, log, offset))
    if batch is None:
        return unknown
    producer = batch.header.producer_id
    with corrupt_in(ledger, cluster.alias):
        first = next(each_record(batch), None)
        value = key_value_of(first[3])[1] if first else None
    entry = decode(value or b"", at=f"{ledger.topic} offset {offset}")
    ranges = entry.ranges if isinstance(entry, CopyingEntry) else ()
    outcomes = (retry(partial(_outcome_in, cluster, producer, it)) for it in ranges if it.segments)
    return next((outcome for outcome in outcomes if outcome != unknown), unknown)


def _outcome_in(cluster: WireCluster, producer: int, copied: CopiedRange) -> TransactionOutcome:
    """What the marker says that follows the range's last record; unknown unless the producer's next batch is one."""
    tp = TopicPartition(copied.remote_topic, copied.partition)
    leader = cluster.leaders([tp])[tp]
    if leader.node < 0 or leader.topic_id != copied.remote_topic_id:
        return TransactionOutcome.UNKNOWN
    log = partition_log(cluster, tp)
    last = copied.segments[-1].last_target
    if not log.start <= last < log.end:
        return TransactionOutcome.UNKNOWN
    batches = stored_batches(cluster, log, last, log.end)
    own = (it for it in batches if it.header.producer_id == producer)
    record, marker = next(own, None), next(own, None)
    if record is None or record.header.is_control or record.header.base_offset > last:
        return TransactionOutcome.UNKNOWN
    if marker is None or not marker.header.is_control or not marker.header.records:
        return TransactionOutcome.UNKNOWN
    with corrupt_in(tp, cluster.alias):
        is_aborted = is_abort_marker(marker)
    return TransactionOutcome.ABORTED if is_aborted else TransactionOutcome.COMMITTED
