"""Gives a flow's topics back to MirrorMaker 2: writes positions so that it continues where the flow stopped."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from kafka_ferry.clock import now_ms
from kafka_ferry.config import Flow
from kafka_ferry.control import ClusterControl
from kafka_ferry.control.topic_records import append_records
from kafka_ferry.control.wire_records import NewRecord
from kafka_ferry.groups.mirrormaker2.connect_offsets import (
    PARTITIONS,
    ConnectOffset,
    key_of,
    newest,
    offsets_topic,
    value_of,
    worker_group,
)
from kafka_ferry.groups.mirrormaker2.stored_offsets import read_offsets
from kafka_ferry.ledger import LedgerTable, OwnershipEntry, append_entry
from kafka_ferry.model import ClusterState, Creation, TopicPartition
from kafka_ferry.model.cluster_state import Mark
from kafka_ferry.model.takeover import PartitionHandover, TopicHandover, TopicState
from kafka_ferry.model.topic_pair import Pair
from kafka_ferry.runs.plan.discover import discover
from kafka_ferry.runs.state.flow_state import flow_ledger
from kafka_ferry.runs.takeover.adopt import fence_all_writers
from kafka_ferry.runs.takeover.liveness import wait_for_members
from kafka_ferry.runs.takeover.takeover import MIRROR_MAKER_2, pairs_of

_RUN: Final = "takeover --to mm2"
_COMPACTED: Final = {"cleanup.policy": "compact"}


def hand_back(
    flow: Flow, *, dry_run: bool = False, positions_topic: str = ""
) -> list[TopicHandover]:
    """Write the flow's positions as MirrorMaker 2's own; a repetition changes nothing.

    The flow's running writers are fenced first, so that its positions no longer change.

    Args:
        flow: the flow.
        dry_run: whether only to report what would be done.
        positions_topic: Connect's offsets topic on the target, if it is not that of MirrorMaker 2's
            dedicated mode.

    Returns:
        What became of each topic of the flow that is on the target.

    Raises:
        FerryError: MirrorMaker 2 is running; or a cluster cannot be read.
    """
    topic = positions_topic or offsets_topic(flow.source.alias)
    wait_for_members(flow.target, worker_group(flow.source.alias), MIRROR_MAKER_2)
    ledger = flow_ledger(flow)
    if not dry_run:
        _stop_writers(flow, ledger)
    state = discover(flow, ledger)
    known = _stored_offsets(flow, topic)
    records, handovers, marks = _handovers(flow, state, known)
    if dry_run:
        return handovers
    if marks:
        # Before MirrorMaker 2 gets positions: otherwise both would copy the same.
        entry = OwnershipEntry(flow=flow.name, run=_RUN, at=now_ms(), marks=tuple(marks))
        append_entry(flow, entry)
        # A late task may have begun before it could find that record, and may have moved positions.
        _stop_writers(flow, ledger)
        records, handovers, _ = _handovers(flow, discover(flow, ledger), known)
    if not records:
        return handovers
    if not known and not _exists(flow, topic):
        creation = Creation(topic, PARTITIONS, flow.replication_factor, _COMPACTED)
        for error in ClusterControl(flow.target).create_topics([creation]).values():
            raise error
    append_records(flow.target, topic, records)
    return [replace(t, state="given back") if t.state == "ready" else t for t in handovers]


def _handovers(
    flow: Flow, state: ClusterState, known: Mapping[TopicPartition, list[ConnectOffset]]
) -> tuple[list[NewRecord], list[TopicHandover], list[Mark]]:
    """The position records of all topics, what becomes of each, and the marks that are still to be written."""
    records, handovers, marks = list[NewRecord](), list[TopicHandover](), list[Mark]()
    for pair in pairs_of(flow, state):
        if pair.remote is None:
            continue
        handover, of_topic = _hand_back(flow, pair, known)
        handovers.append(handover)
        records += of_topic
        if handover.state != "refused" and not (pair.mark and pair.mark.given_back):
            marks.append(pair.own_mark(given_back=True))
    return records, handovers, marks


def _stop_writers(flow: Flow, ledger: LedgerTable) -> None:
    # Projects the ledger, which has the last run.
    discover(flow, ledger)
    fence_all_writers(flow, ledger)


def _hand_back(
    flow: Flow, pair: Pair, known: Mapping[TopicPartition, list[ConnectOffset]]
) -> tuple[TopicHandover, list[NewRecord]]:
    """The result for a topic, and its position records."""
    preserved = any(position.producer for position in pair.positions.values())
    if preserved or (pair.mark and pair.mark.preserved):
        return _refusal(pair, "its offsets are preserved, which MirrorMaker 2 cannot continue.")
    if pair.copy_of:
        return _refusal(
            pair, f"it is the copy of {pair.copy_of}, by the ledger: has topics.rename changed?"
        )
    partitions, records = list[PartitionHandover](), list[NewRecord]()
    for number in sorted(pair.positions):
        position = pair.position(number)
        if position is None:
            return _refusal(
                pair, "it was recreated on one of the clusters since it was last copied."
            )
        source = TopicPartition(pair.topic, number)
        stored = known.get(source, [])
        before = newest(stored).get(source)
        if before and before.next and before.next > position.offset:
            return _refusal(
                pair,
                f"MirrorMaker 2 is already at {before.next} in partition {number}, and this flow at "
                f"{position.offset}. Take it over first (--from mm2).",
            )
        if all(offset.next == (position.offset or None) for offset in stored) and (
            stored or not position.offset
        ):
            continue
        value = value_of(position.offset)
        keys: list[tuple[bytes, int | None]] = [(o.key, o.partition) for o in stored]
        keys = keys or [(key_of(source, flow.source.alias), None)]
        records += [NewRecord(key, value, at) for key, at in keys]
        mirror_position = before.next if before else None
        partitions.append(
            PartitionHandover(number, mirror_position, position.offset, position.offset)
        )
    state: TopicState = "ready" if records else "up to date"
    return TopicHandover(pair.topic, pair.remote_topic, state, "", tuple(partitions)), records


def _refusal(pair: Pair, reason: str) -> tuple[TopicHandover, list[NewRecord]]:
    return TopicHandover(pair.topic, pair.remote_topic, "refused", reason), []


def _stored_offsets(flow: Flow, topic: str) -> dict[TopicPartition, list[ConnectOffset]]:
    """What MirrorMaker 2 has stored, under any key, by source partition."""
    known: dict[TopicPartition, list[ConnectOffset]] = defaultdict(list)
    if _exists(flow, topic):
        for offset in read_offsets(flow.target, flow.source.alias, topic)[0]:
            known[offset.source].append(offset)
    return dict(known)


def _exists(flow: Flow, topic: str) -> bool:
    return bool(ClusterControl(flow.target).topics([topic]))
