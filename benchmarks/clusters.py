"""The two brokers that a benchmark copies between, each of them a cluster of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kafka_sandbox.broker import Broker
from kafka_sandbox.cluster import KafkaCluster, start_all

_TIDY = {"log.segment.delete.delay.ms": "1000"}
"""A deleted topic's files go at once, and not in the middle of a later copy."""


@dataclass(frozen=True)
class Clusters:
    """Where to copy from and to, and a folder for all other files."""

    folder: Path
    source: KafkaCluster
    target: KafkaCluster


@contextmanager
def two_clusters() -> Iterator[Clusters]:
    """Start them on this machine, with files that are gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="ferry-bench-") as temporary:
        folder = Path(temporary)
        source, target = (Broker(folder / name, config=_TIDY) for name in ("source", "target"))
        clusters = Clusters(folder, source, target)
        try:
            start_all([source, target])
            yield clusters
        finally:
            source.stop()
            target.stop()
