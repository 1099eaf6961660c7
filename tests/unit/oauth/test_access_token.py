"""What a token says of itself, if it is one that says anything."""

from __future__ import annotations

import base64
import json

import pytest

from kafka_ferry.oauth.access_token import AccessToken, claims_of, expiry_of, is_token


def a_jwt(claims: object) -> str:
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"eyJhbGciOiJub25lIn0.{body}.c2ln"


@pytest.mark.parametrize(
    ("claims", "expiry"),
    [({"exp": 1_700_000_000}, 1_700_000_000.0), ({"exp": 1.5}, 1.5), ({"exp": "soon"}, None)]
    + [({"exp": far}, None) for far in (10**400, 1e300, -1)],
)
def test_a_jwt_says_when_it_expires(claims: object, expiry: float | None) -> None:
    assert expiry_of(a_jwt(claims)) == expiry


@pytest.mark.parametrize(
    "text", ["opaque", "a.b", "a.!!.c", "a.bm8.c", a_jwt([1]), "", "a." + "W1tb" * 30_000 + ".c"]
)
def test_a_token_of_another_kind_says_nothing(text: str) -> None:
    assert claims_of(text) == {}
    assert expiry_of(text) is None


@pytest.mark.parametrize(
    ("text", "sendable"),
    [("abc-._~+/==", True), ("", False), ("a b", False), ("a\nb", False), ("a=b", False)],
)
def test_only_rfc_6750s_characters_can_be_sent(text: str, sendable: bool) -> None:
    assert is_token(text) == sendable


def test_a_refused_token_is_described_by_what_a_broker_checks() -> None:
    text = a_jwt({"iss": "https://id", "aud": "kafka", "sub": "anna"})
    token = AccessToken(text, renew_at=0, expires_at=0)
    assert token.described == "has the issuer https://id, has the audience kafka"
    assert AccessToken(a_jwt({"iss": "\x1b[2J"}), 0, 0).described == r"has the issuer \x1b[2J"
    assert AccessToken(a_jwt({"iss": "x" * 400}), 0, 0).described == ""
    assert text not in repr(token)
