"""What MirrorMaker 2 has committed for groups by an offset map that the records contradict.

A replay that did not catch up wrote duplicates at the end of the copy, and MirrorMaker 2 translated groups'
offsets to there (``OffsetSyncStore`` forgets all before a rewind)::

    source   a b c d e f g          a group has read a and b
    target   a b c d e a b          its offset there is 7, as if c came next; but after e comes f

MirrorMaker 2 would have written c, d and e again. The flow does not: from 7 on the group would miss them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from kafka_ferry.control import ClusterControl
from kafka_ferry.control.groups import GroupControl
from kafka_ferry.control.topic_records import TopicRecords
from kafka_ferry.errors import FerryError
from kafka_ferry.groups.mirrormaker2.record_formats import Checkpoint, MalformedRecord
from kafka_ferry.model.groups import Group
from kafka_ferry.plan.topics.replication_policy import policy_of
from kafka_ferry.retry import retry

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.groups.translation import OffsetMap
    from kafka_ferry.model.ranges import TopicPartition


class MirroredOffsets:
    """Knows the checkpoints on the target, which MirrorMaker 2 commits for groups (``syncGroupOffset``)."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow

    def find_refuted(self, maps: Mapping[TopicPartition, OffsetMap]) -> list[Checkpoint]:
        """Checkpoints that groups' offsets on the target come from, and that are after what the records say.

        Args:
            maps: by *target* partition, what the records say.

        Raises:
            AccessDenied: without READ on the topic of checkpoints, or without DESCRIBE on a group that has one
                that is refuted.
            FerryError: if something cannot be read.
        """
        suspects = [
            checkpoint
            for checkpoint in self._checkpoints
            if checkpoint.target in maps and _is_refuted(checkpoint, maps[checkpoint.target])
        ]
        if not suspects:
            return []
        with GroupControl(self._flow.target) as groups:
            committed = groups.committed_offsets(
                [Group(name) for name in {suspect.group for suspect in suspects}]
            )
        refuted = {}
        for checkpoint in suspects:
            offsets = committed[checkpoint.group]
            if isinstance(offsets, FerryError):
                raise offsets
            now = offsets.get(checkpoint.target)
            # A consumer that has read anything commits a leader epoch too; MirrorMaker 2 does not.
            if now and now.offset == checkpoint.downstream and now.leader_epoch < 0:
                refuted[checkpoint.group, checkpoint.target] = checkpoint
        return list(refuted.values())

    @cached_property
    def _checkpoints(self) -> tuple[Checkpoint, ...]:
        """All that log compaction has left, in their order."""
        target, topic = self._flow.target, policy_of(self._flow).checkpoints_topic()
        if not ClusterControl(target).topics([topic]):
            return ()
        records = TopicRecords(target, topic, {0: 0}, isolation="read_uncommitted")
        return retry(lambda: tuple(_read(records)))


def _read(records: TopicRecords) -> Iterator[Checkpoint]:
    for record in records:
        key, value = record.key(), record.value()
        if key is None or value is None:
            continue
        try:
            yield Checkpoint.read(key, value)
        except MalformedRecord:
            # MirrorMaker 2's clients skip it too.
            continue


def _is_refuted(checkpoint: Checkpoint, records: OffsetMap) -> bool:
    translated = records.translate(checkpoint.upstream)
    # A clamped answer says nothing of the records.
    return (
        translated is not None
        and translated.kind != "clamped"
        and translated.offset < checkpoint.downstream
    )
