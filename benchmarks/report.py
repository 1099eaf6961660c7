"""Tables for the reader, and a JSON file with every single copy, from which they can be made again."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.copies.copiers import TUNED_CONNECTOR, TUNED_PRODUCER, Ferry
from benchmarks.copies.loads import Load
from benchmarks.figures.machine import installation, machine, servers
from benchmarks.figures.runs import COMPARED, LABELS, Copied, Figures, medians, ratios

RESULTS = Path(__file__).parent / "results"
SECONDS = {"wall_s", "cpu_s", "copying_s", "mirror_s", "verify_s"}
# In a file or a pipe, tables shall be as wide as they need.
console = Console(width=None if sys.stdout.isatty() else 200)


def context(ferries: Iterable[Ferry], **settings: object) -> dict[str, Any]:
    """What the figures depend on, to be taken before the first copy."""
    installed = {ferry.name: installation(ferry.python, ferry.environment) for ferry in ferries}
    return {
        "began_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": machine(),
        "versions": servers() | {"installations": installed},
        "settings": settings,
        "mirrormaker2": TUNED_CONNECTOR | TUNED_PRODUCER,
    }


def told(copies: Iterable[Copied]) -> list[Copied]:
    """All of them, with a line on the terminal as each is made."""
    runs = []
    for run in copies:
        wall, cpu = (run.figures[name] for name in ("wall_s", "cpu_s"))
        console.print(f"  {run.load}, {run.copier}: {wall:.1f} s, CPU {cpu:.1f} s")
        if run.usage.outlived:
            console.print(f"    had to be killed afterwards: {', '.join(run.usage.outlived)}")
        runs.append(run)
    return runs


def show(runs: Sequence[Copied], loads: Iterable[Load]) -> None:
    """A table for each load: a column for each copier, and the first one's ratio to each other one."""
    for load in loads:
        found = {copier.name: medians(runs, load.name, copier.name) for copier in load.copiers}
        (ours, first), *others = found.items()
        compared = {f"{ours} / {name}": ratios(first, figures) for name, figures in others}
        times = max((run.repetition for run in runs if run.load == load.name), default=0)
        console.print(_table(f"{load.name}: medians of {times}", found, compared))


def show_side_by_side(title: str, columns: Mapping[str, Figures]) -> None:
    """A column for each load of one copier."""
    console.print(_table(title, columns, {}))


def save(content: Mapping[str, Any], runs: Iterable[Copied], output: Path | None) -> None:
    """Write it all; into ``benchmarks/results`` under the moment's name if nothing else is said."""
    file = output or RESULTS / f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    whole = {**content, **as_json(list(runs))}
    file.write_text(json.dumps(whole, indent=1) + "\n")
    console.print(f"All figures: {file}")


def as_json(runs: Sequence[Copied]) -> dict[str, Any]:
    """Each copy, and the medians of each load and copier."""
    pairs = dict.fromkeys((run.load, run.copier) for run in runs)
    middle = [
        {"load": load, "copier": copier, "figures": medians(runs, load, copier)}
        for load, copier in pairs
    ]
    return {"medians": middle, "runs": [run.as_json() for run in runs]}


def _table(title: str, columns: Mapping[str, Figures], compared: Mapping[str, Figures]) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column(no_wrap=True)
    for name in (*columns, *compared):
        table.add_column(name, justify="right")
    for name, label in LABELS.items():
        if any(name in figures for figures in columns.values()):
            cells = [_number(name, figures.get(name)) for figures in columns.values()]
            cells += [_ratio(figures.get(name)) for figures in compared.values()]
            table.add_row(label, *cells, end_section=name == COMPARED[-1])
    return table


def _number(name: str, value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.1f}" if name in SECONDS else f"{value:,.0f}"


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
