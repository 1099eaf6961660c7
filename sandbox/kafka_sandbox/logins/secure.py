"""A broker that demands TLS and logins, and the certificates that it and its clients show."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from kafka_sandbox.broker import HOST, Broker, free_port

_DAY: Final = datetime.timedelta(days=1)
_SCRAM: Final = {
    "SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256,
    "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512,
}
_LOGIN_MODULES: Final = "org.apache.kafka.common.security"


class Identity(NamedTuple):
    """A private key and the certificates that vouch for it.

    Attributes:
        key: the private key.
        certificate: its own certificate.
        issuers: those of the intermediate authorities between it and the root, in that order.
    """

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate
    issuers: tuple[x509.Certificate, ...] = ()

    @property
    def key_pem(self) -> str:
        """The private key in PEM (PKCS #8), not encrypted."""
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()

    @property
    def chain_pem(self) -> str:
        """The certificates in PEM, its own first."""
        return "".join(map(_pem, (self.certificate, *self.issuers)))


class Authority:
    """Issues certificates: a root authority, or one in between where it has an issuer.

    Attributes:
        identity: its own key and certificates.
    """

    def __init__(self, name: str, issuer: Authority | None = None) -> None:
        self._issuer = issuer
        self.identity = _issued(name, issuer, authority=True)

    @property
    def pem(self) -> str:
        """Its own certificate in PEM."""
        return _pem(self.identity.certificate)

    def issue(self, name: str, *addresses: str) -> Identity:
        """A key with a certificate for ``CN={name}``, valid at IP ``addresses`` and nowhere else."""
        return _issued(name, self, addresses=addresses)


def _issued(
    name: str,
    issuer: Authority | None,
    *,
    authority: bool = False,
    addresses: tuple[str, ...] = (),
) -> Identity:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    signer = issuer.identity if issuer else None
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(signer.certificate.subject if signer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + 30 * _DAY)
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
    )
    if addresses:
        names = [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    certificate = builder.sign(signer.key if signer else key, hashes.SHA256())
    # A root is what the other side has to know already.
    between = signer is not None and signer.certificate.subject != signer.certificate.issuer
    issuers = (signer.certificate, *signer.issuers) if signer and between else ()
    return Identity(key, certificate, issuers)


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode()


class SecureBroker(Broker):
    """A ``Broker`` with three listeners more: ``SSL``, ``SASL_SSL`` and ``SASL_PLAINTEXT``.

    ``SSL`` asks for a client's certificate and takes clients without one, who are then super users as
    those of the plaintext listener are; ``required`` accepts no client without one. The SASL listeners
    offer PLAIN and SCRAM. Certificates are for 127.0.0.1 only: ``localhost`` is a wrong name for it.

    Args:
        directory: as for ``Broker``; holds the broker's private key too.
        authority: issues the broker's certificate, and is whom it trusts in its clients'.
        users: the password of each user who may log in.
        config: as for ``Broker``.

    Attributes:
        ports: of the further listeners, by name; ``REQUIRED`` is as ``SSL``, for certificates only.
    """

    def __init__(
        self,
        directory: Path,
        authority: Authority,
        users: Mapping[str, str],
        *,
        config: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(directory)
        self._authority = authority
        self._users = dict(users)
        self.ports = {
            name: free_port() for name in ("SSL", "REQUIRED", "SASL_SSL", "SASL_PLAINTEXT")
        }
        self.config = self._listeners() | self._stores() | self._logins() | dict(config or {})

    def start(self) -> SecureBroker:
        """See ``Broker.start``; writes the broker's key and certificates before."""
        self.directory.mkdir(parents=True, exist_ok=True)
        identity = self._authority.issue("broker", HOST)
        keys = self.directory / "keys.pem"
        keys.touch(mode=0o600)
        keys.write_text(identity.key_pem + identity.chain_pem)
        (self.directory / "trust.pem").write_text(self._authority.pem)
        super().start()
        return self

    def wait_ready(self, timeout: float = 60) -> SecureBroker:
        """See ``Broker.wait_ready``; then makes the users' SCRAM credentials."""
        super().wait_ready(timeout)
        client = AdminClient({"bootstrap.servers": self.bootstrap})
        # A request may change a user once only.
        for mechanism in _SCRAM.values():
            upsertions = [
                UserScramCredentialUpsertion(
                    user, ScramCredentialInfo(mechanism, 4096), password.encode()
                )
                for user, password in self._users.items()
            ]
            for done in client.alter_user_scram_credentials(upsertions).values():
                done.result()
        return self

    def listener(self, name: str) -> str:
        """Host and port of the listener ``name``."""
        return f"{HOST}:{self.ports[name]}"

    def _listeners(self) -> dict[str, str]:
        listeners = [
            f"PLAINTEXT://{self.bootstrap}",
            f"CONTROLLER://{HOST}:{self.controller_port}",
            *(f"{name}://{self.listener(name)}" for name in self.ports),
        ]
        return {
            "listeners": ",".join(listeners),
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,"
            "REQUIRED:SSL,SASL_SSL:SASL_SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        }

    def _stores(self) -> dict[str, str]:
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.directory / "keys.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.directory / "trust.pem"),
            "listener.name.ssl.ssl.client.auth": "requested",
            "listener.name.required.ssl.client.auth": "required",
        }

    def _logins(self) -> dict[str, str]:
        plain = " ".join(f'user_{user}="{word}"' for user, word in self._users.items())
        logins = {"sasl.enabled.mechanisms": ",".join(["PLAIN", *_SCRAM])}
        for listener in ("sasl_ssl", "sasl_plaintext"):
            at = f"listener.name.{listener}"
            logins[f"{at}.plain.sasl.jaas.config"] = (
                f"{_LOGIN_MODULES}.plain.PlainLoginModule required {plain};"
            )
            for mechanism in _SCRAM:
                logins[f"{at}.{mechanism.lower()}.sasl.jaas.config"] = (
                    f"{_LOGIN_MODULES}.scram.ScramLoginModule required;"
                )
        return logins
