"""What MirrorMaker 2 has copied from one cluster to another, by the positions that Connect has stored there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_ferry.control import ClusterControl
from kafka_ferry.control.compacted import newest_records
from kafka_ferry.errors import FerryError
from kafka_ferry.groups.mirrormaker2.connect_offsets import ConnectOffset, offset_of, partition_of

if TYPE_CHECKING:
    from kafka_ferry.config import Cluster


def read_offsets(target: Cluster, source_alias: str, topic: str) -> tuple[list[ConnectOffset], int]:
    """MirrorMaker 2's offsets of a source in Connect's ``topic``, and how many records it ever held.

    Raises:
        FerryError: there is no such topic, or it cannot be read.
    """
    described = ClusterControl(target).topics([topic]).get(topic)
    if described is None:
        raise FerryError(
            f"{target.alias} has no topic {topic}.",
            advice="If MirrorMaker 2 runs within a Connect cluster, name its offset.storage.topic with "
            "--positions-topic, and check that the flow uses MirrorMaker 2's alias of the source.",
        )
    records, end = newest_records(target, topic, described.partitions)
    offsets = []
    for record in records:
        source = partition_of(record.key, source_alias)
        if source:
            copied = offset_of(record.value)
            offsets.append(ConnectOffset(source, copied, record.key, record.at, record.partition))
    return offsets, end
