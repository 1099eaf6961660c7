"""The page of options that people read is the one that the models make."""

from __future__ import annotations

from pathlib import Path

from kafka_ferry.config.flow import OPTIONS
from kafka_ferry.config.reference import options_page

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "options.md"


def test_the_page_in_the_docs_is_as_make_docs_writes_it() -> None:
    assert PAGE.read_text() == options_page()


def test_every_option_has_an_explanation() -> None:
    rows = [line.split(" | ") for line in options_page().splitlines() if line.startswith("| `")]
    assert [row[0].strip("|` ") for row in rows] == list(OPTIONS)
    assert all(len(row[2]) > 10 for row in rows)
