"""A report says what was compared and what was not, and never calls nothing the same."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from kafka_ferry.audit.comparison.findings import Finding
from kafka_ferry.audit.result import AuditReport, PairCounts, PartitionAudit, SkippedTopic
from kafka_ferry.audit.terms import AuditPair, AuditTerms, LogExtent
from kafka_ferry.report.audit_page import render_audit
from kafka_ferry.runs.audit.output import findings_file

PAIR = AuditPair("orders", 3, "eu.orders", LogExtent(0, 0, 100), LogExtent(5, 5, 90))
FOUND = (
    Finding("missing", "orders", 3, "eu.orders", 3, 10, -1, 2),
    Finding("doubled", "orders", 3, "eu.orders", 3, 4, 40, 1),
    Finding("doubled", "orders", 3, "eu.orders", 3, -1, 41, 1),
    Finding("reordered", "orders", 3, "eu.orders", 3, 20, 30, 1),
    Finding("altered", "orders", 3, "eu.orders", 5, 21, 31, 1, ("partition",)),
    Finding("foreign", "orders", 3, "eu.orders", 3, -1, 50, 3),
)
SAME = PartitionAudit(PAIR, PairCounts(source_records=80, target_records=80, matched=80))
DIFFERS = PartitionAudit(
    PAIR, PairCounts(matched=70, missing=2, doubled=2, reordered=1, altered=1, foreign=3), FOUND
)
EMPTY = PartitionAudit(PAIR, PairCounts(expired=7))
UNREAD = PartitionAudit(PAIR, reason="the source denies READ.")


def a_report(*parts: PartitionAudit, **more: object) -> AuditReport:
    report = AuditReport(
        *("audit__1", "us", "eu", "id-1", "id-2", 1_700_000_000_000, 1_700_000_009_000),
        AuditTerms(),
        parts,
    )
    return replace(report, **more)


@pytest.mark.parametrize(
    ("parts", "state"),
    [
        ((SAME,), "same"),
        ((SAME, EMPTY), "same"),
        ((SAME, UNREAD), "not compared"),
        ((SAME, UNREAD, DIFFERS), "differs"),
        ((EMPTY,), "nothing"),
        ((), "nothing"),
    ],
)
def test_the_worst_partition_decides(parts: tuple[PartitionAudit, ...], state: str) -> None:
    report = a_report(*parts)
    assert report.state == state
    assert ("is the same" in report.headline) == (state == "same")
    assert AuditReport.from_json(report.to_json()) == report


def test_a_topic_that_was_left_out_keeps_the_rest_from_being_called_the_same() -> None:
    report = a_report(SAME, skipped=(SkippedTopic("clicks", "eu.clicks", "there is none."),))
    assert report.state == "not compared"
    assert "clicks was not compared with eu.clicks: there is none." in list(report.statements)


def test_findings_are_sentences_with_offsets_of_both_sides() -> None:
    assert [finding.sentence for finding in FOUND] == [
        "2 records of orders-3 offsets 10 to 11 missing on the target",
        "1 record at eu.orders-3 offset 40 doubled: of orders-3 offset 4",
        "1 record at eu.orders-3 offset 41 doubled: an earlier copy is on the target, and the source has "
        "deleted its record",
        "1 record of orders-3 offset 20 out of order at eu.orders-3 offset 30",
        "1 record of orders-3 offset 21 altered at eu.orders-5 offset 31: partition",
        "3 records at eu.orders-3 offsets 50 to 52 foreign: the source does not have them",
    ]


def test_the_page_shows_findings_and_loads_nothing() -> None:
    page = render_audit(a_report(DIFFERS, source="<us>"))
    assert "The copy differs: 2 missing, 2 doubled" in page
    assert "&lt;us&gt;" in page
    assert "<us>" not in page
    assert not re.search(r"https?://", page)
    assert page.count("<tr><td") == len(FOUND)
    assert "What was compared" in render_audit(a_report(SAME))


def test_findings_are_rows_of_parquet() -> None:
    rows = pq.read_table(io.BytesIO(findings_file(a_report(DIFFERS)))).to_pylist()
    assert [row["records"] for row in rows] == [2, 1, 1, 1, 1, 3]
    assert rows[0]["target_offset"] is None
    assert rows[4]["remote_partition"] == 5
    assert rows[4]["what"] == ["partition"]


@pytest.mark.parametrize(
    ("terms", "said"),
    [
        (AuditTerms(one_in=10), "The content of one block of 10,000 source records in 10"),
        (AuditTerms(since_ms=0), "from 1970-01-01 00:00:00 UTC on were compared"),
        (AuditTerms(until_ms=0), "before 1970-01-01 00:00:00 UTC were compared"),
        (AuditTerms("read_uncommitted"), "a read_uncommitted consumer"),
    ],
)
def test_what_was_not_compared_is_said(terms: AuditTerms, said: str) -> None:
    assert said in " ".join(a_report(SAME, terms=terms).statements)


def test_ways_of_comparing_are_said_by_topic() -> None:
    keys = replace(SAME, pair=replace(PAIR, by="keys"))
    stamped = replace(SAME, pair=replace(PAIR, times=False))
    said = " ".join(
        a_report(keys, stamped, replace(SAME, in_order=False, unlisted=4), EMPTY).statements
    )
    assert "latest record of each key, and not by their order: orders." in said
    assert "Only eu compacts" not in said
    alone = replace(keys, pair=replace(keys.pair, source_compacts=False))
    assert "Only eu compacts orders: whether it lacks older" in " ".join(a_report(alone).statements)
    assert "Timestamps were not compared" in said
    assert "order was not compared" in said
    assert "4 records with a finding are counted, but not listed." in said
    assert "7 records of the target were not compared" in said
