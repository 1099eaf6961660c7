"""Publishes a run: its report, for people and for programs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Final

from kafka_ferry.batches import Reason
from kafka_ferry.batches.rule_counts import CHANGED, FAILED
from kafka_ferry.clock import now_ms
from kafka_ferry.ledger.accounts import accounts
from kafka_ferry.ledger.proofs import last_proof
from kafka_ferry.ledger.queries.copied_ranges import RangeCounts, counts_of_run
from kafka_ferry.ledger.queries.counts import offsets_in_ranges
from kafka_ferry.model import TopicPartition
from kafka_ferry.report import RunReport, render
from kafka_ferry.report.offsets import bars, offset_rows
from kafka_ferry.report.run_report import (
    RuleCounts,
    RunCounts,
    RunOffsets,
    RunProblems,
    RunProof,
    RunTimes,
    RunTopics,
)
from kafka_ferry.report.summary import summarise
from kafka_ferry.runs.publish.measures import measure_run
from kafka_ferry.runs.publish.prometheus import export_to_prometheus
from kafka_ferry.runs.state.ended_steps import first_unended
from kafka_ferry.runs.state.run_folder import REPORT, REPORT_DATA, Reconciliation
from kafka_ferry.runs.sync_topics.schemas import keep_late_schemas
from kafka_ferry.runs.verify.verdict import with_groups

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka_ferry.certificates import Certificate
    from kafka_ferry.config import Flow
    from kafka_ferry.groups.moves import GroupMoves
    from kafka_ferry.ledger import LedgerTable
    from kafka_ferry.model import Plan
    from kafka_ferry.model.results.steps import StepRecord
    from kafka_ferry.runs.state.run_context import RunContext
    from kafka_ferry.runs.state.run_folder import RunFolder
    from kafka_ferry.verify import Verdict

_BARS: Final = 60
_TOPICS: Final = 50
_GROUPS_STEP: Final = "sync_groups"


def publish_run(run: RunContext, steps: Sequence[str]) -> RunReport:
    """Write a run's ``report.html`` and ``report.json`` from the files of its ``steps``."""
    flow, folder = run.flow, run.folder
    # Here and not by each shard, one of which would overwrite what the other has stored.
    keep_late_schemas(run)
    plan = folder.plan()
    ended = {step: record for step in steps if (record := folder.step_record(step))}
    groups = folder.groups()
    # A verification that has outlived its plan may have stored what it found, and is not known to have ended.
    found = folder.reconciliation() if "verify" in ended else None
    reconciliation = found or Reconciliation()
    counts = _counts(run, plan)
    report = RunReport(
        flow=flow.name,
        run=run.run_id,
        source=flow.source.alias,
        target=flow.target.alias,
        times=RunTimes(plan.at, now_ms(), {step: record.seconds for step, record in ended.items()}),
        counts=counts,
        topics=_topics(plan, counts),
        problems=_problems(run, plan, ended, reconciliation.verdict, steps),
        proof=_proof(run, reconciliation, groups),
        groups=groups,
        window=plan.options.window,
        so_far=_so_far(run.ledger),
    )
    measures = measure_run(run, report)
    report = replace(report, measures=measures)
    _write(folder, report)
    untold = export_to_prometheus(flow, report)
    if untold:
        missing = (*measures.missing, *untold)
        report = replace(report, measures=replace(measures, missing=missing))
        _write(folder, report)
    if flow.certificates_enabled:
        report = _certify(run, plan, report, reconciliation)
    folder.remember(summarise(report, plan.options))
    return report


def _certify(
    run: RunContext, plan: Plan, report: RunReport, reconciliation: Reconciliation
) -> RunReport:
    """The report with the run's certificate, if the run has proved anything."""
    from kafka_ferry.runs.publish.certify import certify  # noqa: PLC0415  (cryptography)

    certificate = certify(run, plan, report, reconciliation)
    if certificate is None:
        return report
    proof = replace(report.proof, certificate=certificate.header.serial)
    topics = replace(
        report.topics, notes=(*report.topics.notes, *_uncertified_notes(run, certificate))
    )
    report = replace(report, proof=proof, topics=topics)
    _write(run.folder, report)
    return report


def _uncertified_notes(run: RunContext, certificate: Certificate) -> Iterator[str]:
    """What a flow's first certificate does not say."""
    offsets = offsets_in_ranges(run.ledger)
    if certificate.header.serial == 1 and offsets > certificate.header.source_offsets:
        yield (
            "This is the flow's first certificate, and only of what this run has proved: `ferry run --verify-all` "
            "certifies what was copied before too."
        )


def _so_far(ledger: LedgerTable) -> RunOffsets:
    """The flow's source offsets so far, in a size that does not grow."""
    topics = offset_rows(accounts(ledger, "topic"), are_partitions=False)
    topics.sort(key=lambda row: (-row.lost, -row.left_out, -row.offsets))
    return RunOffsets(
        bars=tuple(bars(accounts(ledger, "run"), _BARS)),
        topics=tuple(topics[:_TOPICS]),
        more_topics=max(0, len(topics) - _TOPICS),
    )


def other_errors(
    ended: Mapping[str, StepRecord], verdict: Verdict | None
) -> dict[str, tuple[str, ...]]:
    """By step, its errors except those in other sections of the report: partitions, groups and the verdict."""
    is_judged = verdict is not None and not verdict.success
    shown = {_GROUPS_STEP, *(["verify"] if is_judged else [])}
    return {
        step: errors
        for step, record in ended.items()
        if step not in shown and (errors := record.other_errors)
    }


def _write(folder: RunFolder, report: RunReport) -> None:
    folder.files.write(REPORT_DATA, report.to_json())
    folder.files.write(REPORT, render(report))


def _topics(plan: Plan, counts: RunCounts) -> RunTopics:
    changes = (
        *plan.rules,
        *plan.topics.config_changes,
        *plan.access.acl_changes,
        *plan.access.quota_changes,
        *plan.access.user_changes,
        *plan.removals.offset_deletions,
        *plan.schemas.schema_registrations,
        *plan.schemas.subject_settings,
    )
    return RunTopics(
        skipped=tuple((skipped.topic, skipped.reason) for skipped in plan.remarks.skipped),
        notes=(
            *map(str, plan.remarks.notes),
            *(chain.from_iterable(it.doubts for it in counts.rules)),
        ),
        deleted=tuple(str(note) for note in plan.remarks.notes if note.of_deleted),
        changes=tuple(map(str, changes)),
        drifts=tuple(map(str, (*plan.topics.drifts, *plan.topics.misplacements))),
        retirements=tuple(map(str, plan.topics.retirements)),
        choices=plan.choices,
        translated_ids=tuple(map(str, plan.schemas.translated_ids)),
    )


def _problems(
    run: RunContext,
    plan: Plan,
    ended: Mapping[str, StepRecord],
    verdict: Verdict | None,
    steps: Sequence[str],
) -> RunProblems:
    unended = first_unended(run, steps, len(plan.shards))
    return RunProblems(
        failures=tuple(chain.from_iterable(record.failures for record in ended.values())),
        step_failures=other_errors(ended, verdict),
        unended=(str(unended),) if unended else (),
        refused=plan.remarks.refused,
        unapplied=plan.remarks.unapplied,
        group_failures=ended[_GROUPS_STEP].other_errors if _GROUPS_STEP in ended else (),
    )


def _proof(run: RunContext, reconciliation: Reconciliation, groups: GroupMoves | None) -> RunProof:
    last = last_proof(run.ledger)
    verdict = reconciliation.verdict and with_groups(run, reconciliation.verdict, groups)
    proved = (last.run, last.at) if last else ("", 0)
    return RunProof(
        reconciliation.ranges,
        reconciliation.partitions,
        verdict,
        *proved,
        oldest_proof=reconciliation.oldest_proof,
        topics=reconciliation.topics,
    )


def _counts(run: RunContext, plan: Plan) -> RunCounts:
    ranges = list(counts_of_run(run.ledger, plan.run))
    reasons, rebuilt, beats = Counter[str](), Counter[str](), Counter[str]()
    losses, adoptions = list[str](), list[str]()
    for it in ranges:
        beats.update({it.topic: it.records} if it.topic in plan.heartbeats else {})
        reasons.update(it.reasons)
        rebuilt.update(it.rebuilt)
        losses.extend(_loss(it.source, *interval) for interval in it.lost)
        if it.adopted:
            adoptions.append(f"{it.source} [{it.start}, {it.end}): {it.adopted:,}.")
    return RunCounts(
        records=sum(it.records for it in ranges),
        bytes=sum(it.bytes for it in ranges),
        batches=sum(it.batches for it in ranges),
        adopted=sum(it.adopted for it in ranges),
        reasons=dict(reasons),
        rebuilt=dict(rebuilt),
        losses=tuple(losses),
        dead_letter_topic=run.flow.dead_letter_name,
        adoptions=tuple(adoptions),
        heartbeats=dict(beats),
        rules=tuple(_rule_counts(run.flow, ranges)),
    )


def _rule_counts(flow: Flow, ranges: Iterable[RangeCounts]) -> Iterator[RuleCounts]:
    """What each rule did whose records are in ``ranges`` of the ledger, in the order of the rules.

    Records that went through a rule which the flow's file no longer has are of none.
    """
    ruled = [it for it in ranges if it.transform]
    fingerprints = {topic: flow.fingerprint_of(topic) for topic in {it.topic for it in ruled}}
    sums: dict[int, Counter[str]] = defaultdict(Counter)
    by_name: dict[int, Counter[str]] = defaultdict(Counter)
    for it in ruled:
        rule = flow.transform_of(it.topic)
        if rule and it.transform == fingerprints[it.topic]:
            left_out = it.reasons.get(Reason.FILTERED, 0)
            index, counts = flow.transform.index(rule), dict(it.rule_counts)
            failed = counts.pop(FAILED, 0)
            sums[index].update(
                records=it.records + left_out,
                changed=counts.pop(CHANGED, 0),
                left_out=left_out,
                passed=failed if flow.on_transform_error == "pass" else 0,
            )
            by_name[index].update(counts)
    for index, counts_of_rule in sorted(sums.items()):
        if counts_of_rule["records"]:
            is_to_change = flow.transform[index].is_to_change
            yield RuleCounts(
                index + 1, **counts_of_rule, changes=is_to_change, by_name=dict(by_name[index])
            )


def _loss(partition: TopicPartition, start: int, end: int) -> str:
    subject = ("offset was", "it was") if end - start == 1 else ("offsets were", "they were")
    deleted = f"{end - start:,} {subject[0]} deleted on the source before {subject[1]} copied."
    return f"{partition} [{start}, {end}): {deleted}"
