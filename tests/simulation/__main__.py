"""Plays histories: ``make simulate SECONDS=60``, ``make replay SEED=17``."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from tests.simulation.adversary import POWERS, Fault
from tests.simulation.history import Case, TopicCase, play
from tests.simulation.story import shrink, story

KEPT: Final = Path(__file__).with_name("kept.jsonl")
"""Cases that once were wrong, one a line, each with what it found."""
_perf_counter: Final = time.perf_counter
_AT_A_TIME: Final = 5


def main() -> int:
    """The exit status: 1 if any history is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--histories", type=int, default=0, help="so many instead of some seconds")
    parser.add_argument("--first", type=int, help="the first seed; by default, one by the clock")
    parser.add_argument("--seed", type=int, help="replay this one alone, and tell its story")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--without", default="", help="powers to switch off, with commas")
    parser.add_argument("--only", default="", help="the powers to leave on, with commas")
    parser.add_argument("--kept", action="store_true", help="play the kept cases instead")
    parser.add_argument(
        "--stop", action="store_true", help="end at the first that is wrong, as it is"
    )
    options = parser.parse_args()
    powers = tuple(
        name
        for name in POWERS
        if name not in options.without.split(",")
        and (not options.only or name in options.only.split(","))
    )
    if options.seed is not None:
        history = play(Case.of(options.seed, powers))
        print("\n".join(story(history)))
        return bool(history.wrong)
    if options.kept:
        return play_kept()
    return _many(options, powers)


def play_kept() -> int:
    """Play the kept cases; 1 if any is wrong."""
    wrong = 0
    for case, why in kept():
        history = play(case)
        if history.wrong:
            wrong += 1
            print("\n".join([f"again: {why}", *story(history)]))
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
    first: int, count: int, powers: tuple[str, ...], until: float
) -> tuple[int, list[int], Counter[str]]:
    """How many were played, the seeds of those that are wrong, and how often each power has struck."""
    wrong, struck, played = [], Counter[str](), 0
    for seed in range(first, first + count):
        if time.time() > until:
            break
        history = play(Case.of(seed, powers))
        played += 1
        struck.update(it.power for it in history.adversary.struck)
        if history.wrong:
            wrong.append(seed)
    return played, wrong, struck


def _many(options: argparse.Namespace, powers: tuple[str, ...]) -> int:
    first = int(time.time()) if options.first is None else options.first
    began, played, wrong, struck = _perf_counter(), 0, list[int](), Counter[str]()
    until = float("inf") if options.histories else time.time() + options.seconds
    is_over: Callable[[], bool] = lambda: (  # noqa: E731
        time.time() > until
        or bool(options.histories and asked >= options.histories)
        or bool(options.stop and wrong)
    )
    asked = 0
    with ProcessPoolExecutor(options.jobs) as pool:
        waiting = []
        while waiting or not is_over():
            while len(waiting) < options.jobs and not is_over():
                count = (
                    min(_AT_A_TIME, options.histories - asked) if options.histories else _AT_A_TIME
                )
                waiting.append(pool.submit(_some, first + asked, count, powers, until))
                asked += count
            some, bad, of_powers = waiting.pop(0).result()
            played, wrong, struck = played + some, wrong + bad, struck + of_powers
    minutes = (_perf_counter() - began) / 60
    for seed in wrong[:3]:
        small = play(Case.of(seed, powers))
        small = small if options.stop else shrink(small)
        print("\n".join(story(small)))
        print(json.dumps({"why": "", "case": asdict(small.case)}))
    rate, names = f"{played / minutes:.0f} a minute", sorted(struck.items())
    print(
        f"{played} histories from seed {first} on in {minutes:.1f} min, {rate}; "
        f"{len(wrong)} wrong: {wrong[:10]}"
    )
    print("struck: " + ", ".join(f"{name} {count}" for name, count in names))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
