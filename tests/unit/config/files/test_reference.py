"""The pages of options and keys that people read are those that the code makes."""

from __future__ import annotations

import pytest

from kafka_ferry.config.client.property_names import CONNECTION_NAMES
from kafka_ferry.config.files.mm2_keys import KEYS
from kafka_ferry.config.files.reference import PAGES, mirrormaker2_page, options_page
from kafka_ferry.config.flow import OPTIONS
from tests import PROJECT

FOLDER = PROJECT / "docs" / "reference"


@pytest.mark.parametrize("name", PAGES)
def test_a_page_in_the_docs_is_as_make_docs_writes_it(name: str) -> None:
    assert (FOLDER / f"{name}.md").read_text() == PAGES[name]()


def rows_of(page: str) -> list[list[str]]:
    return [line.split(" | ") for line in page.splitlines() if line.startswith("| `")]


def test_every_option_has_an_explanation() -> None:
    rows = rows_of(options_page())
    assert [row[0].strip("|` ") for row in rows] == list(OPTIONS)
    assert all(len(row[2]) > 10 for row in rows)


def test_every_key_of_mirrormaker_2_stands_once_in_its_page() -> None:
    named = [row[0].strip("|` ") for row in rows_of(mirrormaker2_page())]
    known = [*KEYS, *CONNECTION_NAMES]
    assert sorted(name for name in named if not name.startswith("{")) == sorted(known)
