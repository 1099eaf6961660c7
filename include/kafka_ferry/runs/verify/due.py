"""What a run has to verify: the ranges that are not proved yet, and the logs that may hold more than they name."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from kafka_ferry.model import TopicPartition
from kafka_ferry.model.cluster_state import LogMismatch
from kafka_ferry.plan.backfill.separate_topic import separate_topic
from kafka_ferry.runs.provenance.log_ends import (
    ledger_ends,
    log_ends,
    log_ends_and_leaderless,
    look_again,
)
from kafka_ferry.runs.provenance.opposite_flow import leaves_out
from kafka_ferry.runs.provenance.preserved_ends import after_positions, preserved_ends

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kafka_ferry.config import Flow
    from kafka_ferry.control import ClusterControl
    from kafka_ferry.errors import FerryError
    from kafka_ferry.ledger import LedgerRange, LedgerTable
    from kafka_ferry.model import Plan, Topic
    from kafka_ferry.runs.provenance.log_ends import LogEnds
    from kafka_ferry.runs.state.run_context import RunContext
    from kafka_ferry.runs.verify.recount import Boundaries

_NO_LEADER: Final = "the partition has no leader."
_NO_MARKER: Final = (
    "the marker of its last transaction is gone, so that consumers do not get what that has copied: the next run ends "
    "it again."
)


@dataclass(frozen=True)
class Due:
    """What is to be verified.

    Attributes:
        through: the ledger offset after the last entry that was read.
        proved: the ledger offset before which all was proved before.
        since: the ledger offset of the first entry that may be among them.
        ranges: the ranges, in the ledger's order.
        topics: the existing remote topics of the ranges and the plan, by name.
        refused: the errors of those that the target refuses to describe.
        boundaries: up to where the ledger had written before, of the partitions with ranges: nothing else may
            lie between there and the ranges. Of a backfill only those of topics that no other run writes to.
        is_anything: whether the ledger has anything to verify, even if only where partitions begin.
    """

    through: int
    proved: int
    since: int
    ranges: list[LedgerRange]
    topics: Mapping[str, Topic]
    refused: Mapping[str, FerryError]
    boundaries: Boundaries
    is_anything: bool


def look_for_due(
    run: RunContext, plan: Plan, target: ClusterControl, *, everything: bool = False
) -> Due:
    """What is to be verified, by the ledger as it is now.

    Args:
        run: the run.
        plan: its plan.
        target: the target.
        everything: whether all that the ledger has of the run's topics is due, and not what is unproved alone.
    """
    ledger = run.ledger
    # A backfill with nothing to do leaves no trace, not even a new ledger.
    has_ledger = plan.ledger_end > 0 or not plan.is_idle_backfill
    through = run.project_ledger() if has_ledger else 0
    proved = min(ledger.verified_through(), plan.ledger_end)
    due_ranges = (
        _due_ranges(ledger, plan, proved, through, everything=everything) if has_ledger else []
    )
    ranges = list(filter(_holds_offsets, due_ranges))
    planned = {range_.remote_topic for range_ in plan.ranges}
    planned |= {choice.remote_topic for choice in plan.choices}
    if has_ledger and not plan.options.window:
        planned |= ledger.backfilled_topics() & set(map(separate_topic, planned))
    topics, refused = target.readable_topics({entry.target.topic for entry in ranges} | planned)
    since = 0 if everything else proved
    seamless, before = [*topics.values()], since
    if plan.options.window:
        shared = {choice.remote_topic for choice in plan.choices}
        seamless = [topic for topic in seamless if topic.name not in shared]
        # Another run may have proved some of its ranges.
        before = min([since, *(entry.ledger_offset for entry in ranges)])
    ends = ledger_ends(run.flow, ledger, seamless, before=before) if has_ledger else {}
    boundaries = {tp: ends[tp] for tp in {entry.target for entry in ranges} & ends.keys()}
    return Due(
        through, proved, since, ranges, topics, refused, boundaries, is_anything=bool(due_ranges)
    )


class Written(NamedTuple):
    """What is said of the logs of *target* partitions without ranges.

    Attributes:
        after: those that may hold what the ledger has not, and from where on.
        unread: why nothing is proved of some: they have no leader, or have lost what the ledger has.
        refused: those that the plan has refused: it has said what is wrong, and the run fails for it.
    """

    after: Boundaries = MappingProxyType({})
    unread: Mapping[TopicPartition, str] = MappingProxyType({})
    refused: frozenset[TopicPartition] = frozenset()


def find_written(
    flow: Flow, ledger: LedgerTable, target: ClusterControl, plan: Plan, due: Due
) -> Written:
    """What the logs of *target* partitions without ranges may hold, or lack."""
    written = {entry.target for entry in due.ranges}
    topics = due.topics.values()
    ends, leaderless = log_ends_and_leaderless(flow, target, ledger, topics)
    names = ledger.topics() if plan.remarks.refused else {}
    refusals = {(names.get(it.topic), it.partition) for it in plan.remarks.refused}
    refused = frozenset(
        TopicPartition(it.name, number)
        for it in topics
        for number in range(it.partitions)
        if not refusals.isdisjoint({(it.name, number), (it.name, None)})
    )
    unread = {
        tp: why
        for tp, why in _short_logs(flow, target, ledger, topics, ends).items()
        if tp not in written and tp not in refused
    }
    unread = dict.fromkeys(leaderless, _NO_LEADER) | unread
    if flow.on_foreign_records == "adopt" or leaves_out(flow):
        # Other flows write there, and prove what they write; or the target's own producers do.
        return Written(unread=unread, refused=refused)
    after, without_leader = after_positions(flow, target, ledger, topics)
    loud = {tp: end.ledger_end for tp, end in ends.items() if not end.is_quiet} | after
    # A partition that has failed may hold what an attempt has left.
    written |= {it.target for it in plan.ranges if it.preserved and it.start < it.end}
    return Written(
        {tp: end for tp, end in loud.items() if tp not in written},
        dict.fromkeys(without_leader, _NO_LEADER) | unread,
        refused,
    )


def _short_logs(
    flow: Flow,
    target: ClusterControl,
    ledger: LedgerTable,
    topics: Collection[Topic],
    ends: Mapping[TopicPartition, LogEnds],
) -> dict[TopicPartition, str]:
    """The partitions whose logs have lost what the ledger has, or its marker, since the plan looked; and why."""

    def look(known: dict[TopicPartition, LogEnds]) -> dict[TopicPartition, LogEnds]:
        names = {tp.topic for tp in known}
        now = log_ends(flow, target, ledger, [it for it in topics if it.name in names])
        return {tp: now[tp] for tp in known if tp in now and now[tp].lacks_end}

    # The markers of another run's transaction may be on their way.
    short = look_again({tp: end for tp, end in ends.items() if end.lacks_end}, look)
    kept = preserved_ends(flow, target, ledger, topics)
    short |= {tp: end for tp, end in kept.items() if end.is_cut}
    return {
        tp: f"its log {LogMismatch(end.ledger_end.offset, end.log.end).problem}."
        if end.is_cut
        else _NO_MARKER
        for tp, end in short.items()
    }


def _due_ranges(
    ledger: LedgerTable, plan: Plan, since: int, through: int, *, everything: bool
) -> list[LedgerRange]:
    """The run's ranges, those of other runs since it was planned, and all unverified ones.

    The table in the state folder is not asked what they are: others may be able to write there.
    """
    if plan.options.window:
        # The other ranges are for the flow's own runs, which may be copying at this moment.
        known = [range_.ledger_offset for range_ in ledger.ranges(since=since, of_run=plan.run)]
        entries = ledger.ranges_in_topic(min([since, *known]), through)
        return [entry for entry in entries if entry.run == plan.run and entry.window]
    # A run that was planned again continues where its first plan was verified.
    ranges, wanted = ledger.ranges_in_topic(0 if everything else since, through), plan.options
    return [
        entry
        for entry in ranges
        if entry.ledger_offset >= since
        or wanted.topic_filter is None
        or wanted.topic_filter.matches(entry.copied.topic)
    ]


def _holds_offsets(entry: LedgerRange) -> bool:
    """Whether a range has anything to prove: most empty ones only say where a partition begins."""
    copied = entry.copied
    return copied.start < copied.end or copied.rewound_from >= 0 or bool(copied.compared)
