"""The token endpoint of an identity provider: a token for a client's credentials or its assertion.

As Java's ``ClientCredentialsJwtRetriever`` and ``JwtBearerJwtRetriever``: id and secret are in a header (RFC
6749, 4.4), an assertion is in the form (RFC 7523); a pause follows each transient failure. Proxies are those
of the environment (``HTTPS_PROXY``, ``NO_PROXY``); redirects are not followed, since they would take the
secret elsewhere.
"""

from __future__ import annotations

import base64
import random
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import quote_plus, urlencode
from urllib.request import (
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    Request,
    build_opener,
)

import regex

from kafka_ferry.as_json import read_json
from kafka_ferry.config.client.assertion import ASSERTION_FILE, PRIVATE_KEY
from kafka_ferry.config.client.oauth import CLIENT_ID, CLIENT_SECRET, ENDPOINT, SCOPE, OAuthLogin
from kafka_ferry.config.client.tls import kafka_python_tls
from kafka_ferry.errors import AccessDenied, ClusterUnreachable, FerryError
from kafka_ferry.oauth.access_token import NEVER, AccessToken, expiry_of, is_token
from kafka_ferry.oauth.signed_assertion import sign_assertion
from kafka_ferry.printable import excerpt
from kafka_ferry.secret_values import MASK, without

_MOST_BYTES: Final = 1024 * 1024
# Of the statuses of 400 and more; Java retries all but a list of those that a retry cannot mend.
_TRANSIENT: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_ADVICE: Final = f"Check {ENDPOINT}, {CLIENT_ID}, {CLIENT_SECRET} and {SCOPE}."
_ASSERTION_ADVICE: Final = (
    f"Check {ENDPOINT}, {ASSERTION_FILE} or {PRIVATE_KEY}, the assertion's claims, and what the identity "
    "provider requires of them."
)
_JWT: Final = regex.compile(r"ey[A-Z][\w-]{8,}\.[\w-]+(?:\.[\w-]*)?")  # JSON in base64
_TRUST: Final = (
    "The authority that issued it belongs into ssl.truststore.location among the options of "
    "sasl.jaas.config; the cluster's own trust store does not count for the token endpoint."
)


def fetch_token(login: OAuthLogin) -> AccessToken:
    """A new token for what the login shows; asks again after transient failures.

    Raises:
        AccessDenied: the endpoint gives none, or its certificate is not trusted.
        ClusterUnreachable: it cannot be reached, or has failed for as long as the login allows.
        ConfigError: the stores for its TLS connections, or the assertion's files, cannot be read.
    """
    deadline, pause = time.monotonic() + login.retry_s, login.backoff_s
    while True:
        try:
            # Each request has an assertion of its own: an endpoint may accept it only once.
            return _token(login, _answer(login, _request(login)))
        except ClusterUnreachable:
            if time.monotonic() + pause > deadline:
                raise
        time.sleep(pause)
        pause = max(2 * pause, 0.01)


def token_with_life(login: OAuthLogin, text: str, expires_at: float) -> AccessToken:
    """A token that was fetched now, to be renewed as the login says."""
    now, renewal = time.time(), login.renewal
    life = max(expires_at - now, 0.0)
    share = min(renewal.share + random.uniform(0, renewal.jitter), 1.0)
    renew_in = life * share
    if life > 2 * renewal.buffer_s:
        renew_in = min(renew_in, life - renewal.buffer_s)
    return AccessToken(text, now + renew_in, expires_at)


def _request(login: OAuthLogin) -> Request:
    form = _form(login) | ({"scope": login.scope} if login.scope else {})
    headers = {
        "Accept": "application/json",
        "Cache-Control": "no-cache",
        "Content-Type": "application/x-www-form-urlencoded",
        "User-Agent": "kafka-ferry",
    }
    if not login.assertion:
        name, secret = login.client_id, login.client_secret
        if login.is_encoded:
            name, secret = quote_plus(name), quote_plus(secret)
        words = base64.b64encode(f"{name}:{secret}".encode()).decode()
        headers["Authorization"] = f"Basic {words}"
    return Request(login.endpoint, urlencode(form).encode(), headers, method="POST")


def _form(login: OAuthLogin) -> dict[str, str]:
    """What says for whom the token is, as ``JwtBearerRequestFormatter`` and its siblings write it."""
    if not login.assertion:
        return {"grant_type": "client_credentials"}
    assertion = sign_assertion(login.assertion, login.origin)
    if login.is_jwt_bearer:
        grant = "urn:ietf:params:oauth:grant-type:jwt-bearer"
        return {"grant_type": grant, "assertion": assertion}
    kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
    form = {"client_assertion_type": kind, "client_assertion": assertion}
    form["grant_type"] = "client_credentials"
    return form | ({"client_id": login.client_id} if login.client_id else {})


def _answer(login: OAuthLogin, request: Request) -> bytes:
    reply = _Reply(login.read_s)
    try:
        with _opener(login, reply).open(request, timeout=login.connect_s or None) as response:
            answer = bytes(response.read(_MOST_BYTES))
    except HTTPError as error:
        with error:
            raise _refusal(login, error) from None
    except (OSError, HTTPException, ValueError) as error:
        raise _no_answer(login, TimeoutError("timed out") if reply.is_late else error) from None
    finally:
        reply.end()
    if reply.is_late:
        raise _no_answer(login, TimeoutError("timed out"))
    return answer


class _Reply:
    """Bounds a whole reply: a timeout of a socket only bounds each read, and a server may send byte by byte.

    Args:
        longest_s: how long it may take from the connection on; 0 for as long as it likes.

    Attributes:
        is_late: whether it took longer, and was cut off.
    """

    def __init__(self, longest_s: float) -> None:
        self._longest_s = longest_s
        self._timer: threading.Timer | None = None
        self.is_late = False

    def begin(self, connection: socket.socket) -> None:
        """Counts from here."""
        connection.settimeout(self._longest_s or None)
        if self._longest_s:
            self._timer = threading.Timer(self._longest_s, self._cut_off, [connection])
            self._timer.daemon = True
            self._timer.start()

    def _cut_off(self, connection: socket.socket) -> None:
        self.is_late = True
        with suppress(OSError):
            # Not TLS's own, which would change what another thread reads with.
            socket.socket.shutdown(connection, socket.SHUT_RDWR)

    def end(self) -> None:
        """Counts no longer."""
        if self._timer:
            self._timer.cancel()


def _token(login: OAuthLogin, answer: bytes) -> AccessToken:
    response = _json(answer)
    text = response.get("access_token")
    if not isinstance(text, str) or not is_token(text.strip()):
        raise _denial(login, "its answer holds no access_token")
    text = text.strip()
    # The endpoint's clock may differ from this one: seconds from now are safer than a date.
    life = _life(response.get("expires_in"))
    expiry = expiry_of(text) if life is None else time.time() + life
    if expiry is None:
        raise _denial(login, "its answer says nowhere when the token expires (expires_in, exp)")
    return token_with_life(login, text, expiry)


def _life(value: Any) -> float | None:
    """How many seconds an answer gives a token, as a number or as text; None where it does not say."""
    with suppress(TypeError, ValueError, OverflowError):
        life = float(value)
        return life if abs(life) < NEVER else None
    return None


def _refusal(login: OAuthLogin, error: HTTPError) -> FerryError:
    try:
        response = _json(error.read(_MOST_BYTES))
    except (OSError, HTTPException):
        response = {}
    # RFC 6749, 5.2; the second pair is Okta's.
    words = [
        response.get(key) for key in ("error", "error_description", "errorCode", "errorSummary")
    ]
    texts = (word for word in words if isinstance(word, str) and word)
    reason = ": ".join([f"HTTP {error.code} {error.reason}", *texts])
    if error.code in _TRANSIENT:
        return ClusterUnreachable(f"{_place(login)} fails: {_safe(login, reason)}.")
    if 300 <= error.code < 400:
        reason += ", a redirect, which is not followed"
    return _denial(login, reason)


def _no_answer(login: OAuthLogin, error: Exception) -> FerryError:
    cause = error.reason if isinstance(error, URLError) else error
    if isinstance(cause, ssl.SSLCertVerificationError):
        message = cause.verify_message.rstrip(".")
        reason = f"shows a certificate that is not trusted: {message}"
        return AccessDenied(f"{_place(login)} {reason}.", advice=_TRUST)
    message = _safe(login, str(cause) or type(cause).__name__)
    advice = f"Check {ENDPOINT}, and that this machine reaches it."
    return ClusterUnreachable(f"{_place(login)} cannot be reached: {message}.", advice=advice)


def _denial(login: OAuthLogin, reason: str) -> AccessDenied:
    message = f"{_place(login)} gave no token: {_safe(login, reason).rstrip('.')}."
    return AccessDenied(message, advice=_ASSERTION_ADVICE if login.assertion else _ADVICE)


def _place(login: OAuthLogin) -> str:
    return f"{login.origin}: the token endpoint {login.shown_endpoint}".removeprefix(": ")


def _safe(login: OAuthLogin, text: str) -> str:
    """What the endpoint says, which may repeat what it was sent."""
    secrets = [login.client_secret, quote_plus(login.client_secret)]
    return excerpt(_JWT.sub(MASK, without(text, secrets)))


def _json(content: bytes) -> Mapping[str, Any]:
    try:
        document = read_json(content)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


class _NoRedirect(HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


def _opener(login: OAuthLogin, reply: _Reply) -> OpenerDirector:
    properties = dict(login.tls)
    context: Any = kafka_python_tls(properties, f"{login.origin}: sasl.jaas.config")["ssl_context"]

    class _Plain(HTTPConnection):
        def connect(self) -> None:
            super().connect()
            reply.begin(self.sock)

    class _Secured(HTTPSConnection):
        def connect(self) -> None:
            super().connect()
            reply.begin(self.sock)

    class _PlainHandler(HTTPHandler):
        def http_open(self, req: Request) -> Any:
            return self.do_open(_Plain, req)

    class _SecuredHandler(HTTPSHandler):
        def https_open(self, req: Request) -> Any:
            return self.do_open(_Secured, req, context=context)

    return build_opener(_NoRedirect, _PlainHandler, _SecuredHandler)
