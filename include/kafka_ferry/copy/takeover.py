"""The transactional ids of a flow's writers, and fencing those that must not write any more."""

from __future__ import annotations

from typing import Final

from kafka_ferry.config import Flow, kafka_python_config
from kafka_ferry.wire import WireCluster
from kafka_ferry.wire.transactions import TransactionalProducer

_TIMEOUT_MS: Final = 60_000


def transactional_id(flow: str, number: int) -> str:
    """The transactional id of the flow's writer ``number``."""
    return f"ferry.{flow}.{number}"


def fence_writers(flow: Flow, writers: int) -> None:
    """Fence the writers 0 to ``writers - 1`` of ``flow`` and abort what they left open.

    To be done before the number of writers changes: a partition then belongs to another writer,
    whose own start does not fence the old one.
    """
    settings = kafka_python_config(flow.target.client_properties("producer"))
    with WireCluster(flow.target.alias, settings) as cluster:
        for number in range(writers):
            TransactionalProducer(
                cluster, transactional_id(flow.name, number), timeout_ms=_TIMEOUT_MS
            ).start()
