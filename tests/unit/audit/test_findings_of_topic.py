"""What a topic's partitions come to once records that one of them lacks were looked for in the others."""

from __future__ import annotations

import pytest

from kafka_ferry.audit import findings_of_topic
from kafka_ferry.audit.comparison.findings import Differing
from kafka_ferry.audit.findings_of_topic import elsewhere, results_in_order
from kafka_ferry.audit.outcome import PairOutcome
from kafka_ferry.audit.result import PairCounts
from kafka_ferry.audit.terms import AuditPair, LogExtent

WHOLE = LogExtent(0, 0, 100)


def an_outcome(partition: int, *differing: Differing, failure: str = "") -> PairOutcome:
    pair = AuditPair("orders", partition, "eu.orders", WHOLE, WHOLE)
    return PairOutcome(
        pair,
        counts=PairCounts(100, 100, matched=100 - len(differing)),
        differing=list(differing),
        failure=failure,
    )


def test_each_difference_is_counted_by_its_kind_and_listed() -> None:
    altered = [Differing("altered", at, at, ("value",)) for at in (3, 4)]
    outcome = an_outcome(0, *altered, Differing("reordered", 9, 8))
    (audited,) = results_in_order([outcome], elsewhere([outcome]))
    assert (audited.counts.altered, audited.counts.reordered, audited.counts.found) == (2, 1, 3)
    assert [finding.records for finding in audited.findings] == [1, 2]
    assert (audited.state, audited.unlisted) == ("differs", 0)


def test_a_partition_that_could_not_be_read_has_the_reason_and_no_counts() -> None:
    read, unread = an_outcome(0), an_outcome(1, failure="the source denies READ.")
    first, second = results_in_order([read, unread], elsewhere([read, unread]))
    assert first.state == "same"
    assert (second.state, second.reason) == ("not compared", "the source denies READ.")
    assert second.counts.source_records == 0


def test_findings_beyond_the_limit_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings_of_topic, "MOST_FINDINGS", 2)
    # Every other record, so that each is a finding; and the last three are one.
    places = [0, 2, 4, 5, 6]
    outcome = an_outcome(0, *(Differing("altered", at, at, ("key",)) for at in places))
    (audited,) = results_in_order([outcome], elsewhere([outcome]))
    assert (len(audited.findings), audited.unlisted, audited.counts.altered) == (2, 3, 5)
