"""An identity provider on this machine: gives tokens for client credentials, and shows its public key."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from kafka_ferry.memory_file import memory_file
from kafka_sandbox.secure import Identity

AUDIENCE = "kafka"
SECRET = "cl1ent-s3cret"
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


def _base64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def _number(value: int) -> str:
    return _base64(value.to_bytes((value.bit_length() + 7) // 8, "big"))


@dataclass
class IdentityProvider:
    """A token endpoint and a key set; clients are known by any id and the one secret.

    Attributes:
        url: where it listens.
        life_s: how long its tokens are valid.
        failures: the HTTP statuses of the next answers, before it answers well.
        answer: what it answers instead of a token.
        pause_s: how long it takes to answer.
        tokens: those that it gave.
        requests: headers and form of each request for a token.
    """

    url: str = ""
    life_s: float = 3600
    failures: list[int] = field(default_factory=list)
    answer: dict[str, Any] | None = None
    pause_s: float = 0
    tokens: list[str] = field(default_factory=list)
    requests: list[tuple[dict[str, str], dict[str, list[str]]]] = field(default_factory=list)
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
        self.requests.append((headers, parse_qs(form)))
        time.sleep(self.pause_s)
        if self.failures:
            return self.failures.pop(0), {}
        if self.answer is not None:
            return 200, self.answer
        words = base64.b64decode(headers["Authorization"].removeprefix("Basic ")).decode()
        client, _, secret = words.partition(":")
        if secret != SECRET:
            told = f"wrong secret {secret}"
            return 401, {"error": "invalid_client", "error_description": told}
        self.tokens.append(self.token(client, nonce=len(self.tokens)))
        return 200, {"access_token": self.tokens[-1], "expires_in": int(self.life_s)}


@contextmanager
def identity_provider(identity: Identity | None = None) -> Iterator[IdentityProvider]:
    """Yields one on a free port, over TLS if it has an ``identity`` to show."""
    provider = IdentityProvider()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            self._send(*provider.answer_to(dict(self.headers), form))

        def do_GET(self) -> None:
            self._send(200, provider.key_set())

        def _send(self, status: int, content: dict[str, Any]) -> None:
            body = json.dumps(content).encode()
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", f"{provider.url}/elsewhere")
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            # A client that did not wait is gone.
            with suppress(OSError):
                self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if identity:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with memory_file(identity.key_pem + identity.chain_pem) as both:
            context.load_cert_chain(both)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    provider.url = f"http{'s' if identity else ''}://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


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
