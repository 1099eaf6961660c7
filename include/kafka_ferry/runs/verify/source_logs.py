"""Whether the source's logs are still those that were copied, now that the word is to be said."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kafka_ferry.errors import FerryError
from kafka_ferry.model import TopicPartition
from kafka_ferry.retry import retry, retry_for
from kafka_ferry.wire import connect
from kafka_ferry.wire.partitions.epochs import epoch_ends

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafka_ferry.config import Flow
    from kafka_ferry.model import Position
    from kafka_ferry.verify import PartitionRow

log = logging.getLogger(__name__)

_WAIT_S: Final = 5.0


def add_replaced(
    flow: Flow, rows: Sequence[PartitionRow], positions: Mapping[TopicPartition, Position]
) -> list[PartitionRow]:
    """The rows, with what the source has lost or replaced before their positions, by its leader epochs (KIP-320).

    A source that does not answer says nothing: what was copied of it can be proved without it.

    Args:
        flow: the flow.
        rows: the partitions that are verified.
        positions: the flow's, by *target* partition.
    """
    at = {
        row: epoch_position for row in rows if (epoch_position := _epoch_position(row, positions))
    }
    epochs = {row.source: position.leader_epoch for row, position in at.items()}
    if not epochs:
        return list(rows)
    try:
        with retry_for(_WAIT_S), connect(flow.source) as cluster:
            ends = retry(lambda: epoch_ends(cluster, epochs))
    except FerryError as error:
        log.warning("Whether the source still holds what was copied was not looked up: %s", error)
        return list(rows)
    replaced = {
        row: max(1, position.offset - epoch_end.end)
        for row, position in at.items()
        if (epoch_end := ends.get(row.source))
        and (epoch_end.epoch != position.leader_epoch or epoch_end.end < position.offset)
    }
    return [replace(row, replaced=replaced.get(row, 0)) for row in rows]


def _epoch_position(
    row: PartitionRow, positions: Mapping[TopicPartition, Position]
) -> Position | None:
    """The position of a row, if it is of the partition's newest incarnation and its leader epoch is known."""
    position = positions.get(row.target)
    is_known = position and position.offset == row.position and position.leader_epoch >= 0
    return position if is_known else None
