"""Verifies a run: recounts the ledger's unverified ranges on the target and judges them."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from kafka_ferry.clock import now_ms
from kafka_ferry.control import ClusterControl
from kafka_ferry.errors import FerryError, VerificationFailed
from kafka_ferry.ledger import VerificationEntry, append_entry, ledger_topic
from kafka_ferry.ledger.proofs import failed_entries
from kafka_ferry.ledger.topic import wait_until_settled
from kafka_ferry.runs.provenance.authors import require_own_writers
from kafka_ferry.runs.state.file_digests import record_signed, recorded_digests
from kafka_ferry.runs.state.run_folder import Reconciliation
from kafka_ferry.runs.state.stored_recounts import StoredRecounts
from kafka_ferry.runs.sync_topics.schemas import require_same_schemas
from kafka_ferry.runs.verify.again import Rotation, planned_rotation, read_again
from kafka_ferry.runs.verify.dead_letters import look_up_letters
from kafka_ferry.runs.verify.due import Due, Written, find_written, look_for_due
from kafka_ferry.runs.verify.evaluate_again import evaluate_due
from kafka_ferry.runs.verify.partition_recounts import recount_now
from kafka_ferry.runs.verify.recount import recount_ranges
from kafka_ferry.runs.verify.source_witness import ask_source, empty_on_source
from kafka_ferry.runs.verify.target_rows import rows_of_partitions, rows_of_topics
from kafka_ferry.runs.verify.verdict import raise_unproved, terms_of
from kafka_ferry.verify import judge
from kafka_ferry.verify.checks import unproved_rows
from kafka_ferry.verify.rotation import intervals
from kafka_ferry.verify.rows import key_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka_ferry.ledger import LedgerRange
    from kafka_ferry.model import Plan
    from kafka_ferry.runs.state.run_context import RunContext
    from kafka_ferry.spark.session import SparkSource
    from kafka_ferry.verify import PartitionRow, RangeRow, Verdict
    from kafka_ferry.verify.expectations.tables import Rows

log = logging.getLogger(__name__)

_PAUSES_S: Final = (0.0, 0.2, 1.0)
_MOST_LOOKS: Final = 5
# About 250 KB of JSON: a ledger record must stay below the default max.message.bytes.
_MOST_INTERVALS: Final = 10_000


def verify_run(
    spark: SparkSource,
    run: RunContext,
    *,
    everything: bool = False,
    afresh: bool = False,
) -> Verdict:
    """Verify every range of a run, and all unverified ranges of earlier runs.

    With ``verify.everything.within``, ranges that were verified long ago are read back once more. Where one of
    them is no longer what it was, the run fails; what it has copied itself counts as verified nevertheless.

    Args:
        spark: gives the session, whose executors must reach the target.
        run: the run, which was planned.
        everything: whether to verify again what was verified before: all that the ledger has of the
            run's topics.
        afresh: whether to read again what the step ``mirror`` has read back.

    Raises:
        VerificationFailed: naming topic, partition and range of what is not proved.
        HiddenLedger: if an open transaction hides what was copied.
    """
    plan, target = run.folder.plan(), ClusterControl(run.flow.target)
    stored = None if afresh or everything else _stored_recounts(run, plan)
    # Other runs of the flow may commit as often while it is looked.
    for _ in range(_MOST_LOOKS):
        due = look_for_due(run, plan, target, everything=everything)
        rows, partitions = _read_due(spark, run, plan, target, due, stored)
        if not any(row.beyond_position for row in partitions) or not _has_grown(run, due.through):
            break
    rotation = Rotation() if everything else planned_rotation(run, plan, target, before=due.since)
    again, unread = _read_again(spark, run, target, rotation)
    # What was read back is only worth something if it was read from the topics that are there.
    of_topics = rows_of_topics(run, plan, target, due)
    _require_same_cluster(target, plan)
    require_same_schemas(run, plan, _ranges_to_prove(due))
    tables: Rows = {"ranges": [*rows, *again], "partitions": partitions, "topics": of_topics}
    verdict = judge(tables, terms_of(run))
    reconciliation = Reconciliation(
        (*rows, *again),
        tuple(partitions),
        verdict,
        tuple(of_topics),
        _oldest_proof(rotation, is_proved=verdict.success and not unread),
    )
    if not verdict.success:
        # First, so that a run that ends here forgets nothing.
        _record_failed(run, verdict, [*rows, *again], due)
    run.folder.save_reconciliation(reconciliation)
    if run.flow.certificates_enabled and verdict.success and reconciliation.ranges:
        record_signed(run, plan, reconciliation)
    log.info("%s", verdict.summary)
    is_recorded = due.is_anything and not plan.options.window
    if verdict.success and not unread:
        if is_recorded or rotation.due:
            whole = everything and plan.options.topic_filter is None
            read = ((0, due.through),) if whole else rotation.intervals
            append_entry(run.flow, _verification(run, due.through, [*rows, *again], read))
    # An old range that was damaged must not keep what is new from being used.
    elif is_recorded and (
        verdict.success or (again and _is_success(run, {**tables, "ranges": rows}))
    ):
        append_entry(run.flow, _verification(run, due.through, rows))
    if not verdict.success:
        raise_unproved(run, verdict)
    if unread:
        raise unread
    return verdict


def _ranges_to_prove(due: Due) -> list[LedgerRange]:
    """The ranges that no run has proved yet, in the remote topics that are there."""
    return [
        it
        for it in due.ranges
        if it.ledger_offset >= due.proved
        and (topic := due.topics.get(it.copied.remote_topic))
        and topic.topic_id == it.copied.remote_topic_id
    ]


def _has_grown(run: RunContext, through: int) -> bool:
    """Whether another run of the flow has committed since the ledger was read up to ``through``.

    The positions are read after it, and a transaction's marker may come to the ledger after theirs. Or a transaction
    that another run's task has left open hides its newest records.

    Raises:
        HiddenLedger: if one still does after a minute.
    """
    wait_until_settled(run.flow.target, ledger_topic(run.flow.source.alias))
    for pause_s in _PAUSES_S:
        time.sleep(pause_s)
        if run.project_ledger() > through:
            return True
    return False


def _stored_recounts(run: RunContext, plan: Plan) -> StoredRecounts:
    """What the step ``mirror`` has read back; where the flow signs, only if the file is unchanged since."""
    if not run.flow.certificates_enabled:
        return run.folder.recounts
    return StoredRecounts(run.folder.files, recorded_digests(run, plan.ledger_end))


def _require_same_cluster(target: ClusterControl, plan: Plan) -> None:
    """Check that the target's alias still leads to the cluster that the run was planned for.

    Raises:
        VerificationFailed: if it does not.
    """
    if (now := target.cluster_id()) != plan.target_cluster_id:
        raise VerificationFailed(
            f"{target.alias} is the cluster {now}, and was {plan.target_cluster_id} when the run was planned.",
            advice=f"Look at bootstrap.servers of {target.alias}. The next run plans for what is there.",
        )


def _is_success(run: RunContext, tables: Rows) -> bool:
    return judge(tables, replace(terms_of(run), docs=None)).success


def _read_due(
    spark: SparkSource,
    run: RunContext,
    plan: Plan,
    target: ClusterControl,
    due: Due,
    stored: StoredRecounts | None,
) -> tuple[list[RangeRow], list[PartitionRow]]:
    """The rows of what is due: read back, evaluated again where rules say so, and compared with positions."""
    require_own_writers(run, due.ranges, due.proved, partial(empty_on_source, run))
    ledger, is_backfill = run.ledger, plan.options.window is not None
    written = Written() if is_backfill else find_written(run.flow, ledger, target, plan, due)
    recounted = recount_ranges(
        partial(recount_now, spark, run.flow, target, due.topics, stored),
        run.flow,
        ledger,
        due.ranges,
        due.topics,
        is_backfill=is_backfill,
        boundaries={**due.boundaries, **written.after},
        refused=due.refused,
    )
    evaluated = evaluate_due(spark, run, plan, due, stored)
    # A step that is repeated reads all of it again.
    run.folder.recounts.forget()
    partitions = rows_of_partitions(run, plan, target, due, recounted, written)
    compacted = {choice.topic for choice in plan.choices if choice.is_compacted}
    # Of a copy that was given up, or deleted, nothing is to be proved any more.
    present = {key_of(row) for row in recounted.present}
    kept = [entry for entry in due.ranges if entry.key in present]
    witnessed = ask_source(run, kept)
    letters = look_up_letters(
        run.flow, (entry for entry in kept if entry.ledger_offset >= due.proved)
    )
    rows = [
        replace(
            row,
            compaction_expected=row.topic in compacted,
            rule=evaluated.get(key_of(row), row.rule),
            witness=witnessed.get(key_of(row), row.witness),
            letters=letters.get(key_of(row), row.letters),
        )
        for row in (*recounted.present, *recounted.gone)
    ]
    return rows, partitions


def _oldest_proof(rotation: Rotation, *, is_proved: bool) -> int:
    """When the oldest proof was made, after the run; 0 where no run looks after that."""
    if not rotation.is_wanted:
        return 0
    return rotation.oldest(is_read=is_proved) or (now_ms() if is_proved else 0)


def _read_again(
    spark: SparkSource, run: RunContext, target: ClusterControl, rotation: Rotation
) -> tuple[list[RangeRow], FerryError | None]:
    """What ``read_again`` has read, or why it could not, such as a batch that is damaged."""
    try:
        return read_again(spark, run, target, rotation), None
    except FerryError as error:
        log.error("What was verified before could not be read again: %s", error)
        return [], error


def _record_failed(run: RunContext, verdict: Verdict, rows: Sequence[RangeRow], due: Due) -> None:
    """Record in the ledger which ranges were proved before and are no longer what they were."""
    found = {row.ledger.ledger_offset for row in unproved_rows("ranges", verdict, rows)}
    new = {at for at in found if at < due.proved} - failed_entries(run.ledger)
    if not new:
        return
    failed = intervals(new, {row.ledger.ledger_offset for row in rows} - found)
    if len(failed) > _MOST_INTERVALS:
        # To read more than what failed costs time and nothing else.
        failed[_MOST_INTERVALS - 1 :] = [(failed[_MOST_INTERVALS - 1][0], failed[-1][1])]
    entry = _verification(run, run.ledger.verified_through(), ())
    append_entry(run.flow, entry.model_copy(update={"failed": tuple(failed)}))


def _verification(
    run: RunContext,
    through: int,
    rows: Sequence[RangeRow],
    again: tuple[tuple[int, int], ...] = (),
) -> VerificationEntry:
    return VerificationEntry(
        flow=run.flow.name,
        run=run.run_id,
        at=now_ms(),
        through=through,
        ranges=len(rows),
        records=sum(row.recount.target_records for row in rows),
        again=again,
        gone=tuple(sorted({row.remote_topic_id for row in rows if row.recount.gone})),
    )
