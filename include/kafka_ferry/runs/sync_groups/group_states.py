"""What a cluster says of groups: their states, and the offsets that they have committed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_ferry.model.groups import Committed, Group

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kafka_ferry.control.groups import GroupControl
    from kafka_ferry.errors import FerryError
    from kafka_ferry.model.ranges import TopicPartition


def states_and_offsets(
    control: GroupControl, names: Collection[str]
) -> tuple[
    Mapping[str, Group | FerryError], Mapping[str, dict[TopicPartition, Committed] | FerryError]
]:
    """The states of groups, and the offsets of those that the cluster has, each by name."""
    states = control.describe(names)
    existing = [it for it in states.values() if isinstance(it, Group) and it.state != "Dead"]
    return states, control.committed_offsets(existing)
