"""The criteria of a run's verdict, and the input of its groups' checks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NoReturn

from kafka_ferry.control import ClusterControl
from kafka_ferry.errors import ClusterUnreachable, FerryError, VerificationFailed
from kafka_ferry.ledger.queries.range_columns import target_ranges
from kafka_ferry.model import TopicPartition
from kafka_ferry.plan import policy_of
from kafka_ferry.retry import retry_for
from kafka_ferry.runs.provenance.opposite_flow import opposite_for
from kafka_ferry.verify.expectations.judge import Terms, judge_groups, unjudged_groups
from kafka_ferry.verify.expectations.user_expectations import own_expectations
from kafka_ferry.verify.groups import GroupRow, group_rows
from kafka_ferry.verify.verdict import advice_on

if TYPE_CHECKING:
    from pathlib import Path

    from kafka_ferry.config import Flow
    from kafka_ferry.groups.moves import GroupMoves
    from kafka_ferry.ledger import LedgerTable
    from kafka_ferry.runs.state.run_context import RunContext
    from kafka_ferry.verify import Verdict

_MAX_FAILURES_SHOWN: Final = 20
# Only the report is left of the run.
_RETRY_S: Final = 10.0


def terms_of(run: RunContext) -> Terms:
    """The criteria by which the flow wants a run to be judged."""
    flow, local = run.flow, run.state.local_path
    docs: Path | None = local / "data_docs" if local else None
    return Terms(
        flow=flow.name,
        run=run.run_id,
        docs=docs,
        severities=dict(flow.verify_severity),
        own=own_expectations(flow),
        is_heartbeats_topic=policy_of(flow).is_heartbeats_topic,
    )


def raise_unproved(run: RunContext, verdict: Verdict) -> NoReturn:
    """Raise a verdict that is not a success.

    Raises:
        VerificationFailed: naming what is not proved.
    """
    raise VerificationFailed(
        f"{run.flow.name}, run {run.run_id}, is not proved complete:",
        details=(
            *verdict.failures[:_MAX_FAILURES_SHOWN],
            *advice_on(one for one in verdict.expectations if one.failed),
            "`ferry repair --findings` shows what can be done.",
        ),
    )


def with_groups(run: RunContext, verdict: Verdict, moves: GroupMoves | None) -> Verdict:
    """The run's verdict with the checks of the offsets that its groups were given.

    Args:
        run: the run, whose ledger was projected when the groups were moved.
        verdict: the verdict of its verification.
        moves: what became of the groups; None where no step has read them.
    """
    moved = () if moves is None else tuple(moves.partitions("written", "unchanged"))
    if moves is None or not moved:
        return verdict
    terms = terms_of(run)
    topics = {move.target.topic for _, move in moved if move.target}
    try:
        with retry_for(_RETRY_S):
            rows = _rows(run.flow, run.ledger, moves, topics)
    except FerryError as error:
        return unjudged_groups(verdict, str(error), terms)
    return judge_groups(rows, verdict, terms)


def _rows(
    flow: Flow, ledger: LedgerTable, moves: GroupMoves, topics: Iterable[str]
) -> list[GroupRow]:
    target = ClusterControl(flow.target)
    existing = target.topics(topics)
    logs = target.log_bounds(existing.values(), "read_uncommitted")
    for _, move in moves.partitions("written", "unchanged"):
        if move.target and move.target.topic in existing and move.target not in logs:
            raise ClusterUnreachable(f"{move.target} on {target.alias} has no leader.")
    # Where records flow both ways, those of the target's own producers lie between the copies.
    ids = {name: topic.topic_id for name, topic in existing.items()}
    verified = {} if opposite_for(flow) else verified_ends(ledger, ids)
    return group_rows(moves, verified, logs)


def verified_ends(ledger: LedgerTable, ids: Mapping[str, str]) -> dict[TopicPartition, int]:
    """The target offset after the last verified record of each *target* partition.

    Args:
        ledger: the flow's ledger.
        ids: the current ids of the remote topics, by name.
    """
    ranges = target_ranges(ledger, ids, before=ledger.verified_through())
    ends: dict[TopicPartition, int] = {}
    for (target, topic_id), end in ranges.ends().items():
        if topic_id in ("", ids[target.topic]):
            ends[target] = max(end, ends.get(target, 0))
    return ends
