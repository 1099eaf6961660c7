"""Faults of the runs' own: clocks, answers without records, tasks of old plans, other writers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_ferry.ledger import ledger_topic
from tests.support.runs.flows import remote

if TYPE_CHECKING:
    from tests.faults.storm import Storm

_DAY_S = 86_400.0
_WRITERS = (1, 2, 4, 7)
_SILENT_S = (0.5, 6.0)


def jump_clock(storm: Storm) -> bool:
    """Let the clock of the next run's process be a day ahead or behind."""
    return _of_next_run(storm, "--clock", storm.chance.choice([_DAY_S, -_DAY_S]))


def silence(storm: Storm) -> bool:
    """Let brokers give the next run no records of a topic for a while, as a slow tiered one does."""
    topics = [topic.name for topic in storm.topics]
    topics += [remote(storm.flow, name) for name in topics]
    topics += [ledger_topic(storm.flow.source.alias)] * len(storm.topics)
    seconds = storm.chance.uniform(*_SILENT_S)
    return _of_next_run(storm, "--silent", storm.chance.choice(topics), "--seconds", seconds)


def _of_next_run(storm: Storm, *arguments: object) -> bool:
    if storm.runs.next_arguments:
        return False
    # An equals sign, or a negative number would be taken for an option.
    pairs = zip(arguments[::2], arguments[1::2], strict=True)
    storm.runs.next_arguments = [f"{name}={value}" for name, value in pairs]
    storm.note(" ".join(storm.runs.next_arguments))
    return True


def late_task(storm: Storm) -> bool:
    """Start what an earlier run has planned, which may have had other writers, once more."""
    active = {run.name for run in storm.runs.active}
    earlier = [name for name in storm.runs.files if name not in active]
    if not earlier or not storm.runs.copying:
        return False
    # Mostly a recent one, with something left to do.
    at = min(int(storm.chance.expovariate(0.4)), len(earlier) - 1)
    storm.note(f"{storm.runs.start_late(earlier[-1 - at]).name} starts")
    return True


def change_writers(storm: Storm) -> bool:
    """Let later runs have another number of writers."""
    storm.runs.change_flow(writers=storm.chance.choice(_WRITERS))
    return True
