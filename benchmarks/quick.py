"""How long a ``ferry run`` takes and what it uses, beside a real MirrorMaker 2, in three minutes.

Two brokers of its own are started on this machine, so they share its processors with the copiers:
only ratios within one benchmark mean something, and only if nothing else runs.

    python -m benchmarks.quick --repeat 5
    python -m benchmarks.quick --repeat 5 --beside /tmp/base/.venv/bin/python
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from benchmarks import report
from benchmarks.copies.clusters import Clusters, two_clusters
from benchmarks.copies.copiers import Copier, Ferry, MirrorMaker
from benchmarks.copies.loads import copies, everyday_loads

LIMIT_S = 165
"""When the last copy should end; the brokers stop after it."""


def installations(clusters: Clusters, beside: str) -> list[Ferry]:
    """This one, and the other one if there is one."""
    ferries = [Ferry("this", sys.executable, clusters)]
    if beside:
        # It must find its own code, and not the one that this process was pointed to.
        other = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        ferries.append(Ferry("other", beside, clusters, other))
    return ferries


def main(
    records: Annotated[int, typer.Option(help="Records of the large load.")] = 1_000_000,
    size: Annotated[int, typer.Option(help="Bytes of a value.")] = 1_000,
    repeat: Annotated[int, typer.Option(help="Copies of each; 0: what fits three minutes.")] = 0,
    beside: Annotated[str, typer.Option(help="Another installation's interpreter.")] = "",
    mirrormaker2: Annotated[bool, typer.Option(help="Whether it takes part.")] = True,
    output: Annotated[Path | None, typer.Option(help="The JSON file.")] = None,
) -> None:
    """Measure runs with nothing new, with a little and with much."""
    limit = time.monotonic() + LIMIT_S
    with two_clusters() as clusters:
        ferries = installations(clusters, beside)
        content = report.context(ferries, records=records, size=size, repeat=repeat)
        others: list[Copier] = [MirrorMaker(clusters)] if mirrormaker2 else []
        loads = everyday_loads(clusters, ferries, others, records, size)
        report.console.print("Writing topics, and mirroring the small ones once ...")
        for load in loads:
            load.prepare()
        runs = report.told(copies(loads, repeat, limit))
    report.show(runs, loads)
    report.save(content, runs, output)


if __name__ == "__main__":
    typer.run(main)
