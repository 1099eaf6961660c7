"""Java's key and trust stores (PEM, PKCS12, JKS), read into PEM text for both Kafka clients.

Rules: ``org.apache.kafka.common.security.ssl.DefaultSslEngineFactory``. PEM is in a file or in
the configuration itself. A store that is declared as JKS or PKCS12 may be either, as in Java
(``keystore.type.compat``): its first bytes decide. Private keys are decrypted here, in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_der_private_key, pkcs12

from kafka_ferry.config.client.jks import MAGIC, JksEntry, JksError, WrongPassword, read_jks
from kafka_ferry.config.client.pem import (
    UNREADABLE,
    KeyPair,
    LockedKey,
    PemError,
    as_pem,
    key_pair_of,
    pem_certificates,
    pem_key,
)
from kafka_ferry.config.file_content import content_of
from kafka_ferry.config.key_costs import MOST_KEY_BYTES, TooCostly, check_costs
from kafka_ferry.config.types.problems import Problem
from kafka_ferry.errors import ConfigError

TYPES: Final = ("PEM", "PKCS12", "JKS")
"""The types of stores that can be read."""

_JAVAS_DEFAULT: Final = "JKS"
_PEM_MARK: Final = b"-----BEGIN "
_DER: Final = b"\x30"  # what a PKCS12 file, a DER sequence, begins with
_KEY_PASSWORD: Final = "ssl.key.password"
_CONVERT: Final = (
    "Convert it: keytool -importkeystore -srckeystore OLD -destkeystore NEW -deststoretype PKCS12."
)


def trusted_certificates(properties: Mapping[str, str], file: str) -> str | None:
    """The certificates in the trust store as PEM text; None where none is configured.

    All certificates of a PKCS12 store count, including those of a key's issuers: the attribute by which
    Java distinguishes them is lost when another tool writes the store.

    Raises:
        ConfigError: the store is missing, of another type, damaged, or its password is wrong.
    """
    store = _Store(properties, "ssl.truststore", file)
    if text := properties.get(f"{store.name}.certificates", ""):
        with store.problems("certificates"):
            certificates = pem_certificates(store.inline(text))
            return as_pem(_some(certificates))
    if not store.location:
        return None
    with store.problems("location"):
        data = store.read()
        if store.type == "PEM":
            certificates = pem_certificates(_text(data))
        elif data.startswith(MAGIC):
            # Java trusts the first of a key's own certificates.
            certificates = [
                _certificate(entry.certificates[0]) for entry in _jks_entries(store, data)
            ]
        else:
            certificates = _pkcs12_certificates(_pkcs12(store, data))
        return as_pem(_some(certificates))


def key_pair(properties: Mapping[str, str], file: str) -> KeyPair | None:
    """The client's own key and certificates in the key store; None where none is configured.

    Of several keys in a store it is the first.

    Raises:
        ConfigError: the store is missing, of another type, damaged, or a password is wrong; or key
            and certificates are not each other's.
    """
    store = _Store(properties, "ssl.keystore", file)
    key = properties.get(f"{store.name}.key", "")
    chain = properties.get(f"{store.name}.certificate.chain", "")
    if key or chain:
        if not (key and chain):
            reason = "is required: a PEM key and its certificates go together"
            raise store.error("certificate.chain" if key else "key", reason)
        with store.problems("key"):
            unlocked = pem_key(store.inline(key), store.key_password)
        with store.problems("certificate.chain"):
            return key_pair_of(unlocked, pem_certificates(store.inline(chain)))
    if not store.location:
        return None
    with store.problems("location"):
        data = store.read()
        if store.type == "PEM":
            text = _text(data)
            return key_pair_of(pem_key(text, store.key_password), pem_certificates(text))
        if data.startswith(MAGIC):
            return key_pair_of(*_jks_key(store, data))
        content = _pkcs12(store, data)
        if content.key is None:
            raise PemError("holds no private key")
        return key_pair_of(content.key, _pkcs12_certificates(content))


def without_stores(properties: Mapping[str, str], file: str) -> dict[str, str]:
    """The properties with the stores' content instead of the stores' paths.

    Raises:
        ConfigError: as ``trusted_certificates`` and ``key_pair``.
    """
    stores = ("ssl.keystore.", "ssl.truststore.", _KEY_PASSWORD)
    result = {name: value for name, value in properties.items() if not name.startswith(stores)}
    if "SSL" not in properties.get("security.protocol", "").upper():
        return result
    if trusted := trusted_certificates(properties, file):
        result |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": trusted}
    if pair := key_pair(properties, file):
        result |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": pair.key,
            "ssl.keystore.certificate.chain": pair.certificates,
        }
    return result


def wrong_stores(properties: Mapping[str, str]) -> Iterator[Problem]:
    """What is wrong with the stores on this machine, as far as it shows without their passwords."""
    for name in ("ssl.truststore", "ssl.keystore"):
        settings = [properties.get(f"{name}.{setting}", "") for setting in ("location", "type")]
        if not settings[0] or any("${" in setting for setting in settings):
            continue
        try:
            _Store(properties, name, "").read()
        except ConfigError as error:
            yield Problem(error.key, error.reason.rstrip("."), error.advice)
        except PemError:
            # It may be on another machine.
            continue


class _Store:
    """One store as the properties describe it."""

    def __init__(self, properties: Mapping[str, str], name: str, file: str) -> None:
        self.name = name
        self.file = file
        self.location = properties.get(f"{name}.location", "")
        self.password = properties.get(f"{name}.password")
        self.key_password = properties.get(_KEY_PASSWORD)
        self.is_typed = f"{name}.type" in properties
        self.type = properties.get(f"{name}.type", _JAVAS_DEFAULT).upper()
        if self.location and self.type not in TYPES:
            raise self.error("type", f"must be one of {', '.join(TYPES)}", _CONVERT)

    def error(self, what: str, reason: str, advice: str = "") -> ConfigError:
        key = what if what == _KEY_PASSWORD else f"{self.name}.{what}"
        return ConfigError(self.file, key, f"{reason}." if advice else reason, advice=advice)

    @contextmanager
    def problems(self, what: str) -> Iterator[None]:
        """Names the store's property ``what`` in errors about its content."""
        try:
            yield
        except LockedKey as error:
            raise self.error(_KEY_PASSWORD, error.message) from None
        except PemError as error:
            where = f"{self.location} " if what == "location" else ""
            raise self.error(what, f"{where}{error.message}") from None

    def inline(self, text: str) -> str:
        if self.type != "PEM":
            reason = "must be PEM where the configuration itself holds keys or certificates"
            raise self.error("type", reason)
        return text

    def read(self) -> bytes:
        """The file, if it is of the type that the configuration says."""
        try:
            data = content_of(Path(self.location))
        except OSError as error:
            raise PemError(f"cannot be read: {error.strerror}") from None
        is_pem = _PEM_MARK in data
        if is_pem != (self.type == "PEM"):
            kind = self.type if self.is_typed else f"not given, which means {self.type}"
            reason = f"is {kind}, but {self.location} is {'' if is_pem else 'not '}PEM"
            advice = (
                f"Write {self.name}.type: PEM"
                if is_pem
                else f"It must be {' or '.join(TYPES[1:])}."
            )
            raise self.error("type", reason, advice)
        if not is_pem and not data.startswith((MAGIC, _DER)):
            raise self.error("location", f"{self.location} is neither PKCS12 nor JKS", _CONVERT)
        return data

    def locked_error(self, what: str = "password") -> ConfigError:
        return self.error(what, f"does not open {self.location}, or that file is damaged")


def _some(certificates: list[x509.Certificate]) -> list[x509.Certificate]:
    if not certificates:
        raise PemError("holds no certificate")
    return certificates


def _jks_entries(store: _Store, data: bytes) -> list[JksEntry]:
    try:
        return [entry for entry in read_jks(data, store.password) if entry.certificates]
    except WrongPassword:
        raise store.locked_error() from None
    except JksError as error:
        raise PemError(f"cannot be read: {error}") from None


def _jks_key(store: _Store, data: bytes) -> tuple[Any, list[x509.Certificate]]:
    own = store.key_password is not None
    password = store.key_password if own else store.password
    for entry in _jks_entries(store, data):
        if entry.locked_key is not None:
            if len(entry.locked_key) > MOST_KEY_BYTES:
                raise PemError(f"holds a private key of more than {MOST_KEY_BYTES:,} bytes")
            try:
                key = load_der_private_key(entry.key(password or ""), None)
            except WrongPassword:
                raise store.locked_error(_KEY_PASSWORD if own else "password") from None
            except UNREADABLE:
                raise PemError("holds a private key that cannot be read") from None
            return key, [_certificate(der) for der in entry.certificates]
    raise PemError("holds no private key")


def _pkcs12(store: _Store, data: bytes) -> pkcs12.PKCS12KeyAndCertificates:
    try:
        check_costs(data)
    except TooCostly as error:
        raise store.error("location", f"{store.location} {error}.", _CONVERT) from None
    try:
        return pkcs12.load_pkcs12(data, store.password.encode() if store.password else None)
    except UnsupportedAlgorithm:
        reason = f"{store.location} is encrypted in a way that is no longer supported"
        raise store.error("location", reason, _CONVERT) from None
    except UNREADABLE:
        raise store.locked_error() from None


def _pkcs12_certificates(content: pkcs12.PKCS12KeyAndCertificates) -> list[x509.Certificate]:
    own = [content.cert] if content.cert else []
    return [entry.certificate for entry in (*own, *content.additional_certs)]


def _certificate(der: bytes) -> x509.Certificate:
    try:
        return x509.load_der_x509_certificate(der)
    except UNREADABLE:
        raise PemError("holds a certificate that cannot be read") from None


def _text(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")
