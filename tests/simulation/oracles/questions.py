"""What the product says between runs when a person asks, and whether that is true (oracle g).

``ferry failover``, ``ferry audit``, ``ferry where`` and ``ferry lag``, while faults go on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final, TypeVar

from kafka_ferry.config import Flow
from kafka_ferry.errors import FerryError
from kafka_ferry.groups.outlook import Outlook, PartitionOutlook
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.runs.audit.audit import Audit
from kafka_ferry.runs.audit.request import AuditRequest
from kafka_ferry.runs.failover.failback import failback
from kafka_ferry.runs.failover.failover import failover
from kafka_ferry.runs.publish.lag import readable_lag
from kafka_ferry.runs.where import Whereabouts, where
from tests.simulation.brokers.cluster import SimCluster
from tests.simulation.oracles.runs import Oracles
from tests.simulation.workload import GROUP
from tests.simulation.world import Killed, Process

_T = TypeVar("_T")
_RECORDS_ASKED_FOR: Final = 3


def ask(history: Oracles) -> None:
    """Ask where the application continues, whether the copy is the same, how old it is, and where some records are."""
    flow = history.flow
    is_down = history.random.random() < 0.3
    # What is known without the source may be of another branch then, or of the run that has read it first of two.
    is_stale = history.was_injected("return branch") or history.was_injected("second run")
    if not (is_down and is_stale):
        _ask_ready(history, lambda: failover(flow, dry_run=True, source_down=is_down))
    for back in history.ways[1:]:
        _ask_ready(back, lambda: failback(flow, back.flow, dry_run=True))  # noqa: B023
    if not history.case.rule:
        _ask_audit(history, flow)
    if said_of_lag := _said(history, lambda: readable_lag(flow)):
        for row in said_of_lag.rows:
            if row.complete_until:
                _check_complete(
                    history, TopicPartition(row.topic, row.partition), row.complete_until
                )
    copied = [value for value in history.order if history.is_of_source(value)]
    for value in history.random.sample(copied, min(len(copied), _RECORDS_ASKED_FOR)):
        source, _, offset = history.order[value]
        for it in _said(history, lambda: where(flow, source, offset)) or ():  # noqa: B023
            _check_where(history, source, offset, it)


def _ask_ready(history: Oracles, do: Callable[[], Outlook]) -> None:
    """Where a group would continue on the target, and whether it may."""
    began, before = history.world.now, history.shown_by_source()
    said = _said(history, do)
    if any(at >= began for at in history.replaced.values()):
        # What is said is of another log by now.
        return
    ready = (it for it in said.groups if it.name == GROUP and it.state == "ready") if said else ()
    for one in (one for group in ready for one in group.partitions):
        if one.target and one.offset is not None:
            _check_ready(history, one, one.target, one.offset, before.get(one.source, []))


def _said(history: Oracles, do: Callable[[], _T]) -> _T | None:
    """What is said; None where it is an error."""
    try:
        result: _T = history.world.run(Process("operator"), do)
    except (FerryError, Killed):
        return None
    return result


def _check_ready(
    history: Oracles,
    one: PartitionOutlook,
    target: TopicPartition,
    offset: int,
    before: list[tuple[int, bytes | None]],
) -> None:
    """Whether a group that is ready passes over nothing, and lacks nothing that is said to be there."""
    log = history.target.log(target)
    shown = log.shown() if log else []
    # It passes over the rest on the source too, such as records of a topic before it was recreated.
    unread = {value for at, value in before if at >= one.committed}
    passed = 0
    for other in history.ways if history.case.both_ways else ():
        # What it has read on the other cluster, and how far it had gone on this one by itself.
        unread -= other.read
        passed = other.committed.get(target, 0) if other is not history else passed
    if 0 < offset <= passed:
        return
    # A branch that has come back is there twice.
    unread -= {value for at, value in shown if at >= offset}
    for at, value in shown:
        if at < offset and value in unread:
            what = (
                f"{GROUP} is ready at {offset} of {target}, and would pass over {value!r} at {at}"
            )
            history.blame("g", what)
            return
    # What is deleted on the target alone is not there; a cleaner leaves the newest of each key.
    cleaned = history.removed if history.is_compacted(one.source.topic) else set()
    known = history.accepted | history.left_out | {*history.letters()}
    # A run has refused to call a copy whole whose source's transactions have ended otherwise.
    known |= history.ended_again.keys()
    missing = unread - cleaned - {value for _, value in shown} - known
    if missing and one.not_copied == 0:
        what = f"{target} is said to have all of {one.source} that {GROUP} has not read"
        history.blame("g", f"{what}, and lacks {min(map(repr, missing))}")


def _check_complete(history: Oracles, source: TopicPartition, until_ms: int) -> None:
    """Whether the target has all that a consumer could read when the last run began before ``until_ms``."""
    is_moved = history.was_injected("step clock") or history.was_injected("lose marker")
    if history.is_hurt or history.case.backfills or is_moved:
        # A later harm is for the next run to see; and the moment is one of the run's own clock.
        return
    log = history.target.log(dict(history.pairs())[source])
    have = history.removed | {value for _, value in log.shown()} if log else history.removed
    have |= {*history.letters()} | history.left_out
    known = [shown for at, shown in history.seen if history.wall_ms(at) <= until_ms]
    readable = known[-1].get(source, []) if known else []
    if missing := [value for _, value in readable if value not in have]:
        what = f"the copy of {source} is said to be complete until {until_ms}, and lacks {missing[0]!r}"
        history.blame("g", what)


def _check_where(history: Oracles, source: TopicPartition, offset: int, it: Whereabouts) -> None:
    """Whether a record that is said to be there is the one with that offset on the source, of any branch."""
    log = history.target.log(it.target)
    if it.state != "there" or it.target_offset is None or log is None:
        return
    # One that an open transaction hides is there.
    value = dict(log.unaborted()).get(it.target_offset) or b""
    if history.order.get(value, (None, 0, 0))[::2] != (source, offset):
        what = f"{source} {offset} is said to be at {it.target_offset} of {it.target}, where {value!r} is"
        history.blame("g", what)


def _ask_audit(history: Oracles, flow: Flow) -> None:
    """Whether an audit says what is true of two clusters that are whole, and on which nothing moves meanwhile."""
    before = _whole(history, history.source), _whole(history, history.target)
    audit = Audit(flow, AuditRequest())

    def state() -> str:
        return audit.compare(audit.plan(), lambda: None, lambda *_: None).state  # type: ignore[arg-type,return-value]

    said, (here, there) = _said(history, state), before
    is_still = before == (_whole(history, history.source), _whole(history, history.target))
    if here is None or there is None or not is_still:
        return
    # What a backfill or a repair has appended is out of order, and explained.
    is_any_order = history.case.backfills or history.case.both_ways or bool(history.appended)
    is_copy = Counter(here) == Counter(there) if is_any_order else here == there
    if (said, is_copy) == ("same", False) or (said == "differs" and here == there):
        what = f"source and target, of {len(here)} and {len(there)} records"
        history.blame("g", f"an audit says {said} of {what}")


def _whole(history: Oracles, cluster: SimCluster) -> list[bytes | None] | None:
    """The values of all partitions; None where some are removed or hidden, so that more than these decide."""
    values: list[bytes | None] = []
    for topic in history.case.topics:
        name = topic.name if cluster is history.source else f"{history.prefix}{topic.name}"
        for number in range(history.partitions(topic)):
            log = cluster.log(TopicPartition(name, number))
            if log is None or log.start or log.stable < log.end or topic.compacted:
                return None
            values += [value for _, value in log.shown()]
    return values
