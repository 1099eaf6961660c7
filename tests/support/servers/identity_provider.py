"""An identity provider on this machine: gives tokens to clients it knows, and shows its public key.

It checks a client's secret, or the signature and claims of its assertion. It does so without the library
that signs assertions, so that an error of that library shows.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from kafka_sandbox.logins.secure import Identity
from tests.support.servers.http_server import QuietHandler, http_server

AUDIENCE = "kafka"
SECRET = "cl1ent-s3cret"
BY_JWT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
SHOWN_JWT = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


def _base64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def _number(value: int) -> str:
    return _base64(value.to_bytes((value.bit_length() + 7) // 8, "big"))


def _part(text: str) -> dict[str, Any]:
    return json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))


def read_jwt(text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Header and claims of a JWT, unverified."""
    header, payload, _ = text.split(".")
    return _part(header), _part(payload)


def is_signed_by(text: str, key: rsa.RSAPublicKey | ec.EllipticCurvePublicKey) -> bool:
    """Whether a JWT's signature is that of the key, as RS256 or ES256 (RFC 7518, 3.3 and 3.4)."""
    signed, _, encoded = text.rpartition(".")
    signature = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
    algorithm = read_jwt(text)[0]["alg"]
    try:
        if isinstance(key, rsa.RSAPublicKey):
            key.verify(signature, signed.encode(), padding.PKCS1v15(), hashes.SHA256())
            return algorithm == "RS256"
        pair = (int.from_bytes(signature[:32]), int.from_bytes(signature[32:]))
        key.verify(encode_dss_signature(*pair), signed.encode(), ec.ECDSA(hashes.SHA256()))
        return algorithm == "ES256" and len(signature) == 64
    except InvalidSignature:
        return False


@dataclass
class IdentityProvider:
    """A token endpoint and a key set; clients are known by any id and the one secret, or by their keys.

    Attributes:
        url: where it listens.
        life_s: how long its tokens are valid.
        failures: the HTTP statuses of the next answers, before it answers well.
        answer: what it answers instead of a token.
        pause_s: how long it takes to answer.
        tokens: those that it gave.
        requests: headers and form of each request for a token.
        clients: the public key of each issuer whose assertions it accepts; those with an id once.
        assertions: those that it has accepted.
    """

    url: str = ""
    life_s: float = 3600
    failures: list[int] = field(default_factory=list)
    answer: dict[str, Any] | None = None
    pause_s: float = 0
    tokens: list[str] = field(default_factory=list)
    requests: list[tuple[dict[str, str], dict[str, list[str]]]] = field(default_factory=list)
    clients: dict[str, rsa.RSAPublicKey | ec.EllipticCurvePublicKey] = field(default_factory=dict)
    assertions: list[str] = field(default_factory=list)
    key: rsa.RSAPrivateKey = field(
        default_factory=lambda: rsa.generate_private_key(public_exponent=65537, key_size=2048)
    )

    @property
    def endpoint(self) -> str:
        """The token endpoint."""
        return f"{self.url}/token"

    @property
    def keys(self) -> str:
        """Where its public key is (JWKS)."""
        return f"{self.url}/keys"

    def token(self, subject: str, **claims: Any) -> str:
        """A signed JWT (RS256)."""
        now = int(time.time())
        body = {"sub": subject, "iss": self.url, "aud": AUDIENCE, "iat": now}
        body |= {"exp": now + self.life_s, "scope": "all", **claims}
        header = {"alg": "RS256", "typ": "JWT", "kid": "the-key"}
        signed = ".".join(_base64(json.dumps(part).encode()) for part in (header, body))
        signature = self.key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signed}.{_base64(signature)}"

    def key_set(self) -> dict[str, Any]:
        """The public key as a broker asks for it."""
        numbers = self.key.public_key().public_numbers()
        key = {"kty": "RSA", "kid": "the-key", "use": "sig", "alg": "RS256"}
        return {"keys": [{**key, "n": _number(numbers.n), "e": _number(numbers.e)}]}

    def answer_to(self, headers: dict[str, str], form: str) -> tuple[int, dict[str, Any]]:
        """Status and content of an answer to a request for a token."""
        fields = {name: values[0] for name, values in parse_qs(form).items()}
        self.requests.append((headers, parse_qs(form)))
        time.sleep(self.pause_s)
        if self.failures:
            return self.failures.pop(0), {}
        if self.answer is not None:
            return 200, self.answer
        client, problem = self._client(headers, fields)
        if problem:
            return 401, {"error": "invalid_client", "error_description": problem}
        self.tokens.append(self.token(client, nonce=len(self.tokens)))
        return 200, {"access_token": self.tokens[-1], "expires_in": int(self.life_s)}

    def _client(self, headers: dict[str, str], fields: dict[str, str]) -> tuple[str, str]:
        """For whom the token is, and what is wrong with the request."""
        if fields["grant_type"] == BY_JWT:
            return self._issuer(fields["assertion"])
        assert fields["grant_type"] == "client_credentials"
        if "client_assertion" in fields:
            assert fields["client_assertion_type"] == SHOWN_JWT
            issuer, problem = self._issuer(fields["client_assertion"])
            return fields.get("client_id", issuer), problem
        words = base64.b64decode(headers["Authorization"].removeprefix("Basic ")).decode()
        client, _, secret = words.partition(":")
        return client, "" if secret == SECRET else f"wrong secret {secret}"

    def _issuer(self, assertion: str) -> tuple[str, str]:
        """Who signed an assertion, and what is wrong with it (RFC 7523, 3)."""
        claims, now = read_jwt(assertion)[1], time.time()
        issuer = claims.get("iss", "")
        checks = {
            "unknown issuer": issuer in self.clients,
            "wrong audience": claims.get("aud") == self.endpoint,
            "no subject": bool(claims.get("sub")),
            "expired": claims.get("exp", 0) > now,
            "not valid yet": claims.get("nbf", 0) <= now,
            "used before": "jti" not in claims or assertion not in self.assertions,
        }
        problems = [problem for problem, ok in checks.items() if not ok]
        if not problems and not is_signed_by(assertion, self.clients[issuer]):
            problems = ["wrong signature"]
        if not problems:
            self.assertions.append(assertion)
        return issuer, f"{', '.join(problems)}: {assertion}" if problems else ""


@contextmanager
def identity_provider(identity: Identity | None = None) -> Iterator[IdentityProvider]:
    """Yields one on a free port, over TLS if it has an ``identity`` to show."""
    provider = IdentityProvider()

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            self._send(*provider.answer_to(dict(self.headers), self.body().decode()))

        def do_GET(self) -> None:
            self._send(200, provider.key_set())

        def _send(self, status: int, content: dict[str, Any]) -> None:
            headers = {"Content-Type": "application/json"}
            if 300 <= status < 400:
                headers["Location"] = f"{provider.url}/elsewhere"
            self.answer(status, json.dumps(content).encode(), headers)

    with http_server(Handler, identity) as provider.url:
        yield provider


def private_key(kind: str) -> tuple[str, rsa.RSAPublicKey | ec.EllipticCurvePublicKey]:
    """A new private key for ``RS256`` or ``ES256`` in PEM (PKCS #8), and its public key."""
    key = (
        rsa.generate_private_key(public_exponent=65537, key_size=2048)
        if kind == "RS256"
        else ec.generate_private_key(ec.SECP256R1())
    )
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    return text, key.public_key()


def locked(pem: str, passphrase: str) -> str:
    """The same private key, encrypted."""
    key = load_pem_private_key(pem.encode(), None)
    form = BestAvailableEncryption(passphrase.encode())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, form).decode()


def assertion_properties(endpoint: str, key: Path, issuer: str, **claims: str) -> dict[str, str]:
    """The properties of a login with OAUTHBEARER that signs assertions with a key."""
    at = "sasl.oauthbearer.assertion"
    told = {"iss": issuer, "sub": issuer, "aud": endpoint, **claims}
    return {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.login.callback.handler.class": MODULE.replace("Module", "CallbackHandler"),
        "sasl.oauthbearer.token.endpoint.url": endpoint,
        f"{at}.private.key.file": str(key),
        **{f"{at}.claim.{name}": value for name, value in told.items()},
    }


def oauth_properties(endpoint: str, secret: str = SECRET, **options: str) -> dict[str, str]:
    """The properties of a login with OAUTHBEARER as MirrorMaker 2's users write them."""
    words = {"clientId": "ferry", "clientSecret": secret, "scope": "all", **options}
    written = " ".join(f"{name}='{value}'" for name, value in words.items())
    return {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.login.callback.handler.class": MODULE.replace("Module", "CallbackHandler"),
        "sasl.oauthbearer.token.endpoint.url": endpoint,
        "sasl.jaas.config": f"{MODULE} required {written} ;",
    }
