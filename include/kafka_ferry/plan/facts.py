"""What a plan is made from: the clusters' topics and logs as the control plane found them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of a cluster.

    Attributes:
        name: its name.
        topic_id: its id (KIP-516), as Kafka's tools print it.
        partitions: how many partitions it has.
        configs: the effective value of each of its configs.
        overrides: the names of those that somebody set on the topic itself.
    """

    name: str
    topic_id: str
    partitions: int
    configs: Mapping[str, str] = field(default_factory=dict)
    overrides: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class LogBounds:
    """The offsets that a ``read_committed`` consumer can read of a partition: ``[start, stable_end)``."""

    start: int
    stable_end: int
