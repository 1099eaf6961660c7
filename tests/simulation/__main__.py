"""Runs histories: ``make simulate SECONDS=60``, ``make replay SEED=17``."""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final

from tests.simulation.case import Case, TopicCase
from tests.simulation.fault import Fault
from tests.simulation.fault_kinds import FAULT_KINDS
from tests.simulation.history import simulate
from tests.simulation.shrink import shrink, summary

KEPT: Final = Path(__file__).with_name("kept.jsonl")
"""Cases that once were wrong, one a line, each with what it found."""
_COLLECT_EACH: Final = 10
_perf_counter: Final = time.perf_counter


def main() -> int:
    """The exit status: 1 if any history is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--histories", type=int, default=0, help="no more than so many")
    parser.add_argument("--first", type=int, help="the first seed; by default, one by the clock")
    parser.add_argument(
        "--seed", type=int, help="replay this one alone, and print what has happened"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--without", default="", help="kinds of faults to switch off, with commas")
    parser.add_argument("--only", default="", help="the kinds of faults to leave on, with commas")
    parser.add_argument("--kept", action="store_true", help="run the kept cases instead")
    parser.add_argument(
        "--stop", action="store_true", help="end at the first that is wrong, as it is"
    )
    options = parser.parse_args()
    kinds = tuple(
        name
        for name in FAULT_KINDS
        if name not in options.without.split(",")
        and (not options.only or name in options.only.split(","))
    )
    if options.seed is not None:
        history = simulate(Case.of(options.seed, kinds))
        print("\n".join(summary(history)))
        return bool(history.wrong)
    if options.kept:
        return simulate_kept()
    return _many(options, kinds)


def simulate_kept() -> int:
    """Run the kept cases; 1 if any is wrong."""
    wrong = 0
    for case, why in kept():
        history = simulate(case)
        if history.wrong:
            wrong += 1
            print("\n".join([f"again: {why}", *summary(history)]))
    print(f"{sum(1 for _ in kept())} kept histories, {wrong} of them wrong")
    return bool(wrong)


def kept() -> Iterator[tuple[Case, str]]:
    """The kept cases, and what each has found."""
    for line in KEPT.read_text().splitlines() if KEPT.exists() else ():
        read = json.loads(line)
        yield case_from(read["case"]), read["why"]


def case_from(read: Mapping[str, Any]) -> Case:
    """The case that ``asdict`` has made to plain objects."""
    topics = tuple(TopicCase(**it) for it in read["topics"])
    return Case(**{**read, "topics": topics, "faults": tuple(Fault(*it) for it in read["faults"])})


def _some(
    seeds: range, kinds: tuple[str, ...], until: float, stop: bool
) -> tuple[int, list[int], Counter[str]]:
    """How many ran, the seeds of those that are wrong, and how often each kind of fault was injected."""
    wrong, injected, count = list[int](), Counter[str](), 0
    # Most of what a history makes stays until its end.
    gc.freeze()
    gc.disable()
    for seed in seeds:
        if time.time() > until or (stop and wrong):
            break
        if count % _COLLECT_EACH == 0:
            gc.collect()
        history = simulate(Case.of(seed, kinds))
        count += 1
        injected.update(it.kind for it in history.adversary.injected)
        if history.wrong:
            wrong.append(seed)
            print(f"seed {seed}: ({history.wrong.oracle}) {history.wrong.what}", flush=True)
    return count, wrong, injected


def _many(options: argparse.Namespace, kinds: tuple[str, ...]) -> int:
    first = int(time.time()) if options.first is None else options.first
    began, jobs = _perf_counter(), options.jobs
    end = first + (options.histories or 10**9)
    work = partial(_some, kinds=kinds, until=time.time() + options.seconds, stop=options.stop)
    with ProcessPoolExecutor(jobs) as pool:
        results = [*pool.map(work, (range(first + at, end, jobs) for at in range(jobs)))]
    minutes = (_perf_counter() - began) / 60
    count = sum(it[0] for it in results)
    wrong = sorted(seed for it in results for seed in it[1])
    injected = sum((it[2] for it in results), Counter[str]())
    for seed in wrong[:3]:
        small = simulate(Case.of(seed, kinds))
        print("\n".join(summary(small if options.stop else shrink(small))))
    print(
        f"{count} histories from seed {first} on in {minutes:.1f} min, {count / minutes:.0f} a minute; "
        f"{len(wrong)} wrong: {wrong[:10]}"
    )
    print("injected: " + ", ".join(f"{name} {times}" for name, times in sorted(injected.items())))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
