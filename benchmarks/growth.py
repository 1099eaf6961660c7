"""How a plan and a copying task grow with brokers and partitions: ``python -m benchmarks.growth``.

Both clusters are scripted (``kafka_sandbox.scripted``): they answer as Kafka does and store next to nothing, so
that thirty brokers and 10,000 partitions fit into one process. Of the plan and of the task, each in a process
of its own, this tells the requests and connections that the brokers counted, processor time and memory. The
times on the clock are of answers made in Python, on the same machine: only ratios mean something.

    python -m benchmarks.growth --brokers 3,30 --partitions 1000,10000
    python -m benchmarks.growth --topic-partitions 1000 --verbose
"""

from __future__ import annotations

import json
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import product
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from benchmarks import report
from benchmarks.figures import proc
from kafka_ferry.config import Flow, load_flow
from kafka_ferry.copy import copy_for_flow
from kafka_ferry.model import Range
from kafka_ferry.runs import Run
from kafka_sandbox.scripted.cluster import Asked, ScriptedCluster
from kafka_sandbox.scripted.content import ScriptedTopic

SOURCE, TARGET = "west", "backup"
_MIB = 1024 * 1024
_PLAN, _AGAIN, _TASK = "first plan", "next plan", "one task"


@dataclass(frozen=True)
class Size:
    """Two clusters of the same size.

    Attributes:
        brokers: of each.
        partitions: of all topics of each together.
        topic_partitions: of each topic.
        batches: in each partition, of 100 records of 1,000 bytes.
    """

    brokers: int
    partitions: int
    topic_partitions: int
    batches: int

    @property
    def topics(self) -> list[ScriptedTopic]:
        """The source's topics."""
        each = min(self.topic_partitions, self.partitions)
        return [
            ScriptedTopic(f"orders-{number}", each, self.batches, records=100, value_bytes=1_000)
            for number in range(self.partitions // each)
        ]

    @property
    def remote_topics(self) -> list[ScriptedTopic]:
        """The target's, empty; and the ledger."""
        remote = [ScriptedTopic(f"{SOURCE}.{it.name}", it.partitions) for it in self.topics]
        return [*remote, ScriptedTopic(f"ferry-ledger.{SOURCE}.internal", 1, stored=True)]


@dataclass(frozen=True)
class Used:
    """What a process used.

    Attributes:
        wall_s: on the clock.
        cpu_s: of the processor.
        memory_mib: its peak, above what it had before.
        result: what it was to find out.
    """

    wall_s: float
    cpu_s: float
    memory_mib: float
    result: Any


@dataclass(frozen=True)
class Step:
    """What a plan or a task cost.

    Attributes:
        requests: that both clusters' brokers were sent, without ApiVersions.
        connections: that were open at a time, at most.
        by_name: requests, by side and name.
    """

    size: Size
    name: str
    partitions: int
    wall_s: float
    cpu_s: float
    memory_mib: float
    requests: int
    connections: int
    by_name: dict[str, dict[str, int]]


@contextmanager
def two_clusters(size: Size) -> Iterator[tuple[ScriptedCluster, ScriptedCluster]]:
    """A source and a target."""
    with (
        ScriptedCluster(size.topics, brokers=size.brokers, cluster_id="source") as source,
        ScriptedCluster(size.remote_topics, brokers=size.brokers, cluster_id="target") as target,
    ):
        yield source, target


def flow_of(folder: Path, source: str, target: str, writers: int) -> Path:
    """The file of a flow between two clusters, given their bootstrap servers."""
    content = {
        "source": {"alias": SOURCE, "bootstrap.servers": source},
        "target": {"alias": TARGET, "bootstrap.servers": target},
        "topics": ["orders-.*"],
        "replication.factor": -1,
        "writers": writers,
        "state.dir": str(folder / "state"),
        "emit.heartbeats.enabled": False,
        "sync.topic.acls.enabled": False,
    }
    file = folder / "flow.yaml"
    # JSON is YAML.
    file.write_text(json.dumps(content))
    return file


def plan_ranges(flow: Flow, _: Any) -> list[Range]:
    """The ranges that a run would copy."""
    plan = Run(flow, "growth").plan(save=False)
    assert not plan.remarks.refused, plan.remarks.refused
    return list(plan.ranges)


def copy_ranges(flow: Flow, ranges: Sequence[Range]) -> list[str]:
    """Copy the ranges of one writer; what stopped some of them."""
    return [str(found.failure) for found in copy_for_flow(flow, "growth", ranges) if found.failure]


def _child(result: Connection, file: Path, do: Callable[..., Any], given: Any) -> None:
    flow = load_flow(file)
    before, _ = proc.peak_rss(os.getpid())
    began, cpu = time.monotonic(), time.process_time()
    found = do(flow, given)
    wall_s, cpu_s = time.monotonic() - began, time.process_time() - cpu
    peak, _ = proc.peak_rss(os.getpid())
    result.send(Used(wall_s, cpu_s, (peak - before) / _MIB, found))


def _in_process(file: Path, do: Callable[..., Any], given: Any) -> Used:
    """Do something in a process of its own."""
    spawn = multiprocessing.get_context("spawn")
    receiver, sender = spawn.Pipe(duplex=False)
    process = spawn.Process(target=_child, args=(sender, file, do, given))
    process.start()
    sender.close()
    used: Used = receiver.recv()
    process.join()
    return used


def measure(size: Size, writers: int) -> Iterator[Step]:
    """Plan, copy what the writer with the most partitions is given, and plan again."""
    with two_clusters(size) as clusters, tempfile.TemporaryDirectory() as folder:
        source, target = clusters
        file = flow_of(Path(folder), source.bootstrap, target.bootstrap, writers)

        def step(name: str, do: Callable[..., Any], given: Any = None) -> tuple[Step, Any]:
            for cluster in clusters:
                cluster.forget()
            used = _in_process(file, do, given)
            of_source, of_target = source.asked, target.asked
            return Step(
                size,
                name,
                len(given or used.result),
                used.wall_s,
                used.cpu_s,
                used.memory_mib,
                of_source.total + of_target.total,
                of_source.most_open + of_target.most_open,
                {"source": _names(of_source), "target": _names(of_target)},
            ), used.result

        planned, ranges = step(_PLAN, plan_ranges)
        yield planned
        of_writers: dict[int, list[Range]] = {}
        for range_ in ranges:
            of_writers.setdefault(range_.writer, []).append(range_)
        copied, failures = step(_TASK, copy_ranges, max(of_writers.values(), key=len))
        assert not failures, failures
        yield copied
        yield step(_AGAIN, plan_ranges)[0]


def _names(asked: Asked) -> dict[str, int]:
    return dict(asked.requests.most_common())


def _show(steps: Sequence[Step], *, verbose: bool) -> None:
    table = Table(title_justify="left")
    for name in ("", "brokers", "partitions", "its own", "requests", "connections"):
        table.add_column(name, justify="right" if name else "left")
    for name in ("s", "CPU s", "MiB"):
        table.add_column(name, justify="right")
    for step in sorted(steps, key=lambda it: it.name):
        figures = (step.size.brokers, step.size.partitions, step.partitions)
        counts = (step.requests, step.connections)
        seconds = (f"{step.wall_s:.1f}", f"{step.cpu_s:.1f}", f"{step.memory_mib:.0f}")
        table.add_row(step.name, *(f"{it:,}" for it in figures + counts), *seconds)
    report.console.print(table)
    if verbose:
        for step in steps:
            report.console.print(step.name, step.size.brokers, step.size.partitions, step.by_name)


def main(
    brokers: Annotated[str, typer.Option(help="Brokers of each cluster, by commas.")] = "3,10,30",
    partitions: Annotated[str, typer.Option(help="Partitions.")] = "100,1000,10000",
    topic_partitions: Annotated[int, typer.Option(help="Of each topic.")] = 10,
    batches: Annotated[int, typer.Option(help="Batches of 100 KB in each partition.")] = 4,
    writers: Annotated[int, typer.Option(help="The flow's writers.")] = 32,
    verbose: Annotated[bool, typer.Option(help="Tell the requests by name.")] = False,
    output: Annotated[Path | None, typer.Option(help="A JSON file with every figure.")] = None,
) -> None:
    """Measure clusters of several sizes."""
    steps: list[Step] = []
    for of_brokers, of_partitions in product(brokers.split(","), partitions.split(",")):
        size = Size(int(of_brokers), int(of_partitions), topic_partitions, batches)
        for step in measure(size, writers):
            counts = f"{step.requests:,} requests, {step.connections} connections"
            report.console.print(
                f"  {step.name}, {size.brokers} brokers, {size.partitions:,} partitions: {counts}, "
                f"CPU {step.cpu_s:.1f} s, {step.memory_mib:.0f} MiB"
            )
            steps.append(step)
    _show(steps, verbose=verbose)
    if output:
        output.write_text(json.dumps([asdict(step) for step in steps], indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)
