"""Smaller cases that are wrong in the same way: fewer faults, runs, topics, partitions and records.

A plain loop over a case's parts, not ``hypothesis``: a case is five numbers and a list of faults, and a try costs a
whole history, so that what counts is to try the largest cuts first and nothing twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tests.simulation.history import Case, History, play


def shrink(history: History, tries: int = 60) -> History:
    """The smallest history that was found to be wrong by the same oracle."""
    best, seen = history, set[str]()
    while tries > 0:
        for case in _smaller(best.case):
            if repr(case) in seen:
                continue
            seen.add(repr(case))
            tries -= 1
            now = play(case)
            if now.wrong and best.wrong and now.wrong.oracle == best.wrong.oracle:
                best = now
                break
            if tries <= 0:
                return best
        else:
            return best
    return best


def _smaller(case: Case) -> Iterator[Case]:
    for at in range(len(case.faults)):
        yield replace(case, faults=case.faults[:at] + case.faults[at + 1 :])
    if len(case.topics) > 1:
        for at in range(len(case.topics)):
            yield replace(case, topics=case.topics[:at] + case.topics[at + 1 :])
    if case.runs > 1:
        yield replace(case, runs=case.runs - 1)
    for at, topic in enumerate(case.topics):
        if topic.partitions > 1:
            less = replace(topic, partitions=1)
            yield replace(case, topics=(*case.topics[:at], less, *case.topics[at + 1 :]))
    if case.transactions:
        yield replace(case, transactions=0.0)
    if case.records > 3:
        yield replace(case, records=case.records // 2)
