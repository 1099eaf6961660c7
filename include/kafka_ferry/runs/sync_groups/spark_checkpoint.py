"""Writes a checkpoint with which a Spark query continues on the target."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from kafka_ferry.control import ClusterControl
from kafka_ferry.errors import CheckpointRefused, FerryError
from kafka_ferry.groups.routes import remote_topics_of, routes
from kafka_ferry.groups.spark.checkpoint import (
    COMMITS,
    METADATA,
    OFFSETS,
    SOURCES,
    STATE,
    MicroBatch,
    Numbers,
    SparkCheckpoint,
    initial_offsets,
    kafka_offsets,
)
from kafka_ferry.groups.spark.placement import Placing
from kafka_ferry.groups.spark.rewrite import Rewritten, rewrite
from kafka_ferry.ledger import ledger_topic
from kafka_ferry.plan.topics.topic_filter import select_topics
from kafka_ferry.runs.provenance.log_mismatches import lost_ends
from kafka_ferry.runs.provenance.opposite_flow import opposite_for
from kafka_ferry.runs.state.flow_state import flow_ledger
from kafka_ferry.runs.state.step_time import step_time
from kafka_ferry.runs.sync_groups.translate import read_diverged, read_source
from kafka_ferry.spark.checkpoint import QueryCheckpoint
from kafka_ferry.state import StateFolder

if TYPE_CHECKING:
    from kafka_ferry.config import Flow

_OWN_SCHEMAS: Final = "v2"


def translate_checkpoint(flow: Flow, location: str, new: str, *, clamp: bool = False) -> Rewritten:
    """Write a copy of a query's checkpoint in which the Kafka offsets are the target's.

    The query must be stopped, and its checkpoint stays unchanged. The source need not be up.

    Args:
        flow: the flow that copies the topics that the query reads.
        location: the checkpoint: a local path, or a URI that Arrow understands.
        new: the folder to write; it must be empty.
        clamp: whether offsets that the copy does not account for become its end or its start.

    Raises:
        CheckpointRefused: naming what cannot be translated; nothing was written.
        FerryError: if the target cannot be asked, or a folder cannot be read or written.
    """
    try:
        return _translate(flow, StateFolder(location), StateFolder(new), clamp)
    except CheckpointRefused as refused:
        raise CheckpointRefused(
            refused.reasons, location=location, advice=refused.advice
        ) from refused
    except (OSError, pa.ArrowException) as error:
        raise FerryError(
            f"{error}.",
            advice=f"If {new} holds anything, delete it: it is not complete.",
        ) from error


def _translate(flow: Flow, old: StateFolder, new: StateFolder, clamp: bool) -> Rewritten:
    if not new.is_empty():
        raise CheckpointRefused([f"{new.location}, where it is to be written, is not empty."])
    checkpoint = read_checkpoint(old)
    placing, notes = _placing(flow, _topics(checkpoint))
    translated = rewrite(checkpoint, placing, clamp=clamp)
    if checkpoint.stateful:
        old.folder(STATE).copy_to(new.folder(STATE))
        notes.append("The query's state is copied as it is.")
    if _numbers(old) != checkpoint.numbers:
        raise CheckpointRefused(
            [f"the query is running: its checkpoint changed meanwhile. Delete {new.location}."]
        )
    # Batches last: without them, no query could start from an incomplete folder.
    for name in sorted(translated.files, key=lambda name: name.startswith(OFFSETS)):
        new.write(name, translated.files[name])
    return replace(translated, notes=(*notes, *translated.notes))


def read_checkpoint(folder: StateFolder) -> SparkCheckpoint:
    """Reads a checkpoint.

    Raises:
        CheckpointRefused: if there is no batch, or one of an unknown kind.
    """
    numbers = _numbers(folder)
    offsets, commits = folder.folder(OFFSETS), folder.folder(COMMITS)
    batches = {
        number: MicroBatch.of(f"{OFFSETS}/{number}", offsets.read(str(number)) or b"")
        for number in numbers.planned
    }
    begun = [f"{SOURCES}/{name}/0" for name in folder.folder(SOURCES).folders()]
    files = {name: folder.read(name) for name in begun}
    contents = {n: commits.read(str(n)) for n in numbers.planned}
    _refuse_own_schemas(folder.folder(STATE))
    return SparkCheckpoint(
        numbers,
        batches,
        {number: content for number, content in contents.items() if content is not None},
        {name: initial_offsets(content) for name, content in files.items() if content is not None},
        folder.read(METADATA),
        stateful=not folder.folder(STATE).is_empty(),
        of_a_flow=QueryCheckpoint(folder).has_ranges,
    )


def _numbers(folder: StateFolder) -> Numbers:
    return Numbers.of(folder.folder(OFFSETS).names(), folder.folder(COMMITS).names())


def _refuse_own_schemas(state: StateFolder) -> None:
    """State whose files name other files by their full paths cannot be moved."""
    operators = [state.folder(f"{name}/_metadata/{_OWN_SCHEMAS}") for name in state.folders()]
    if any(not operator.is_empty() for operator in operators):
        raise CheckpointRefused(
            [
                "its state is that of transformWithState: it names its own files by their full "
                "paths, and cannot be moved."
            ]
        )


def _topics(checkpoint: SparkCheckpoint) -> set[str]:
    texts = [end.text for batch in checkpoint.batches.values() for end in batch.ends]
    offsets = [*map(kafka_offsets, texts), *checkpoint.initial.values()]
    return {partition.topic for some in offsets for partition in some or {}}


def _placing(flow: Flow, read: Collection[str]) -> tuple[Placing, list[str]]:
    """The routes of the topics' offsets to the target, and notes on them."""
    ledger = flow_ledger(flow)
    target, name = ClusterControl(flow.target), ledger_topic(flow.source.alias)
    with step_time(flow):
        if not target.topic_ids([name]):
            never = f"{flow.name} has never been run: {flow.target.alias} has no topic {name}."
            raise CheckpointRefused([never])
        ledger.project(flow.target, name)
        remote = remote_topics_of(ledger, select_topics(flow, read)[0])
        remote_topics = target.topics(remote.values())
        # Open transactions of other producers must not hold the query below a higher offset.
        target_logs = target.log_bounds(remote_topics.values(), "read_uncommitted")
    ids, source_logs, note = read_source(flow, ledger, list(remote))
    remote_ids = {name: topic.topic_id for name, topic in remote_topics.items()}
    here = {topic: ids[topic] for topic in remote.keys() & ids.keys()}
    with step_time(flow):
        opposite = opposite_for(flow, ask=not note)
        diverged, there = read_diverged(flow, ledger, opposite, here, remote_ids, is_up=not note)
        maps = routes(
            ledger,
            ids,
            remote_ids,
            before=ledger.verified_through(),
            topics=list(remote),
            opposite=opposite,
            diverged=there.offsets,
        )
        placing = Placing(
            remote,
            maps,
            target_logs,
            source_logs,
            diverged.offsets,
            lost_ends(flow, target, ledger, remote_topics.values()),
        )
    notes = [f"{note}."] if note else []
    return placing, [*notes, *diverged.unknown, *there.unknown]
