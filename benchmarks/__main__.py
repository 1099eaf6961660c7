"""All of what the README tells in numbers, measured several times: ``python -m benchmarks``.

Three parts: the everyday loads beside MirrorMaker 2 (``benchmarks.quick`` measures them alone), topics
whose producers batched differently, and what groups read again after a failover. Two brokers of its
own are started on this machine, so they share its processors with the copiers: only ratios within one
benchmark mean something, and only if nothing else runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks import accuracy, report
from benchmarks.copies.cases import ACCURACY, CASES, EVERYDAY
from benchmarks.copies.clusters import Clusters, two_clusters
from benchmarks.copies.copiers import Ferry, MirrorMaker
from benchmarks.copies.loads import copies, everyday_loads
from benchmarks.figures.runs import Copied, medians
from benchmarks.quick import installations


def measure_everyday(
    clusters: Clusters, ferries: Sequence[Ferry], records: int, size: int, repeat: int
) -> list[Copied]:
    """Nothing new, a little and much, beside MirrorMaker 2."""
    loads = everyday_loads(clusters, ferries, [MirrorMaker(clusters)], records, size)
    for load in loads:
        load.prepare()
    runs = report.told(copies(loads, repeat))
    report.show(runs, loads)
    return runs


def measure_cases(
    clusters: Clusters,
    ferries: Sequence[Ferry],
    names: Sequence[str],
    records: int,
    size: int,
    repeat: int,
) -> list[Copied]:
    """Topics whose producers batched differently."""
    runs: list[Copied] = []
    chosen = [case for case in CASES if case.topic in names]
    for case in chosen:
        load = case.load(clusters, ferries, records, size)
        load.prepare()
        runs += report.told(copies([load], repeat))
    for ferry in ferries:
        found = {case.topic: medians(runs, case.topic, ferry.name) for case in chosen}
        title = f"{records:,} records of {size:,} bytes, lz4: medians of {repeat}, {ferry.name}"
        report.show_side_by_side(title, found)
    return runs


def main(
    records: Annotated[int, typer.Option(help="Records in each topic.")] = 1_000_000,
    size: Annotated[int, typer.Option(help="Bytes of a value.")] = 1_000,
    repeat: Annotated[int, typer.Option(help="Copies of each.")] = 5,
    cases: Annotated[
        str, typer.Option(help=f"Names of cases, {EVERYDAY}, {ACCURACY}, by commas; else all.")
    ] = "",
    beside: Annotated[str, typer.Option(help="Another installation's interpreter.")] = "",
    output: Annotated[Path | None, typer.Option(help="The JSON file.")] = None,
) -> None:
    """Measure everything, or what is named."""
    known = [EVERYDAY, *(case.topic for case in CASES), ACCURACY]
    wanted = cases.split(",") if cases else known
    if unknown := set(wanted) - set(known):
        raise typer.BadParameter(f"{', '.join(sorted(unknown))}: none of {', '.join(known)}")
    runs: list[Copied] = []
    groups: list[dict[str, Any]] = []
    with two_clusters() as clusters:
        ferries = installations(clusters, beside)
        content = report.context(ferries, records=records, size=size, repeat=repeat)
        if EVERYDAY in wanted:
            runs += measure_everyday(clusters, ferries, records, size, repeat)
        if set(wanted) - {EVERYDAY, ACCURACY}:
            runs += measure_cases(clusters, ferries, wanted, records, size, repeat)
    if ACCURACY in wanted:
        groups = accuracy.measure(records, partitions=1)
    report.save(content | {"groups": groups}, runs, output)


if __name__ == "__main__":
    typer.run(main)
