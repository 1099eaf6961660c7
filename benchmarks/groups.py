"""Moves the offsets of many groups from one broker to another and prints what each step took.

``python -m benchmarks.groups``. Two brokers of its own are started on this machine and share its
processors with the client.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

from kafka_ferry.config import Cluster
from kafka_ferry.config.client.cluster import ClientProperties
from kafka_ferry.control.groups import GroupControl
from kafka_ferry.errors import FerryError
from kafka_ferry.model.groups import Committed, Group
from kafka_ferry.model.ranges import TopicPartition
from kafka_sandbox.broker import Broker
from kafka_sandbox.cluster import KafkaCluster, start_all

TOPIC = "orders"
console = Console()
_T = TypeVar("_T")


class Stopwatch:
    """The seconds that steps took, by their names: on the clock, and of this process's own work."""

    def __init__(self) -> None:
        self.steps: dict[str, tuple[float, float]] = {}

    def time(self, step: str, do: Callable[[], _T]) -> _T:
        began, worked = time.monotonic(), time.process_time()
        result = do()
        self.steps[step] = time.monotonic() - began, time.process_time() - worked
        return result


def control(broker: KafkaCluster, alias: str) -> GroupControl:
    properties = ClientProperties({"bootstrap.servers": broker.bootstrap})
    return GroupControl(Cluster(alias=alias, properties=properties))


def move(source: GroupControl, target: GroupControl, watch: Stopwatch) -> int:
    """Carry all offsets over with the same numbers; how many there are."""
    groups = watch.time("list the source's groups", source.groups)
    found = watch.time("read what they have committed", lambda: source.committed_offsets(groups))
    names = [group.name for group in groups]
    there = watch.time("look at the target's groups", lambda: target.describe(names))
    wanted = {}
    for group in groups:
        offsets, other = found[group.name], there[group.name]
        if isinstance(offsets, FerryError) or isinstance(other, FerryError) or not other.idle:
            raise SystemExit(f"{group.name}: {offsets}, {other}")
        wanted[group] = offsets
    refused = watch.time("commit on the target", lambda: target.commit(wanted))
    copied = watch.time("read that again", lambda: target.committed_offsets(groups))
    if refused or copied != {group.name: offsets for group, offsets in wanted.items()}:
        raise SystemExit(f"{len(refused)} groups were refused, or the offsets differ.")
    return sum(map(len, wanted.values()))


def main(
    groups: Annotated[int, typer.Option(help="How many groups.")] = 10_000,
    partitions: Annotated[int, typer.Option(help="Partitions in each group.")] = 10,
    linger: Annotated[
        int, typer.Option(help="group.coordinator.append.linger.ms of the brokers; 4.0 had 5.")
    ] = -1,
) -> None:
    """Measure reading and committing the offsets of many groups."""
    watch = Stopwatch()
    config = {"group.coordinator.append.linger.ms": str(linger)}
    with tempfile.TemporaryDirectory(prefix="ferry-bench-") as temporary:
        brokers = [Broker(Path(temporary) / name, config=config) for name in ("source", "target")]
        start_all(brokers)
        try:
            for broker in brokers:
                admin = AdminClient({"bootstrap.servers": broker.bootstrap})
                admin.create_topics([NewTopic(TOPIC, partitions, 1)])[TOPIC].result()
            with control(brokers[0], "source") as source, control(brokers[1], "target") as target:
                made = {
                    Group(f"group-{number:06}"): {
                        TopicPartition(TOPIC, p): Committed(number + p, -1, f"read by {number}")
                        for p in range(partitions)
                    }
                    for number in range(groups)
                }
                watch.time("commit on the source, to begin with", lambda: source.commit(made))
                offsets = move(source, target, watch)
        finally:
            for broker in brokers:
                broker.stop()
    table = Table("step", title=f"{groups:,} groups, {offsets:,} offsets")
    table.add_column("s", justify="right")
    table.add_column("processor time here, s", justify="right")
    for step, (seconds, worked) in watch.steps.items():
        table.add_row(step, f"{seconds:.1f}", f"{worked:.1f}")
    totals = map(sum, zip(*watch.steps.values(), strict=True))
    table.add_row("all", *(f"{total:.1f}" for total in totals))
    console.print(table)


if __name__ == "__main__":
    typer.run(main)
