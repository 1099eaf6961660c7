"""Detects another mirror that still runs: its group has members, or its topics or heartbeats move."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from kafka_ferry.config import Cluster, Flow
from kafka_ferry.control import ClusterControl
from kafka_ferry.control.compacted import newest_records
from kafka_ferry.control.groups import GroupControl
from kafka_ferry.errors import FerryError
from kafka_ferry.groups.mirrormaker2.record_formats import Heartbeat
from kafka_ferry.model import Topic, TopicPartition
from kafka_ferry.model.groups import Group

# A killed member stays in the group until its session times out: ten seconds by Connect's default.
_SESSION_S: Final = 30.0
_PAUSE_S: Final = 0.5
_HEARTBEATS: Final = "heartbeats"


@dataclass(frozen=True)
class Still:
    """State that does not change while no other mirror runs.

    Attributes:
        ends: the log ends of the remote topics' partitions.
        heartbeat: the newest heartbeat for the two clusters, in milliseconds since 1970; 0 without one.
        at: when this was seen, in seconds of the monotonic clock.
    """

    ends: Mapping[TopicPartition, int]
    heartbeat: int
    at: float


def wait_for_members(cluster: Cluster, group: str, mirror: str) -> None:
    """Wait until ``group`` has no members, for as long as Kafka needs to notice that they are gone.

    Raises:
        FerryError: it still has members; or it may not be seen.
    """
    deadline = time.monotonic() + _SESSION_S
    with GroupControl(cluster) as groups:
        while True:
            result = groups.describe([group])[group]
            if not isinstance(result, Group):
                raise result
            if result.idle:
                return
            if time.monotonic() > deadline:
                raise FerryError(
                    f"{mirror} still runs: its group {group} on {cluster.alias} is {result.state}.",
                    advice="Stop it, and make sure that nothing starts it again.",
                )
            time.sleep(_PAUSE_S)


def look(flow: Flow, remote: Collection[Topic]) -> Still:
    """Reads the current state."""
    target = ClusterControl(flow.target)
    bounds = target.log_bounds(remote, "read_uncommitted") if remote else {}
    ends = {tp: log.end for tp, log in bounds.items()}
    return Still(ends, _heartbeat(flow, target), time.monotonic())


def require_still(flow: Flow, before: Still, remote: Collection[Topic], settle_s: float) -> None:
    """Compare again, no sooner than ``settle_s`` seconds after ``before``.

    Raises:
        FerryError: something has changed.
    """
    time.sleep(max(0.0, before.at + settle_s - time.monotonic()))
    now = look(flow, remote)
    moved = sorted(str(tp) for tp, end in now.ends.items() if before.ends.get(tp, end) != end)
    advice = "Stop the producers that write there, or leave the topic out with topics.exclude."
    if moved:
        shown = ", ".join(moved[:5]) + (" and others" if len(moved) > 5 else "")
        raise FerryError(
            f"Another mirror still runs: {shown} on {flow.target.alias} grew.", advice=advice
        )
    if now.heartbeat > before.heartbeat:
        raise FerryError(
            f"Another mirror still runs: it sends heartbeats for {flow.name} to {_HEARTBEATS} on "
            f"{flow.target.alias}.",
            advice=advice,
        )


def _heartbeat(flow: Flow, target: ClusterControl) -> int:
    topic = target.topics([_HEARTBEATS]).get(_HEARTBEATS)
    if topic is None:
        return 0
    key = Heartbeat(flow.source.alias, flow.target.alias, 0).key()
    records, _ = newest_records(flow.target, _HEARTBEATS, topic.partitions)
    timestamps = [
        Heartbeat.read(key, r.value).timestamp for r in records if r.key == key and r.value
    ]
    return max(timestamps, default=0)
