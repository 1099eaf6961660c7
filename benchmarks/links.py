"""What distance costs: the same topic copied over links of several lengths, beside a real MirrorMaker 2.

One side's broker is reached through a proxy alone, which delivers every byte later; without any delay
it is in the way too, so that the ratios are of the distance and not of the proxy.

    python -m benchmarks.links source --round-trip-ms 0,100,200
    python -m benchmarks.links target --partitions 1 --no-mirrormaker2
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import typer
from rich.table import Table

from benchmarks import report
from benchmarks.copies.clusters import Clusters, two_clusters
from benchmarks.copies.copiers import Copier, Job, MirrorMaker
from benchmarks.copies.loads import WholeTopic, copies
from benchmarks.copies.topics import BenchmarkTopic
from benchmarks.figures.runs import LABELS, Copied, Figures, medians
from benchmarks.quick import installations

_TOLD = ("wall_s", "cpu_s", "copying_s", "mirror_s", "verify_s", "peak_pss_mib")


@dataclass(frozen=True)
class Distant(WholeTopic):
    """A topic that is copied over a link of some length."""

    round_trip_ms: int = 0

    def job(self, copier: Copier, repetition: int) -> Job:
        """As of any topic, once the link is as long as that."""
        self.clusters.link.delay_s = self.round_trip_ms / 2000
        job = super().job(copier, repetition)
        return Job(job.topic, f"{job.alias}-{self.round_trip_ms}", job.new, job.all, job.options)


def _show(runs: Sequence[Copied], loads: Sequence[Distant], copier: str) -> None:
    """A row for each length: its figures, and how many times those of the shortest they are."""
    table = Table(title=f"{copier}, medians", title_justify="left")
    for name in ("round trip, ms", *(LABELS[name] for name in _TOLD)):
        table.add_column(name, justify="right")
    first: Figures = {}
    for load in loads:
        found = medians(runs, load.name, copier)
        first = first or found
        cells = [
            f"{found[name]:,.1f} ({found[name] / first[name]:.2f})" if first.get(name) else "-"
            for name in _TOLD
        ]
        table.add_row(str(load.round_trip_ms), *cells)
    report.console.print(table)


def _loads(
    clusters: Clusters, copiers: Sequence[Copier], topic: BenchmarkTopic, records: int, trips: str
) -> list[Distant]:
    return [
        Distant(
            *(f"{ms} ms there and back", copiers, clusters, topic, records, {}),
            round_trip_ms=int(ms),
        )
        for ms in trips.split(",")
    ]


def main(
    side: Annotated[str, typer.Argument(help="Which side is far away: source or target.")],
    round_trip_ms: Annotated[str, typer.Option(help="Lengths, by commas.")] = "0,100,200",
    records: Annotated[int, typer.Option(help="Records of the topic.")] = 1_000_000,
    partitions: Annotated[int, typer.Option(help="Partitions of the topic.")] = 8,
    batch: Annotated[int, typer.Option(help="The producer's batch.size in bytes.")] = 1_000_000,
    repeat: Annotated[int, typer.Option(help="Copies over each length.")] = 3,
    beside: Annotated[str, typer.Option(help="Another installation's interpreter.")] = "",
    mirrormaker2: Annotated[bool, typer.Option(help="Whether it takes part.")] = True,
) -> None:
    """Measure copies over links of several lengths."""
    if side not in ("source", "target"):
        raise typer.BadParameter(f"{side}: neither source nor target")
    with two_clusters(side) as clusters:
        ferries = installations(clusters, beside)
        copiers: list[Copier] = [*ferries, *([MirrorMaker(clusters)] if mirrormaker2 else [])]
        topic = BenchmarkTopic(f"far-{partitions}", partitions, batch=batch)
        loads = _loads(clusters, copiers, topic, records, round_trip_ms)
        content = report.context(ferries, side=side, records=records, partitions=partitions)
        loads[0].prepare()
        runs = report.told(copies(loads, repeat))
    for copier in copiers:
        _show(runs, loads, copier.name)
    report.save(content, runs, None)


if __name__ == "__main__":
    typer.run(main)
