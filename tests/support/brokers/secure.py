"""Key and trust stores of every kind, and flows that need them."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

from kafka_sandbox.java.jars import java
from kafka_sandbox.logins.secure import Authority, Identity

PASSWORD = "store-5ecret"
"""Of every store that is made here."""

KINDS = ("PEM", "PKCS12", "JKS")


def keytool(*arguments: str, folder: Path, password: str = PASSWORD) -> None:
    """Runs the JDK's keytool with ``password`` for each store that is named."""
    secret = folder / f"password-{password}"
    secret.write_text(password)
    given = [word if word != "PASSWORD" else str(secret) for word in arguments]
    command = [str(java().with_name("keytool")), *given, "-noprompt"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def key_store(kind: str, folder: Path, identity: Identity) -> dict[str, str]:
    """The properties of a key store with ``identity`` in it, made in ``folder``."""
    location = folder / f"keys.{kind.lower()}"
    if kind == "PEM":
        location.write_text(identity.key_pem + identity.chain_pem)
        return {"ssl.keystore.type": kind, "ssl.keystore.location": str(location)}
    packed = folder / "keys.pkcs12"
    packed.write_bytes(
        pkcs12.serialize_key_and_certificates(
            b"ferry",
            identity.key,
            identity.certificate,
            identity.issuers,
            BestAvailableEncryption(PASSWORD.encode()),
        )
    )
    if kind == "JKS":
        keytool(
            *("-importkeystore", "-srckeystore", str(packed), "-srcstoretype", "PKCS12"),
            *("-srcstorepass:file", "PASSWORD", "-deststorepass:file", "PASSWORD"),
            *("-destkeystore", str(location), "-deststoretype", kind),
            folder=folder,
        )
    return {
        "ssl.keystore.type": kind,
        "ssl.keystore.location": str(location),
        "ssl.keystore.password": PASSWORD,
    }


def trust_store(kind: str, folder: Path, authority: Authority) -> dict[str, str]:
    """The properties of a trust store that trusts ``authority``, made in ``folder``."""
    location = folder / f"trust.{kind.lower()}"
    pem = folder / "trust.pem"
    pem.write_text(authority.pem)
    if kind == "PEM":
        return {"ssl.truststore.type": kind, "ssl.truststore.location": str(pem)}
    keytool(
        *("-importcert", "-alias", "root", "-file", str(pem), "-storepass:file", "PASSWORD"),
        *("-keystore", str(location), "-storetype", kind),
        folder=folder,
    )
    return {
        "ssl.truststore.type": kind,
        "ssl.truststore.location": str(location),
        "ssl.truststore.password": PASSWORD,
    }


def login(mechanism: str, user: str, password: str) -> dict[str, str]:
    """The properties of a login."""
    kind = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
    module = f"org.apache.kafka.common.security.{kind}LoginModule"
    return {
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{module} required username="{user}" password="{password}";',
    }


def as_properties(values: Mapping[str, str]) -> str:
    """A Java properties file."""
    escapes = str.maketrans({"\\": "\\\\", "\n": "\\n"})
    return "".join(f"{key}={value.translate(escapes)}\n" for key, value in values.items())
