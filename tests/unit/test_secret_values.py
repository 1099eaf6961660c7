"""Secrets in sentences: found in each form in which something prints them."""

from __future__ import annotations

import base64
import html
import json
from urllib.parse import quote, quote_plus

import pytest

from kafka_ferry import secret_values
from kafka_ferry.errors import ConfigError, FerryError
from kafka_ferry.secret_values import MASK, mask, remember, without

PEM = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcw\nggSjAgEAAoIBAQC7\n-----END KEY-----\n"
SECRETS = [
    "plain-secret",
    'it\'s "quoted"',
    'only "double',
    "back\\slash/and%percent&=+",
    "pässwörd-ключ",
    "tab\tand\nline",
    PEM,
]


def basic(secret: str, user: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{secret}".encode()).decode()


FORMS = {
    "plain": lambda it: it,
    "repr": repr,
    "ascii": ascii,
    "KeyError": lambda it: str(KeyError(it)),
    "KeyError of repr": lambda it: str(KeyError(f"no {it!r} here")),
    "list": lambda it: str([it, "\"'"]),
    "inside of a longer text": lambda it: repr(f"\"a\" and 'b' {it}"),
    "bytes": lambda it: repr(it.encode()),
    "longer bytes": lambda it: repr(b"'\"" + it.encode()),
    "json": json.dumps,
    "json in unicode": lambda it: json.dumps({"a": it}, ensure_ascii=False),
    "json of json": lambda it: json.dumps(json.dumps({"a": it})),
    "url": lambda it: quote(it, safe=""),
    "path": quote,
    "form": quote_plus,
    "lower url": lambda it: quote(it, safe="").replace("%2F", "%2f").replace("%0A", "%0a"),
    "html": html.escape,
    "hex": lambda it: it.encode().hex(),
    "base64": lambda it: base64.b64encode(it.encode()).decode(),
    "base64 of a url": lambda it: base64.urlsafe_b64encode(it.encode()).decode(),
    **{
        f"basic {user}": lambda it, user=user: basic(it, user)
        for user in ("u", "us", "usr", "user")
    },
    "base64 with more": lambda it: base64.b64encode(f"a{it}zz".encode()).decode(),
}


def parts_of(secret: str) -> list[str]:
    """What must not be left of it, in no form."""
    return [secret, *(line for line in secret.splitlines() if len(line) > 15)]


@pytest.mark.parametrize("secret", SECRETS)
def test_no_form_of_a_secret_is_left(secret: str) -> None:
    for form, in_form in FORMS.items():
        printed = in_form(secret)

        found = without(f"It said: {printed}, twice: {printed}.", [secret])

        assert found.count(MASK) >= 2, form
        assert printed.strip("'\"b[]{}=") not in found, form
        assert not [part for part in parts_of(secret) if part in found], form
        if form.startswith(("base64", "basic")):
            rest = found.removeprefix("It said: ").partition(",")[0].removeprefix("Basic ")
            assert len(rest.replace(MASK, "").rstrip("=")) <= 8, form


def test_a_line_of_a_key_is_no_less_secret() -> None:
    assert without("line 2: MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcw", [PEM]) == f"line 2: {MASK}"


def test_a_secret_that_is_a_part_of_another_leaves_nothing_of_it() -> None:
    assert without("abc-defgh", ["abc-d", "abc-defgh"]) == MASK


def test_what_is_given_a_short_secret_is_searched_for_it() -> None:
    assert without("KeyError: 'a1'", ["a1", ""]) == f"KeyError: '{MASK}'"


def test_errors_never_show_what_the_process_has_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secret_values, "_known", {})
    remember(["s3cret", "abc", "much-longer-secret"])

    assert (
        str(FerryError("It has 's3cret'.", advice="Not s3cret.")) == f"It has '{MASK}'. Not {MASK}."
    )
    error = ConfigError("a.yaml", "key", "is xmuch-longer-secretx")
    assert (str(error), error.reason) == (f"a.yaml: key: is x{MASK}x", f"is x{MASK}x")
    assert mask("nos3cretword and abc") == "nos3cretword and abc"
