"""The files of audits: what an interrupted one has compared, and what finished ones found."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from kafka_ferry.audit.outcome import PairOutcome
from kafka_ferry.audit.outcome_file import decode_outcome, encode_outcome
from kafka_ferry.audit.result import AuditReport
from kafka_ferry.audit.terms import AuditPair
from kafka_ferry.config import Flow
from kafka_ferry.errors import FerryError
from kafka_ferry.runs.audit.plan import AuditPlan
from kafka_ferry.runs.state.cleanup import delete_outdated
from kafka_ferry.runs.state.flow_state import flow_state
from kafka_ferry.state import StateFolder

log = logging.getLogger(__name__)

REPORT: Final = "report.html"
REPORT_DATA: Final = "report.json"
FINDINGS: Final = "findings.parquet"
_PLAN: Final = "plan.json"
_PAIRS: Final = "pairs"


class AuditFolder:
    """The files of one audit."""

    def __init__(self, files: StateFolder) -> None:
        self.files = files
        self._pairs = self.files.folder(_PAIRS)

    @property
    def page(self) -> Path | None:
        """The report page on this machine, None if there is none."""
        local = self.files.local_path
        return local / REPORT if local and (local / REPORT).exists() else None

    def save_plan(self, plan: AuditPlan) -> None:
        """Store what is to be compared."""
        self.files.write(_PLAN, plan.to_json())

    def plan(self) -> AuditPlan | None:
        """What is to be compared; None if that was never stored, or the file is damaged."""
        content = self.files.read(_PLAN)
        try:
            return AuditPlan.from_json(content) if content else None
        except FerryError:
            return None

    def save(self, number: int, outcome: PairOutcome) -> None:
        """Store how far the pair of that number in the plan has come."""
        self._pairs.write(_name(number), encode_outcome(outcome))

    def outcome(self, number: int, pair: AuditPair) -> PairOutcome | None:
        """How far a pair has come; None if that is not known."""
        content = self._pairs.read(_name(number))
        return decode_outcome(content, pair) if content else None

    def finish(self, report: AuditReport) -> None:
        """Store the result, and forget how it was reached."""
        self.files.write(REPORT_DATA, report.to_json())
        self.files.delete_folder(_PAIRS)

    def report(self) -> AuditReport | None:
        """The result; None while the audit is not over."""
        content = self.files.read(REPORT_DATA)
        return AuditReport.from_json(content) if content else None


def audits_of(flow: Flow) -> StateFolder:
    """The folder of a flow's audits."""
    return flow_state(flow).folder("audits")


def unfinished_audit(audits: StateFolder, key: str) -> AuditFolder | None:
    """The newest audit of the same key, if it was interrupted."""
    for name in reversed(audits.folders()):
        folder = AuditFolder(audits.folder(name))
        plan = folder.plan()
        if plan and plan.key == key:
            return None if folder.files.read(REPORT_DATA) else folder
    return None


def forget_old(flow: Flow) -> None:
    """Delete the audits that are older than ``reports.keep.days``, and all but ``reports.keep.runs``.

    What cannot be deleted is logged and fails nothing: the next audit tries again.
    """
    try:
        delete_outdated(flow, audits_of(flow), REPORT_DATA)
    except OSError as error:
        log.warning("Old audits of %s could not be deleted: %s", flow.name, error)


def _name(number: int) -> str:
    return f"{number:06}.npz"
