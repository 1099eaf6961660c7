"""Properties files are read as javaproperties reads them, and as fast however they are written."""

from __future__ import annotations

import random

import javaproperties
import pytest

from kafka_ferry.config.java_properties import PropertyEntry, entries, read_text

MANY = 200_000


def test_an_entry_has_the_line_of_its_key() -> None:
    text = "# one\n\na = 1\nb: 2,\\\n   3\r\n! no\\\n c\\ d  e\\u0041\rlast"
    assert [*entries(text)] == [
        PropertyEntry("a", "1", 3),
        PropertyEntry("b", "2,3", 4),
        PropertyEntry("c d", "eA", 7),
        PropertyEntry("last", "", 8),
    ]


@pytest.mark.parametrize("seed", range(20))
def test_each_text_has_the_entries_that_javaproperties_finds(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(500):
        text = "".join(chance.choices("ab\\\\\n\r \t\f=:#!u0é", k=chance.randrange(30)))
        try:
            expected = [*javaproperties.loads(text, object_pairs_hook=list)]
        except javaproperties.InvalidUEscapeError:
            with pytest.raises(javaproperties.InvalidUEscapeError):
                read_text(text)
            continue
        assert [(key, value) for key, value, _ in entries(text)] == expected, text


def test_a_value_of_many_lines_is_read_once() -> None:
    assert read_text("a = " + "bbbbbbbbbb\\\n" * MANY) == {"a": "b" * 10 * MANY}
