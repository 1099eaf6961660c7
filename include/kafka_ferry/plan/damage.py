"""What is wrong with remote topics whose offsets are preserved, and what only they still hold. Pure.

What a run writes next stands at a fixed offset, so that nothing but control records and what the
partition's own producer has written may lie behind its position::

    position 30                   30 ...... 36         the flow's own, counted on: unsealed
                                  30 ...... 36 x       x is another producer's: damaged at 36
              ..... 20                                 the log ends before the position: damaged at 20
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from kafka_ferry.batches import Batch, next_sequence
from kafka_ferry.config import Flow
from kafka_ferry.plan.facts import LogBounds, Mark, Topic
from kafka_ferry.plan.positions import Position
from kafka_ferry.plan.ranges import TopicPartition
from kafka_ferry.plan.starts import unfilled_to


class Behind(NamedTuple):
    """What lies in a log behind a position.

    Attributes:
        unsealed: how many records of the flow's own producer, up to ``offset`` if something is wrong.
        offset: the first offset at which something is wrong, -1 where nothing is.
        problem: what is wrong there, as a sentence.
    """

    unsealed: int = 0
    offset: int = -1
    problem: str = ""


@dataclass(frozen=True, slots=True)
class PartitionState:
    """One partition of a remote topic.

    Attributes:
        partition: its number.
        position: the next offset to copy to it, None where nothing was copied yet.
        log_start: where its log starts on the target, None while nobody leads it.
        log_end: where its log ends.
        unsealed: how many records an attempt that broke off has left behind the position; the next
            run adopts them.
        offset: where it is damaged, -1 where it is not.
        problem: what is wrong, as a sentence; "" where nothing is.
        only_copy: the source offsets ``[start, end)`` that were copied to it, and that the source
            has no more; None where there are none.
    """

    partition: int
    position: int | None = None
    log_start: int | None = None
    log_end: int | None = None
    unsealed: int = 0
    offset: int = -1
    problem: str = ""
    only_copy: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class CopyState:
    """One remote topic of a flow.

    Attributes:
        topic: the source's topic.
        remote_topic: the topic on the target.
        remote_topic_id: its id, "" where it does not exist.
        preserved: whether records keep their offsets in it.
        on_source: whether the source has the topic and the flow mirrors it, so that it can be
            copied again.
        created: whether the flow has created the remote topic.
        problem: what is wrong with the topic as a whole, as a sentence; "" where nothing is.
        given_up: whether this repair has given it up.
        known_ids: the ids of all remote topics of this name that positions and mark are about, and
            that were not given up.
        partitions: its partitions.
    """

    topic: str
    remote_topic: str
    remote_topic_id: str = ""
    preserved: bool = True
    on_source: bool = True
    created: bool = True
    problem: str = ""
    given_up: bool = False
    known_ids: tuple[str, ...] = ()
    partitions: tuple[PartitionState, ...] = ()

    @property
    def damaged(self) -> bool:
        """Whether no run can go on in it, as a whole or in a partition."""
        return bool(self.problem) or any(part.problem for part in self.partitions)

    @property
    def only_copies(self) -> int:
        """How many source offsets the source has no more, and the remote topic may have."""
        lost = [part.only_copy for part in self.partitions if part.only_copy]
        return sum(end - start for start, end in lost)


def behind(
    batches: Iterable[Batch], position: int, start: int, expected: int, position_of: tuple[int, int]
) -> Behind:
    """placeholder"""
    raise NotImplementedError
