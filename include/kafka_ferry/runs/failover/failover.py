"""Failing over: a last sync of the groups' offsets, and for each group where it continues.

Works while the source is down: then from what the last run knew of the groups, and from the ledger.
Every step may be repeated; no offset is ever moved backwards.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kafka_ferry.clock import duration_text, moment_text, now_ms, run_id_now
from kafka_ferry.config.types.values import is_topic_name
from kafka_ferry.control import ClusterControl
from kafka_ferry.control.groups import GroupControl
from kafka_ferry.errors import AccessDenied, ClusterUnreachable, FerryError, InputError
from kafka_ferry.groups.moves import GroupMoves
from kafka_ferry.groups.outlook import (
    FirstRecord,
    GroupOutlook,
    Outlook,
    PartitionOutlook,
    key_text,
    outlook_of,
)
from kafka_ferry.ledger import LedgerTable, ledger_topic
from kafka_ferry.ledger.queries.run_starts import last_run
from kafka_ferry.ledger.table_files import held_if_unwritable
from kafka_ferry.model import TopicPartition
from kafka_ferry.model.groups import Group, unused_patterns
from kafka_ferry.plan.removals import may_remove
from kafka_ferry.retry import retry, retry_for
from kafka_ferry.runs.failover.failed_verification import failed_verification
from kafka_ferry.runs.failover.last_known import (
    add_lost_offsets,
    known_groups,
    later_run,
    seen_groups,
    translate_known,
)
from kafka_ferry.runs.failover.unread_copies import UnreadCopies
from kafka_ferry.runs.failover.unread_letters import unread_letters
from kafka_ferry.runs.failover.unread_losses import unread_losses
from kafka_ferry.runs.failover.unread_partitions import unread_partitions
from kafka_ferry.runs.provenance.diverged_logs import diverged_logs
from kafka_ferry.runs.provenance.log_ends import hidden_ends, look_again
from kafka_ferry.runs.publish.lag import last_complete
from kafka_ferry.runs.state.flow_state import flow_ledger, flow_state
from kafka_ferry.runs.state.step_time import step_time
from kafka_ferry.runs.sync_groups.commit_offsets import commit_moves
from kafka_ferry.runs.sync_groups.group_states import states_and_offsets
from kafka_ferry.runs.sync_groups.sync import move_groups
from kafka_ferry.runs.sync_topics.retire import other_flows_into
from kafka_ferry.wire import WireCluster, connect
from kafka_ferry.wire.partitions.fetch import corrupt_in
from kafka_ferry.wire.partitions.first_record import first_record, key_of

if TYPE_CHECKING:
    from kafka_ferry.config import Cluster, Flow
    from kafka_ferry.model import Topic

log = logging.getLogger(__name__)

# During a failover an operator must not wait a minute for a cluster that is gone.
_SOURCE_RETRY_S: Final = 10
_RECORDS_LOOKED_AT: Final = 1_000
# A transaction that ends now hides records for a moment.
_PAUSES_S: Final = (0.2, 1.0, 2.0)


@held_if_unwritable()
def failover(
    flow: Flow, groups: Collection[str] = (), *, dry_run: bool = False, source_down: bool = False
) -> Outlook:
    """Commit the groups' progress on the source as offsets on the target, and report where each continues.

    Ignores ``sync.group.offsets.enabled``. Runs of the flow may continue meanwhile.

    Args:
        flow: the flow.
        groups: names of groups; all that the flow chooses where empty.
        dry_run: only report what would be done.
        source_down: do not try to reach the source.

    Raises:
        FerryError: if the target or the flow's ledger cannot be read.
    """
    run = run_id_now("failover")
    at = now_ms()
    with step_time(flow, asks_source=not source_down):
        ledger = projected_ledger(flow)
        silence = "was not asked: it is said to be down." if source_down else _why_silent(flow)
        if not silence:
            try:
                moves = move_groups(
                    flow, ledger, run=run, write=not dry_run, only=groups, home=True
                )
                moves = add_lost_offsets(flow, ledger, moves, groups)
                if not groups:
                    moves = _with_unknown(flow, ledger, moves)
            except (ClusterUnreachable, AccessDenied) as error:
                silence = _why_silent(flow)
                if not silence:
                    error.advice = error.advice or "With --source-down the source is not asked."
                    raise
                log.warning("%s stopped answering: %s", flow.source.alias, error)
        notes: tuple[str, ...] = ()
        if silence:
            moves, notes = _without_source(
                flow, ledger, groups, run=run, write=not dry_run, why=silence
            )
        copied_to: Mapping[TopicPartition, int] = {}
        if not silence:
            copied_to, notes = copied_ends(flow, ledger)
            notes += tuple(unread_partitions(flow, ledger, moves, copied_to))
        notes += tuple(_of_other_sources(flow, moves))
        result = outlook(
            *(flow, ledger, moves, copied_to),
            run=run,
            at=at,
            is_done=not dry_run,
            notes=notes,
            asks_source=not silence,
        )
        return replace(result, source_answers=not silence)


def _with_unknown(flow: Flow, ledger: LedgerTable, moves: GroupMoves) -> GroupMoves:
    """The groups, and a failure for each one that the flow names and that the source never had."""
    with GroupControl(flow.source) as source:
        listed, unlisted = source.known_groups()
        # Of those that no broker could list, the groups' own look has said so.
        lacking = [] if unlisted else _other_groups(flow, [group.name for group in listed])
        known = (
            {move.group.name for move in known_groups(flow, ledger, lacking).groups}
            if lacking
            else ()
        )
        missing = tuple(str(source.no_such_group(name)) for name in lacking if name not in known)
    return replace(moves, failures=(*moves.failures, *missing))


def _other_groups(flow: Flow, names: Iterable[str]) -> list[str]:
    """The groups that the flow names in full, and that are not among ``names``."""
    return [name for name in unused_patterns(names, flow.groups) if is_topic_name(name)]


def _of_other_sources(flow: Flow, moves: GroupMoves) -> Iterator[str]:
    """What cannot be told of groups in topics that other flows copy to as well.

    One offset there is about the records of all sources, and this flow's ledger knows those of its own.
    """
    topics = {one.target.topic for _, one in moves.partitions() if one.target}
    if flow.on_foreign_records != "adopt" or not topics:
        return
    try:
        other_flows = other_flows_into(flow, ClusterControl(flow.target), topics)
    except AccessDenied as error:
        yield f"Which other flows copy to {', '.join(sorted(topics))} is unknown. {error}"
        return
    for topic, other in sorted(other_flows.items()):
        yield (
            f"{other} copies to {topic} too. Of its records, a group gets those after its offset, whatever it has "
            "read of them on their source: compare before it starts."
        )


def _without_source(
    flow: Flow, ledger: LedgerTable, groups: Collection[str], *, run: str, write: bool, why: str
) -> tuple[GroupMoves, tuple[str, ...]]:
    """The groups, moved as they are known without the source, and what is less certain."""
    known = known_groups(flow, ledger, groups)
    moves = translate_known(flow, ledger, known)
    if moves.groups:
        moves = commit_moves(flow, ledger, moves, run=run, write=write)
    names = {move.group.name for move in known.groups}
    # Where none is known, one sentence says so.
    missing = sorted({*(groups or (_other_groups(flow, names) if names else ()))} - names)
    failures = [f"Nothing is known of the group {name}." for name in missing]
    if not (groups or known.groups):
        failures.append(
            f"Nothing is known of any group: no run has stored in {flow.state_path} what groups have committed, and "
            "the ledger has no offset of a group."
        )
    moves = replace(moves, failures=(*moves.failures, *failures))
    return moves, (_doubt(flow, ledger, why, known),)


def projected_ledger(flow: Flow, *, has_run: bool = False) -> LedgerTable:
    """The flow's ledger, up to its end.

    Args:
        flow: the flow.
        has_run: whether runs of it are known: they leave no entry where there is nothing to copy.

    Raises:
        FerryError: if the flow was never run, or the ledger cannot be read.
    """
    ledger = flow_ledger(flow)
    name = ledger_topic(flow.source.alias)
    if ClusterControl(flow.target).topic_ids([name]):
        ledger.project(flow.target, name)
    # A flow in another file, whose source has the same alias, may have created the ledger.
    if not has_run and last_run(ledger) is None and not ledger.topics():
        raise InputError(
            f"The ledger {name} on {flow.target.alias} has no entry of {flow.name}: the flow has never run.",
            advice="Is it the right flow, and the right target?",
        )
    return ledger


def outlook(
    flow: Flow,
    ledger: LedgerTable,
    moves: GroupMoves,
    copied_to: Mapping[TopicPartition, int],
    *,
    run: str,
    at: int,
    is_done: bool,
    notes: Collection[str] = (),
    asks_source: bool = True,
) -> Outlook:
    """Where the groups continue on ``flow``'s target, read from the target after they were moved.

    Args:
        flow: the flow into the cluster that the groups move to.
        ledger: its ledger, projected.
        moves: what was done.
        copied_to: by source partition, the offset up to which it is copied.
        run: the id of this failover.
        at: its time.
        is_done: whether offsets were committed, not only planned.
        notes: further notes.
        asks_source: whether ``flow``'s source answers.
    """
    names = [move.group.name for move in moves.groups]
    with GroupControl(flow.target) as target:
        states, committed = states_and_offsets(target, names)
    topics = {one.target.topic for _, one in moves.partitions() if one.target}
    control = ClusterControl(flow.target)
    readable, _ = control.readable_topics(topics)
    wait_s = flow.partition_wait_ms / 1000
    logs = control.log_bounds(readable.values(), "read_uncommitted", wait_s=wait_s)
    hidden = _still_hidden(flow, control, ledger, readable.values())
    known = {name: it for name, it in states.items() if isinstance(it, Group)}
    offsets = {name: it for name, it in committed.items() if not isinstance(it, FerryError)}
    groups = [
        outlook_of(
            *(move, known.get(move.group.name), offsets.get(move.group.name, {}), copied_to, logs),
            is_done=is_done,
            goes_to=flow.target.alias,
            hidden=hidden,
            unseen=moves.unseen,
        )
        for move in moves.groups
    ]
    starts = {one.source: one.start for _, one in moves.partitions()}
    unread_copies = UnreadCopies(flow, ledger, readable.values(), starts, asks_source=asks_source)
    unknown = [it for it in (*states.values(), *committed.values()) if isinstance(it, FerryError)]
    return Outlook(
        flow=flow.name,
        run=run,
        leaves=flow.source.alias,
        goes_to=flow.target.alias,
        at=at,
        is_done=is_done,
        groups=unread_copies.stuck(_with_records(flow.target, groups)),
        notes=(
            *notes,
            *moves.notes,
            *failed_verification(flow, ledger),
            *unread_losses(ledger, readable.values(), groups),
            *unread_letters(flow, ledger, moves),
        ),
        failures=tuple(dict.fromkeys((*moves.failures, *map(str, unknown)))),
    )


def _still_hidden(
    flow: Flow, target: ClusterControl, ledger: LedgerTable, topics: Collection[Topic]
) -> frozenset[TopicPartition]:
    """The *target* partitions that hide copied records for longer than a transaction's end takes."""

    def look(known: frozenset[TopicPartition]) -> frozenset[TopicPartition]:
        return known & hidden_ends(flow, target, ledger, topics)

    return look_again(hidden_ends(flow, target, ledger, topics), look, _PAUSES_S)


def _why_silent(flow: Flow) -> str:
    """Why the source cannot say what its groups have committed, "" where it can."""
    known_cluster_id = seen_groups(flow).source_cluster_id
    try:
        with retry_for(_SOURCE_RETRY_S):
            now = ClusterControl(flow.source).cluster_id()
    except (ClusterUnreachable, AccessDenied) as error:
        return f"does not answer: {error.message.rstrip('.')}."
    if known_cluster_id and not may_remove(flow, known_cluster_id, now):
        return f"is the cluster {now}, and the groups are of the cluster {known_cluster_id}: it was not asked."
    return ""


def _doubt(flow: Flow, ledger: LedgerTable, why: str, known: GroupMoves) -> str:
    """What is less certain because the source could not be asked."""
    if known.at:
        age = duration_text(max(0, now_ms() - known.at) / 1000)
        since = (
            f"The groups' offsets are those of the last run that read them, {age} ago "
            f"({moment_text(known.at)}): what they have read since, they read again."
            f"{later_run(flow, ledger, known.at)}"
        )
    else:
        since = (
            f"No run has stored the groups' offsets in {flow_state(flow).location}: those in the ledger are used. What "
            "the groups have read in other topics, such as those that came from the target, is unknown."
        )
    return f"{flow.source.alias} {why} {since} {last_complete(flow, ledger)}"


def _with_records(target: Cluster, groups: Collection[GroupOutlook]) -> tuple[GroupOutlook, ...]:
    """The groups with the first record of each partition, for the first thousand partitions."""
    places = {
        (one.target, one.offset): None
        for group in groups
        for one in group.partitions
        if one.target and one.offset is not None
    }
    records_by_place: dict[tuple[TopicPartition, int], FirstRecord | None] = {}
    with connect(target) as cluster, retry_for(_SOURCE_RETRY_S):
        for place in list(places)[:_RECORDS_LOOKED_AT]:
            records_by_place[place] = _first(cluster, *place)

    def fill(one: PartitionOutlook) -> PartitionOutlook:
        if one.target is None or one.offset is None:
            return one
        return replace(one, first=records_by_place.get((one.target, one.offset)))

    return tuple(replace(group, partitions=tuple(map(fill, group.partitions))) for group in groups)


def _first(cluster: WireCluster, partition: TopicPartition, offset: int) -> FirstRecord | None:
    try:
        record = retry(lambda: first_record(cluster, partition, offset))
        if record is None:
            return None
        with corrupt_in(partition, cluster.alias):
            return FirstRecord(record[0], record[1], key_text(key_of(record)))
    except FerryError as error:
        # Shown as a help only; no group waits for it.
        log.warning("The first record of %s: %s", partition, error)
        return None


def copied_ends(
    flow: Flow, ledger: LedgerTable
) -> tuple[dict[TopicPartition, int], tuple[str, ...]]:
    """By source partition, the offset up to which its records are on the target; what is unknown of that, as sentences.

    Nothing is said of partitions whose topic was deleted or recreated on either side, or given up, since then; nor
    where the source's log parts from what was copied at an unknown offset.

    Raises:
        FerryError: if one of the clusters does not answer.
    """
    topics, released = (
        {remote: it for it, remote in ledger.topics().items()},
        ledger.released_topics(),
    )
    # Other clients may commit in the flow's group: the ledger alone says what is copied.
    positions = ledger.positions()
    source = ClusterControl(flow.source).topic_ids(topics.values(), only_visible=True)
    target = ClusterControl(flow.target).topic_ids(topics, only_visible=True)
    copied = {
        TopicPartition(topics[tp.topic], tp.partition): position
        for tp, position in positions.items()
        if tp.topic in topics
        and position.topic_id in ("", source.get(topics[tp.topic], ""))
        and position.remote_topic_id in ("", target.get(tp.topic, ""))
        and position.remote_topic_id not in released
    }
    names = {topic: remote for remote, topic in topics.items()}
    # What was copied of a branch that the source has lost since is none of its records.
    diverged = diverged_logs(flow.source, flow.target, ledger, copied, names, target, whole=True)
    known = {tp: diverged.offsets.get(tp, it.offset) for tp, it in copied.items()}
    return {tp: offset for tp, offset in known.items() if offset >= 0}, diverged.unknown
