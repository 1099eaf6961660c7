"""A power, and a fault as it strikes."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafka_ferry.model.ranges import TopicPartition
from tests.simulation.brokers.cluster import SimCluster

if TYPE_CHECKING:
    from tests.simulation.history import History


class Lost(Exception):
    """A request or its answer does not arrive: the connection breaks."""


class Unanswered(Exception):
    """The connection stays, and no answer comes."""


@dataclass
class Strike:
    """A fault as it strikes: where, and the choices that it makes."""

    history: History
    cluster: SimCluster
    node: int
    request: Any
    apply: Callable[[], Any]
    random: random.Random

    @property
    def source(self) -> SimCluster:
        """The source."""
        return self.history.source

    @property
    def target(self) -> SimCluster:
        """The target."""
        return self.history.target

    def tell(self, what: str) -> None:
        """Tell the story what happens."""
        self.history.tell(f"!! {what}")

    def partition(
        self, cluster: SimCluster, fits: Callable[[TopicPartition], bool] = lambda _: True
    ) -> TopicPartition | None:
        """A partition of the flow's data on a cluster."""
        names = self.history.data_topics(cluster)
        found = [tp for tp in cluster.partitions() if tp.topic in names and fits(tp)]
        return self.random.choice(found) if found else None


@dataclass(frozen=True)
class Power:
    """Something that may go wrong.

    Attributes:
        do: what happens; gives the answer to the request.
        fits: the requests at which it may strike, by their names; none for any.
        side: the cluster whose requests it strikes at; "" for either.
        hurts: why a run may refuse to go on afterwards; "" where every run must get to the end.
        touches_target: whether it takes away what was proved, so that it may not strike between a verdict's reading
            and its word.
    """

    do: Callable[[Strike], Any]
    fits: frozenset[str] = frozenset()
    side: str = ""
    hurts: str = ""
    touches_target: bool = False
