"""The two brokers that a benchmark copies between, each of them a cluster of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kafka_sandbox.cluster import start_all
from kafka_sandbox.network.proxied import ProxiedBroker
from kafka_sandbox.network.proxy import Link

_TIDY = {"log.segment.delete.delay.ms": "1000"}
"""A deleted topic's files go at once, and not in the middle of a later copy."""


@dataclass(frozen=True)
class Clusters:
    """Where to copy from and to, and a folder for all other files.

    Attributes:
        linked: the side, "source" or "target", that copiers reach through its proxy's link alone.
    """

    folder: Path
    source: ProxiedBroker
    target: ProxiedBroker
    linked: str = ""

    @property
    def reached(self) -> tuple[str, str]:
        """The bootstrap servers of source and target, as copiers have them."""
        source, target = (
            broker.proxied.bootstrap if self.linked == side else broker.bootstrap
            for side, broker in (("source", self.source), ("target", self.target))
        )
        return source, target

    @property
    def link(self) -> Link:
        """Between the copiers and the side that is linked."""
        return (self.source if self.linked == "source" else self.target).proxy.link


@contextmanager
def two_clusters(linked: str = "") -> Iterator[Clusters]:
    """Start them on this machine, with files that are gone afterwards; ``linked`` as in ``Clusters``."""
    with tempfile.TemporaryDirectory(prefix="ferry-bench-") as temporary:
        folder = Path(temporary)
        source, target = (
            ProxiedBroker(folder / name, config=_TIDY) for name in ("source", "target")
        )
        clusters = Clusters(folder, source, target, linked)
        try:
            start_all([source, target])
            yield clusters
        finally:
            source.wipe()
            target.wipe()
