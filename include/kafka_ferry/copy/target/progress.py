"""Where a writer's ranges have come to: by the positions in the flow's group."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kafka_ferry.clock import now_ms
from kafka_ferry.copy.target.all_writers import committed_position
from kafka_ferry.copy.target.produce.verdicts import Verdicts
from kafka_ferry.copy.target.writer_settings import WriterSettings
from kafka_ferry.ledger import CopiedRange, CopyingEntry, TransactionEntry
from kafka_ferry.model.groups import Committed
from kafka_ferry.model.positions import Position, is_of_topics, position_group
from kafka_ferry.model.ranges import Range, TopicPartition
from kafka_ferry.model.waits import Waits
from kafka_ferry.wire import WireCluster


class Progress(ABC):
    """Knows where ranges have come to, and what a transaction says of it. All keys are *target* partitions.

    Args:
        settings: what every writer is given.

    Attributes:
        group: the group in which transactions commit positions; "" where they commit none.
    """

    group = ""

    def __init__(self, settings: WriterSettings) -> None:
        self._settings = settings

    @abstractmethod
    def positions(
        self,
        cluster: WireCluster,
        ranges: Mapping[TopicPartition, Range],
        committed: Mapping[TopicPartition, Position],
        topic_ids: Mapping[TopicPartition, str],
        verdicts: Verdicts,
    ) -> dict[TopicPartition, Position]:
        """The position of each range that has one.

        Args:
            cluster: the target; all earlier writers of the ranges are fenced, their transactions ended.
            ranges: by partition.
            committed: what the flow's group has of them, read since then.
            topic_ids: the ids of the partitions' topics, of those that have a leader.
            verdicts: takes the ranges that must not be written.
        """

    @abstractmethod
    def entry(self, ranges: tuple[CopiedRange, ...], waits: Waits) -> CopyingEntry:
        """The ledger's record of a transaction with ``ranges``, and of what was waited for since the last."""

    def offsets(
        self,
        positions: Mapping[TopicPartition, tuple[Range, Position]],  # noqa: ARG002
        topic_ids: Mapping[TopicPartition, str],  # noqa: ARG002
    ) -> Mapping[TopicPartition, Committed]:
        """The positions as a transaction commits them; none by default."""
        return {}

    def _entry_fields(self, waits: Waits) -> dict[str, Any]:
        return {
            "flow": self._settings.flow,
            "run": self._settings.run,
            "at": now_ms(),
            "writer": self._settings.number,
            "waits": waits,
        }


def of_current_topics(
    positions: Mapping[TopicPartition, Position],
    ranges: Mapping[TopicPartition, Range],
    topic_ids: Mapping[TopicPartition, str],
    verdicts: Verdicts,
    *,
    recopy: bool,
) -> dict[TopicPartition, Position]:
    """The positions that are of the topics as they are now.

    Args:
        positions: by *target* partition.
        ranges: the ranges that are copied into these.
        topic_ids: the ids of the remote topics, of those that have a leader.
        verdicts: takes the ranges whose remote topic was recreated.
        recopy: whether such ranges are copied from their starts instead.
    """
    current = {}
    for tp, position in positions.items():
        range_, remote_id = ranges[tp], topic_ids.get(tp, position.remote_topic_id)
        if position.offset <= 0 and not is_of_topics(position, range_.topic_id, remote_id):
            continue
        if position.remote_topic_id not in ("", remote_id):
            if recopy:
                continue
            message = "the target's topic was deleted and recreated since; its history is gone."
            verdicts.fail(range_, position.offset, message)
        current[tp] = position
    return current


class GroupProgress(Progress):
    """The next source offset of each range is committed in the flow's group, under its target partition.

    Args:
        settings: what every writer is given.
    """

    def __init__(self, settings: WriterSettings) -> None:
        super().__init__(settings)
        self.group = position_group(settings.flow)

    def positions(
        self,
        cluster: WireCluster,
        ranges: Mapping[TopicPartition, Range],
        committed: Mapping[TopicPartition, Position],
        topic_ids: Mapping[TopicPartition, str],
        verdicts: Verdicts,
    ) -> dict[TopicPartition, Position]:
        """See ``Progress``: what the group has, and the ledger's where the group lost it."""
        del verdicts
        # The group may have been deleted since the run began.
        forgotten = {
            tp: topic_ids[tp] for tp in (ranges.keys() & topic_ids.keys()) - committed.keys()
        }
        recovery = self._settings.recovery
        return {**committed, **(recovery.positions(cluster, forgotten) if recovery else {})}

    def entry(self, ranges: tuple[CopiedRange, ...], waits: Waits) -> TransactionEntry:
        """See ``Progress``."""
        return TransactionEntry(ranges=ranges, **self._entry_fields(waits))

    def offsets(
        self,
        positions: Mapping[TopicPartition, tuple[Range, Position]],
        topic_ids: Mapping[TopicPartition, str],
    ) -> Mapping[TopicPartition, Committed]:
        """See ``Progress``."""
        offsets = {}
        for tp, (range_, position) in positions.items():
            ours = replace(
                position,
                topic_id=range_.topic_id,
                remote_topic_id=topic_ids[tp],
                origins=range_.origins,
            )
            offsets[tp] = committed_position(ours, self._settings.run)
        return offsets
