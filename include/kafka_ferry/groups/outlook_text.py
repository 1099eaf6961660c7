"""A failover's or failback's report as text, for a terminal or a task's log. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kafka_ferry.clock import moment_text
from kafka_ferry.groups.outlook import UNKNOWN, GroupOutlook, Outlook, PartitionOutlook
from kafka_ferry.printable import one_line

_NAMED: Final = 10


def outlook_lines(found: Outlook) -> Iterator[str]:
    """The report, line by line: notes, groups with their partitions, failures, what to do now."""
    for note in found.notes:
        yield f"NOTE {note}"
    for group in found.groups:
        yield _headline(group)
        for one in group.partitions:
            yield f"  {_partition(one)}"
        if group.without:
            named = ", ".join(map(str, group.without[:_NAMED]))
            more = len(group.without) - _NAMED
            named += f" and {more:,} more" if more > 0 else ""
            yield f"  {named}: never committed; it begins there by its auto.offset.reset"
        for partition, offset in group.outside:
            yield f"  {partition} {offset} stays: {found.flow} does not copy its topic"
    for failure in found.failures:
        yield f"FAILED {failure}"
    yield summary(found)


def summary(found: Outlook) -> str:
    """One line: how many groups may start on which cluster."""
    states = [group.state for group in found.groups]
    ready, in_use, stuck = (states.count(state) for state in ("ready", "in use", "stuck"))
    would = "" if found.is_done else "dry run, nothing was changed: "
    return (
        f"{would}{found.leaves} to {found.goes_to}: {ready} of {len(states)} groups "
        f"{'may' if found.is_done else 'could'} start on {found.goes_to}, {in_use} in use there, "
        f"{stuck} stuck"
    )


def _headline(group: GroupOutlook) -> str:
    # Lag counts offsets, as everywhere in Kafka: those of transactions' markers too, which hold no record.
    lag = f"lag {_number(group.lag)}, {_number(group.not_copied)} not copied"
    reason = f": {group.reason}" if group.reason else ""
    return f"{group.state.upper()} {one_line(group.name)} ({lag}){reason}"


def _partition(one: PartitionOutlook) -> str:
    there = f"{one.target} " if one.target else ""
    offset = "no offset" if one.offset is None else str(one.offset)
    kind = f" ({one.kind})" if one.kind else ""
    reason = f" [{one.reason}]" if one.reason else ""
    return f"{one.source} {one.committed} -> {there}{offset}{kind}, {_first(one)}{reason}"


def _first(one: PartitionOutlook) -> str:
    if one.first is None:
        return "no record to read yet" if one.offset is not None else "nothing to begin with"
    key = "without a key" if one.first.key is None else f"key {one.first.key!r}"
    return f"first record {one.first.offset}, {_when(one.first.timestamp)}, {key}"


def _when(timestamp: int) -> str:
    return moment_text(timestamp) if timestamp >= 0 else "without a time"


def _number(value: int) -> str:
    return "unknown" if value == UNKNOWN else f"{value:,}"
