"""Brokers of one test file's own, where what they hold must not meet other tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from kafka_sandbox.broker import Broker
from kafka_sandbox.cluster import KafkaCluster, start_all


@contextmanager
def own_pair(
    home: Path, config: Mapping[str, str] | None = None
) -> Iterator[tuple[KafkaCluster, KafkaCluster]]:
    """A source and a target, of one broker each since nothing here depends on who leads; wiped afterwards.

    Args:
        home: a folder for both.
        config: settings of both brokers.
    """
    pair = tuple(Broker(home / name, config=config) for name in ("primary", "backup"))
    start_all(pair)
    try:
        yield pair[0], pair[1]
    finally:
        for broker in pair:
            broker.wipe()
