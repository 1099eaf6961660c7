"""A flow on its way to Spark's tasks.

It travels inside the pickled code of a job, as the tasks' own data: in no option, property, file or
argument, all of which Spark shows or leaves behind. So executors need neither the flow's file, nor
its stores, providers and connections.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafka_ferry.config import Flow


def packed(flow: Flow) -> bytes:
    """The flow with all that its clusters' clients need; it holds secrets.

    Raises:
        ConfigError: a store or a connection of one of its clusters cannot be read.
    """
    clusters = {"source": flow.source.resolved(), "target": flow.target.resolved()}
    return pickle.dumps(flow.model_copy(update=clusters))


def unpacked(flow: bytes) -> Flow:
    """What ``packed`` packed. Only importing what a flow is made of takes a while: not while planning."""
    found: Flow = pickle.loads(flow)
    return found
