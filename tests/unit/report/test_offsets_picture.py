"""The picture of a flow's source offsets on the report page."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_ferry.batches import Reason
from kafka_ferry.report import RunReport, render
from kafka_ferry.report.offsets import UNACCOUNTED, OffsetsBar, OffsetsRow
from kafka_ferry.report.offsets_picture import HEIGHT, WIDTH, picture
from kafka_ferry.report.run_report import RunOffsets
from kafka_ferry.report.templates import template

from .reports import REPORT

BAR = OffsetsBar(1, 1, "run-1", False, 100, 90, reasons={"control": 10})
LOSS = OffsetsBar(2, 1, "run-2", False, 1_000_000, 999_999, lost=1, reasons={"lost": 1})
REWIND = replace(BAR, run="run-3", rewinds=1, rewound=4)
BACKFILL = OffsetsBar(3, 2, "fill-2", True, 50, 0, reasons={"copied-before": 30, "new": 20})


def test_the_parts_of_a_bar_are_all_its_offsets_in_proportion() -> None:
    shown = picture([BAR, replace(BAR, offsets=50, copied=50, reasons={})])
    tall = [box.height for box in shown.boxes]
    assert tall[0] == pytest.approx(9 * tall[1], rel=0.02)
    assert sum(tall[:2]) == pytest.approx(2 * tall[2], rel=0.02)
    assert (shown.parts, shown.most) == (("copied", "control"), 100)
    for box in shown.boxes:
        assert 0 <= box.x <= box.x + box.width <= WIDTH
        assert 0 <= box.y <= box.y + box.height <= HEIGHT + 0.2


def test_a_single_lost_record_among_a_million_is_seen_and_signed() -> None:
    shown = picture([LOSS])
    (lost,) = (box for box in shown.boxes if box.part == "lost")
    assert lost.height >= 2
    assert [sign.text for sign in shown.signs] == ["!"]
    assert [box.part for box in picture([LOSS], without_copied=True).boxes] == ["lost"]


def test_truncations_and_backfills_are_signed_and_unknown_reasons_are_others() -> None:
    shown = picture([REWIND, BACKFILL])
    assert [sign.text for sign in shown.signs] == ["↶", "B"]
    assert shown.parts == ("copied", "control", "copied-before", "other")
    assert shown.boxes[-1].title == "2 backfills up to fill-2: 20 other"


def test_nothing_has_no_picture() -> None:
    assert picture([]).boxes == ()
    assert "Source offsets of the flow so far" not in render(REPORT)


def test_every_part_has_a_colour() -> None:
    style = template("style.html.j2").render()
    for part in ("copied", UNACCOUNTED, "other", *Reason):
        assert f".part-{part}" in style, part


def test_the_report_has_the_picture_and_the_sums_of_topics_and_stores_them() -> None:
    rows = tuple(OffsetsRow(f"topic-{n}", -1, 100, 90, 10, n, 0, 0, 9) for n in range(2))
    report = replace(REPORT, so_far=RunOffsets((BAR, LOSS, BACKFILL), rows, 398))
    assert RunReport.from_json(report.to_json()) == report
    page = render(report)
    assert page.count("<svg") == 2
    assert "run run-2: 1 lost" in page
    assert "398 other topics" in page
    assert len(render(replace(report, so_far=RunOffsets((BAR,) * 60, rows)))) < 200_000
