"""What a fault is: its kind, when it is due, and the moment at which it is injected."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka_ferry.model.ranges import TopicPartition
from tests.simulation.brokers.cluster import SimCluster

if TYPE_CHECKING:
    from tests.simulation.oracles.runs import Oracles


class Lost(Exception):
    """A request or its answer does not arrive: the connection breaks."""


class Unanswered(Exception):
    """The connection stays, and no answer comes."""


class Fault(NamedTuple):
    """A fault that is injected once.

    Attributes:
        kind: the name of its kind.
        nth: at which of the requests that it fits.
        pick: what it draws its choices from.
        run: from which run on; the first is 0.
        at: the step and the request that it waits for, each "" for any: "mirror EndTxn".
        is_back: whether source and target are those of the flow in the opposite direction.
    """

    kind: str
    nth: int
    pick: int
    run: int = 0
    at: str = ""
    is_back: bool = False

    @property
    def aim(self) -> tuple[str, int, str, bool]:
        """What is counted for it."""
        return self.kind, self.run, self.at, self.is_back


@dataclass
class Injection:
    """A fault that is injected now: to whose flow, at which request, and the choices that it makes."""

    history: Oracles
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

    def note(self, what: str) -> None:
        """Add a line to the trace."""
        self.history.note(f"!! {what}")

    def partition(
        self, cluster: SimCluster, fits: Callable[[TopicPartition], bool] = lambda _: True
    ) -> TopicPartition | None:
        """A partition of the flow's data on a cluster."""
        names = self.history.data_topics(cluster)
        found = [tp for tp in cluster.partitions() if tp.topic in names and fits(tp)]
        return self.random.choice(found) if found else None


@dataclass(frozen=True)
class FaultKind:
    """Something that may go wrong.

    Attributes:
        do: what happens; gives the answer to the request, or None where the broker answers as ever.
        fits: the requests at which it may come, by their names; none for any.
        side: the cluster at whose requests it comes; "" for either.
        hurts: why a run may refuse to go on afterwards; "" where every run must get to the end.
        touches_target: whether it takes away what was proved, so that it may not come between a verdict's reading
            and its word.
        once_a_run: whether it has one occasion in a run, not one with each request.
    """

    do: Callable[[Injection], Any]
    fits: frozenset[str] = frozenset()
    side: str = ""
    hurts: str = ""
    touches_target: bool = False
    once_a_run: bool = False
