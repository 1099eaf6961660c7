"""Assertions are signed as Kafka signs them, from files that may change, and shown nowhere.

The token endpoint is a real HTTP server, which checks signature and claims with ``cryptography`` alone.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from kafka_ferry.config.client.assertion import (
    ALGORITHM,
    ASSERTION_FILE,
    PASSPHRASE,
    PRIVATE_KEY,
    TEMPLATE,
    Assertion,
)
from kafka_ferry.config.client.login_values import LoginFile
from kafka_ferry.config.client.oauth import OAuthLogin
from kafka_ferry.errors import AccessDenied, ConfigError
from kafka_ferry.oauth import token_for
from kafka_ferry.oauth.signed_assertion import sign_assertion
from kafka_ferry.oauth.token_endpoint import fetch_token
from tests.support.servers.identity_provider import (
    BY_JWT,
    SHOWN_JWT,
    IdentityProvider,
    identity_provider,
    is_signed_by,
    locked,
    private_key,
    read_jwt,
)

PLACE = "f.yaml: primary"
PHRASE = "0pen-se5ame"
CLAIMS = (("aud", "id"), ("iss", "ferry"), ("sub", "me"))


@pytest.fixture
def provider() -> Iterator[IdentityProvider]:
    with identity_provider() as provider:
        yield provider


def by_key(folder: Path, pem: str, **changes: Any) -> Assertion:
    (folder / "key.pem").write_text(pem)
    key = LoginFile(str(folder / "key.pem"), PRIVATE_KEY)
    return replace(Assertion(key=key, claims=CLAIMS), **changes)


def template(folder: Path, content: object) -> LoginFile:
    file = folder / "template.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return LoginFile(str(file), TEMPLATE)


def login(provider: IdentityProvider, assertion: Assertion, **changes: Any) -> OAuthLogin:
    to_endpoint = tuple((k, provider.endpoint if k == "aud" else v) for k, v in assertion.claims)
    return OAuthLogin(
        provider.endpoint,
        assertion=replace(assertion, claims=to_endpoint),
        backoff_s=0.01,
        origin=PLACE,
        **changes,
    )


@pytest.mark.parametrize("kind", ["RS256", "ES256"])
@pytest.mark.parametrize("is_locked", [False, True], ids=["open", "locked"])
def test_header_claims_and_signature_are_kafkas(kind: str, is_locked: bool, tmp_path: Path) -> None:
    pem, public = private_key(kind)
    phrase = PHRASE if is_locked else ""
    text = sign_assertion(
        by_key(
            tmp_path,
            locked(pem, PHRASE) if is_locked else pem,
            algorithm=kind,
            passphrase=phrase,
        ),
        PLACE,
    )
    header, claims = read_jwt(text)
    now = claims["iat"]
    assert header == {"alg": kind, "typ": "JWT"}
    assert claims == {**dict(CLAIMS), "iat": now, "exp": now + 300, "nbf": now - 60}
    assert 0 <= time.time() - now < 60
    assert is_signed_by(text, public)
    assert not is_signed_by(text, private_key(kind)[1])


def test_a_template_wins_over_properties_and_what_is_made_now_over_both(tmp_path: Path) -> None:
    told = {
        "header": {"kid": "k1", "alg": "none", "typ": "other"},
        "payload": {"iss": "template", "roles": ["a"], "exp": 1, "jti": "fixed"},
    }
    made = by_key(tmp_path, private_key("RS256")[0], template=template(tmp_path, told))
    header, claims = read_jwt(sign_assertion(made, PLACE))
    assert header == {"kid": "k1", "alg": "RS256", "typ": "JWT"}
    assert claims["exp"] == claims["iat"] + 300
    del claims["exp"], claims["iat"], claims["nbf"]
    assert claims == {"aud": "id", "iss": "template", "sub": "me", "roles": ["a"], "jti": "fixed"}

    with_ids = replace(made, has_id=True, life_s=10, back_s=5)
    found = [read_jwt(sign_assertion(with_ids, PLACE))[1] for _ in range(2)]
    assert len({"fixed", *(claims["jti"] for claims in found)}) == 3
    assert [claims["exp"] - claims["nbf"] for claims in found] == [15, 15]


@pytest.mark.parametrize("half", [{"header": {"kid": "k"}}, {"payload": {"iss": "t"}}, {}])
def test_a_template_may_have_one_part_only(half: dict[str, Any], tmp_path: Path) -> None:
    made = by_key(tmp_path, private_key("ES256")[0], algorithm="ES256")
    made = replace(made, template=template(tmp_path, half))
    header, claims = read_jwt(sign_assertion(made, PLACE))
    assert header.get("kid") == half.get("header", {}).get("kid")
    assert claims["iss"] == half.get("payload", {}).get("iss", "ferry")


def test_the_jwt_bearer_grant_sends_the_assertion_and_the_scope_only(
    provider: IdentityProvider, tmp_path: Path
) -> None:
    pem, provider.clients["ferry"] = private_key("RS256")
    token = token_for(login(provider, by_key(tmp_path, pem), scope="a b", is_jwt_bearer=True))
    ((headers, form),) = provider.requests
    assert form == {"grant_type": [BY_JWT], "assertion": provider.assertions, "scope": ["a b"]}
    assert "Authorization" not in headers
    assert token.text == provider.tokens[0]


def test_client_credentials_send_the_assertion_instead_of_the_secret(
    provider: IdentityProvider, tmp_path: Path
) -> None:
    pem, provider.clients["ferry"] = private_key("ES256")
    wanted = login(provider, by_key(tmp_path, pem, algorithm="ES256"), client_id="ann")
    assert token_for(wanted).text == provider.tokens[0]
    ((headers, form),) = provider.requests
    assert form == {
        "grant_type": ["client_credentials"],
        "client_assertion_type": [SHOWN_JWT],
        "client_assertion": provider.assertions,
        "client_id": ["ann"],
    }
    assert "Authorization" not in headers


def test_each_fetch_reads_the_files_again(provider: IdentityProvider, tmp_path: Path) -> None:
    made = by_key(tmp_path, "", template=template(tmp_path, {"payload": {"iss": "first"}}))
    wanted = login(provider, made)
    for issuer in ("first", "second"):
        pem, provider.clients[issuer] = private_key("RS256")
        (tmp_path / "key.pem").write_text(pem)
        template(tmp_path, {"payload": {"iss": issuer}})
        fetch_token(wanted)
    prepared = LoginFile(str(tmp_path / "assertion"), ASSERTION_FILE)
    for text in provider.assertions[:]:
        (tmp_path / "assertion").write_text(f"{text}\n")
        fetch_token(login(provider, Assertion(prepared=prepared)))
    assert [read_jwt(text)[1]["iss"] for text in provider.assertions] == ["first", "second"] * 2


def test_a_retried_request_has_an_assertion_of_its_own(
    provider: IdentityProvider, tmp_path: Path
) -> None:
    pem, provider.clients["ferry"] = private_key("RS256")
    provider.failures = [503]
    fetch_token(login(provider, by_key(tmp_path, pem, has_id=True)))
    sent = [form["client_assertion"][0] for _, form in provider.requests]
    assert len({read_jwt(text)[1]["jti"] for text in sent}) == 2


def test_a_refused_assertion_is_told_and_not_shown(
    provider: IdentityProvider, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    _, provider.clients["ferry"] = private_key("RS256")
    pem = private_key("RS256")[0]
    made = by_key(tmp_path, locked(pem, PHRASE), passphrase=PHRASE)
    with pytest.raises(AccessDenied, match=r"wrong signature: \*\*\*\*\*\*") as caught:
        token_for(login(provider, made))
    sent = provider.requests[0][1]["client_assertion"][0]
    assert "the assertion's claims" in caught.value.advice
    for part in (*sent.split("."), PHRASE):
        assert part not in f"{caught.value} {caplog.text} {made!r}"


P384 = ec.generate_private_key(ec.SECP384R1()).private_bytes(
    Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
)


@pytest.mark.parametrize(
    ("pem", "changes", "key", "said"),
    [
        (None, {}, PRIVATE_KEY, "cannot be read: No such file"),
        ("no key", {}, PRIVATE_KEY, "holds no private key in PEM"),
        ("locked", {}, PASSPHRASE, "is required: the private key is encrypted"),
        ("locked", {"passphrase": "wr0ng"}, PASSPHRASE, "does not open the private key"),
        ("RS256", {"algorithm": "ES256"}, ALGORITHM, "needs a key on the curve P-256"),
        (P384.decode(), {"algorithm": "ES256"}, ALGORITHM, "needs a key on the curve P-256"),
        ("ES256", {}, ALGORITHM, "needs an RSA key"),
        ("RS256", {"template": "[]"}, TEMPLATE, "must hold JSON of the form"),
        ("RS256", {"template": "{"}, TEMPLATE, "must hold JSON of the form"),
        ("RS256", {"template": '{"payload": 5}'}, TEMPLATE, "must hold JSON of the form"),
        ("RS256", {"template": '{"header": {"kid": 5}}'}, TEMPLATE, "gives no valid JWT"),
        ("RS256", {"template": '{"payload": {"iss": 5}}'}, TEMPLATE, "gives no valid JWT"),
    ],
)
def test_files_that_give_no_assertion_are_refused_by_their_key(
    pem: str | None, changes: dict[str, str], key: str, said: str, tmp_path: Path
) -> None:
    if pem in ("RS256", "ES256"):
        pem = private_key(pem)[0]
    elif pem == "locked":
        pem = locked(private_key("RS256")[0], PHRASE)
    more: dict[str, Any] = dict(changes)
    if "template" in changes:
        more["template"] = template(tmp_path, changes["template"])
    made = by_key(tmp_path, pem or "", **more)
    if pem is None:
        (tmp_path / "key.pem").unlink()
    with pytest.raises(ConfigError) as caught:
        sign_assertion(made, PLACE)
    assert (caught.value.file, caught.value.key) == (PLACE, key)
    assert said in str(caught.value)
    assert "wr0ng" not in str(caught.value)


@pytest.mark.parametrize("content", ["", "text", "a.b.c"])
def test_a_file_without_an_assertion_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text(content)
    prepared = LoginFile(str(tmp_path / "file"), ASSERTION_FILE)
    with pytest.raises(ConfigError, match="holds no JWT") as caught:
        sign_assertion(Assertion(prepared=prepared), PLACE)
    assert caught.value.key == ASSERTION_FILE
