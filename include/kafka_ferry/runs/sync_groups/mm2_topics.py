"""Writes checkpoints, heartbeats and offset syncs for MirrorMaker 2's clients.

(a) A checkpoint or an offset sync is written only where it differs from the newest one of its key in
    the topic: a consumer that reads to the end has the current state, and the topic does not grow for nothing.
(b) There is never a tombstone, and nothing that MirrorMaker 2's clients would not understand.
(c) A failure for one topic is reported, and does not stop the others.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING

from kafka_ferry.clock import now_ms
from kafka_ferry.control import ClusterControl
from kafka_ferry.control.compacted import create_compacted, newest_values
from kafka_ferry.control.topic_records import append_records
from kafka_ferry.control.wire_records import NewRecord
from kafka_ferry.errors import AccessDenied, FerryError
from kafka_ferry.groups.mirrormaker2.offset_syncs import offset_syncs
from kafka_ferry.groups.mirrormaker2.record_formats import Checkpoint, Heartbeat
from kafka_ferry.groups.routes import routes
from kafka_ferry.plan.topics.emitted_topics import (
    CHECKPOINTS,
    HEARTBEATS_OPTION,
    OFFSET_SYNCS,
    EmittedTopic,
    emitted_topics,
)
from kafka_ferry.plan.topics.replication_policy import HEARTBEATS
from kafka_ferry.retry import retry
from kafka_ferry.runs.provenance.opposite_flow import opposite_for

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.groups.moves import GroupMoves
    from kafka_ferry.ledger import LedgerTable

log = logging.getLogger(__name__)

Records = Iterable[tuple[bytes, Sequence[bytes]]]
"""By key, the values to write one after the other; the last one counts."""


def emit(
    flow: Flow, ledger: LedgerTable, moves: GroupMoves, *, run: str
) -> tuple[list[str], list[str]]:
    """Write what the flow's options say; a repetition writes at most another heartbeat.

    Args:
        flow: the flow.
        ledger: its ledger, projected to its end.
        moves: what became of the groups.
        run: the run, for the log.

    Returns:
        A sentence for each topic that could not be written, and one for each that could not be read.

    Raises:
        ConfigError: as ``policy_of``.
    """
    at = now_ms()
    records: dict[str, Callable[[EmittedTopic], Records]] = {
        CHECKPOINTS: lambda _: _checkpoints(moves),
        HEARTBEATS_OPTION: lambda topic: _heartbeats(flow, topic, at),
        OFFSET_SYNCS: lambda _: _offset_syncs(flow, ledger),
    }
    copied = ledger.marks().keys()
    topics = [
        topic
        for topic in emitted_topics(flow)
        # The flow writes the source's heartbeats there, if the source has any.
        if not (topic.option == HEARTBEATS_OPTION and topic.name in copied)
    ]
    failed, unread = [], []
    # Each has a client of its own, whose connections take most of the time.
    with ThreadPoolExecutor(thread_name_prefix="emit") as threads:
        writes = [
            threads.submit(
                copy_context().run, retry, partial(_write, topic, records[topic.option], at)
            )
            for topic in topics
        ]
    for topic, write in zip(topics, writes, strict=True):
        try:
            written, doubt = write.result()
            unread += doubt
            log.info("%s: %d records to %s on %s", run, written, topic.name, topic.cluster.alias)
        except FerryError as error:
            failed.append(_sentence(topic, error))
    return failed, unread


def _write(
    topic: EmittedTopic, records: Callable[[EmittedTopic], Records], at: int
) -> tuple[int, list[str]]:
    """Write those of ``records`` that are new; returns how many, and why it is not known which are."""
    create_compacted(ClusterControl(topic.cluster), topic.name, topic.replication_factor)
    wanted = dict(records(topic))
    if not wanted:
        return 0, []
    known, unread = ({}, []) if topic.option == HEARTBEATS_OPTION else _known_records(topic)
    changed = [
        NewRecord(key, value, at=at)
        for key, values in wanted.items()
        if known.get(key) != values[-1]
        for value in values
    ]
    if changed:
        append_records(topic.cluster, topic.name, changed)
    return len(changed), unread


def _known_records(topic: EmittedTopic) -> tuple[Mapping[bytes, bytes], list[str]]:
    try:
        return newest_values(topic.cluster, topic.name), []
    except AccessDenied as error:
        # MirrorMaker 2's principal may only write: then all records are written again, which is as correct.
        where = f"{topic.name} on {topic.cluster.alias}"
        return {}, [f"All records of {where} were written again, since it cannot be read: {error}"]


def _checkpoints(moves: GroupMoves) -> Iterator[tuple[bytes, list[bytes]]]:
    for move, partition in moves.partitions():
        committed, target, offset = partition.committed, partition.target, partition.offset
        # Clients read a checkpoint as a consumer group's offset, which a share group does not have.
        if committed is None or target is None or offset is None or move.group.type == "share":
            continue
        checkpoint = Checkpoint(
            move.group.name, target, committed.offset, offset, committed.metadata
        )
        yield checkpoint.key(), [checkpoint.value()]


def _heartbeats(flow: Flow, topic: EmittedTopic, at: int) -> Iterator[tuple[bytes, list[bytes]]]:
    if topic.name != HEARTBEATS and flow.offsets.of(HEARTBEATS) == "preserved":
        # They would take the offsets of the source's first heartbeats. Clients only look for the topic.
        return
    heartbeat = Heartbeat(flow.source.alias, flow.target.alias, at)
    yield heartbeat.key(), [heartbeat.value()]


def _offset_syncs(flow: Flow, ledger: LedgerTable) -> Iterator[tuple[bytes, list[bytes]]]:
    names = ledger.topics()
    topic_ids = ClusterControl(flow.source).topic_ids(names, only_visible=True)
    remote_ids = ClusterControl(flow.target).topic_ids(set(names.values()), only_visible=True)
    known = routes(
        ledger,
        topic_ids,
        remote_ids,
        before=ledger.verified_through(),
        opposite=opposite_for(flow, ask=True),
    )
    for route in known.values():
        syncs = offset_syncs(route)
        if syncs:
            yield syncs[0].key(), [sync.value() for sync in syncs]


def _sentence(topic: EmittedTopic, error: FerryError) -> str:
    where = f"{topic.name} on {topic.cluster.alias}"
    if isinstance(error, AccessDenied):
        return f"{where} was not written: {error} Or set {topic.option}: false."
    return f"{where} was not written: {error}"
