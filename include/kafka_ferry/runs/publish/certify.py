"""The certificate of a run: what it has proved, chained to what the flow's runs have proved before."""

from __future__ import annotations

import json
import logging
from collections import Counter, defaultdict
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from kafka_ferry.certificates import (
    Certificate,
    CertificateError,
    Header,
    append_certificate,
    certificate_topic,
)
from kafka_ferry.certificates.chain import is_signed_by
from kafka_ferry.certificates.document import CertifiedCluster, as_line
from kafka_ferry.certificates.merkle import merkle_root
from kafka_ferry.certificates.signature import private_key
from kafka_ferry.clock import moment_text, now_ms
from kafka_ferry.config.options.certificates import CERTIFICATES_KEY
from kafka_ferry.control import ClusterControl
from kafka_ferry.ledger.queries.run_starts import isolation_levels, selection_at_start
from kafka_ferry.runs.publish.copied_logs import lost_copies
from kafka_ferry.runs.publish.prune_certificates import Pruning
from kafka_ferry.runs.state.certificate_files import (
    certificate_files,
    delete_files,
    newest_file,
    save_file,
)
from kafka_ferry.runs.state.file_digests import signed_digests, signed_files
from kafka_ferry.runs.state.one_file import selection_of
from kafka_ferry.state import digest_of
from kafka_ferry.verify.rows import key_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from kafka_ferry.certificates.chain import PublicKeys
    from kafka_ferry.config import Flow
    from kafka_ferry.model import Plan
    from kafka_ferry.report import RunReport
    from kafka_ferry.runs.state.run_context import RunContext
    from kafka_ferry.runs.state.run_folder import Reconciliation
    from kafka_ferry.verify import ExpectationResult, RangeRow

_CHANGED_RULE: Final = "the flow's file has changed since, and no longer has this rule"
_PROVE_AGAIN: Final = (
    "Clear verify and publish in Airflow, or run `ferry verify`, to prove the run again."
)
# Between the steps verify and publish, with all retries.
_LONGEST_MS: Final = 24 * 60 * 60 * 1000

log = logging.getLogger(__name__)


def certify(
    run: RunContext, plan: Plan, report: RunReport, reconciliation: Reconciliation
) -> Certificate | None:
    """Issue the certificate of a run and store it on the target and in the state folder.

    A run that is published again and has proved the same keeps its certificate. Where that is not there any more, a
    proof that is old by now gets no other one: a certificate says that it was true when it was issued.

    Args:
        run: the run.
        plan: its plan.
        report: its report, with the verdict.
        reconciliation: what its verification has found, which the report is made from.

    Returns:
        The certificate; None where the flow wants none, or where the run has proved nothing.

    Raises:
        CertificateError: if the target has another certificate where the state folder's newest one was, or if what
            the verification has left in the state folder was changed since, or is more than a day old.
        FerryError: if the key cannot be read, or the target does not accept it.
    """
    verdict = report.proof.verdict
    if not run.flow.certificates_enabled or verdict is None or not verdict.success:
        return None
    # Of a copy that is gone, nothing was proved.
    if all(row.recount.gone for row in report.proof.ranges):
        return None
    proved_at = _require_unchanged(run, plan, reconciliation)
    lines = [as_line(_range(row)) for row in report.proof.ranges]
    key, root = signing_key(run.flow), merkle_root(lines)
    public = (key.public_key(),) if key else ()
    known, pruning = newest_file(run.state), Pruning(run, public)
    deleted: list[int] = []
    if known and known.header.issued_at >= proved_at:
        for one in reversed(certificate_files(run.state)):
            is_same = (one.header.run, one.header.root) == (run.run_id, root)
            if is_same and (not public or is_signed_by(one, public)):
                return one
    _require_recent(run, proved_at)
    _require_kept(run, report.proof.ranges)

    def issue(stored: Certificate | None) -> Certificate:
        newest = _newest(run, stored, known, public)
        if newest and (newest.header.run, newest.header.root) == (run.run_id, root):
            return Certificate(newest.line, lines, newest.signature)
        header = _header(run, plan, report, newest, root)
        if newest:
            header = header.model_copy(update={"pruned": pruning.point(newest, header.issued_at)})
        return Certificate.issue(header, lines, key)

    def prune(new: Certificate) -> Sequence[Certificate]:
        left = pruning.find_stored(new)
        deleted[:] = [one.header.serial for one in left]
        return left

    certificate = append_certificate(run.flow, issue, prune)
    save_file(run.state, certificate)
    delete_files(run.state, deleted)
    log.info("%s: %s", certificate.name, certificate.digest)
    return certificate


def _require_unchanged(run: RunContext, plan: Plan, reconciliation: Reconciliation) -> int:
    """Check that what is about to be signed is what the step ``verify`` has left; returns when it did, in ms."""
    known, proved_at = signed_digests(run, plan)
    files = signed_files(run, plan, reconciliation)
    if changed := [
        name for name, content in files.items() if known.get(name) != digest_of(content)
    ]:
        raise CertificateError(
            f"{run.flow.name}, run {run.run_id}: {', '.join(changed)} in {run.folder.files.location} is not what the "
            "step verify has left, so no certificate is issued",
            advice=f"Find out who may write in the state folder. {_PROVE_AGAIN}",
        )
    return proved_at


def _require_recent(run: RunContext, proved_at: int) -> None:
    if now_ms() - proved_at > _LONGEST_MS:
        raise CertificateError(
            f"{run.flow.name}, run {run.run_id}: its proof is more than a day old ({moment_text(proved_at)}), and may "
            "not be true any more, so no certificate is issued",
            advice=_PROVE_AGAIN,
        )


def _require_kept(run: RunContext, rows: Sequence[RangeRow]) -> None:
    """Check that the target has not lost since what the verification has read back, as far as its logs tell.

    Hours may lie between the two, where the step that issues the certificate is repeated.
    """
    rows = [row for row in rows if row.recount.target_records]
    copies = {(row.target, row.remote_topic_id) for row in rows}
    lost = lost_copies(run.flow, ClusterControl(run.flow.target), run.ledger, copies)
    gone = [row.target for row in rows if row.target in lost.without_consent]
    if gone:
        raise CertificateError(
            f"{run.flow.name}, run {run.run_id}: {run.flow.target.alias} has lost records of {gone[0]} since they were "
            "read back, so no certificate is issued",
            advice=_PROVE_AGAIN,
        )


def signing_key(flow: Flow) -> Ed25519PrivateKey | None:
    """The key that the flow signs certificates with, None where it signs none.

    Raises:
        FerryError: if it is not there, or is no key of that kind.
    """
    reference = flow.certificates_key
    if not reference:
        return None
    pem = flow.target.resolve_value(CERTIFICATES_KEY, reference)
    return private_key(pem, f"{flow.file}: {CERTIFICATES_KEY} ({reference})")


def _newest(
    run: RunContext,
    stored: Certificate | None,
    known: Certificate | None,
    keys: PublicKeys,
) -> Certificate | None:
    """The certificate that the next one follows: the target's, or the state folder's if that is newer.

    A client that may write to the topic may put one there: where the flow has a key, it is followed only with its
    signature, or if the state folder has it too. Without a key, nothing tells whose it is.
    """
    if stored is None:
        return known
    is_newer = known is None or stored.header.serial > known.header.serial
    if is_newer and keys and not is_signed_by(stored, keys):
        raise _not_ours(run, stored)
    if known and stored.header.serial == known.header.serial and stored.digest != known.digest:
        raise _not_ours(run, stored)
    return stored if known is None or is_newer else known


def _not_ours(run: RunContext, stored: Certificate) -> CertificateError:
    return CertificateError(
        f"{certificate_topic(run.flow.source.alias)} on {run.flow.target.alias} has another "
        f"{stored.name} than the state folder, or one that the flow's key has not signed: it was forged, or the state "
        "folder belongs to another cluster",
        advice="If the flow has got another key since, and lost its state folder, `ferry certificate restore` with the "
        "--public-key of both goes on. Otherwise ferry certificate check says which one carries your signature. Delete "
        "the other one: the file in the state folder, or the topic; ferry certificate restore puts back what is yours.",
    )


def _header(
    run: RunContext, plan: Plan, report: RunReport, newest: Certificate | None, root: str
) -> Header:
    flow, rows, window = run.flow, report.proof.ranges, plan.options.window
    expectations = report.proof.verdict.expectations if report.proof.verdict else ()
    run.project_ledger()
    reasons = Counter[str]()
    for row in rows:
        reasons.update(_reasons(row))
    return Header(
        serial=newest.header.serial + 1 if newest else 1,
        previous=newest.digest if newest else "",
        flow=flow.name,
        run=run.run_id,
        window=(window.since_ms, window.until_ms) if window else None,
        planned_at=plan.at,
        approved_by=run.folder.approver() or None,
        issued_at=now_ms(),
        ferry=version("kafka-ferry"),
        source=CertifiedCluster(alias=flow.source.alias, cluster_id=plan.source_cluster_id),
        target=CertifiedCluster(alias=flow.target.alias, cluster_id=plan.target_cluster_id),
        rules={
            **{name: _text(value) for name, value in _selection(run).items()},
            "isolation.level": ", ".join(_isolation_levels(run, plan, rows)),
            **_transforms(run, rows),
            **_schema_ids(plan),
        },
        checks={
            expectation.key or expectation.name: _outcome(expectation)
            for expectation in expectations
        },
        ranges=len(rows),
        source_offsets=sum(row.source_offsets for row in rows),
        records=sum(row.recount.target_records for row in rows),
        reasons=dict(sorted(reasons.items())),
        witnessed=sum(row.witness.witnessed for row in rows),
        root=root,
    )


def _selection(run: RunContext) -> dict[str, Any]:
    """Which topics the run selected when it began to copy; the flow's file may have changed since."""
    begun = selection_at_start(run.ledger, run.run_id)
    selection: dict[str, Any] = json.loads(begun or selection_of(run.flow))
    return selection


def _isolation_levels(run: RunContext, plan: Plan, rows: Sequence[RangeRow]) -> list[str]:
    """By which of the source's records the ranges were copied, as their runs have said when they began."""
    runs = {row.ledger.run for row in rows}
    own = {plan.isolation_level} if plan.run in runs else set()
    return sorted(isolation_levels(run.ledger, runs - {plan.run}) | own)


def _transforms(run: RunContext, rows: Sequence[RangeRow]) -> dict[str, str]:
    """The transform rules by which ranges were copied, by the ledger, each with its topics and its fingerprint.

    A rule names secrets and holds none. What a rule said that the flow's file no longer has is not known.
    """
    keys = set(map(key_of, rows))
    offsets = [offset for offset, *_ in keys]
    # By the topic: others may be able to write to the table in the state folder.
    entries = run.ledger.ranges_in_topic(min(offsets), max(offsets) + 1)
    topics = defaultdict[str, set[str]](set)
    for copied in (entry.copied for entry in entries if entry.key in keys):
        if copied.transform:
            topics[copied.transform].add(copied.topic)
    now = {run.flow.rule_fingerprint(rule): rule for rule in run.flow.transform}
    rules = [
        {"fingerprint": fingerprint, "copied": sorted(names)}
        | (
            now[fingerprint].model_dump(mode="json", exclude_none=True)
            if fingerprint in now
            else {"topics": sorted(names), "unknown": _CHANGED_RULE}
        )
        for fingerprint, names in sorted(topics.items())
    ]
    return {"transform": _text(rules)} if rules else {}


def _schema_ids(plan: Plan) -> dict[str, str]:
    """By topic, which parts of its records get the ids of schemas on the target, with the fingerprint of how."""
    ids_by_topic = {
        translated.topic: translated.schema_ids for translated in plan.schemas.translated_ids
    }
    return {"sync.schemas": _text(ids_by_topic)} if ids_by_topic else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _outcome(result: ExpectationResult) -> str:
    return "passed" if result.success else result.severity


def _reasons(row: RangeRow) -> dict[str, int]:
    reasons = {str(reason): count for reason, count in row.ledger.reasons.items() if count}
    other = {"other": row.ledger.other_reasons} if row.ledger.other_reasons else {}
    return dict(sorted((reasons | other).items()))


def _range(row: RangeRow) -> dict[str, Any]:
    """The fields of a range's line."""
    ledger, recount = row.ledger, row.recount
    absent = {
        "expired": recount.expired,
        "compacted": recount.target_compacted,
        "gone": recount.gone,
        "accepted": recount.accepted_missing,
    }
    return {
        "topic": row.topic,
        "topic_id": row.topic_id,
        "partition": row.partition,
        "remote_topic": row.remote_topic,
        "remote_topic_id": row.remote_topic_id,
        "preserved": row.preserved,
        "start": row.start,
        "end": row.end,
        "copied": ledger.copied,
        "reasons": _reasons(row),
        "read_back": recount.target_records,
        "absent": {why: count for why, count in absent.items() if count},
        "digest": ledger.digest_sent,
        "compared": recount.digest_comparable,
        "ledger_offset": ledger.ledger_offset,
        "run": ledger.run,
        **({"evaluated_again": row.rule.evaluated} if row.rule.evaluated else {}),
        **({"witnessed": row.witness.witnessed} if row.witness.witnessed else {}),
    }
