"""Where MirrorMaker 2 continues: its source connector's offsets, as Kafka Connect stores them.

Connect writes a record at each flush; compaction keeps the newest of each source partition; key and value
are JSON (``OffsetStorageWriter``, ``MirrorUtils.wrapPartition`` and ``wrapOffset``)::

    key    ["MirrorSourceConnector",{"cluster":"primary","partition":0,"topic":"orders"}]
    value  {"offset":41}      the last offset that was copied; null: none

Records with the same meaning may have different key bytes (the order of an object's members is not
guaranteed), and Connect would keep both; so an existing key is written again unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeGuard

from kafka_ferry.as_json import read_json
from kafka_ferry.model.ranges import TopicPartition

CONNECTOR: Final = "MirrorSourceConnector"
"""The source connector's name in MirrorMaker 2's dedicated mode."""

PARTITIONS: Final = 25
"""Of a topic that Connect creates for offsets (``offset.storage.partitions``)."""


@dataclass(frozen=True, slots=True)
class ConnectOffset:
    """The newest record of one key.

    Attributes:
        source: the partition on the source.
        copied: the last source offset that was copied; None where there is none, or no longer one.
        key: the record's key, in its original bytes.
        at: the record's timestamp, in milliseconds since 1970.
        partition: the partition of Connect's topic that holds the record.
    """

    source: TopicPartition
    copied: int | None
    key: bytes
    at: int = 0
    partition: int = 0

    @property
    def next(self) -> int | None:
        """The next source offset that it would copy; None for the beginning."""
        return None if self.copied is None else self.copied + 1


def offsets_topic(source_alias: str) -> str:
    """Connect's topic with the offsets of all that MirrorMaker 2 copies from ``source_alias``; on the target."""
    return f"mm2-offsets.{source_alias}.internal"


def worker_group(source_alias: str) -> str:
    """The group on the target that the workers of MirrorMaker 2 in dedicated mode join."""
    return f"{source_alias}-mm2"


def partition_of(key: bytes, source_alias: str) -> TopicPartition | None:
    """The source partition of a record's key; None if the key is for something else."""
    try:
        parsed: Any = read_json(key)
    except ValueError:
        return None
    if not (isinstance(parsed, list) and len(parsed) == 2 and isinstance(parsed[1], dict)):
        return None
    fields = parsed[1]
    topic, partition = fields.get("topic"), fields.get("partition")
    if fields.get("cluster") != source_alias or not isinstance(topic, str):
        return None
    return TopicPartition(topic, partition) if _is_number(partition, 2**31) else None


def offset_of(value: bytes | None) -> int | None:
    """The offset in a record's value; None for a tombstone, or where it has none."""
    if value is None:
        return None
    try:
        parsed: Any = read_json(value)
    except ValueError:
        return None
    offset = parsed.get("offset") if isinstance(parsed, dict) else None
    # The next one is an offset, too.
    return offset if _is_number(offset, 2**63 - 1) else None


def _is_number(value: object, limit: int) -> TypeGuard[int]:
    """Whether it is one that Kafka has: from 0, and below ``limit``."""
    return type(value) is int and 0 <= value < limit


def newest(offsets: Iterable[ConnectOffset]) -> dict[TopicPartition, ConnectOffset]:
    """The latest one of each source partition, where several connectors have left some."""
    latest: dict[TopicPartition, ConnectOffset] = {}
    for offset in offsets:
        known = latest.get(offset.source)
        if known is None or known.at <= offset.at:
            latest[offset.source] = offset
    return latest


def key_of(source: TopicPartition, source_alias: str) -> bytes:
    """The key for a source partition, in the order in which Connect writes it."""
    fields = {"cluster": source_alias, "partition": source.partition, "topic": source.topic}
    return json.dumps([CONNECTOR, fields], separators=(",", ":"), ensure_ascii=False).encode()


def value_of(next_offset: int) -> bytes | None:
    """The value with which MirrorMaker 2 continues at ``next_offset``; a tombstone for the beginning."""
    return (
        json.dumps({"offset": next_offset - 1}, separators=(",", ":")).encode()
        if next_offset
        else None
    )
