"""What a step has left in the state folder for a later one, by its digests in the ledger.

A user who may write in the state folder cannot write to the ledger in the flow's name, so a file that was changed in
between is found. Flows with certificates, which sign, and flows whose plans wait for an approval need it; and where
the step ``sync_topics`` has changed a plan, or offsets of groups are to be deleted, a repetition and the later steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from kafka_ferry.clock import now_ms
from kafka_ferry.control import ClusterControl
from kafka_ferry.errors import FerryError
from kafka_ferry.ledger import FilesEntry, append_entry, ledger_topic, read_ledger
from kafka_ferry.schemas.ids import stored_schemas
from kafka_ferry.state import digest_of

if TYPE_CHECKING:
    from kafka_ferry.model import Plan
    from kafka_ferry.runs.state.run_context import RunContext
    from kafka_ferry.runs.state.run_folder import Reconciliation
    from kafka_ferry.schemas.ids import FlowSchemas

_PREPARED: Final = "prepared plan"
_APPROVED_BY: Final = "approved by"
_RECONCILIATION: Final = "reconciliation"


def record_digests(run: RunContext, files: Mapping[str, str]) -> None:
    """Record the content of files, by name, in the ledger.

    Raises:
        FerryError: if the target does not accept it.
    """
    flow = run.flow
    digests = {name: digest_of(content) for name, content in files.items()}
    append_entry(flow, FilesEntry(flow=flow.name, run=run.run_id, at=now_ms(), digests=digests))


def recorded_digests(run: RunContext, since: int) -> dict[str, str]:
    """By file, the digest of what the run's steps have recorded last.

    Args:
        run: the run.
        since: a ledger offset from before the run.

    Raises:
        FerryError: if the ledger cannot be read.
    """
    return {
        name: digest for entry in _entries(run, since) for name, digest in entry.digests.items()
    }


def signed_digests(run: RunContext, plan: Plan) -> tuple[dict[str, str], int]:
    """As ``recorded_digests``; and when the step ``verify`` has recorded what is to be signed, 0 for never.

    Raises:
        FerryError: if the ledger cannot be read.
    """
    known: dict[str, str] = {}
    proved_at = 0
    for entry in _entries(run, plan.ledger_end):
        known |= entry.digests
        if _RECONCILIATION in entry.digests:
            proved_at = entry.at
    return known, proved_at


def _entries(run: RunContext, since: int) -> Iterator[FilesEntry]:
    for _, entry in read_ledger(run.flow.target, ledger_topic(run.flow.source.alias), since):
        is_own = (entry.flow, entry.run) == (run.flow.name, run.run_id)
        if isinstance(entry, FilesEntry) and is_own:
            yield entry


def record_prepared(run: RunContext, plan: Plan) -> None:
    """Record the plan that the step ``sync_topics`` leaves, and who has approved the one that it was given."""
    record_digests(run, {_PREPARED: plan.to_json(), _APPROVED_BY: run.folder.approver()})


def require_prepared(run: RunContext, plan: Plan) -> None:
    """Check that a stored plan is the one that the step ``sync_topics`` has left.

    Raises:
        FerryError: it is not, or the step has left none.
    """
    flow = run.flow
    ledger = ledger_topic(flow.source.alias)
    is_there = bool(ClusterControl(flow.target).topic_ids([ledger]))
    known = recorded_digests(run, plan.ledger_end) if is_there else {}
    require_same(run, plan, known.get(_PREPARED, ""))


def require_same(run: RunContext, plan: Plan, expected: str) -> None:
    """Check that a stored plan has the digest that the step before has left.

    Raises:
        FerryError: it has not.
    """
    if plan.digest != expected:
        raise FerryError(
            f"{run.flow.name}, run {run.run_id}: the stored plan is not the one that was "
            f"{'made' if run.flow.approval == 'never' else 'approved'}.",
            advice="Nothing was changed or copied by it. Find out who writes in the state folder, or who has marked "
            "the tasks plan, approve or sync_topics as successful; then clear the task plan.",
        )


def schemas_of_run(run: RunContext, plan: Plan) -> FlowSchemas | None:
    """The ids of schemas that the step ``sync_topics`` has left for a run's tasks; None where records keep theirs.

    Args:
        run: the run.
        plan: its plan, which is known to be what that step has left.

    Raises:
        FerryError: the file beside the plan is not what both registries have said, or is not there.
    """
    flow = run.flow
    if flow.sync_schemas != "translate-ids":
        return None
    schemas = stored_schemas(run.folder.files)
    if schemas.digest != plan.schemas.schema_ids_digest:
        raise FerryError(
            f"{flow.name}, run {run.run_id}: the ids of schemas in {run.folder.files.location} are not those that both "
            "registries have given.",
            advice="Nothing was copied by them. A run that has succeeded keeps none. Else find out who writes there; "
            "then clear the task plan.",
        )
    return schemas


def record_signed(run: RunContext, plan: Plan, reconciliation: Reconciliation) -> None:
    """Record what the step ``verify`` leaves to be signed.

    Raises:
        FerryError: the file does not name who had approved the plan when it was carried out.
    """
    files = signed_files(run, plan, reconciliation)
    approved = recorded_digests(run, plan.ledger_end).get(_APPROVED_BY)
    if run.flow.approval != "never" and approved != digest_of(files[_APPROVED_BY]):
        raise FerryError(
            f"{run.flow.name}, run {run.run_id}: {run.folder.files.location} does not name who has approved the plan "
            "any more.",
            advice="Find out who writes there. Then clear the task plan, and approve what it plans.",
        )
    record_digests(run, files)


def signed_files(run: RunContext, plan: Plan, reconciliation: Reconciliation) -> dict[str, str]:
    """By name, what a certificate is made from, as the step ``publish`` has read it."""
    return {
        "plan": plan.to_json(),
        _RECONCILIATION: reconciliation.to_json(),
        _APPROVED_BY: run.folder.approver(),
    }
