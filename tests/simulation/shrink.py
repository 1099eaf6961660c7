"""Smaller cases that are wrong in the same way, and what has happened in one, in at most forty lines.

Cases are made smaller by a plain loop over their parts, not by ``hypothesis``: a case is five numbers and a list of
faults, and a try costs a whole history, so that what counts is to try the largest cuts first and nothing twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Final

from tests.simulation.case import Case
from tests.simulation.history import History, simulate

_LINES: Final = 40
_WIDTH: Final = 160


def summary(history: History) -> list[str]:
    """What has happened in a history: its case as in ``kept.jsonl``, its trace, and what each side has at the end."""
    end = [*_believed(history)]
    if history.wrong:
        end.append(f"({history.wrong.oracle}) {history.wrong.what}")
    room = _LINES - 1 - len(end)
    trace = [line.replace("\n", " ") for line in history.trace]
    if len(trace) > room:
        trace = ["...", *trace[-room + 1 :]]
    kept = json.dumps({"why": "", "case": asdict(history.case)})
    return [kept, *(line[:_WIDTH] for line in (*trace, *end))]


def _believed(history: History) -> Iterator[str]:
    """By partition: the source, the position, the target."""
    offsets = {
        tp: it.offset
        for group, of in history.target.groups.offsets.items()
        if group.startswith("ferry.")
        for tp, it in of.items()
    }
    for source, target in history.pairs():
        left, right = history.source.log(source), history.target.log(target)
        if left is None or right is None or (left.end == right.end == 0):
            continue
        lacks = {value for _, value in left.shown()} - {value for _, value in right.shown()}
        yield (
            f"{source} [{left.start}, {left.end}) epoch {left.epoch}, stable to {left.stable}; position "
            f"{offsets.get(target, 'none')}; target [{right.start}, {right.end}) shows {len(right.shown())}, "
            f"lacks {len(lacks)}"
        )


def shrink(history: History, tries: int = 60) -> History:
    """The smallest history that was found to be wrong by the same oracle."""
    best, seen = history, set[str]()
    while tries > 0:
        for case in _smaller(best.case):
            if repr(case) in seen:
                continue
            seen.add(repr(case))
            tries -= 1
            now = simulate(case)
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
