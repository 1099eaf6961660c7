"""How a transaction was to end that is open in the ledger, where its coordinator has forgotten it.

The ledger cannot say it then, since what is open there is hidden. But Kafka has written a marker after the records
of each partition that had a leader, and the hidden entry says where those records are; and its positions came with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from kafka_ferry.batches import each_record, is_abort_marker, key_value_of
from kafka_ferry.ledger.copied_range import CopiedRange
from kafka_ferry.ledger.record import BackfillEntry, CopyingEntry, decode
from kafka_ferry.model.positions import Position
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.retry import retry
from kafka_ferry.wire import WireCluster
from kafka_ferry.wire.partitions.at_offset import batch_at
from kafka_ferry.wire.partitions.fetch import corrupt_in
from kafka_ferry.wire.partitions.partition_log import partition_log
from kafka_ferry.wire.partitions.scan import stored_batches
from kafka_ferry.wire.transactions.endings import TransactionOutcome


def outcome_by_others(
    cluster: WireCluster,
    ledger: TopicPartition,
    offset: int,
    positions: Mapping[TopicPartition, Position],
) -> TransactionOutcome:
    """How the transaction ended that is open in the ledger from ``offset`` on, by its markers, or else its positions.

    A transaction whose positions are pending too, and of which nothing else tells, ends aborted as a whole: the next
    run does all of it again.

    Args:
        cluster: the target.
        ledger: the ledger's partition.
        offset: where the open part begins.
        positions: the flow's, by *target* partition, without pending ones.

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
    by_markers = next((outcome for outcome in outcomes if outcome != unknown), unknown)
    if by_markers != unknown or isinstance(entry, BackfillEntry):
        return by_markers
    by_positions = {outcome_by_position(positions, it) for it in ranges} - {unknown}
    return by_positions.pop() if len(by_positions) == 1 else unknown


def outcome_by_position(
    positions: Mapping[TopicPartition, Position], copied: CopiedRange
) -> TransactionOutcome:
    """What the partition's position says: no run has moved it since, while no plan could read the ledger."""
    if copied.start == copied.end or copied.rewound_from >= 0:
        # The position may have been there before.
        return TransactionOutcome.UNKNOWN
    position = positions.get(TopicPartition(copied.remote_topic, copied.partition))
    ids = copied.topic_id, copied.remote_topic_id
    is_of_it = position is not None and (position.topic_id, position.remote_topic_id) == ids
    reached = position.offset if position and is_of_it else copied.start
    if reached == copied.end:
        return TransactionOutcome.COMMITTED
    # Records that were committed, and have expired since, would be copied again where a group has lost its positions.
    has_marker = bool(copied.segments) and not copied.preserved
    is_before = reached <= copied.start and not has_marker
    return TransactionOutcome.ABORTED if is_before else TransactionOutcome.UNKNOWN


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
