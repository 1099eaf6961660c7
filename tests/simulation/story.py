"""A history as a story of at most forty lines: what happened, and what each side believed beside what was true."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tests.simulation.history import Case, History

_LINES: Final = 40
_WIDTH: Final = 160


def story(history: History) -> list[str]:
    """The story of a history that was played."""
    case = history.case
    head = [
        f"seed {case.seed}: {_topics(case)}; {case.runs} runs, {case.records} records; {_options(case)}",
        f"faults: {', '.join(f'{it.power} at {it.nth}' for it in case.faults) or 'none'}",
    ]
    end = [*_believed(history)]
    if history.wrong:
        end.append(f"({history.wrong.oracle}) {history.wrong.what}")
    room = _LINES - len(head) - len(end)
    told = [line.replace("\n", " ") for line in history.story]
    if len(told) > room:
        told = ["...", *told[-room + 1 :]]
    return [line[:_WIDTH] for line in (*head, *told, *end)]


def _topics(case: Case) -> str:
    kinds = [
        f"{it.name}/{it.partitions}{' compacted' * it.compacted}{' tiered' * it.tiered}"
        for it in case.topics
    ]
    return ", ".join(kinds)


def _options(case: Case) -> str:
    return ", ".join(f"{name}={value}" for name, value in case.options.items())


def _believed(history: History) -> Iterator[str]:
    """By partition: the source, the position, the target."""
    offsets = {
        tp: it.offset for of in history.target.groups.offsets.values() for tp, it in of.items()
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
