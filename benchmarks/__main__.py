"""Copies topics of known content with ``ferry run`` and prints what it took.

Two brokers of its own are started on this machine, so they share its processors with the copier:
only ratios within one run mean something.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import psutil
import typer
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

from kafka_sandbox.broker import Broker, start_all

PARTITIONS = 8
console = Console()


@dataclass(frozen=True)
class Case:
    """A topic whose producer batched in some way, and how it is copied.

    Attributes:
        topic: its name.
        batch: the producer's ``batch.size`` in bytes.
        options: of the flow.
        transaction: records in each of the producer's transactions, over all partitions; 0 for none.
        share: how much of the records that were asked for the topic gets.
    """

    topic: str
    batch: int
    options: dict[str, object] = field(default_factory=dict)
    transaction: int = 0
    share: float = 1.0


PRESERVED: dict[str, object] = {"offsets": "preserved"}
UNJOINED: dict[str, object] = {"join.batches.below": 0}
CASES = (
    Case("large-batches", 1_000_000),
    Case("16-KiB-batches", 16_384),
    Case("16-KiB-unjoined", 16_384, UNJOINED),
    Case("4-KiB-batches", 4_096),
    Case("4-KiB-unjoined", 4_096, UNJOINED),
    Case("large-preserved", 1_000_000, PRESERVED),
    Case("16-KiB-preserved", 16_384, PRESERVED),
    Case("4-KiB-preserved", 4_096, PRESERVED),
    # 1,000 transactions of 100 records: 8,000 offsets without one.
    Case("transactions", 16_384, {}, 100, 0.1),
    Case("transactions-preserved", 16_384, PRESERVED, 100, 0.1),
    Case("transactions-markers", 16_384, PRESERVED | {"fill": "markers"}, 100, 0.1),
)


@dataclass
class Load:
    """What a process and its children used."""

    cpu: dict[int, float] = field(default_factory=dict)
    peak: dict[str, dict[int, int]] = field(default_factory=dict)

    def watch(self, process: subprocess.Popen[str]) -> None:
        """Sample until the process ends; a child's last fraction of a second may be missed."""
        root = psutil.Process(process.pid)
        while process.poll() is None:
            try:
                family = [root, *root.children(recursive=True)]
            except psutil.NoSuchProcess:
                return
            for member in family:
                self._sample(member, root)
            time.sleep(0.05)

    def _sample(self, member: psutil.Process, root: psutil.Process) -> None:
        try:
            with member.oneshot():
                times, memory, name = member.cpu_times(), member.memory_info().rss, member.name()
        except psutil.NoSuchProcess:
            return
        self.cpu[member.pid] = times.user + times.system
        kind = "driver" if member == root else "JVM" if name == "java" else "worker"
        peaks = self.peak.setdefault(kind, {})
        peaks[member.pid] = max(peaks.get(member.pid, 0), memory)

    def peak_mib(self, kind: str) -> int:
        """The largest single process of a kind."""
        return max(self.peak.get(kind, {}).values(), default=0) >> 20


def fill(bootstrap: str, case: Case, records: int, size: int) -> None:
    """Write ``records`` values of ``size`` bytes that lz4 can shrink by about a half."""
    topic = case.topic
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result()
    config: dict[str, str | int] = {
        "bootstrap.servers": bootstrap,
        "compression.type": "lz4",
        "batch.size": case.batch,
        "linger.ms": 50,
        "queue.buffering.max.messages": 200_000,
    }
    if case.transaction:
        config |= {"transactional.id": topic, "linger.ms": 1, "retry.backoff.ms": 5}
    producer = Producer(config)
    if case.transaction:
        producer.init_transactions()
        producer.begin_transaction()
    values = [os.urandom(size // 2).hex().encode()[:size] for _ in range(2_000)]
    for number in range(records):
        while True:
            try:
                producer.produce(
                    topic, values[number % 2_000], b"%d" % number, partition=number % PARTITIONS
                )
                break
            except BufferError:
                producer.poll(0.05)
        producer.poll(0)
        if case.transaction and (number + 1) % case.transaction == 0:
            producer.commit_transaction()
            producer.begin_transaction()
    if case.transaction:
        producer.commit_transaction()
    producer.flush()


def measure(folder: Path, source: Broker, target: Broker, case: Case) -> dict[str, str]:
    """Copy the topic with ``ferry run``; the figures by their names."""
    topic, flow = case.topic, folder / f"{case.topic}.yaml"
    content = {
        "source": {"alias": topic, "bootstrap.servers": source.bootstrap},
        "target": {"alias": "target", "bootstrap.servers": target.bootstrap},
        "topics": [topic],
        "replication.factor": 1,
        "state.dir": str(folder / "state"),
        **case.options,
    }
    flow.write_text(json.dumps(content))
    load = Load()
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "kafka_ferry", "run", "--config", str(flow), "--json"],
        stdout=subprocess.PIPE,
        text=True,
    )
    watcher = threading.Thread(target=load.watch, args=(process,))
    watcher.start()
    output, _ = process.communicate()
    seconds = time.monotonic() - began
    watcher.join()
    if process.returncode:
        raise SystemExit(process.returncode)
    report = json.loads(output)
    copying = copying_seconds(folder / "state")
    return {
        "records": f"{report['records']:,}",
        "batches": f"{report['batches']:,}",
        "MB": f"{report['bytes'] / 1e6:,.0f}",
        "copying, s": f"{copying:.1f}",
        "copying, MB/s": f"{report['bytes'] / 1e6 / copying:,.0f}",
        "step mirror, s": f"{report['seconds']['mirror']:.1f}",
        "step verify, s": f"{report['seconds']['verify']:.1f}",
        "whole ferry run, s": f"{seconds:.1f}",
        "processor time, s": f"{sum(load.cpu.values()):.1f}",
        "peak of the driver, MiB": str(load.peak_mib("driver")),
        "peak of the JVM, MiB": str(load.peak_mib("JVM")),
        "peak of the largest worker, MiB": str(load.peak_mib("worker")),
    }


def copying_seconds(state: Path) -> float:
    """From the first task's beginning to the last one's end, in the newest run."""
    files = max(
        (list(run.glob("outcomes-*.json")) for run in state.glob("*/runs/*")),
        key=lambda found: max((file.stat().st_mtime for file in found), default=0),
    )
    outcomes = [outcome for file in files for outcome in json.loads(file.read_text())]
    began = min(outcome["began_at"] for outcome in outcomes)
    return (max(outcome["ended_at"] for outcome in outcomes) - began) / 1000


def main(
    records: Annotated[int, typer.Option(help="Records in each topic.")] = 1_000_000,
    size: Annotated[int, typer.Option(help="Bytes of a value.")] = 1_000,
    cases: Annotated[str, typer.Option(help="Names of cases, separated by commas.")] = "",
) -> None:
    """Measure `ferry run` on topics whose producers batched differently."""
    wanted = cases.split(",") if cases else [case.topic for case in CASES]
    chosen = [case for case in CASES if case.topic in wanted]
    figures: dict[str, dict[str, str]] = {}
    with tempfile.TemporaryDirectory(prefix="ferry-bench-") as temporary:
        folder = Path(temporary)
        brokers = {alias: Broker(folder / alias) for alias in ("source", "target")}
        start_all(brokers.values())
        try:
            for case in chosen:
                console.print(f"Writing {case.topic} ...")
                fill(brokers["source"].bootstrap, case, int(records * case.share), size)
                console.print(f"Copying {case.topic} ...")
                figures[case.topic] = measure(folder, brokers["source"], brokers["target"], case)
        finally:
            for broker in brokers.values():
                broker.stop()
    table = Table("", title=f"{records:,} records of {size:,} bytes, lz4, {PARTITIONS} partitions")
    for topic in figures:
        table.add_column(topic, justify="right")
    for name in next(iter(figures.values())):
        table.add_row(name, *(found[name] for found in figures.values()))
    console.print(table)


typer.run(main)
