"""The figures of each single copy, and what follows from several: medians and their ratios."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from benchmarks.figures.process_tree import Usage

Figures = dict[str, float]
"""By the names of ``LABELS``."""

LABELS = {
    "wall_s": "wall, s",
    "cpu_s": "CPU, s",
    "sum_of_peak_rss_mib": "peaks of RSS, summed, MiB",
    "peak_pss_mib": "peak of summed PSS, MiB",
    "processes": "processes seen",
    "driver_peak_rss_mib": "largest driver, MiB",
    "jvm_peak_rss_mib": "largest JVM, MiB",
    "worker_peak_rss_mib": "largest worker, MiB",
    "records": "records",
    "batches": "batches",
    "mb": "MB",
    "copying_s": "copying, s",
    "copying_mb_per_s": "copying, MB/s",
    "mirror_s": "step mirror, s",
    "verify_s": "step verify, s",
}
"""Each figure's name in the tables."""

COMPARED = ("wall_s", "cpu_s", "sum_of_peak_rss_mib", "peak_pss_mib")
"""Those of which ratios are told."""

_MIB = 1 << 20


@dataclass(frozen=True)
class Copied:
    """One copy of a topic: what was copied, by which program, and what that took."""

    load: str
    copier: str
    repetition: int
    figures: Figures
    usage: Usage

    def as_json(self) -> dict[str, Any]:
        """The figures, and each process's peak in bytes."""
        return asdict(self)


def figures_of(usage: Usage, wall_s: float) -> Figures:
    """What is told of every copy."""
    return {
        "wall_s": wall_s,
        "cpu_s": usage.cpu_s,
        "sum_of_peak_rss_mib": usage.sum_of_peaks / _MIB,
        "peak_pss_mib": usage.peak_pss / _MIB,
        "processes": len(usage.processes),
        "driver_peak_rss_mib": usage.largest("driver") / _MIB,
        "jvm_peak_rss_mib": usage.largest("JVM") / _MIB,
        "worker_peak_rss_mib": usage.largest("worker") / _MIB,
    }


def medians(runs: Iterable[Copied], load: str, copier: str) -> Figures:
    """The median of each figure over the repetitions; empty if there are none."""
    found: dict[str, list[float]] = {}
    for run in runs:
        if (run.load, run.copier) == (load, copier):
            for name, value in run.figures.items():
                found.setdefault(name, []).append(value)
    return {name: median(values) for name, values in found.items()}


def ratios(ours: Figures, theirs: Figures) -> Figures:
    """Ours divided by theirs, of what is compared and known of both."""
    return {
        name: ours[name] / theirs[name]
        for name in COMPARED
        if name in ours and theirs.get(name, 0) > 0
    }
