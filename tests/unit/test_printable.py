from __future__ import annotations

import pytest

from kafka_ferry.printable import excerpt, one_line, printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("orders", "orders"),
        ("a\nb\tc", "a\nb\tc"),
        ("müller 😀", "müller 😀"),
        ("\x1b[2Jall is verified", r"\x1b[2Jall is verified"),
        ("a\rb\x00c\x7f\x9b", r"a\rb\x00c\x7f\x9b"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("a\u200e\u200f\u061c\u200b\ufeff\u2060b", r"a\u200e\u200f\u061c\u200b\ufeff\u2060b"),
        ("a\ud800\U000e0041", r"a\ud800\U000e0041"),
        # On Airflow's page of a log, no line is seen that has one of these.
        ("a::endgroup::b:::group::c", r"a\x3a:endgroup::b:\x3a:group::c"),
        ("group::a: endgroup::", "group::a: endgroup::"),
    ],
)
def test_control_characters_are_shown_as_numbers(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_a_name_with_line_breaks_takes_one_line() -> None:
    assert one_line("a\nb\tc\u2028d\x1b") == "a\\nb\\tc\\u2028d\\x1b"


def test_of_what_a_server_says_no_more_is_shown_than_people_read() -> None:
    assert excerpt(" no\n such\x1b topic. ") == r"no such\x1b topic"
    assert excerpt("a" * 10**8) == "a" * 300
    assert excerpt("a" * 400, 350) == "a" * 350
