"""Logins as Java's JaasConfig reads them; each was also tried with Java's own tokenizer."""

from contextlib import suppress
from time import process_time

import pytest

from kafka_ferry.config.client.jaas import JaasError, parse_login

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize(
    ("options", "password"),
    [
        ('password="pw"', "pw"),
        ("password='pw'", "pw"),
        ("password=pw", "pw"),
        ('password = "p;w=/*x*/"', "p;w=/*x*/"),
        (r'password="a\"b\\c"', r"a\"b\c".replace(r"\"", '"')),
        ("password='a\"b'", 'a"b'),
        (r'password="\101\t"', "A\t"),
        ('password="ü€😀"', "ü€😀"),
        ('password=""', ""),
        ('password="a" password="b"', "b"),
        ('/* password="x" */ password="pw" // more\n', "pw"),
        ('\n  password="pw"\n', "pw"),
    ],
)
def test_options_are_words_or_quoted(options: str, password: str) -> None:
    login = parse_login(f'{MODULE} required username="u" {options};')
    assert login.module == MODULE
    assert login.options == {"username": "u", "password": password}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hunter2",
        "Module required",
        'Module username="hunter2";',
        'Module required password="hunter2"',
        'Module required password="hunter2;',
        "Module required password hunter2;",
        "Module required password= ;",
        "Module required ='hunter2';",
        "Module required password=hunter2/x;",
        'Module required password="hunter2"; Other required;',
        "; required;",
    ],
)
def test_what_is_no_login_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(JaasError) as caught:
        parse_login(text)
    assert "hunter2" not in str(caught.value)


def test_a_login_does_not_show_its_options() -> None:
    assert "hunter2" not in repr(parse_login('M required password="hunter2";'))


def test_comments_that_nothing_closes_take_no_longer_than_the_text() -> None:
    with pytest.raises(JaasError, match="a semicolon at its end"):
        parse_login("PlainLoginModule required " + "/*\n" * 300_000 + 'username="u";')


def test_a_login_that_many_flows_share_is_read_once() -> None:
    options = " ".join(f"o{number}=1" for number in range(6_000))
    began = process_time()
    for text in (f"{MODULE} required {options};", f"{MODULE} required {options}"):
        for _ in range(1_000):
            with suppress(JaasError):
                parse_login(text)
    assert process_time() - began < 5
