"""An audit's result as one HTML file that loads nothing."""

from __future__ import annotations

from itertools import islice
from typing import Final

from kafka_ferry.audit.comparison.findings import KINDS
from kafka_ferry.audit.result import AuditReport
from kafka_ferry.report.templates import template

_MOST_SHOWN: Final = 2_000


def render_audit(report: AuditReport) -> str:
    """The page for ``report``. Everything in it is escaped."""
    partitions = sorted(
        report.partitions, key=lambda part: part.state not in ("differs", "not compared")
    )
    return template("audit.html.j2").render(
        report=report,
        kinds=KINDS,
        findings=list(islice(report.findings, _MOST_SHOWN)),
        listed=sum(len(part.findings) for part in report.partitions),
        partitions=partitions,
        records=sum(part.counts.source_records for part in partitions),
        target_records=sum(part.counts.target_records for part in partitions),
        matched=sum(part.counts.matched for part in partitions),
        seconds=(report.finished_at - report.began_at) / 1000,
    )
