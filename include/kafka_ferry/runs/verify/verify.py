"""Verifies a run: recounts the ledger's unverified ranges on the target and judges them."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from kafka_ferry.clock import now_ms
from kafka_ferry.control import ClusterControl, read_positions
from kafka_ferry.errors import FerryError, VerificationFailed
from kafka_ferry.ledger import VerificationEntry, append_entry, ledger_topic
from kafka_ferry.ledger.proofs import ends_before
from kafka_ferry.ledger.queries.copied_topics import remote_topics
from kafka_ferry.ledger.topic import wait_until_settled
from kafka_ferry.model.results.steps import StepPart
from kafka_ferry.plan.topics.configs import config_key
from kafka_ferry.runs.provenance.authors import require_own_writers
from kafka_ferry.runs.state.file_digests import record_digests, record_signed, recorded_digests
from kafka_ferry.runs.state.run_folder import Reconciliation
from kafka_ferry.runs.state.stored_recounts import StoredRecounts
from kafka_ferry.runs.sync_topics.schemas import require_same_schemas
from kafka_ferry.runs.verify.again import SMALL, Rotation, planned_rotation, read_again
from kafka_ferry.runs.verify.backfill_duplicates import count_duplicates
from kafka_ferry.runs.verify.dead_letters import look_up_letters
from kafka_ferry.runs.verify.due import Due, Written, find_written, look_for_due
from kafka_ferry.runs.verify.evaluate_again import (
    evaluate_chosen,
    ranges_to_evaluate,
)
from kafka_ferry.runs.verify.partition_recounts import recount_now, recount_partitions
from kafka_ferry.runs.verify.recount import claims_of, recount_ranges
from kafka_ferry.runs.verify.source_logs import add_replaced
from kafka_ferry.runs.verify.source_witness import ask_source, empty_on_source
from kafka_ferry.runs.verify.verdict import raise_unproved, terms_of
from kafka_ferry.verify import PartitionRecount, judge, partition_rows, topic_rows
from kafka_ferry.verify.backfills import backfill_rows
from kafka_ferry.verify.rows import key_of
from kafka_ferry.verify.topics import is_lost

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from kafka_ferry.config import Flow
    from kafka_ferry.ledger import LedgerRange, LedgerTable, RangeKey
    from kafka_ferry.model import Plan
    from kafka_ferry.runs.state.run_context import RunContext
    from kafka_ferry.runs.verify.recount import Recounted
    from kafka_ferry.spark.session import SparkSource
    from kafka_ferry.verify import PartitionRow, RangeRow, TopicRow, Verdict
    from kafka_ferry.verify.expectations.tables import Rows
    from kafka_ferry.verify.incarnations import Key
    from kafka_ferry.verify.rows import RuleEvaluation

log = logging.getLogger(__name__)

_PAUSES_S: Final = (0.0, 0.2, 1.0)
_MOST_LOOKS: Final = 5
_LAST_IS_GONE: Final = (
    "the last record that the ledger has there is gone, or hidden from consumers."
)


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
    of_topics = _topic_rows(run, plan, target, due)
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
    evaluated = _evaluations(spark, run, plan, due, stored)
    # A step that is repeated reads all of it again.
    run.folder.recounts.forget()
    if is_backfill:
        partitions = _backfilled_rows(target, ledger, plan, due.ranges, recounted)
    else:
        before = ends_before(ledger, due.since, {entry.target.topic for entry in due.ranges})
        unread = {tp: PartitionRecount.of_unread(0, why) for tp, why in written.unread.items()}
        recounts = {**unread, **recounted.recounts}
        for tp in recounted.cut - written.refused:
            recounts[tp] = recounts[tp]._replace(unread=_LAST_IS_GONE)
        recounted = replace(recounted, recounts=recounts)
        partitions = _partition_rows(run.flow, target, plan, due, recounted, before)
    compacted = {choice.topic for choice in plan.choices if choice.is_compacted}
    # Of a copy that was given up, or deleted, nothing is to be proved any more.
    there = {key_of(row) for row in recounted.present}
    kept = [entry for entry in due.ranges if entry.key in there]
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


def read_back(spark: SparkSource, run: RunContext, shard: int | None) -> int:
    """Read back the due ranges of the partitions that a run or its shard was to copy, and store the result.

    Args:
        spark: gives the session, whose executors must reach the target.
        run: the run, which was planned.
        shard: the shard; None for the whole run.

    Returns:
        How many target partitions were read.
    """
    plan = run.folder.plan()
    copied = {range_.target for range_ in plan.of_shard(shard)}
    due = look_for_due(run, plan, ClusterControl(run.flow.target))
    ranges = [entry for entry in due.ranges if entry.target in copied]
    claims = claims_of(run.ledger, ranges, due.topics, due.boundaries)
    recounts = recount_partitions(spark, run.flow, None, claims)
    chosen = ranges_to_evaluate(run.flow, run.run_id, plan, ranges, due.topics)
    evaluated = evaluate_chosen(spark, run, chosen)
    files = run.folder.recounts.save(StepPart("mirror", shard), claims, recounts, evaluated)
    if run.flow.certificates_enabled:
        record_digests(run, files)
    return len(claims)


def is_read_back(run: RunContext) -> bool:
    """Whether everything that is due has been read back, and rules have been evaluated again."""
    plan, recounts = run.folder.plan(), run.folder.recounts
    due = look_for_due(run, plan, ClusterControl(run.flow.target))
    claims = claims_of(run.ledger, due.ranges, due.topics, due.boundaries)
    if recounts.of(claims).keys() != claims.keys():
        return False
    return not _left_to_evaluate(run, plan, due, recounts.evaluations())


def needs_spark(run: RunContext) -> bool:
    """Whether more is to be read back than a step reads without Spark."""
    plan, target = run.folder.plan(), ClusterControl(run.flow.target)
    if plan.options.verify_all or not is_read_back(run):
        return True
    since = min(run.ledger.verified_through(), plan.ledger_end)
    return planned_rotation(run, plan, target, before=since).bytes > SMALL


def _evaluations(
    spark: SparkSource, run: RunContext, plan: Plan, due: Due, stored: StoredRecounts | None
) -> dict[RangeKey, RuleEvaluation]:
    """By range, what came of evaluating rules again: in the step ``mirror``, or else now."""
    known = stored.evaluations() if stored else {}
    return known | evaluate_chosen(spark, run, _left_to_evaluate(run, plan, due, known))


def _left_to_evaluate(
    run: RunContext, plan: Plan, due: Due, known: Container[RangeKey]
) -> list[LedgerRange]:
    """The ranges whose rules are still to be evaluated again: a sample is not taken twice."""
    if run.flow.verify_transforms != "all" and any(range_.key in known for range_ in due.ranges):
        return []
    chosen = ranges_to_evaluate(run.flow, run.run_id, plan, due.ranges, due.topics)
    return [entry for entry in chosen if entry.key not in known]


def _topic_rows(run: RunContext, plan: Plan, target: ClusterControl, due: Due) -> list[TopicRow]:
    topics, refused = target.readable_topics(due.topics.keys() | due.refused.keys())
    ids = {name: topic.topic_id for name, topic in due.topics.items()} | _idle_topics(run, plan)
    # By remote topic, the configs that the flow has set there and still manages.
    configs: dict[str, Mapping[str, str]] = {}
    if run.flow.sync_topic_configs_enabled:
        applied = run.ledger.applied().configs
        configs = {name: applied.get(config_key(topic), {}) for name, topic in topics.items()}
    return topic_rows(plan, topics, configs, ids, {**due.refused, **refused})


def _backfilled_rows(
    target: ClusterControl,
    ledger: LedgerTable,
    plan: Plan,
    ranges: list[LedgerRange],
    recounted: Recounted,
) -> list[PartitionRow]:
    # What the target does not let be described is named where its ranges are read back.
    topics, _ = target.readable_topics({name for name, _ in remote_topics(ledger)})
    remote_ids = {topic.topic_id for topic in topics.values()}
    twice = count_duplicates(ledger, plan.run, ranges, remote_ids - ledger.released_topics())
    return backfill_rows(recounted.present, plan.ranges, twice)


def _partition_rows(
    flow: Flow,
    target: ClusterControl,
    plan: Plan,
    due: Due,
    recounted: Recounted,
    verified: Mapping[Key, int],
) -> list[PartitionRow]:
    preserved = {range_.remote_topic for range_ in plan.ranges if range_.preserved}
    preserved |= {row.remote_topic for row in recounted.present if row.preserved}
    positions = read_positions(flow.target, flow.name)
    rows = partition_rows(
        # Positions in topics that may not be described are not shown.
        [row for row in recounted.present if row.remote_topic not in due.refused],
        # A remote topic that is lost is one fault, and its partitions are no others.
        [range_ for range_ in plan.ranges if not is_lost(range_, due.topics)],
        {tp: position.offset for tp, position in positions.items()},
        recounted.recounts,
        target.log_bounds(
            (due.topics[name] for name in preserved & due.topics.keys()),
            "read_committed",
            wait_s=flow.partition_wait_ms / 1000,
        ),
        verified,
    )
    return add_replaced(flow, rows, positions)


def _idle_topics(run: RunContext, plan: Plan) -> dict[str, str]:
    """The ids of the remote topics of which the run had nothing to copy, by the ledger of what was copied before."""
    left_out = {it.topic for it in plan.remarks.refused if it.partition is None}
    touched = {it.remote_topic for it in plan.ranges}
    touched |= {it.remote_topic for it in plan.topics.creations}
    names = {it.remote_topic for it in plan.choices if it.topic not in left_out} - touched
    if not names:
        return {}
    released = run.ledger.released_topics()
    return {
        name: topic_id
        for name, topic_id in run.ledger.remote_ids().items()
        if name in names and topic_id and topic_id not in released
    }
