"""What logins with tokens send, and what they make of a broker's answers."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_ferry.config.client.jaas import TOKEN_AUTH
from kafka_ferry.config.client.oauth import OAUTH_LOGIN, OAuthLogin
from kafka_ferry.errors import AccessDenied, ClusterUnreachable
from kafka_ferry.oauth import AccessToken, token_for
from kafka_ferry.wire import borrow
from kafka_ferry.wire.connections.sasl import initial_response, log_in
from tests.support.servers.identity_provider import SECRET, IdentityProvider, identity_provider
from tests.unit.wire.scripted import KINDS, Asked, ScriptedBroker, framed, sample

HANDSHAKE, AUTHENTICATE = KINDS[14:16]
INVALID = b'{"status":"invalid_token"}'


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    with identity_provider() as provider:
        yield provider


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as broker:
        yield broker


def settings(provider: IdentityProvider, **changes: object) -> dict[str, object]:
    login = OAuthLogin(provider.endpoint, "ferry", SECRET, extensions=(("pool", "p1"),), retry_s=0)
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        OAUTH_LOGIN: login,
        **changes,
    }


def answered(broker: ScriptedBroker, *answers: dict[str, object]) -> None:
    """Let the broker answer the steps of a login so, and then hang up."""
    left = list(answers)

    def answer(asked: Asked) -> bytes:
        if asked.api_key == HANDSHAKE.request.API_KEY:
            return framed(asked, HANDSHAKE.answer(), flexible=HANDSHAKE.is_flexible)
        if not left:
            return b""
        body = sample(AUTHENTICATE.response[None], 2, **left.pop(0)).encode(version=2)
        return framed(asked, body, flexible=AUTHENTICATE.is_flexible)

    broker.answer, broker.hang_up = answer, False


@pytest.mark.parametrize(
    ("extensions", "message"),
    [
        ({}, b"n,,\x01auth=Bearer t0ken\x01\x01"),
        ({"a": "b c"}, b"n,,\x01auth=Bearer t0ken\x01a=b c\x01\x01"),
        ({"a": "b", "c": "d"}, b"n,,\x01auth=Bearer t0ken\x01a=b\x01c=d\x01\x01"),
    ],
)
def test_the_first_message_is_that_of_rfc_7628(extensions: dict[str, str], message: bytes) -> None:
    assert initial_response(AccessToken("t0ken", 0, 0), extensions) == message


def test_an_empty_answer_lets_the_client_in(
    broker: ScriptedBroker, provider: IdentityProvider
) -> None:
    answered(broker, {"error_code": 0, "error_message": None, "auth_bytes": b""})
    connection = broker.connect(**settings(provider))
    assert not connection.closed
    connection.close()


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        (
            [
                {"error_code": 0, "error_message": None, "auth_bytes": INVALID},
                {"error_code": 58, "error_message": INVALID.decode(), "auth_bytes": b""},
            ],
            "refused the login: invalid_token.",
        ),
        (
            [
                {"error_code": 0, "error_message": None, "auth_bytes": INVALID},
                {"error_code": 58, "error_message": "no such pool", "auth_bytes": b""},
            ],
            "refused the login: no such pool.",
        ),
        (
            [{"error_code": 0, "error_message": None, "auth_bytes": INVALID}],
            "refused the login: invalid_token.",
        ),
        (
            [
                {
                    "error_code": 0,
                    "error_message": None,
                    "auth_bytes": b'{"status":"insufficient_scope","scope":"kafka"}',
                }
            ],
            "refused the login: insufficient_scope, scope kafka.",
        ),
        (
            [{"error_code": 58, "error_message": "Unknown\x1b extension", "auth_bytes": b""}],
            r"refused the login: Unknown\x1b extension.",
        ),
        (
            [{"error_code": 58, "error_message": None, "auth_bytes": b""}],
            "refused the login: it gives no reason.",
        ),
        ([{"error_code": 0, "error_message": None, "auth_bytes": b"\xff"}], "refused the login"),
    ],
)
def test_a_challenge_is_the_brokers_reason(
    answers: list[dict[str, object]],
    said: str,
    broker: ScriptedBroker,
    provider: IdentityProvider,
) -> None:
    answered(broker, *answers)
    with pytest.raises(AccessDenied) as caught:
        broker.connect(**settings(provider))
    assert said in caught.value.message
    assert f"The token is from {provider.endpoint} and has the issuer" in caught.value.advice
    assert "the audience kafka" in caught.value.advice
    assert provider.tokens[-1] not in str(caught.value)
    assert SECRET not in str(caught.value)


def test_the_token_itself_is_not_repeated(
    broker: ScriptedBroker, provider: IdentityProvider
) -> None:
    token = token_for(settings(provider)[OAUTH_LOGIN])
    answered(broker, {"error_code": 58, "error_message": f"bad {token.text}", "auth_bytes": b""})
    with pytest.raises(AccessDenied) as caught:
        broker.connect(**settings(provider))
    assert "bad" in str(caught.value)
    assert token.text not in str(caught.value)


def test_after_a_refusal_the_next_login_fetches_a_token(
    broker: ScriptedBroker, provider: IdentityProvider
) -> None:
    answered(broker, {"error_code": 58, "error_message": "revoked", "auth_bytes": b""})
    with pytest.raises(AccessDenied):
        broker.connect(**settings(provider))
    before = len(provider.tokens)
    answered(broker, {"error_code": 0, "error_message": None, "auth_bytes": b""})
    broker.connect(**settings(provider)).close()
    assert len(provider.tokens) == before + 1


def test_an_endpoint_that_fails_is_the_connections_error(
    broker: ScriptedBroker, provider: IdentityProvider
) -> None:
    login = OAuthLogin(provider.endpoint, "ferry", "wr0ng", origin="f.yaml: primary")
    with pytest.raises(AccessDenied, match="primary: the token endpoint") as caught:
        broker.connect(**settings(provider, **{OAUTH_LOGIN: login}))
    assert "wr0ng" not in str(caught.value)
    provider.failures = [503]
    other = OAuthLogin(provider.endpoint, "another", SECRET, retry_s=0)
    with pytest.raises(ClusterUnreachable, match="HTTP 503"):
        broker.connect(**settings(provider, **{OAUTH_LOGIN: other}))


def test_connections_with_another_secret_are_not_shared(provider: IdentityProvider) -> None:
    base = {"bootstrap_servers": ["127.0.0.1:1"], **settings(provider)}
    with borrow("kept", base) as first:
        pass
    with borrow("kept", {**base, "bootstrap_servers": ["127.0.0.1:1"]}) as again:
        assert again is first
    other = OAuthLogin(provider.endpoint, "ferry", "another")
    with borrow("kept", {**base, OAUTH_LOGIN: other}) as stranger:
        assert stranger is not first


class TokenServer:
    """A broker's side of SCRAM-SHA-256 for a delegation token (RFC 5802, KIP-48)."""

    def __init__(self, hmac_text: str) -> None:
        self._salted = hashlib.pbkdf2_hmac("sha256", hmac_text.encode(), b"salt", 4096)
        self.first = b""
        self._exchange = b""

    def __call__(self, request: Any) -> SimpleNamespace:
        if not hasattr(request, "auth_bytes"):
            return SimpleNamespace(error_code=0)
        answer = self._last(request.auth_bytes) if self.first else self._first(request.auth_bytes)
        return SimpleNamespace(error_code=0, auth_bytes=answer, session_lifetime_ms=7)

    def _first(self, message: bytes) -> bytes:
        self.first = message
        bare = message.removeprefix(b"n,,")
        nonce = dict(part.split(b"=", 1) for part in bare.split(b","))[b"r"] + b"broker"
        answer = b"r=%s,s=%s,i=4096" % (nonce, base64.b64encode(b"salt"))
        self._exchange = b"%s,%s,c=biws,r=%s" % (bare, answer, nonce)
        return answer

    def _last(self, message: bytes) -> bytes:
        client_key = self._signed(self._salted, b"Client Key")
        signature = self._signed(hashlib.sha256(client_key).digest(), self._exchange)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        assert message.endswith(b",p=" + base64.b64encode(proof))
        server_key = self._signed(self._salted, b"Server Key")
        return b"v=" + base64.b64encode(self._signed(server_key, self._exchange))

    @staticmethod
    def _signed(key: bytes, message: bytes) -> bytes:
        return hmac.new(key, message, hashlib.sha256).digest()


@pytest.mark.parametrize(("is_token", "end"), [(True, b",tokenauth=true"), (False, b"")])
def test_a_delegation_token_is_named_as_one_in_what_both_sides_sign(
    is_token: bool, end: bytes
) -> None:
    server = TokenServer("aG1hYw==")
    config = {
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": "an-id",
        "sasl_plain_password": "aG1hYw==",
        TOKEN_AUTH: is_token,
    }
    assert log_in(server, "broker", "127.0.0.1", config) == 7
    assert re.fullmatch(rb"n,,n=an-id,r=[0-9a-f]+" + end, server.first)
