"""Ledger entries that say what was committed for groups, none of them too large for a broker. Pure."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from kafka_ferry.ledger import GroupsEntry, SyncedOffset

if TYPE_CHECKING:
    from kafka_ferry.model.ranges import TopicPartition

# Brokers take records of 1 MB by default.
_BYTES: Final = 500_000
# {"source":9223372036854775807,"target":9223372036854775807,"refuted":false} and the partition's number before it.
_OFFSET_BYTES: Final = 90
_FRAME_BYTES: Final = 8

Synced = tuple[str, str, int, SyncedOffset]
"""Group, remote topic's id, partition, and what was committed."""


def synced_key(remote_topic_id: str, target: TopicPartition) -> tuple[str, int]:
    """The key of an offset on the target; brokers before 2.8 give topics no ids."""
    return remote_topic_id or target.topic, target.partition


def entries_of(
    synced: Iterable[Synced], *, flow: str, run: str, at: int, source_cluster_id: str
) -> Iterator[GroupsEntry]:
    """Entries that hold all of ``synced``, in order, each of at most some 500 KB.

    Args:
        synced: what was committed.
        flow: the flow's name.
        run: the run's id.
        at: when, in milliseconds since 1970.
        source_cluster_id: the cluster on which the groups had committed, "" if unknown.
    """
    frame = partial(GroupsEntry, flow=flow, run=run, at=at, source_cluster_id=source_cluster_id)
    groups: dict[str, dict[str, dict[int, SyncedOffset]]] = {}
    ids: dict[str, str] = {}
    size = 0
    for group, topic_id, partition, offset in synced:
        needed = _bytes_of(groups, ids, group, topic_id, offset)
        if groups and size + needed > _BYTES:
            yield frame(synced=groups, source_topic_ids=ids)
            groups, ids, size = {}, {}, 0
            needed = _bytes_of(groups, ids, group, topic_id, offset)
        groups.setdefault(group, {}).setdefault(topic_id, {})[partition] = offset
        # What was deleted says nothing of it.
        ids[topic_id] = offset.source_topic_id or ids.get(topic_id, "")
        size += needed
    if groups:
        yield frame(synced=groups, source_topic_ids=ids)


def _bytes_of(
    groups: Mapping[str, Mapping[str, object]],
    ids: Container[str],
    group: str,
    topic_id: str,
    offset: SyncedOffset,
) -> int:
    """How many bytes another offset takes in the entry at most."""
    names = [
        *([group] if group not in groups else []),
        *([topic_id] if topic_id not in groups.get(group, ()) else []),
        *([topic_id + offset.source_topic_id] if topic_id not in ids else []),
    ]
    return _OFFSET_BYTES + sum(len(json.dumps(name)) + _FRAME_BYTES for name in names)
