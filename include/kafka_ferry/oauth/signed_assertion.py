"""A client's JWT assertion: read from its file, or signed now with the client's private key.

As Java's ``DefaultAssertionCreator``, ``LayeredAssertionJwtTemplate`` and ``FileAssertionCreator``. Files
are read at each call, as Java reads them again once they have changed.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from kafka_ferry.config.client.assertion import (
    ALGORITHM,
    ASSERTION_FILE,
    PASSPHRASE,
    PRIVATE_KEY,
    TEMPLATE,
    Assertion,
)
from kafka_ferry.config.client.login_values import LoginFile
from kafka_ferry.config.client.pem import LockedKey, PemError, pem_key
from kafka_ferry.errors import ConfigError
from kafka_ferry.oauth.access_token import claims_of, is_token

_PARTS: Final = ("header", "payload")


def sign_assertion(assertion: Assertion, place: str) -> str:
    """The assertion to send with the next request for a token, as a signed JWT.

    Args:
        assertion: where it comes from.
        place: the file and the cluster, for errors.

    Raises:
        ConfigError: a file cannot be read, does not hold what it should, or the key does not open or is
            of another kind than the algorithm.
    """
    if assertion.prepared:
        text = assertion.prepared.read(place).strip()
        if not (is_token(text) and claims_of(text)):
            raise ConfigError(place, ASSERTION_FILE, f"{assertion.prepared.name} holds no JWT")
        return text
    header, payload = _content(assertion, place)
    return _sign(assertion, header, payload, place)


def _content(assertion: Assertion, place: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Header and claims: the template's win over the properties', and those made now over both."""
    header, payload = _template(assertion.template, place)
    now = int(time.time())
    dates = {"iat": now, "exp": now + assertion.life_s, "nbf": now - assertion.back_s}
    own_id = {"jti": str(uuid.uuid4())} if assertion.has_id else {}
    return (
        {**header, "alg": assertion.algorithm, "typ": "JWT"},
        {**dict(assertion.claims), **payload, **dates, **own_id},
    )


def _template(file: LoginFile | None, place: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    if file is None:
        return {}, {}
    try:
        template = json.loads(file.read(place))
    except ValueError:
        template = None
    header, payload = (
        template.get(part, {}) if isinstance(template, dict) else None for part in _PARTS
    )
    if not (isinstance(header, dict) and isinstance(payload, dict)):
        reason = f'{file.name} must hold JSON of the form {{"header": {{...}}, "payload": {{...}}}}'
        raise ConfigError(place, TEMPLATE, reason)
    return header, payload


def _sign(assertion: Assertion, header: dict[str, Any], payload: dict[str, Any], place: str) -> str:
    # A process that shows no assertion does without it.
    import jwt

    key = _key(assertion, place)
    try:
        return jwt.encode(payload, key, algorithm=assertion.algorithm, headers=header)
    except (jwt.PyJWTError, TypeError) as error:
        # A header or claim of a kind that JWTs do not have; the message names it, and not its value.
        raise ConfigError(place, TEMPLATE, f"gives no valid JWT: {error}") from None


def _key(assertion: Assertion, place: str) -> Any:
    if assertion.key is None:
        raise ConfigError(place, PRIVATE_KEY, "is required to sign an assertion")
    name = assertion.key.name
    try:
        key = pem_key(assertion.key.read(place), assertion.passphrase or None)
    except LockedKey as error:
        raise ConfigError(place, PASSPHRASE, f"{error.message} ({name})") from None
    except PemError as error:
        raise ConfigError(place, PRIVATE_KEY, f"{name} {error.message}") from None
    if not _is_for(key, assertion.algorithm):
        wanted = "an RSA key" if assertion.algorithm == "RS256" else "a key on the curve P-256"
        reason = f"is {assertion.algorithm}, which needs {wanted}; {name} holds another one"
        raise ConfigError(place, ALGORITHM, reason)
    return key


def _is_for(key: Any, algorithm: str) -> bool:
    if algorithm == "RS256":
        return isinstance(key, RSAPrivateKey)
    return isinstance(key, EllipticCurvePrivateKey) and isinstance(key.curve, SECP256R1)
