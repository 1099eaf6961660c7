"""An audit on a flow's timetable, as Airflow's task runs it."""

from __future__ import annotations

import logging
from datetime import timedelta
from itertools import islice
from typing import Final

from kafka_ferry.audit.result import AuditReport
from kafka_ferry.audit.terms import AuditTerms
from kafka_ferry.config import Flow
from kafka_ferry.errors import FerryError, VerificationFailed
from kafka_ferry.runs.audit.audit import SMALL, Audit
from kafka_ferry.runs.audit.request import AuditRequest
from kafka_ferry.runs.state.flow_state import flow_state
from kafka_ferry.runs.state.run_folder import RunFolder
from kafka_ferry.spark.session import SparkSource

log = logging.getLogger(__name__)

_STEP: Final = "audit"
_MOST_TOLD: Final = 20


class ScheduledAudit:
    """One run of a flow's audits; a repetition continues what was interrupted.

    Args:
        flow: the flow, whose ``audit.`` options count.
        run_id: the run of Airflow's DAG.
    """

    def __init__(self, flow: Flow, run_id: str) -> None:
        self.flow = flow
        self._record = RunFolder(flow_state(flow).folder("audit-runs"), run_id)
        lag = flow.audit_lag or timedelta()
        terms = AuditTerms(
            flow.isolation_level, one_in=flow.audit_sample, bytes_per_s=flow.audit_rate
        )
        request = AuditRequest(terms, lag_ms=lag // timedelta(milliseconds=1), run=run_id)
        self._audit = Audit(flow, request)

    def needs_spark(self) -> bool:
        """Whether there is so much to compare that Spark pays.

        Raises:
            FerryError: a cluster cannot be read.
        """
        return sum(pair.offsets for pair in self._audit.plan(resume=True).pairs) > SMALL

    def run(self, spark: SparkSource) -> AuditReport:
        """Audit the flow's topics; the log says what was found.

        Args:
            spark: gives the session, whose executors must reach both clusters.

        Raises:
            VerificationFailed: something differs or could not be compared, or there was nothing to compare.
            FerryError: a cluster cannot be read.
        """
        with self._record.step(_STEP):
            plan = self._audit.plan(resume=True)
            report = self._audit.compare(plan, spark, _tell)
            for sentence in report.statements:
                log.info("%s", sentence)
            log.info("%s", report.headline)
            if report.state != "same":
                raise VerificationFailed(
                    f"{report.headline}:",
                    details=[*self._summary(report)],
                    advice=f"All of it is in {self._audit.folder.files.location}.",
                )
            return report

    def failure(self) -> FerryError | None:
        """What ``run`` raised in another process, None if it succeeded or never ended."""
        return self._record.failure(_STEP)

    def forget(self) -> None:
        """Forget how ``run`` ended, since it is about to be repeated."""
        self._record.forget(_STEP)

    @staticmethod
    def _summary(report: AuditReport) -> list[str]:
        findings = islice(report.findings, _MOST_TOLD)
        sentences = [f"{finding.kind}: {finding.sentence}" for finding in findings]
        return sentences or list(islice(report.statements, _MOST_TOLD))


def _tell(compared: int, offsets: int) -> None:
    log.info("Compared %s of %s offsets", f"{compared:,}", f"{offsets:,}")
