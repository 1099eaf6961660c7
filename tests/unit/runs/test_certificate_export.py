"""What an export says of its certificates, for people who know neither the flow nor its file."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from kafka_ferry.certificates import Certificate
from kafka_ferry.model import TopicPartition, Window
from kafka_ferry.runs.certificate_export import (
    CertifiedSpan,
    Export,
    WindowPart,
    _moments,
    _span,
)
from kafka_ferry.runs.certified_ranges import CertifiedRange
from tests.unit.certificates.builders import a_certificate

DAY, NEXT_DAY = Window(0, 100), Window(100, 200)
RULE = {"fingerprint": "f", "topics": ["users"], "set": {"value.email": "sha2(value.email, 256)"}}


def a_certificate_of(*rules: dict[str, object]) -> Certificate:
    header = a_certificate().header
    ruled = header.model_copy(update={"rules": {**header.rules, "transform": json.dumps(rules)}})
    return Certificate.issue(ruled, [], None)


def test_each_rule_that_changes_records_is_told_once() -> None:
    other = {"fingerprint": "g", "topics": ["a", "b.*"], "where": "key = 'x'"}
    certificates = (a_certificate(), a_certificate_of(RULE), a_certificate_of(RULE, other))
    assert Export(certificates, (), (), 0).rules == (
        ("users", "set: {'value.email': 'sha2(value.email, 256)'}"),
        ("a, b.*", "where: key = 'x'"),
    )
    assert Export((a_certificate(),), (), (), 0).rules == ()


def test_a_topic_that_was_renamed_is_in_each_of_its_remote_topics() -> None:
    source = TopicPartition("orders", 0)
    rows = [
        CertifiedRange((0, 20), 1, "eu.orders"),
        CertifiedRange((20, 50), 2, "eu.orders"),
        CertifiedRange((50, 60), 4, "anew"),
    ]
    assert _span(source, [WindowPart((30, 70), DAY)], rows, log_start=0) == CertifiedSpan(
        source, ("eu.orders", "anew"), (30, 70), (2, 4), ((60, 70),)
    )
    assert _span(source, [WindowPart((30, 50), DAY)], rows, log_start=30).serials == (1, 2)


@pytest.mark.parametrize(
    ("unread", "missing", "serials_named"),
    [
        # By range [0, 40), [40, 70) and [0, 70): how many of its records were gone before they were read back.
        ((0, 0, 70), (), ()),
        ((0, 0, 0), (), ()),
        ((0, 5, 0), (), ()),
        ((0, 5, 9), ((40, 70),), (2, 3)),
        ((1, 5, 9), ((30, 70),), (1, 2, 3)),
    ],
)
def test_a_range_that_was_not_read_back_whole_certifies_nothing(
    unread: tuple[int, int, int], missing: tuple[tuple[int, int], ...], serials_named: tuple[int]
) -> None:
    offsets = (0, 40), (40, 70), (0, 70)
    rows = [
        CertifiedRange(it, serial, "eu.orders", unread=count)
        for serial, (it, count) in enumerate(zip(offsets, unread, strict=True), 1)
    ]
    found = _span(TopicPartition("orders", 0), [WindowPart((30, 70), DAY)], rows, log_start=0)
    assert found.missing == missing
    assert tuple(it.serial for it in found.unread) == serials_named
    assert all(
        f"{it.unread} of its records" in text
        for it, text in zip(found.unread, found.unread_texts, strict=True)
    )


@pytest.mark.parametrize(
    ("rows", "serials", "missing"),
    [
        # It has looked at some offsets of the next day, too.
        ([((30, 60), DAY)], (0,), ((50, 70),)),
        ([((30, 60), DAY), ((50, 70), NEXT_DAY)], (0, 1), ()),
        ([((30, 70), Window(0, 200))], (0,), ()),
        ([((30, 70), Window(0, 60))], (0,), ((40, 70),)),
        ([((30, 70), Window(200, 300))], (), ((30, 70),)),
    ],
)
def test_a_backfill_certifies_only_records_of_its_days(
    rows: list[tuple[tuple[int, int], Window]],
    serials: tuple[int, ...],
    missing: tuple[tuple[int, int], ...],
) -> None:
    source, both = TopicPartition("orders", 0), Window(DAY.since_ms, NEXT_DAY.until_ms)
    ranges = [
        CertifiedRange(offsets, serial, "eu.orders", (days.since_ms, days.until_ms))
        for serial, (offsets, days) in enumerate(rows)
    ]
    offsets = {0: 30, 60: 40, 100: 50, 200: 70}
    moments = _moments(both, ranges)
    edges = [offsets[at] for at in moments]
    parts = [
        WindowPart(it, Window(*of))
        for it, of in zip(pairwise(edges), pairwise(moments), strict=True)
    ]
    told = _span(source, parts, ranges, log_start=0)
    assert (told.serials, told.missing) == (serials, missing)
