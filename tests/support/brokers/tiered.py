"""A broker with tiered storage (KIP-405) in a folder, which is slow, fails, or is over its quota on demand."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kafka_ferry.model import TopicPartition
from kafka_ferry.wire import borrow
from kafka_ferry.wire.partitions.list_offsets import EARLIEST_LOCAL, log_offsets
from kafka_sandbox.broker import Broker
from kafka_sandbox.java.jars import KAFKA
from tests.support.java.programs import compiled
from tests.support.records.builders import Record, create_topic, produce
from tests.support.waiting import wait_until

_STORAGE = "FolderStorage"
# What a broker waits for remote storage, instead of 500 ms.
_MAX_WAIT_MS = 200
# After so long, the next record begins another segment.
_SEGMENT_S = 0.05


class TieredBroker(Broker):
    """A broker whose topics may keep old segments in a folder; settings as of ``Broker``."""

    def __init__(self, directory: Path, config: dict[str, str] | None = None) -> None:
        self._remote = directory.resolve() / "remote"
        super().__init__(
            directory,
            config={
                "remote.log.storage.system.enable": "true",
                "remote.log.storage.manager.class.name": _STORAGE,
                "rsm.config.folder": str(self._remote),
                "remote.log.metadata.manager.listener.name": "PLAINTEXT",
                "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
                "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
                "remote.log.manager.task.interval.ms": "200",
                "remote.fetch.max.wait.ms": str(_MAX_WAIT_MS),
                "log.retention.check.interval.ms": "200",
                "log.initial.task.delay.ms": "200",
                **(config or {}),
            },
        )

    @property
    def _class_folders(self) -> tuple[Path, ...]:
        return (compiled(_STORAGE, KAFKA),)

    def remote_logs(self) -> set[Path]:
        """The files of all segments' records in remote storage."""
        return set(self._remote.glob("*/log"))

    @contextmanager
    def slow(self) -> Iterator[None]:
        """Let each remote read take longer than the broker waits."""
        with self._switch("delay-ms", str(3 * _MAX_WAIT_MS)):
            yield

    @contextmanager
    def failing(self) -> Iterator[None]:
        """Let each remote read fail."""
        with self._switch("fail", ""):
            yield

    @contextmanager
    def _switch(self, name: str, content: str) -> Iterator[None]:
        self._remote.mkdir(parents=True, exist_ok=True)
        switch = self._remote / name
        switch.write_text(content)
        try:
            yield
        finally:
            switch.unlink()


def tiered_topic(broker: Broker, topic: str, records: list[Record]) -> int:
    """A topic of one partition with these records, all but the last of them in remote storage alone.

    Returns:
        The first offset that the broker still has itself.
    """
    create_topic(
        broker.bootstrap,
        topic,
        remote_storage_enable="true",
        local_retention_ms="1",
        segment_ms=str(round(_SEGMENT_S * 1000)),
    )
    produce(broker.bootstrap, topic, records[:-1])

    def is_remote() -> bool:
        # A segment is rolled with the first record after its time.
        return local_start(broker, topic) > 0

    produce(broker.bootstrap, topic, records[-1:])
    wait_until(is_remote, 60)
    return local_start(broker, topic)


def tiered_lots(broker: TieredBroker, topic: str, lots: int = 3) -> list[Path]:
    """A topic of one partition with so many lots of records in remote storage alone; their segments' files there."""
    before = broker.remote_logs()
    records = [Record(b"%d" % number, b"x" * 100) for number in range(100)]
    start = tiered_topic(broker, topic, records)
    for _ in range(lots):
        produce(broker.bootstrap, topic, records)
        time.sleep(2 * _SEGMENT_S)
    produce(broker.bootstrap, topic, records[-1:])
    wait_until(lambda: local_start(broker, topic) >= start + lots * len(records), 60)
    return sorted(broker.remote_logs() - before, key=lambda log: log.stat().st_mtime)


def local_start(broker: Broker, topic: str) -> int:
    """The first offset of a topic's partition 0 that the broker has itself."""
    partition = TopicPartition(topic, 0)
    with borrow("tiered", {"bootstrap_servers": [broker.bootstrap]}) as cluster:
        node = cluster.leaders([partition])[partition].node
        (start,) = log_offsets(cluster, {partition: node}, (EARLIEST_LOCAL,))[partition]
        return start
