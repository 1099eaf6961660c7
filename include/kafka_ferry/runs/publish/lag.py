"""How far the target is behind the source: in offsets, as Kafka's consumer group tool, and in time."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from kafka_ferry.clock import until_text
from kafka_ferry.config import Flow
from kafka_ferry.control import ClusterControl
from kafka_ferry.errors import AccessDenied, ClusterUnreachable, FerryError, InputError
from kafka_ferry.ledger import LedgerTable
from kafka_ferry.ledger.table_files import held_if_unwritable
from kafka_ferry.model import ORDINARY, LogBounds, RunOptions, Topic, TopicPartition
from kafka_ferry.model.cluster_state import FlowPositions
from kafka_ferry.model.removals import first_of
from kafka_ferry.model.rights import Right, how_to_grant
from kafka_ferry.model.topic_pair import unlisted_partitions
from kafka_ferry.plan import select_topics
from kafka_ferry.plan.make_plan import lost_by_origin
from kafka_ferry.plan.topics.missing import missing_topics
from kafka_ferry.plan.topics.subset import narrow, unmatched_names
from kafka_ferry.plan.topics.topic_filter import Selection
from kafka_ferry.report.run_report import RunReport
from kafka_ferry.retry import retry_for
from kafka_ferry.runs.plan.discover import read_open_transactions
from kafka_ferry.runs.provenance.selection import invisible_topics, selection_now
from kafka_ferry.runs.publish.copied_logs import CopiedLogs, Gone, kept_copies, lost_copies
from kafka_ferry.runs.state.flow_state import flow_ledger, flow_state
from kafka_ferry.runs.state.known_positions import known_positions
from kafka_ferry.runs.state.run_folder import REPORT_DATA, RunFolder
from kafka_ferry.runs.verify.proof_ages import proof_ages
from kafka_ferry.state import StateFolder
from kafka_ferry.wire import connect
from kafka_ferry.wire.partitions.list_offsets import local_starts

_SHOWN: Final = 10
# Asked where the source does not answer: whether the target does is not known either.
_TARGET_RETRY_S: Final = 10

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Lag:
    """One source partition's state.

    Attributes:
        topic: the source's topic.
        partition: the partition.
        position: the next source offset to copy, None where none was ever committed in these topics.
        log_start: the first offset that the source still holds; None while the partition has no leader, or the source
            does not show its topic.
        log_end: the offset after the last one that the flow's isolation level shows; None likewise.
        moved_to: the group's offset where the ledger has another position, None where they agree.
        proved_at: when the target's records were last read back, of those that were not read for the longest
            time, in milliseconds since 1970; None where none is proved.
        complete_until: all that could be read of the partition at that time is proved to be on the target, by the
            state folder, in milliseconds since 1970; None where nothing is.
        held_back: how many offsets after ``log_end`` an open transaction keeps from the flow; not in its lag.
        held_since: when that transaction began, in milliseconds since 1970; None where there is none.
        held_by: the producer id of that transaction; None where there is none.
        remote: how many of the offsets behind only the source's remote storage has (KIP-405); 0 where the topic is
            not tiered, or its leader does not say.
        gone: why the last position is not of the topics that are there now; "" where it is.
    """

    topic: str
    partition: int
    position: int | None
    log_start: int | None
    log_end: int | None
    moved_to: int | None = None
    proved_at: int | None = None
    complete_until: int | None = None
    held_back: int = 0
    held_since: int | None = None
    held_by: int | None = None
    remote: int = 0
    gone: Gone = ""

    @property
    def lag(self) -> int | None:
        """Offsets on the source that are not yet accounted for; None without a leader, or where it is not shown."""
        if self.log_start is None or self.log_end is None:
            return None
        behind = self.log_end - (self.log_start if self.position is None else self.position)
        return max(0, behind)

    @property
    def is_untouched(self) -> bool:
        """Whether the partition never had a record, and no run has said so: nothing there could be proved."""
        has_none = self.log_end == 0 and not self.position and not self.gone
        return has_none and self.complete_until is None

    @property
    def deleted(self) -> int:
        """How many of the offsets behind the source has deleted before they were copied."""
        if self.log_start is None or self.position is None:
            return 0
        return max(0, self.log_start - self.position)

    @property
    def first(self) -> int:
        """The first offset to read, as far as the source still has it."""
        return max(self.log_start or 0, self.position or 0)


class FlowLag(NamedTuple):
    """How far a flow is behind.

    Attributes:
        rows: its partitions, by topic and partition.
        refused: by topic, the error of those that the source refuses to describe or does not have, that have a
            partition without a leader, or that a plan would refuse although they were copied; "" for the whole flow.
        deleted: topics that were copied, and that the source does not have any more.
        unknown: what could not be found out, a sentence each.
    """

    rows: list[Lag]
    refused: dict[str, FerryError]
    deleted: tuple[str, ...]
    unknown: tuple[str, ...] = ()


def lag(flow: Flow, options: RunOptions = ORDINARY) -> list[Lag]:
    """``readable_lag`` where all topics have to be readable.

    Raises:
        AccessDenied: without the right to look at a topic.
        ClusterUnreachable: a partition has no leader.
    """
    lag = readable_lag(flow, options)
    for error in lag.refused.values():
        raise error
    return lag.rows


def last_complete(flow: Flow, ledger: LedgerTable) -> str:
    """Until when the copy was proved complete by the last run, as far as this machine's state folder knows: sentences.

    Partitions that a run has begun to copy and never proved count as such; so do copies that were lost since, or that
    the target does not show, and what the last run has refused. Where the target does not tell of its copies, nothing
    is said.
    """
    unknown = "How many records are not copied is unknown."
    try:
        with retry_for(_TARGET_RETRY_S):
            copies = lost_copies(flow, ClusterControl(flow.target), ledger, kept_copies(ledger))
    except FerryError as error:
        log.warning("What %s still has of the copies is not known: %s", flow.target.alias, error)
        return unknown
    lost = sorted(map(str, copies.gone | copies.truncated))
    runs = flow_state(flow).folder("runs")
    begun = dict.fromkeys(map(str, ledger.positions()), 0)
    proved = RunFolder(runs, "").verified_until().within(ledger.positions())
    unseen = sorted(map(str, copies.unseen))
    unproved = dict.fromkeys((*lost, *unseen), 0)
    until = until_text((begun | dict(proved.partitions) | unproved).values())
    refused = _last_refusals(runs)
    but = f" It refused {first_of(refused, _SHOWN)}." if refused and until else ""
    if lost:
        but += f" {flow.target.alias} has lost records of {first_of(lost, _SHOWN)} since."
    if unseen:
        but += f" {flow.target.alias} does not let the flow see whether it still has {first_of(unseen, _SHOWN)}."
    complete = f"By the last run the copy was complete until {until}." if until else ""
    return f"{complete}{but} {unknown}".lstrip()


def _last_refusals(runs: StateFolder) -> list[str]:
    """The topics and partitions that the last run could not copy, by its report."""
    folders = runs.folders_with(REPORT_DATA)
    content = runs.folder(folders[-1]).read(REPORT_DATA) if folders else None
    # A damaged one, or another release's, must not keep anybody from failing over.
    with suppress(FerryError):
        refused = RunReport.from_json(content).problems.refused if content else ()
        return list(dict.fromkeys(it.where for it in refused))
    return []


@held_if_unwritable()
def readable_lag(flow: Flow, options: RunOptions = ORDINARY) -> FlowLag:
    """The lag of each partition that ``flow`` mirrors, by its ledger.

    Args:
        flow: the flow.
        options: the run's options; only ``topics`` counts.

    Raises:
        FerryError: no topic of the flow matches them.
        ConfigError: a pattern of theirs is not valid.
        ClusterUnreachable: if a cluster does not answer; if it is the source, with until when the copy was complete.
        AccessDenied: without the right to look.
    """
    source = ClusterControl(flow.source)
    try:
        names = source.topic_names()
    except ClusterUnreachable as unreachable:
        proved = last_complete(flow, flow_ledger(flow))
        advice = f"{unreachable.advice} {proved}"
        raise ClusterUnreachable(unreachable.message, advice=advice) from unreachable
    target = ClusterControl(flow.target)
    ledger = flow_ledger(flow)
    # Brings the ledger's table up to date.
    positions = known_positions(flow, target, ledger)
    copied = ledger.topics()
    topics, refused, selection = selection_now(flow, names, copied)
    lacking = dict(_absences(flow, source, frozenset(names), copied, selection))
    astray = dict(_astray(flow, copied, selection))
    vain = unmatched_names(options.topics, [*selection.names, *copied])
    if options.topics:
        selection, _ = narrow(flow, selection, options)
    mirrored = [topic for name, topic in topics.items() if name in selection.names]
    bounds = source.log_bounds(mirrored, flow.isolation_level)
    rows, unseen, unknown = _rows(
        flow, ledger, target, mirrored, selection.names, bounds, positions
    )
    deleted = set(select_topics(flow, copied.keys() - names)[0]) - lacking.keys()
    wanted = options.topic_filter
    others = {it: error for it, error in refused.items() if it in selection.names}
    for topic, error in (lacking | astray).items():
        if not wanted or wanted.matches(topic):
            others[topic] = error
    if vain:
        named = first_of(vain, _SHOWN)
        unknown += (f"{flow.name} has no topic on {flow.source.alias} that matches {named}.",)
    without_row = {it: copied[it] for it in others.keys() & copied.keys()}
    return FlowLag(
        _with_remote(flow, topics, rows) + _unread_rows(flow, ledger, without_row, rows),
        others | unseen | _without_leader(flow, rows),
        tuple(it for it in sorted(deleted) if not wanted or wanted.matches(it)),
        unknown,
    )


def _rows(
    flow: Flow,
    ledger: LedgerTable,
    target: ClusterControl,
    topics: Sequence[Topic],
    remote_names: Mapping[str, str],
    bounds: Mapping[TopicPartition, LogBounds],
    positions: FlowPositions,
) -> tuple[list[Lag], dict[str, FerryError], tuple[str, ...]]:
    """The rows of the source's topics, without what only remote storage has.

    With them, by topic, an error where the target does not show its copy; and what could not be found out.
    """
    proved = proof_ages(ledger, target).by_partition()
    held = read_open_transactions(flow, bounds)
    stored = RunFolder(flow_state(flow).folder("runs"), "").verified_until()
    complete = stored.within(ledger.positions()).partitions
    ids = {topic.name: topic.topic_id for topic in topics}
    logs = CopiedLogs.of(flow, ledger, target, positions.known, (ids, remote_names), bounds)
    with_position = {tp.topic for tp in positions.known}
    rows = []
    for tp in sorted(_partitions(topics, remote_names, positions)):
        log = bounds.get(tp)
        remote = TopicPartition(remote_names[tp.topic], tp.partition)
        position, until = positions.known.get(remote), complete.get(str(remote)) or None
        gone, begin = logs.gone(tp, remote), position.offset if position else None
        # A topic whose partitions are all empty has a position in one of them too.
        if stored.partitions.get(str(remote)) and remote.topic not in with_position:
            gone = "ledger gone"
        is_gone = gone not in {"", "source truncated"}
        # What was proved of a copy that may be deleted may not be there.
        is_there = not is_gone and remote.topic not in logs.unseen
        if gone == "source truncated":
            begin = logs.diverged[tp]
        row = Lag(
            tp.topic,
            tp.partition,
            None if is_gone else begin,
            log.start if log else None,
            log.end if log else None,
            positions.moved.get(remote),
            # Of a run that could not prove others, the ledger has no proof, and the state folder this one's.
            None if is_gone else proved.get(remote, until),
            until if is_there else None,
            *held.get(tp, ()),
        )
        rows.append(replace(row, gone=gone))
    unseen = {
        topic.name: logs.unseen[remote_names[topic.name]]
        for topic in topics
        if remote_names[topic.name] in logs.unseen
    }
    return rows, unseen, logs.unknown


def _unread_rows(
    flow: Flow, ledger: LedgerTable, copied: Mapping[str, str], rows: Iterable[Lag]
) -> list[Lag]:
    """The partitions of topics that were copied, and of which the source tells nothing now: their lag is unknown.

    Args:
        flow: the flow.
        ledger: its ledger, projected.
        copied: the remote topics of such topics, by name.
        rows: what is known of others.
    """
    topics = {remote: topic for topic, remote in copied.items()}
    for row in rows:
        topics.pop(copied.get(row.topic, ""), None)
    positions = ledger.positions()
    complete = RunFolder(flow_state(flow).folder("runs"), "").verified_until().within(positions)
    return [
        Lag(
            *(topics[remote.topic], remote.partition, positions[remote].offset, None, None),
            complete_until=complete.partitions.get(str(remote)) or None,
        )
        for remote in sorted(positions)
        if remote.topic in topics
    ]


def _partitions(
    topics: Iterable[Topic], remote_names: Mapping[str, str], positions: FlowPositions
) -> Iterator[TopicPartition]:
    """The partitions of the source's topics, also those that were copied and that the source does not list."""
    counts: dict[str, int] = defaultdict(int)
    for tp in positions.known:
        counts[tp.topic] = max(counts[tp.topic], tp.partition + 1)
    for topic in topics:
        remote = remote_names[topic.name]
        unlisted = unlisted_partitions(positions.known, topic, remote, counts[remote])
        for number in (*range(topic.partitions), *unlisted):
            yield TopicPartition(topic.name, number)


def _without_leader(flow: Flow, rows: Iterable[Lag]) -> dict[str, FerryError]:
    """An error for each topic with a partition whose log cannot be asked for."""
    numbers: dict[str, list[int]] = defaultdict(list)
    for row in rows:
        if row.log_end is None:
            numbers[row.topic].append(row.partition)
    return {
        topic: ClusterUnreachable(
            f"{topic} on {flow.source.alias}: {_have_no_leader(some)}, and how far the target is behind there is "
            "unknown.",
            advice="Is one of the source's brokers down?",
        )
        for topic, some in numbers.items()
    }


def _have_no_leader(numbers: list[int]) -> str:
    if len(numbers) == 1:
        return f"partition {numbers[0]} has no leader"
    return f"{len(numbers):,} partitions have no leader, such as {numbers[0]}"


def _absences(
    flow: Flow,
    source: ClusterControl,
    names: frozenset[str],
    copied: Mapping[str, str],
    selection: Selection,
) -> Iterator[tuple[str, FerryError]]:
    """An error for each topic that the flow names, or that was copied, and that the source does not have or show.

    One that was copied and is gone is no error: ``on.source.topic.deleted`` decides. "" is the whole flow.
    """
    invisible = invisible_topics(flow, source, names, copied)
    for missing in missing_topics(flow, names, copied, selection, invisible):
        where = f"{missing.where}: " if missing.topic else ""
        yield missing.topic, InputError(f"{where}{missing.reason}", advice=missing.advice)
    # Where the topic is only hidden, the source may have any number of records that are not copied.
    for topic in sorted(invisible.intersection(select_topics(flow, copied)[0])):
        yield (
            topic,
            AccessDenied(
                f"{topic}: {flow.source.alias} does not let the flow see whether it still has this topic, and how far "
                "the target is behind there is unknown.",
                advice=how_to_grant(Right.topic("READ", topic)),
            ),
        )


def _astray(
    flow: Flow, copied: Mapping[str, str], selection: Selection
) -> Iterator[tuple[str, FerryError]]:
    """An error for each topic that was copied, and that the next run refuses for where its records come from."""
    refusals = (lost_by_origin(flow, copied, skip) for skip in selection.skipped)
    for refusal in (*filter(None, refusals), *selection.refused):
        yield refusal.topic, InputError(f"{refusal.topic}: {refusal.reason}", advice=refusal.advice)


def _with_remote(flow: Flow, topics: Mapping[str, Topic], rows: list[Lag]) -> list[Lag]:
    """``rows`` with what is in remote storage; only partitions of tiered topics are asked for."""
    waiting = [TopicPartition(row.topic, row.partition) for row in rows if row.lag]
    tiered = [tp for tp in waiting if topics[tp.topic].is_tiered]
    if not tiered:
        return rows
    with connect(flow.source) as cluster:
        leaders = cluster.leaders(tiered)
        nodes = {tp: leader.node for tp, leader in leaders.items() if leader.node >= 0}
        starts = local_starts(cluster, nodes)
    return [
        replace(
            row,
            remote=min(
                row.lag or 0,
                max(0, starts.get(TopicPartition(row.topic, row.partition), 0) - row.first),
            ),
        )
        for row in rows
    ]
