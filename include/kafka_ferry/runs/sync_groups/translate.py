"""Translates single offsets and groups on request, in either direction; changes nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from kafka_ferry.clock import now_ms
from kafka_ferry.config import Flow
from kafka_ferry.config.types.problems import did_you_mean_each
from kafka_ferry.control import ClusterControl
from kafka_ferry.control.groups import GroupControl
from kafka_ferry.errors import AccessDenied, ClusterUnreachable, FerryError, InputError
from kafka_ferry.groups.decisions import LOST
from kafka_ferry.groups.moves import GroupMove, GroupMoves, PartitionMove
from kafka_ferry.groups.routes import Route, routes
from kafka_ferry.groups.translation import Kind
from kafka_ferry.ledger import LedgerTable, ledger_topic
from kafka_ferry.ledger.table_files import held_if_unwritable
from kafka_ferry.model import LogBounds, TopicPartition
from kafka_ferry.model.groups import Committed, Group
from kafka_ferry.plan import select_topics
from kafka_ferry.retry import retry_for
from kafka_ferry.runs.provenance.diverged_epochs import copies_of
from kafka_ferry.runs.provenance.diverged_logs import DivergedLogs, all_diverged
from kafka_ferry.runs.provenance.log_mismatches import lost_ends
from kafka_ferry.runs.provenance.opposite_flow import opposite_for
from kafka_ferry.runs.state.flow_state import flow_ledger
from kafka_ferry.runs.sync_groups.group_states import states_and_offsets
from kafka_ferry.runs.sync_groups.hidden_groups import hidden_topics
from kafka_ferry.runs.sync_groups.sync import move_groups

_NOT_COPIED: Final = "nothing was copied between it and a topic that exists now."
_NO_LOG: Final = "the start and end of the log on the other cluster are not known."
_DIVERGED: Final = (
    "the log of {} was truncated{}, below what was copied, and may hold other records since."
)
_UNKNOWN: Final = (
    "the ledger does not account for it: another mirror has copied it, or the source has lost it."
)

# Offsets and checkpoints are often translated because the source is lost: do not wait a minute for it.
_SOURCE_RETRY_S: Final = 15

Offsets = Mapping[TopicPartition, Committed]


@dataclass(frozen=True, slots=True)
class TranslatedOffset:
    """A requested offset and its counterpart.

    Attributes:
        asked: its partition.
        offset: the next offset to read there.
        counterpart: that partition on the other cluster, None where the flow knows none.
        translated: the offset there, None where there is no correct answer.
        kind: how exact that is.
        is_verified: whether the verified part of the copy gives the same answer.
        reason: why there is no answer.
    """

    asked: TopicPartition
    offset: int
    counterpart: TopicPartition | None = None
    translated: int | None = None
    kind: Kind | None = None
    is_verified: bool = False
    reason: str = ""


class Translator:
    """Translates from a flow's source to its target, or back.

    Args:
        flow: the flow.
        reverse: whether offsets are the target's.

    Attributes:
        notes: notes on the answers.

    Raises:
        FerryError: if the flow was never run, or its target cannot be read.
    """

    @held_if_unwritable()
    def __init__(self, flow: Flow, *, reverse: bool = False) -> None:
        self.notes: list[str] = []
        self._flow, self._reverse = flow, reverse
        self._ledger = flow_ledger(flow)
        self._target = ClusterControl(flow.target)
        name = ledger_topic(flow.source.alias)
        if not self._target.topic_ids([name]):
            raise FerryError(
                f"{flow.name} has never been run: {flow.target.alias} has no topic {name}."
            )
        self._ledger.project(flow.target, name)
        self._remote = self._ledger.topics()

    @held_if_unwritable()
    def offsets(self, requested: Sequence[tuple[TopicPartition, int]]) -> list[TranslatedOffset]:
        """The counterparts of offsets, in the order of the request.

        Raises:
            FerryError: naming the topics that the flow has never copied.
        """
        topics = {tp.topic for tp, _ in requested}
        if unknown := sorted(topics - set(self._known_topics)):
            source_alias, target_alias = self._flow.source.alias, self._flow.target.alias
            way = (
                f"to {', '.join(unknown)} on {target_alias}"
                if self._reverse
                else (f"{', '.join(unknown)} from {source_alias}")
            )
            raise InputError(
                f"{self._flow.name} has never copied {way}.",
                advice=did_you_mean_each(unknown, self._known_topics)
                or f"Name topics by their names on {target_alias if self._reverse else source_alias}.",
            )
        newest, verified = self._ways(topics, None, self._ledger.verified_through())
        answers = []
        for tp, offset in requested:
            answer, proved = newest.answer(tp, offset), verified.answer(tp, offset)
            same = answer.translated is not None and _places(answer) == _places(proved)
            answers.append(replace(answer, is_verified=same))
        return answers

    @held_if_unwritable()
    def groups(self, names: Collection[str]) -> GroupMoves:
        """The groups' committed offsets, and the same on the other cluster, as far as verified.

        A copied topic that their cluster does not show is a failure: nor does it show what they have committed there.
        """
        if not self._reverse:
            moves = move_groups(
                self._flow, self._ledger, run="", write=False, only=names, home=True
            )
            copied = select_topics(self._flow, self._remote)[0]
            unseen = tuple(map(str, hidden_topics(self._flow.source, copied).values()))
            return replace(
                moves,
                groups=tuple(move for move in moves.groups if move.partitions),
                failures=(*moves.failures, *unseen),
                transient=moves.transient and not unseen,
            )
        offsets, errors = self._target_offsets(names)
        errors += hidden_topics(self._flow.target, self._remote.values()).values()
        topics = {tp.topic for some in offsets.values() for tp in some} & set(self._known_topics)
        (ways,) = self._ways(topics, self._ledger.verified_through())
        at = now_ms()
        groups = (
            GroupMove(
                group,
                tuple(ways.move(tp, some[tp]) for tp in sorted(some) if tp.topic in topics),
                at=at,
            )
            for group, some in sorted(offsets.items(), key=lambda item: item[0].name)
        )
        return GroupMoves(
            at,
            tuple(group for group in groups if group.partitions),
            failures=tuple(map(str, errors)),
        )

    @property
    def _known_topics(self) -> Collection[str]:
        """The topics that can be asked for."""
        return self._remote.values() if self._reverse else self._remote.keys()

    def _target_offsets(
        self, names: Collection[str]
    ) -> tuple[dict[Group, Offsets], list[FerryError]]:
        offsets: dict[Group, Offsets] = {}
        with GroupControl(self._flow.target) as control:
            states, committed = states_and_offsets(control, names)
            errors = [one for one in states.values() if isinstance(one, FerryError)]
            groups = {name: one for name, one in states.items() if isinstance(one, Group)}
            errors += [
                control.no_such_group(name) for name, one in groups.items() if one.state == "Dead"
            ]
        for name, group_offsets in committed.items():
            if isinstance(group_offsets, FerryError):
                errors.append(group_offsets)
            else:
                offsets[groups[name]] = group_offsets
        return offsets, errors

    def _ways(self, topics: Collection[str], *bounds: int | None) -> Iterator[_Ways]:
        """The routes of ``topics``' partitions, from all that the ledger has before each of ``bounds``."""
        of_source = {
            topic: remote
            for topic, remote in self._remote.items()
            if (remote if self._reverse else topic) in topics
        }
        remote, refused = self._target.readable_topics(of_source.values())
        source_ids, logs, note = read_source(self._flow, self._ledger, list(of_source))
        if note:
            self.notes.append(f"{note}, and their logs to hold all that was copied.")
        if not self._reverse:
            # Open transactions of other producers must not hold groups below a higher offset.
            logs = self._target.log_bounds(remote.values(), "read_uncommitted")
        lost = lost_ends(self._flow, self._target, self._ledger, remote.values())
        opposite = opposite_for(self._flow, ask=not note)
        remote_ids = {name: topic.topic_id for name, topic in remote.items()}
        here = {topic: source_ids[topic] for topic in of_source.keys() & source_ids.keys()}
        diverged, there = read_diverged(
            self._flow, self._ledger, opposite, here, remote_ids, is_up=not note
        )
        self.notes += [*diverged.unknown, *there.unknown]
        for before in bounds:
            routes_by_source = routes(
                self._ledger,
                source_ids,
                remote_ids,
                before=before,
                topics=of_source,
                opposite=opposite,
                diverged=there.offsets,
            )
            yield _Ways(
                {route.target: route for route in routes_by_source.values()}
                if self._reverse
                else routes_by_source,
                logs,
                self._reverse,
                {
                    name if self._reverse else topic: str(refused[name])
                    for topic, name in of_source.items()
                    if name in refused
                },
                lost,
                diverged.offsets,
            )


def read_source(
    flow: Flow, ledger: LedgerTable, topics: Collection[str]
) -> tuple[Mapping[str, str], Mapping[TopicPartition, LogBounds], str]:
    """The source topics' ids and logs; if the source is down, the ids in the ledger, and a note without its end."""
    source = ClusterControl(flow.source)
    try:
        with retry_for(min(_SOURCE_RETRY_S, flow.admin_timeout_ms / 1000)):
            topics_by_name = source.topics(topics)
            logs = source.log_bounds(topics_by_name.values(), flow.isolation_level)
    except (ClusterUnreachable, AccessDenied) as error:
        note = f"{error} So the topics are assumed to be those that were copied last"
        return ledger.topic_ids(), {}, note
    return {name: topic.topic_id for name, topic in topics_by_name.items()}, logs, ""


def read_diverged(
    flow: Flow,
    ledger: LedgerTable,
    opposite: LedgerTable | None,
    source_ids: Mapping[str, str],
    remote_ids: Mapping[str, str],
    *,
    is_up: bool,
) -> tuple[DivergedLogs, DivergedLogs]:
    """Where the source's logs part from those that were copied, and the target's from what the opposite flow has.

    Args:
        flow: the flow.
        ledger: its ledger, projected.
        opposite: that of the opposite flow, None where there is none.
        source_ids: the topics of the source that are asked for, with their ids.
        remote_ids: their remote topics.
        is_up: whether the source answers.
    """
    here = diverged_there = DivergedLogs({})
    if is_up:
        copied = copies_of(ledger, source_ids)
        here = all_diverged(flow.source, flow.target, ledger, *copied, by_records=True)
    if opposite:
        copied = copies_of(opposite, remote_ids)
        diverged_there = all_diverged(flow.target, flow.source, opposite, *copied, by_records=is_up)
    return here, diverged_there


@dataclass(frozen=True)
class _Ways:
    """All that answers depend on, apart from the offsets.

    Attributes:
        routes: by the requested partition.
        logs: the logs on the other cluster; empty where that cluster does not answer.
        reverse: whether the requested offsets are the target's.
        refused: by the requested topic, why its remote topic could not be described.
        lost: the target's partitions that no longer have the last record that was copied.
        diverged: where the source's logs part from those that were copied, by its partitions; -1 where that is unknown.
    """

    routes: Mapping[TopicPartition, Route]
    logs: Mapping[TopicPartition, LogBounds]
    reverse: bool
    refused: Mapping[str, str]
    lost: Collection[TopicPartition]
    diverged: Mapping[TopicPartition, int]

    def answer(self, tp: TopicPartition, offset: int) -> TranslatedOffset:
        """The counterpart of an offset, or why there is none."""
        unanswered = TranslatedOffset(tp, offset)
        route = self.routes.get(tp)
        if route is None:
            return replace(unanswered, reason=self.refused.get(tp.topic, _NOT_COPIED))
        counterpart = route.source if self.reverse else route.target
        unanswered = replace(unanswered, counterpart=counterpart)
        if route.target in self.lost:
            return replace(unanswered, reason=LOST.format(route.target))
        log = self.logs.get(counterpart)
        if log is None and (self.logs or not self.reverse):
            return replace(unanswered, reason=_NO_LOG)
        bounds = {} if log is None else {"log_start": log.start, "log_end": log.end}
        translate = route.map.reverse if self.reverse else route.map.translate
        translation = translate(offset, **bounds)
        if translation is None:
            return replace(unanswered, reason=_UNKNOWN)
        diverged_at = self.diverged.get(route.source)
        if (
            diverged_at is not None
            and (translation.offset if self.reverse else offset) > diverged_at
        ):
            where = f" at {diverged_at}" if diverged_at >= 0 else " or restored from a backup"
            return replace(unanswered, reason=_DIVERGED.format(route.source, where))
        return replace(unanswered, translated=translation.offset, kind=translation.kind)

    def move(self, tp: TopicPartition, committed: Committed) -> PartitionMove:
        """Translate what a group has committed."""
        answer = self.answer(tp, committed.offset)
        return PartitionMove(
            tp,
            committed,
            target=answer.counterpart,
            offset=answer.translated,
            kind=answer.kind,
            action="held" if answer.translated is None else "shown",
            reason=answer.reason,
        )


def _places(answer: TranslatedOffset) -> tuple[TopicPartition | None, int | None]:
    return answer.counterpart, answer.translated
