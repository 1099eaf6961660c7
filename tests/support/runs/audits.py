"""Two clusters with copies for audits, and what an audit's report says of them."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from kafka_ferry.clock import now_ms
from kafka_sandbox.cluster import KafkaCluster
from tests.support.records.builders import Record, create_topic, produce
from tests.support.runs.command_line import Called, ferry

Fault = tuple[str, int, int, int, int, tuple[str, ...]]
"""Kind, source partition, source offset, target partition, target offset, altered aspects."""

FIRST_MS: Final = now_ms() - 3_600_000
"""The time of the first record: brokers delete what is a week old, and refuse what is an hour ahead."""


def records(count: int, partition: int = 0) -> list[Record]:
    return [
        Record(
            key=b"key %d" % (number % 11) if number % 4 else None,
            value=b"%d of %d" % (number, partition) if number % 9 else None,
            headers=(("h", b"1"), ("h", None)) if number % 5 == 0 else (),
            timestamp=FIRST_MS + number,
            partition=partition,
        )
        for number in range(count)
    ]


class Clusters:
    """Two clusters, the files of clients of both, and an audit of them."""

    def __init__(self, folder: Path, source: KafkaCluster, target: KafkaCluster) -> None:
        self.folder, self.source, self.target = folder, source, target
        self.files = []
        for name, cluster in (("source", source), ("target", target)):
            file = folder / f"{name}.properties"
            file.write_text(f"bootstrap.servers={cluster.bootstrap}\n")
            self.files.append(file)

    def write(self, cluster: KafkaCluster, topic: str, parts: Sequence[list[Record]]) -> None:
        create_topic(cluster.bootstrap, topic, partitions=len(parts))
        for number, some in enumerate(parts):
            produce(
                *(cluster.bootstrap, topic),
                [replace(record, partition=number) for record in some],
                compression="lz4",
            )

    def audit(self, *arguments: object) -> Called:
        source, target = self.files
        given = ("--source-config", source, "--target-config", target, *arguments)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("FERRY_HOME", str(self.folder))
            return ferry("audit", *given)

    def report(self, topic: str, *arguments: object, to: str = "") -> dict[str, Any]:
        called = self.audit("--map", f"{topic}={to or topic}", "--json", *arguments)
        assert called.stdout, called.stderr
        told: dict[str, Any] = json.loads(called.stdout)
        told["status"] = called.returncode
        return told


def faults(report: dict[str, Any]) -> set[Fault]:
    """The findings, record by record."""
    found: set[Fault] = set()
    for part in report["partitions"]:
        for one in part["findings"]:
            for more in range(one["records"]):
                ours, theirs = (
                    offset + more if offset >= 0 else -1
                    for offset in (one["source_offset"], one["target_offset"])
                )
                there = one["remote_partition"]
                found.add((one["kind"], one["partition"], ours, there, theirs, tuple(one["what"])))
    return found


def shuffled(parts: Sequence[list[Record]], seed: int) -> list[list[Record]]:
    everything = [record for part in parts for record in part]
    random.Random(seed).shuffle(everything)
    return [everything[number :: len(parts)] for number in range(len(parts))]
