"""Offsets to commit, in parts that brokers take.

A broker appends what one request commits to ``__consumer_offsets`` as one batch, of which it takes 1 MiB by
default (``max.message.bytes``), and refuses the whole request where that is too small (``GroupMetadataManager``;
since Kafka 4.0 ``CoordinatorOperationExceptionHelper``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, TypeVar

from kafka_ferry.batched import batched_by_weight
from kafka_ferry.errors import BrokerError
from kafka_ferry.model.groups import Committed
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.wire.error_codes import (
    INVALID_COMMIT_OFFSET_SIZE,
    MESSAGE_TOO_LARGE,
    RECORD_LIST_TOO_LARGE,
    UNKNOWN_SERVER_ERROR,
)

PART_BYTES: Final = 400_000
# Each partition takes some 60 bytes in the batch in addition to its names and its metadata.
_FIXED_BYTES: Final = 60
_TOO_LARGE: Final = frozenset(
    {
        UNKNOWN_SERVER_ERROR,  # since Kafka 4.0
        MESSAGE_TOO_LARGE,
        RECORD_LIST_TOO_LARGE,
        INVALID_COMMIT_OFFSET_SIZE,  # before
    }
)


_T = TypeVar("_T")
Part = dict[TopicPartition, Committed]


def entries_to_commit(
    kind: Any, offsets: Mapping[TopicPartition, Committed]
) -> dict[TopicPartition, Any]:
    """The entries of a request that commits offsets, by partition; ``kind`` is its message's class of them."""
    return {
        tp: kind(
            partition_index=tp.partition,
            committed_offset=committed.offset,
            committed_leader_epoch=committed.leader_epoch,
            committed_metadata=committed.metadata,
        )
        for tp, committed in offsets.items()
    }


def parts_of(group: str, offsets: Mapping[TopicPartition, Committed]) -> Iterator[Part]:
    """The offsets in their order, in parts of at most some 400 KB in the broker's log.

    Args:
        group: the group that they are committed in.
        offsets: what is committed of each partition.
    """
    names = len(group.encode()) + _FIXED_BYTES
    sizes = {tp: names + len(tp.topic) + len(offsets[tp].metadata.encode()) for tp in offsets}
    for some in batched_by_weight(sizes, PART_BYTES):
        yield {tp: offsets[tp] for tp in some}


def is_too_large(error: Exception) -> bool:
    """Whether a broker has refused a part with an error that it also gives for one that is too large."""
    return isinstance(error, BrokerError) and error.code in _TOO_LARGE


def commit_in_halves(
    commit: Callable[[Part], Mapping[TopicPartition, _T]], part: Part
) -> dict[TopicPartition, _T]:
    """Commit a part, or each half of it where the broker does not take it whole, down to one partition.

    Args:
        commit: commits the offsets given; gives the answer for each partition that has one.
        part: the offsets.

    Raises:
        FerryError: as ``commit``.
    """
    try:
        return dict(commit(part))
    except BrokerError as error:
        if len(part) == 1 or not is_too_large(error):
            raise
    items = iter(part.items())
    first = dict(islice(items, len(part) // 2))
    return commit_in_halves(commit, first) | commit_in_halves(commit, dict(items))
