"""JWT assertions in Java client properties: how a client shows a token endpoint who it is (RFC 7523).

Rules: ``AssertionSupplierFactory``, ``AssertionUtils`` and ``ClientCredentialsRequestFormatterFactory``
(KIP-1139, KIP-1258); limits and defaults are those of ``SaslConfigs``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from kafka_ferry.config.client.login_values import LoginFile, LoginValues
from kafka_ferry.errors import ConfigError

_PREFIX: Final = "sasl.oauthbearer.assertion."
ASSERTION_FILE: Final = f"{_PREFIX}file"
PRIVATE_KEY: Final = f"{_PREFIX}private.key.file"
PASSPHRASE: Final = f"{_PREFIX}private.key.passphrase"
TEMPLATE: Final = f"{_PREFIX}template.file"
ALGORITHM: Final = f"{_PREFIX}algorithm"
ISSUER: Final = f"{_PREFIX}claim.iss"
FILES: Final = (ASSERTION_FILE, PRIVATE_KEY, TEMPLATE)
"""The properties that name files."""

ALGORITHMS: Final = ("RS256", "ES256")
"""The signatures: RSA with SHA-256, and ECDSA with P-256 and SHA-256."""

_CLAIMS: Final = ("aud", "iss", "sub")


@dataclass(frozen=True, slots=True)
class Assertion:
    """Where an assertion comes from: a file that holds it, or a private key to sign it with.

    Attributes:
        prepared: the file that holds a signed assertion; then the other fields have no meaning.
        key: the file with the private key, in PEM.
        passphrase: it opens the key; "" if the key is not encrypted.
        algorithm: one of ``ALGORITHMS``.
        claims: names and values of the claims that properties set.
        template: a JSON file with further claims and headers, which win over ``claims``.
        life_s: for how many seconds an assertion is valid.
        back_s: from how many seconds ago.
        has_id: whether each assertion gets an id of its own (``jti``).
    """

    prepared: LoginFile | None = None
    key: LoginFile | None = None
    passphrase: str = field(default="", repr=False)
    algorithm: str = ALGORITHMS[0]
    claims: tuple[tuple[str, str], ...] = ()
    template: LoginFile | None = None
    life_s: int = 300
    back_s: int = 60
    has_id: bool = False


def names_client(values: LoginValues) -> bool:
    """Whether a client with client credentials proves with an assertion, and not a secret, who it is."""
    return values.file(ASSERTION_FILE) is not None or bool(values.text(ISSUER))


def assertion(values: LoginValues) -> Assertion:
    """The assertion that the properties of a login describe; a file with one wins over a key.

    Raises:
        ConfigError: the key is missing, or a value is wrong.
    """
    if prepared := values.file(ASSERTION_FILE):
        return Assertion(prepared=prepared)
    key = values.file(PRIVATE_KEY)
    if key is None:
        reason = f"is required to sign an assertion, or {ASSERTION_FILE}"
        raise ConfigError(values.place, PRIVATE_KEY, reason)
    algorithm = (values.text(ALGORITHM) or ALGORITHMS[0]).upper()
    if algorithm not in ALGORITHMS:
        raise ConfigError(values.place, ALGORITHM, f"must be one of {', '.join(ALGORITHMS)}")
    claims = ((name, values.text(f"{_PREFIX}claim.{name}")) for name in _CLAIMS)
    return Assertion(
        key=key,
        passphrase=values.text(PASSPHRASE),
        algorithm=algorithm,
        claims=tuple((name, value) for name, value in claims if value),
        template=values.file(TEMPLATE),
        life_s=values.whole_number(f"{_PREFIX}claim.exp.seconds", 300, 86_400),
        back_s=values.whole_number(f"{_PREFIX}claim.nbf.seconds", 60, 3_600),
        has_id=values.truth(f"{_PREFIX}claim.jti.include"),
    )
