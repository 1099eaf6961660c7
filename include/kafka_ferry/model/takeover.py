"""What became of topics that were taken over from another mirror, or given back to one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

TopicState = Literal["taken over", "ready", "unproved", "up to date", "given back", "refused"]
"""``ready``: it can be done, and nothing was changed; ``unproved``: the same, but no record was left to compare, or
records without a key are missing; ``up to date``: nothing is left to be done."""


@dataclass(frozen=True, slots=True)
class PartitionHandover:
    """A partition that was, or can be, taken over or given back.

    Attributes:
        partition: its number.
        position: the next source offset that the other mirror would copy, by its own account; None
            where it has none.
        start: the first source offset that was accounted for.
        end: the source offset at which copying continues.
        compared: records that were found on both sides.
        doubled: duplicates that the other mirror has written.
        unknown: records of the target that the source no longer has.
    """

    partition: int
    position: int | None
    start: int
    end: int
    compared: int = 0
    doubled: int = 0
    unknown: int = 0


@dataclass(frozen=True, slots=True)
class TopicHandover:
    """A topic, and what became of it.

    Attributes:
        topic: the source's topic.
        remote_topic: the topic on the target.
        state: what became of it.
        reason: why it was refused, or a remark.
        partitions: those with a result.
    """

    topic: str
    remote_topic: str
    state: TopicState
    reason: str = ""
    partitions: tuple[PartitionHandover, ...] = ()
