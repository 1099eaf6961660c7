"""Which brokers get the replicas of a topic's partitions, by rack. Pure.

The rule is that of Kafka's rack-aware assignment (KIP-36, ``AdminUtils.assignReplicasToBrokersRackAware``),
with a number of replicas for each rack:

- preferred leaders take turns through a list of the brokers that alternates between racks; where it begins
  differs from topic to topic (for Kafka by chance, here by the topic's name, so that a plan can be repeated);
- the other replicas of a partition alternate between the racks that come next;
- with each turn of the list they shift by one, so that the followers of one leader are not always the same.

Kafka takes brokers in their order alone, which is even only where all racks have as many. Here a broker with
fewer of the topic's leaders, or replicas, comes first, those of the partitions that exist already included.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from typing import TypeVar
from zlib import crc32

_T = TypeVar("_T")


def assign_replicas(
    topic: str,
    racks: Mapping[int, str],
    placement: Mapping[str, int],
    partitions: int,
    existing: Sequence[Sequence[int]] = (),
) -> tuple[tuple[int, ...], ...]:
    """The brokers of each new partition's replicas, its preferred leader first.

    Args:
        topic: the topic's name.
        racks: the rack of each broker.
        placement: by rack, how many replicas a partition has there; the rack has at least as many brokers.
        partitions: how many partitions the topic is to have.
        existing: the same of the partitions that it has.
    """
    brokers = {
        rack: sorted(node for node, of_node in racks.items() if of_node == rack)
        for rack in sorted(placement)
    }
    turn, start = list(_alternate([*brokers.values()])), crc32(topic.encode())
    leads = Counter(replicas[0] for replicas in existing if replicas)
    holds = Counter(chain.from_iterable(existing))
    assigned = []
    for number in range(len(existing), partitions):
        shift = number // len(turn)
        leader = min(_turn(turn, start), key=leads.__getitem__)
        followers = []
        for rack in _others_first([*brokers], racks[leader], shift):
            left = [node for node in _turn(brokers[rack], start + shift) if node != leader]
            count = placement[rack] - (rack == racks[leader])
            followers.append(sorted(left, key=holds.__getitem__)[:count])
        replicas = (leader, *_alternate(followers))
        leads[leader] += 1
        holds.update(replicas)
        assigned.append(replicas)
    return tuple(assigned)


def _others_first(racks: Sequence[str], own: str, shift: int) -> list[str]:
    """The racks after ``own`` in turn, begun ``shift`` further on; ``own`` itself is the last."""
    _, *other_racks = _turn(racks, racks.index(own))
    return [*(_turn(other_racks, shift) if other_racks else ()), own]


def _turn(items: Sequence[_T], by: int) -> list[_T]:
    """The items in their order, begun at another one."""
    first = by % len(items)
    return [*items[first:], *items[:first]]


def _alternate(of_racks: Sequence[Sequence[int]]) -> Iterator[int]:
    """One of each rack in turn, for as long as a rack has any left."""
    return (node for nodes in zip_longest(*of_racks) for node in nodes if node is not None)
