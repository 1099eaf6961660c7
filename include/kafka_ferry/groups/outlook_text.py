"""A failover's or failback's report as text, for a terminal or a task's log. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kafka_ferry.clock import moment_text
from kafka_ferry.groups.outlook import UNKNOWN, GroupOutlook, Outlook, PartitionOutlook
from kafka_ferry.printable import one_line, printable

_NAMED: Final = 10


def outlook_lines(outlook: Outlook) -> Iterator[str]:
    """The report, line by line: notes, groups with their partitions, failures, what to do now."""
    return map(printable, _lines(outlook))


def _lines(outlook: Outlook) -> Iterator[str]:
    for note in outlook.notes:
        yield f"NOTE {note}"
    for group in outlook.groups:
        yield _headline(group)
        for one in group.partitions:
            yield f"  {_partition(one)}"
        if group.without:
            names = ", ".join(map(str, group.without[:_NAMED]))
            more = len(group.without) - _NAMED
            names += f" and {more:,} more" if more > 0 else ""
            begins = "its auto.offset.reset"
            if group.is_share:
                begins = (
                    f"the group's config share.auto.offset.reset on {outlook.goes_to}, which is latest "
                    "unless it is set"
                )
            yield f"  {names}: never committed; it begins there by {begins}"
        for partition, offset in group.outside:
            yield f"  {partition} {offset} stays: {outlook.flow} does not copy its topic"
    for failure in outlook.failures:
        yield f"FAILED {failure}"
    yield summary(outlook)


def summary(outlook: Outlook) -> str:
    """One line: how many groups may start on which cluster."""
    states = [group.state for group in outlook.groups]
    ready, in_use, stuck = (states.count(state) for state in ("ready", "in use", "stuck"))
    would = "" if outlook.is_done else "dry run, nothing was changed: "
    return (
        f"{would}{outlook.leaves} to {outlook.goes_to}: {ready} of {len(states)} groups "
        f"{'may' if outlook.is_done else 'could'} start on {outlook.goes_to}, {in_use} in use there, "
        f"{stuck} stuck"
    )


def _headline(group: GroupOutlook) -> str:
    # Lag counts offsets, as everywhere in Kafka: those of transactions' markers too, which hold no record.
    lag = f"lag {_number(group.lag)}, {_number(group.not_copied)} not copied"
    reason = f": {group.reason}" if group.reason else ""
    return f"{group.state.upper()} {one_line(group.name)} ({lag}){reason}"


def _partition(one: PartitionOutlook) -> str:
    target = f"{one.target} " if one.target else ""
    offset = "no offset" if one.offset is None else str(one.offset)
    kind = f" ({one.kind})" if one.kind else ""
    reason = f" [{one.reason}]" if one.reason else ""
    return f"{one.source} {one.committed} -> {target}{offset}{kind}, {_first(one)}{reason}"


def _first(one: PartitionOutlook) -> str:
    if one.first is None:
        return "no record to read yet" if one.offset is not None else "nothing to begin with"
    key = "without a key" if one.first.key is None else f"key {one.first.key!r}"
    return f"first record {one.first.offset}, {_when(one.first.timestamp)}, {key}"


def _when(timestamp: int) -> str:
    return moment_text(timestamp) if timestamp >= 0 else "without a time"


def _number(value: int) -> str:
    return "unknown" if value == UNKNOWN else f"{value:,}"
