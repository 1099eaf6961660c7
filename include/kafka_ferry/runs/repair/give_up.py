"""Repairs a copy that no run can complete: shows what is wrong with it, and gives it up.

Nothing is repaired in place: a remote topic that is given up is deleted, and the next run copies all
that the source still has to a new one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from kafka_ferry.clock import run_id_now
from kafka_ferry.config import Flow
from kafka_ferry.config.types.problems import did_you_mean_each
from kafka_ferry.control import ClusterControl, read_positions
from kafka_ferry.errors import CorruptBatch, FerryError, InputError
from kafka_ferry.ledger import (
    ReleasedTopic,
    ledger_creation,
    ledger_topic,
)
from kafka_ferry.ledger.queries.copied_ranges import counts_in_topics
from kafka_ferry.model import LogBounds, Mark, Position, Topic, TopicPartition
from kafka_ferry.model.cluster_state import LogMismatch
from kafka_ferry.plan import policy_of, select_topics
from kafka_ferry.plan.backfill.windows import Span, gaps, merge_spans
from kafka_ferry.plan.offsets.log_check import (
    NOTHING,
    Copy,
    CopyState,
    LogTail,
    PartitionState,
    first_unaccounted,
    log_tail,
    only_copy,
    partition_state,
)
from kafka_ferry.retry import retry
from kafka_ferry.runs.provenance.log_mismatches import log_mismatches
from kafka_ferry.runs.state.run_context import RunContext
from kafka_ferry.runs.state.step_time import step_time
from kafka_ferry.runs.sync_topics.delete_topics import delete_released, release
from kafka_ferry.wire import connect
from kafka_ferry.wire.partitions.ends import settled_ends
from kafka_ferry.wire.partitions.partition_log import partition_log
from kafka_ferry.wire.partitions.scan import stored_batches


class _Known(NamedTuple):
    """What the ledger says of the flow's remote topics.

    Attributes:
        marks: those on topics that the flow has not given up, by remote topic.
        copied: the remote topic of each source topic.
        written: the position of each remote partition.
        released: the ids of remote topics that were given up.
    """

    marks: Mapping[str, Mark] = MappingProxyType({})
    copied: Mapping[str, str] = MappingProxyType({})
    written: Mapping[TopicPartition, Position] = MappingProxyType({})
    released: frozenset[str] = frozenset()


class Repair:
    """Inspects a flow's remote topics, and gives some of them up.

    Attributes:
        refused: by remote topic, why ``look`` could not see its state: it may not be described, or its source.
    """

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._target = ClusterControl(flow.target)
        self._run = RunContext.of(flow, run_id_now("repair"))
        self._ledger_topic = ledger_topic(flow.source.alias)
        self._is_in_ledger = False
        self.refused: dict[str, FerryError] = {}

    def look(self, names: Collection[str] = ()) -> list[CopyState]:
        """The state of the remote topics ``names``; changes nothing.

        Without names, of all whose offsets are preserved, and of those whose logs contradict the ledger.

        Raises:
            FerryError: if one of ``names`` is not a remote topic of the flow, or a cluster cannot
                be read.
        """
        with step_time(self._flow):
            copies = self._copies(names)
            mismatches = self._contradictions(copies)
            if not names:
                mismatched = {tp.topic for tp in mismatches}
                copies = [
                    candidate
                    for candidate in copies
                    if _has_state(candidate) or candidate.remote_topic in mismatched
                ]
            logs = self._logs(copies)
            positions = read_positions(self._flow.target, self._flow.name)
            # A run may have begun a partition since the positions were read.
            copies = [self._with_new_positions(copy, positions) for copy in copies]
            return [
                copy.state(self._flow, self._partitions(copy, logs, mismatches)) for copy in copies
            ]

    def still_there(self, partitions: Collection[TopicPartition]) -> set[TopicPartition]:
        """The *target* partitions whose topics exist; one that was given up has nothing to prove any more.

        Raises:
            FerryError: if the target cannot be read.
        """
        topics = self._target.topic_ids({tp.topic for tp in partitions}) if partitions else {}
        return {tp for tp in partitions if tp.topic in topics}

    def give_up(self, states: Iterable[CopyState]) -> list[CopyState]:
        """Give remote topics up and delete them; a repetition finishes what was interrupted.

        Raises:
            FerryError: if one of them could not be deleted; the others were. Nothing is changed if
                one has no id.
        """
        states = list(states)
        for state in states:
            if not state.has_id:
                raise FerryError(
                    f"{state.remote_topic} on the target has no id: its brokers are older than 2.8.",
                    advice="Delete it, and run once with on.target.topic.lost: recopy.",
                )
        self._release(states)
        remote_ids = {state.remote_topic: state.remote_topic_id for state in states}
        errors = delete_released(self._run, self._target, remote_ids)
        for error in errors.values():
            error.advice = (
                f"{error.advice} Then run repair again: the topic is already given up.".strip()
            )
            raise error
        return [replace(state, given_up=True) for state in states]

    # --- looking

    def _copies(self, chosen_names: Collection[str]) -> list[Copy]:
        """What is known of the remote topics, by name."""
        flow, known = self._flow, self._by_ledger()
        committed = read_positions(flow.target, flow.name)
        positions = {
            tp: position
            for tp, position in {**known.written, **committed}.items()
            if position.remote_topic_id not in known.released
        }
        leftover = {tp.topic for tp, p in committed.items() if p.remote_topic_id in known.released}

        source = ClusterControl(flow.source)
        on_source = source.topic_names()
        selected, _ = select_topics(flow, on_source)
        mirrored = {policy_of(flow).remote_topic(topic): topic for topic in selected}
        topics = {remote: topic for topic, remote in known.copied.items()}
        topics |= {name: mark.topic for name, mark in known.marks.items()}
        topics |= mirrored
        names = {tp.topic for tp in positions} | known.marks.keys() | set(known.copied.values())
        names = (names | leftover) & topics.keys()
        if unknown := sorted(set(chosen_names) - names):
            raise InputError(
                f"{flow.name} has never copied to {', '.join(unknown)}.",
                advice=did_you_mean_each(unknown, names)
                or "Name topics by their names on the target.",
            )
        names = names.intersection(chosen_names) if chosen_names else names
        remotes, refused_there = self._target.readable_topics(names)
        sources, refused = source.readable_topics({topics[name] for name in names} & set(on_source))
        refused_there |= {name: refused[topics[name]] for name in names if topics[name] in refused}
        self.refused = refused_there
        return [
            Copy(
                topic=topics[name],
                remote_topic=name,
                source=sources.get(topics[name]),
                remote=remotes.get(name),
                mirrored=name in mirrored,
                mark=known.marks.get(name),
                positions={tp.partition: p for tp, p in positions.items() if tp.topic == name},
                released=name in remotes and remotes[name].topic_id in known.released,
                leftover=name in leftover,
            )
            for name in sorted(names - self.refused.keys())
        ]

    def _contradictions(self, copies: Iterable[Copy]) -> Mapping[TopicPartition, LogMismatch]:
        """How the logs of copies contradict the ledger, as a plan sees it; it refuses them then."""
        topics = [copy.remote for copy in copies if copy.remote and not copy.released]
        if not (topics and self._is_in_ledger):
            return {}
        return log_mismatches(self._flow, self._target, self._run.ledger, topics)

    def _by_ledger(self) -> _Known:
        self._is_in_ledger = bool(self._target.topic_ids([self._ledger_topic]))
        if not self._is_in_ledger:
            return _Known()
        self._run.project_ledger()
        ledger = self._run.ledger
        released = ledger.released_topics()
        marks = {name: m for name, m in ledger.marks().items() if m.remote_topic_id not in released}
        return _Known(marks, ledger.topics(), ledger.positions(), released)

    def _logs(self, copies: Sequence[Copy]) -> dict[TopicPartition, LogBounds]:
        """Where the target's logs start and end, once all records in them are replicated."""
        starts = self._target.log_bounds(
            [copy.remote for copy in copies if copy.remote], "read_uncommitted"
        )
        with connect(self._flow.target) as cluster:

            def ends() -> dict[TopicPartition, int]:
                leaders = cluster.leaders(starts)
                return settled_ends(
                    cluster, {tp: leader for tp, leader in leaders.items() if leader.node >= 0}
                )

            settled = retry(ends) if starts else {}
        return {tp: LogBounds(starts[tp].start, end) for tp, end in settled.items()}

    def _with_new_positions(self, copy: Copy, positions: Mapping[TopicPartition, Position]) -> Copy:
        new = {
            tp.partition: position
            for tp, position in positions.items()
            if tp.topic == copy.remote_topic
            and tp.partition not in copy.positions
            and position.remote_topic_id == copy.remote_id
        }
        return replace(copy, positions={**copy.positions, **new})

    def _partitions(
        self,
        copy: Copy,
        logs: Mapping[TopicPartition, LogBounds],
        mismatches: Mapping[TopicPartition, LogMismatch],
    ) -> list[PartitionState]:
        if copy.remote is None:
            return []
        copied = self._source_offsets(copy.remote)
        here = [copy.source] if copy.source else []
        sources = ClusterControl(self._flow.source).log_bounds(here, self._flow.isolation_level)
        states = []
        for number in range(copy.remote.partitions):
            target, source = (
                TopicPartition(topic, number) for topic in (copy.remote_topic, copy.topic)
            )
            log = logs.get(target)
            tail = self._log_tail(copy, target, log)
            state = partition_state(copy, number, log, tail)
            if mismatch := mismatches.get(target):
                at = min(mismatch.log_end, mismatch.ledger_end)
                state = replace(state, offset=at, problem=f"its log {mismatch.problem}.")
            if log and number in copied:
                lost = only_copy(copy, number, copied[number], log, sources.get(source))
                state = replace(state, only_copy=lost)
            states.append(state)
        return states

    def _source_offsets(self, remote: Topic) -> dict[int, list[Span]]:
        """The source offsets that were copied to each partition of ``remote``, without those that were lost before."""
        copied: dict[int, list[Span]] = defaultdict(list)
        ranges = counts_in_topics(self._run.ledger, [remote.name]) if self._is_in_ledger else ()
        for range_ in ranges:
            if range_.remote_topic_id == remote.topic_id:
                spans = gaps(merge_spans(range_.lost), (range_.start, range_.end))
                copied[range_.partition] += spans
        return {number: merge_spans(spans) for number, spans in copied.items()}

    def _log_tail(self, copy: Copy, tp: TopicPartition, log: LogBounds | None) -> LogTail:
        position = copy.position(tp.partition)
        if copy.released or not (log and position and position.producer):
            return NOTHING
        at, end = first_unaccounted(position), log.end
        compacted = copy.remote is not None and copy.remote.is_compacted
        if at >= end:
            return NOTHING
        with connect(self._flow.target) as cluster:

            def look() -> LogTail:
                log = partition_log(cluster, tp)
                batches = stored_batches(cluster, log, max(at, log.start), end)
                return log_tail(batches, position, log.start, is_compacted=compacted)

            try:
                return retry(look)
            except CorruptBatch as error:
                return LogTail(0, at, error.message)

    # --- giving up

    def _release(self, states: Sequence[CopyState]) -> None:
        flow = self._flow
        released = [
            ReleasedTopic(remote_topic=state.remote_topic, remote_topic_id=known)
            for state in states
            for known in state.known_ids
        ]
        if released and not self._is_in_ledger:
            ledger = ledger_creation(self._ledger_topic, flow.replication_factor)
            for error in self._target.create_topics([ledger]).values():
                raise error
        release(self._run, released)


def _has_state(copy: Copy) -> bool:
    # A topic that is gone, and into which nothing was copied, has no state.
    kept = copy.preserved and (copy.remote is not None or bool(copy.positions))
    return copy.released or copy.leftover or kept
