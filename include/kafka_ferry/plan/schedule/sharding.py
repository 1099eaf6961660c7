"""Divides a run's work: the target's partitions among writers, and writers among shards. Pure.

A writer's transactions have one transactional id, which only one process may hold at a time. So a
shard is a set of *writers*, and no two shards share one: shards copy in parallel, each can be repeated
alone, and a partition still has a single writer.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import xxhash

from kafka_ferry.model.ranges import NEIGHBOURS, Range, TopicPartition, writer_of

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.model.plan import Estimate

# The part of the whole that is not divided by size: for parts that were estimated too low.
_EVENLY: Final = 0.1
# A position that is only renewed before it expires takes time too.
_OF_A_RANGE: Final = 1


@dataclass(frozen=True, slots=True)
class Writers:
    """Which writer each partition of the target belongs to, for as long as this does not change.

    Attributes:
        count: how many writers there are.
        groups: into how many groups they are divided, each of which has whole topics; 1 where a
            topic may have any of them.
    """

    count: int
    groups: int = 1

    @property
    def assignment(self) -> str:
        """The groups as the ledger stores them: "" where there are none."""
        return f"topic/{self.groups}" if self.groups > 1 else ""

    def of(self, target: TopicPartition) -> int:
        """The one writer, 0 to ``count - 1``, that ``target`` belongs to."""
        if self.groups == 1:
            return writer_of(target, self.count)
        topic = xxhash.xxh3_64_intdigest(target.topic.encode())
        rest, group = divmod(topic, self.groups)
        first, end = self._bounds(group)
        return first + (rest + target.partition // NEIGHBOURS) % (end - first)

    def group_of(self, writer: int) -> int:
        """The group that a writer is in."""
        return ((writer + 1) * self.groups - 1) // self.count

    def _bounds(self, group: int) -> tuple[int, int]:
        """The group's first writer and the one after its last."""
        return group * self.count // self.groups, (group + 1) * self.count // self.groups


def writers_of(flow: Flow) -> Writers:
    """The writers of ``flow``."""
    groups = flow.shards if flow.shard_by == "topic" else 1
    return Writers(flow.writers, min(groups, flow.writers))


def shards_of(
    flow: Flow, ranges: Sequence[Range], estimates: Iterable[Estimate]
) -> tuple[tuple[int, ...], ...]:
    """The writers of each shard: those that have something to do, each in one shard.

    Args:
        flow: the flow.
        ranges: what the run copies.
        estimates: about how much of it there is.

    Returns:
        None at all where the flow is not divided; else at least one, and no more than
        ``flow.shards``: fewer where there are fewer writers with something to do.
    """
    if flow.shards == 1:
        return ()
    loads = loads_of(ranges, estimates)
    if flow.shard_by == "topic":
        groups = defaultdict[int, list[int]](list)
        for writer in sorted(loads):
            groups[writers_of(flow).group_of(writer)].append(writer)
        shards = [groups[group] for group in sorted(groups)]
    else:
        writers = list(loads)
        parts = divide([loads[writer] for writer in writers], flow.shards)
        shards = [sorted(writers[at] for at in part) for part in parts]
    return tuple(map(tuple, shards)) or ((),)


def loads_of(ranges: Iterable[Range], estimates: Iterable[Estimate]) -> dict[int, int]:
    """Estimates how much each writer has to copy: bytes, or records where not all bytes are known."""
    ranges, estimates = list(ranges), list(estimates)
    are_bytes = all(estimate.bytes is not None for estimate in estimates)
    sizes = {
        estimate.source: (estimate.bytes or 0) if are_bytes else estimate.records
        for estimate in estimates
    }
    loads: dict[int, int] = defaultdict(int)
    for range_ in ranges:
        loads[range_.writer] += sizes.get(range_.source, 0) + _OF_A_RANGE
    return dict(loads)


def divide(loads: Sequence[int], parts: int) -> list[list[int]]:
    """The indices of ``loads`` in at most ``parts`` lists of about equal weight.

    Longest processing time first: the heaviest remaining load goes to the lightest part (Graham,
    1969; no part is heavier than 4/3 of what it would have to be).
    """
    heap = [(0, part) for part in range(min(parts, len(loads)))]
    lists: list[list[int]] = [[] for _ in heap]
    for at in sorted(range(len(loads)), key=lambda at: -loads[at]):
        load, part = heapq.heappop(heap)
        lists[part].append(at)
        heapq.heappush(heap, (load + loads[at], part))
    return list(map(sorted, lists))


def shares(whole: int, loads: Sequence[int]) -> list[int]:
    """Each part's share of ``whole``: by its load, plus a small fixed share.

    Together the shares never exceed ``whole``, as long as that is at least ten for each part.
    """
    total = sum(loads)
    even = 1 / max(len(loads), 1)
    by_load = [load / total if total else even for load in loads]
    return [max(1, int(whole * ((1 - _EVENLY) * part + _EVENLY * even))) for part in by_load]


def load_of(writers: Iterable[int], loads: Mapping[int, int]) -> int:
    """The sum of what the writers have to copy."""
    return sum(loads.get(writer, 0) for writer in writers)
