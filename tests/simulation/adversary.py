"""What may go wrong: named powers, each of which strikes at a request that it fits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.simulation.cluster import SimCluster
from tests.simulation.world import Process


class Lost(Exception):
    """A request or its answer does not arrive."""


class Adversary:
    """None at all."""

    def before_send(self, cluster: SimCluster, request: Any, process: Process) -> None:
        """Called before a process sends a request."""

    def meet(self, cluster: SimCluster, node: int, request: Any, apply: Callable[[], Any]) -> Any:
        """The answer to a request, or ``Lost``."""
        return apply()

    def doubles_task(self) -> bool:
        """Whether Spark starts a task twice."""
        return False

    def loses_result(self) -> bool:
        """Whether a task's result does not arrive."""
        return False
