"""The programs that are measured: ``ferry run`` of an installation, and a real MirrorMaker 2."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from benchmarks.copies.clusters import Clusters
from benchmarks.figures.process_tree import ProcessTree, Usage
from benchmarks.figures.runs import Figures, figures_of
from kafka_sandbox.mirrormaker2 import MirrorMaker2, one_way

_MM2_TIMEOUT_S = 900

TUNED_CONNECTOR = {
    "tasks.max": "8",
    # Nothing but copying: a flow emits and syncs none of these either, unless told to.
    "emit.heartbeats.enabled": "false",
    "emit.checkpoints.enabled": "false",
    # What is to be copied is there when it starts: no need to look again each second.
    "refresh.topics.interval.seconds": "600",
    "refresh.groups.interval.seconds": "600",
    "source.consumer.fetch.min.bytes": "1",
    "source.consumer.fetch.max.bytes": "52428800",
    "source.consumer.max.partition.fetch.bytes": "10485760",
    "source.consumer.max.poll.records": "5000",
    "source.consumer.receive.buffer.bytes": "1048576",
}
"""Properties of the flow, for throughput."""
TUNED_PRODUCER = {
    "offset.flush.interval.ms": "60000",
    "producer.batch.size": "1048576",
    "producer.buffer.memory": "134217728",
    "producer.max.request.size": "10485760",
    "producer.linger.ms": "20",
    "producer.compression.type": "lz4",
    "producer.send.buffer.bytes": "1048576",
}
"""Properties of the target, whose workers write the records; it stores its positions when it is stopped."""


@dataclass(frozen=True)
class Job:
    """What is to be copied.

    Attributes:
        topic: on the source.
        alias: of the source: a flow, a prefix and positions of its own for each.
        new: records that have not been copied.
        all: records that the remote topic has then.
        options: of the flow.
        connector: MirrorMaker 2's properties of the same meaning.
    """

    topic: str
    alias: str
    new: int
    all: int
    options: Mapping[str, object] = field(default_factory=dict)
    connector: Mapping[str, str] = field(default_factory=dict)


class Copier(Protocol):
    """A program that copies a topic from start to end."""

    @property
    def name(self) -> str:
        """Of the program, in tables and topics."""

    def copy(self, job: Job) -> tuple[Figures, Usage]:
        """Start it, wait until all is copied and it has ended; what that took."""


@dataclass(frozen=True)
class Ferry:
    """``ferry run`` of the installation that an interpreter belongs to."""

    name: str
    python: str
    clusters: Clusters
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    def copy(self, job: Job) -> tuple[Figures, Usage]:
        """Run it as a user does.

        Raises:
            SystemExit: it failed, or copied something else than was asked for.
        """
        state = self.clusters.folder / self.name / job.alias
        state.mkdir(parents=True, exist_ok=True)
        flow = state / "flow.yaml"
        flow.write_text(json.dumps(self._flow(job, state)))
        command = [self.python, "-m", "kafka_ferry", "run", "--config", str(flow), "--json"]
        messages = state / "messages.txt"
        with ProcessTree() as tree, messages.open("ab") as written:
            began = time.monotonic()
            done = subprocess.run(
                command, stdout=subprocess.PIPE, stderr=written, env=self.environment, check=False
            )
            seconds = time.monotonic() - began
        if done.returncode:
            raise SystemExit(f"{' '.join(command)}\n{messages.read_text()}")
        report = json.loads(done.stdout)
        if report["records"] != job.new:
            raise SystemExit(f"{self.name} copied {report['records']} records, not {job.new}.")
        return figures_of(tree.usage, seconds) | _reported(report, state), tree.usage

    def _flow(self, job: Job, state: Path) -> dict[str, object]:
        source, target = self.clusters.reached
        flow: dict[str, object] = {
            "source": {"alias": job.alias, "bootstrap.servers": source},
            "target": {"alias": "target", "bootstrap.servers": target},
            "topics": [job.topic],
            "replication.factor": 1,
            "state.dir": str(state / "state"),
        }
        for name, value in job.options.items():
            side = flow.get(name)
            flow[name] = (
                side | value if isinstance(side, dict) and isinstance(value, dict) else value
            )
        return flow


@dataclass(frozen=True)
class MirrorMaker:
    """MirrorMaker 2 in its dedicated mode, tuned for throughput.

    Its JVM is the sandbox's: 512 MB of heap, the quick compiler and the serial collector. With the
    options of Kafka's own script (2 GB, both compilers, G1) it was slower here and took more memory.
    """

    clusters: Clusters
    name: str = "MirrorMaker 2"

    def copy(self, job: Job) -> tuple[Figures, Usage]:
        """Run it until the last record is on the target; it is stopped in order then.

        The wall time ends with the last record; processor time and memory are those of its whole
        life. No record may be in the remote topic beyond those of the job.
        """
        target = self.clusters.target.bootstrap
        folder = self.clusters.folder / "mirrormaker2" / job.alias
        remote = {f"{job.alias}.{job.topic}": job.all}
        with ProcessTree() as tree:
            began = time.monotonic()
            with MirrorMaker2(folder, self._properties(job)) as mirror:
                mirror.wait_until_copied(target, remote, timeout=_MM2_TIMEOUT_S)
                seconds = time.monotonic() - began
        return figures_of(tree.usage, seconds) | {"records": job.new}, tree.usage

    def _properties(self, job: Job) -> dict[str, str]:
        source, target = self.clusters.reached
        properties = one_way(job.alias, source, "target", target, [job.topic])
        flow = f"{job.alias}->target"
        properties |= {
            f"{flow}.{key}": value for key, value in (TUNED_CONNECTOR | job.connector).items()
        }
        return properties | {f"target.{key}": value for key, value in TUNED_PRODUCER.items()}


def _reported(report: Mapping[str, Any], state: Path) -> Figures:
    """What the run says of itself."""
    figures: Figures = {"records": report["records"]}
    figures |= {f"{step}_s": report["seconds"][step] for step in ("mirror", "verify")}
    if report["records"]:
        megabytes, copying = report["bytes"] / 1e6, _copying_s(state)
        figures |= {"batches": report["batches"], "mb": megabytes}
        figures |= {"copying_s": copying, "copying_mb_per_s": megabytes / copying}
    return figures


def _copying_s(state: Path) -> float:
    """From the first task's beginning to the last one's end, in the newest run."""
    files = max(
        (list(run.glob("outcomes-*.json")) for run in state.glob("state/*/runs/*")),
        key=lambda found: max((file.stat().st_mtime for file in found), default=0),
    )
    outcomes = [outcome for file in files for outcome in json.loads(file.read_text())]
    began = min(outcome["began_at"] for outcome in outcomes)
    return max(1, max(outcome["ended_at"] for outcome in outcomes) - began) / 1000
