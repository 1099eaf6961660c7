"""What appending records means for those who read the remote topic, in sentences."""

from __future__ import annotations

from collections.abc import Mapping

from kafka_ferry.config import Flow
from kafka_ferry.control.groups import GroupControl
from kafka_ferry.errors import AccessDenied, FerryError
from kafka_ferry.model import TopicPartition
from kafka_ferry.model.groups import is_own_group
from kafka_ferry.runs.repair.held_records import HeldRecords
from kafka_ferry.verify.counts import count
from kafka_ferry.wire.groups.groups import IncompleteListing

CommittedOffsets = Mapping[str, Mapping[TopicPartition, int]] | str
"""By group on the target, the offsets that it has committed; or why they are not known."""


def committed_offsets(flow: Flow) -> CommittedOffsets:
    """The committed offsets of all groups on the target that the flow may see, without Kafka Ferry's own."""
    try:
        with GroupControl(flow.target) as control:
            groups = [it for it in control.groups() if not is_own_group(it.name)]
            committed = control.committed_offsets(groups)
    except (AccessDenied, IncompleteListing) as error:
        return error.message
    return {
        name: {tp: it.offset for tp, it in offsets.items()}
        for name, offsets in committed.items()
        if not isinstance(offsets, FerryError)
    }


def consequences(
    flow: Flow, name: str, held: HeldRecords, offsets: CommittedOffsets
) -> tuple[str, ...]:
    """What appending comes to, a sentence each in the order in which it happens.

    Args:
        flow: the flow.
        name: the range, such as ``orders-3:120``.
        held: what both logs hold of it, with at least one record to append.
        offsets: of the groups on the target.
    """
    return tuple(filter(None, _sentences(flow, name, held, offsets)))


def _sentences(
    flow: Flow, name: str, held: HeldRecords, offsets: CommittedOffsets
) -> tuple[str, ...]:
    (first, last), records = held.places, len(held.wanted)
    until = held.log_end + records - 1
    gone = count(held.unavailable, "record")
    unchecked = count(held.unchecked, "other record")
    return (
        f"{count(records, 'missing record')} of {name} are fetched from {flow.source.alias} again and appended to "
        f"{held.target}, from offset {held.log_end} to {until} if nothing else is written meanwhile.",
        f"{gone} stay missing: the source no longer has them." if held.unavailable else "",
        f"They come out of order: their places were {first} to {last}, and {count(held.log_end - last - 1, 'offset')} "
        "follow there. Among themselves they keep their order.",
        _groups(held.target, last, offsets),
        "The ledger maps their source offsets to the new ones, and records that the old range is left as it is. No "
        "record is on the target twice.",
        f"{unchecked} of the range cannot be compared: the source no longer has them."
        if held.unchecked
        else "",
    )


def _groups(target: TopicPartition, last: int, offsets: CommittedOffsets) -> str:
    """Which groups on the target have passed the places of the missing records."""
    if isinstance(offsets, str):
        return f"Which consumer groups have passed their places is not known: {offsets}"
    at = {name: of_group[target] for name, of_group in offsets.items() if target in of_group}
    passed = [f"{name} ({offset})" for name, offset in sorted(at.items()) if offset > last]
    before = [f"{name} ({offset})" for name, offset in sorted(at.items()) if offset <= last]
    return (
        f"Consumer groups that have passed their places and get them late: {', '.join(passed) or 'none'}. Groups that "
        f"have not, and get them after newer records: {', '.join(before) or 'none'}."
    )
