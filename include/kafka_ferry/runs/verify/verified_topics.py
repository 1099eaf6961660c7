"""What a run has proved: which partitions, and which topics completely."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Protocol

from kafka_ferry.ledger.queries.counts import counts_by_topic
from kafka_ferry.model import TopicPartition
from kafka_ferry.runs.state.history import read_history
from kafka_ferry.runs.state.run_folder import RunFolder
from kafka_ferry.verify.checks import unproved_rows
from kafka_ferry.verify.topics import TOPICS

if TYPE_CHECKING:
    from kafka_ferry.model import Plan, Window
    from kafka_ferry.runs.state.run_context import RunContext
    from kafka_ferry.verify import PartitionRow, RangeRow, Verdict
    from kafka_ferry.verify.topics import TopicRow
    from kafka_ferry.verify.verdict import ExpectationResult


class Rows(Protocol):
    """The reconciliation table, of a verification or of a report."""

    @property
    def ranges(self) -> Sequence[RangeRow]:
        """Its ranges."""

    @property
    def partitions(self) -> Sequence[PartitionRow]:
        """Its partitions."""

    @property
    def topics(self) -> Sequence[TopicRow]:
        """Its remote topics."""

    @property
    def verdict(self) -> Verdict | None:
        """The expectations' results."""


@dataclass(frozen=True, slots=True)
class TopicProof:
    """A topic whose planned ranges a run has all verified.

    Attributes:
        topic: the source's topic.
        remote_topic: the topic on the target.
        records: records that the run copied; 0 where there was nothing new.
        bytes: bytes of their batches.
        complete_until: all that could be read of the topic on the source at that time, in
            milliseconds since 1970, is on the target; 0 for a backfill, which proves its window.
        ends: by partition, the source offset after the last one that the run planned.
        window: of a backfill, the timestamps of its records.
    """

    topic: str
    remote_topic: str
    records: int = 0
    bytes: int = 0
    complete_until: int = 0
    ends: Mapping[int, int] = field(default_factory=dict)
    window: Window | None = None


def proved_partitions(
    partitions: Mapping[TopicPartition, TopicPartition], plan: Plan, rows: Rows
) -> Iterator[TopicPartition]:
    """The target's partitions that hold all that the source had.

    A partition that was not planned had nothing new; what an earlier run has copied there is among
    the ranges that were verified, unless it was proved before.

    Args:
        partitions: the source's partitions by the target's.
        plan: the run's plan.
        rows: what the verification found.
    """
    refused = {(refusal.topic, refusal.partition) for refusal in plan.remarks.refused}
    off, topics_off = _off(plan, rows), _topics_off(rows)
    for target, source in partitions.items():
        is_refused = refused & {(source.topic, None), (source.topic, source.partition)}
        if not is_refused and target not in off and target.topic not in topics_off:
            yield target


def proved_topics(run: RunContext) -> list[TopicProof]:
    """The topics of a run whose planned partitions are all proved, by name.

    Empty where the run was not verified, or a check could not be made. A topic with one partition that
    was refused, failed or is not proved is not among them, whatever the others are.

    Args:
        run: the run, whose ledger has all that it has copied.
    """
    folder, plan = run.folder, run.folder.plan()
    proved = _proofs(folder, plan)
    if not proved:
        return []
    window = plan.options.window
    ends: dict[str, dict[int, int]] = {}
    for range_ in plan.ranges:
        ends.setdefault(range_.topic, {})[range_.partition] = range_.end
    copied = counts_by_topic(run.ledger, run.run_id, of_backfills=window is not None)
    began = folder.step_record("plan")
    until = plan.at - math.ceil((began.seconds if began else 0.0) * 1000)
    return [
        TopicProof(
            topic,
            remote_topic,
            *copied.get(topic, (0, 0)),
            complete_until=0 if window else until,
            ends=ends.get(topic, {}),
            window=window,
        )
        for topic, remote_topic in sorted(proved.items())
    ]


def later_failures(run: RunContext) -> set[str]:
    """The source's topics that the newest of the later planned runs which has looked at them has not proved.

    A step of the run may be repeated at any time: what it has proved then may be known to be broken by now.
    """
    runs, planned_at = run.state.folder("runs"), run.folder.plan().at
    looked: dict[str, bool] = {}
    for one in sorted(read_history(runs), key=attrgetter("planned_at"), reverse=True):
        if one.planned_at <= planned_at:
            break
        folder = RunFolder(runs, one.run)
        plan = folder.known_plan()
        if plan is None or plan.options.window:
            continue
        proved = _proofs(folder, plan)
        topics = {it.topic for it in plan.choices} | {it.topic for it in plan.remarks.refused}
        for topic in topics - looked.keys():
            looked[topic] = topic in proved
        if plan.options.is_whole:
            break
    return {topic for topic, is_proved in looked.items() if not is_proved}


def _proofs(folder: RunFolder, plan: Plan) -> dict[str, str]:
    """The topics whose planned partitions a run has all proved, each with its remote topic."""
    reconciliation = folder.reconciliation()
    verdict = reconciliation.verdict if reconciliation else None
    if reconciliation is None or verdict is None or any(map(_spoils_all, verdict.expectations)):
        return {}
    if folder.step_record("verify") is None:
        # The run was planned again meanwhile.
        return {}
    failed = {refusal.topic for refusal in plan.remarks.refused}
    failed_remotely = {target.topic for target in _off(plan, reconciliation)}
    failed_remotely |= _topics_off(reconciliation)
    is_backfill = plan.options.window is not None
    remote = {it.topic: it.remote_topic for it in plan.choices} if not is_backfill else {}
    remote |= {range_.topic: range_.remote_topic for range_ in plan.ranges}
    return {
        topic: remote_topic
        for topic, remote_topic in remote.items()
        if topic not in failed and remote_topic not in failed_remotely
    }


def _spoils_all(expectation: ExpectationResult) -> bool:
    """Whether it could not be evaluated, or is a user's check, whose topic is not known."""
    return expectation.raised is not None or bool(expectation.failed and expectation.source)


def _off(plan: Plan, rows: Rows) -> set[TopicPartition]:
    """The target's partitions that are not proved to hold what they should."""
    planned = {range_.target for range_ in plan.ranges}
    off = planned - {row.target for row in rows.partitions}
    off |= {row.target for row in unproved_rows("ranges", rows.verdict, rows.ranges)}
    return off | {row.target for row in unproved_rows("partitions", rows.verdict, rows.partitions)}


def _topics_off(rows: Rows) -> set[str]:
    """The remote topics that are not those that were copied into, or that could not be looked at."""
    return {
        row.remote_topic for row in unproved_rows("topics", rows.verdict, rows.topics, (TOPICS,))
    }
