"""Two clusters, a folder and new names: what a test of a copy begins with."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafka_ferry.config import Flow
from kafka_sandbox.cluster import KafkaCluster
from tests.support.records.builders import ConsumedRecord, Record, create_topic, produce, read_all
from tests.support.runs.flows import assert_same, make_flow, remote

Unique = Callable[[str], str]


@dataclass(frozen=True)
class Pair:
    """The source and the target of a test's flows.

    Attributes:
        folder: of the flow and its state; no other test has its name, which is the source's alias.
        primary: the source.
        backup: the target.
        unique: makes a name that no other test has.
    """

    folder: Path
    primary: KafkaCluster
    backup: KafkaCluster
    unique: Unique

    def flow(self, topics: Iterable[str], **options: Any) -> Flow:
        """A flow of these topics, with options as in ``write_flow``."""
        return make_flow(self.folder, self.primary, self.backup, topics, **options)

    def topic(self, prefix: str, records: Iterable[Record] = (), **how: Any) -> str:
        """The name of a new topic of the source with these records; ``how`` as in ``create_topic``."""
        topic = self.unique(prefix)
        create_topic(self.primary.bootstrap, topic, **how)
        if records:
            self.produce(topic, records)
        return topic

    def produce(self, topic: str, records: Iterable[Record], **how: Any) -> None:
        """Write records to a topic of the source, as ``produce`` does."""
        produce(self.primary.bootstrap, topic, records, **how)

    def copied(self, flow: Flow, topic: str, **how: Any) -> dict[int, list[ConsumedRecord]]:
        """What a consumer reads of a topic's copy on the target, by partition, as with ``read_all``."""
        return read_all(self.backup.bootstrap, remote(flow, topic), **how)

    def assert_same(self, flow: Flow, topic: str) -> None:
        """The copy on the target shows a consumer exactly what the topic shows it, in order."""
        assert_same(self.primary, topic, self.backup, remote(flow, topic))
