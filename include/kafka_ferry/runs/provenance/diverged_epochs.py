"""Where logs part from those that were copied, by their leader epochs (KIP-101)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kafka_ferry.batches.epochs import EpochEnd, branch_end
from kafka_ferry.model import TopicPartition
from kafka_ferry.retry import retry
from kafka_ferry.wire import connect
from kafka_ferry.wire.partitions.epochs import epoch_ends

if TYPE_CHECKING:
    from kafka_ferry.config import Cluster
    from kafka_ferry.ledger import LedgerTable
    from kafka_ferry.model import Position

Copied = Mapping[TopicPartition, "Position"]
"""The positions by *source* partition."""


def diverged_epochs(
    source: Cluster, ledger: LedgerTable, copied: Copied, remote_names: Mapping[str, str]
) -> dict[TopicPartition, int]:
    """Where the source's logs part from those that were copied, below the positions.

    Args:
        source: the cluster that the records were copied from.
        ledger: the ledger of the flow that has copied them, projected.
        copied: its positions; one without a leader epoch tells nothing.
        remote_names: by the source's topics, the remote topics.

    Returns:
        The offsets by *source* partition, -1 where they do part and that is unknown.

    Raises:
        FerryError: if the source does not say where its epochs end.
    """
    epochs = {
        tp: reached.leader_epoch for tp, reached in copied.items() if reached.leader_epoch >= 0
    }
    if not epochs:
        return {}
    with connect(source) as cluster:
        ends = retry(lambda: epoch_ends(cluster, epochs))
        diverged = {}
        for tp, epoch_end in ends.items():
            position = copied[tp]
            if epoch_end.epoch == position.leader_epoch and epoch_end.end >= position.offset:
                continue
            target = TopicPartition(remote_names[tp.topic], tp.partition)

            def end_of(epoch: int, tp: TopicPartition = tp) -> EpochEnd | None:
                return retry(lambda: epoch_ends(cluster, {tp: epoch})).get(tp)

            end = branch_end(ledger.epochs(target, position), end_of)
            diverged[tp] = -1 if end is None else min(end, position.offset)
    return diverged


def copies_of(ledger: LedgerTable, topic_ids: Mapping[str, str]) -> tuple[Copied, dict[str, str]]:
    """What the ledger has of the topics with these ids, by name, and the remote topics."""
    remote_names = {name: remote for name, remote in ledger.topics().items() if name in topic_ids}
    names = {remote: name for name, remote in remote_names.items()}
    copied = {
        TopicPartition(names[tp.topic], tp.partition): position
        for tp, position in ledger.positions().items()
        if tp.topic in names and position.topic_id == topic_ids[names[tp.topic]]
    }
    return copied, remote_names
