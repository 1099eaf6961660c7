"""Key and trust stores: what is translated is also handed to the real clients."""

from __future__ import annotations

import datetime
import logging
import ssl
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from kafka.net.transport import KafkaSSLTransport

from kafka_ferry.config import confluent_config, kafka_python_config
from kafka_ferry.errors import ConfigError

SSL = {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SSL"}
PASSWORD = "hunter2"


class Identity(NamedTuple):
    certificate: str
    key: str
    encrypted_key: str
    pkcs12: bytes


@pytest.fixture(scope="module")
def identity() -> Identity:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "ferry")])
    today = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(today)
        .not_valid_after(today + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    locked = BestAvailableEncryption(PASSWORD.encode())

    def pem(encryption: KeySerializationEncryption) -> str:
        return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption).decode()

    store = pkcs12.serialize_key_and_certificates(b"ferry", key, certificate, None, locked)
    text = certificate.public_bytes(Encoding.PEM).decode()
    return Identity(text, pem(NoEncryption()), pem(locked), store)


def both_clients_accept(properties: dict[str, str]) -> tuple[dict[str, object], dict[str, object]]:
    config = confluent_config(properties, "admin")
    AdminClient({**config, "logger": logging.getLogger("quiet"), "log_level": 0})
    settings = kafka_python_config(properties)
    known = {k: settings.get(k, v) for k, v in KafkaSSLTransport.DEFAULT_CONFIG.items()}
    assert isinstance(KafkaSSLTransport._build_ssl_context(known), ssl.SSLContext)
    return config, settings


def test_pem_files_are_named_to_both_clients(identity: Identity, tmp_path: Path) -> None:
    trust, keys = tmp_path / "ca.pem", tmp_path / "client.pem"
    trust.write_text(identity.certificate)
    keys.write_text(identity.encrypted_key + identity.certificate)
    config, settings = both_clients_accept(
        {
            **SSL,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(trust),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(keys),
            "ssl.key.password": PASSWORD,
        }
    )
    assert config == {
        **SSL,
        "ssl.ca.location": str(trust),
        "ssl.certificate.location": str(keys),
        "ssl.key.location": str(keys),
        "ssl.key.password": PASSWORD,
    }
    assert settings == {
        "bootstrap_servers": ["127.0.0.1:1"],
        "security_protocol": "SSL",
        "ssl_check_hostname": True,
        "ssl_cafile": str(trust),
        "ssl_certfile": str(keys),
        "ssl_keyfile": str(keys),
        "ssl_password": PASSWORD,
    }


@pytest.mark.parametrize("on_one_line", [False, True])
@pytest.mark.parametrize("encrypted", [False, True])
def test_pem_in_the_configuration_needs_no_files(
    identity: Identity, on_one_line: bool, encrypted: bool
) -> None:
    def written(pem: str) -> str:
        return " ".join(pem.split("\n")) if on_one_line else pem

    properties = {
        **SSL,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": written(identity.certificate * 2),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": written(identity.certificate),
        "ssl.keystore.key": written(identity.encrypted_key if encrypted else identity.key),
    }
    if encrypted:
        properties["ssl.key.password"] = PASSWORD
    config, settings = both_clients_accept(properties)
    assert {"ssl.ca.pem", "ssl.certificate.pem", "ssl.key.pem"} < set(config)
    context = settings["ssl_context"]
    assert isinstance(context, ssl.SSLContext)
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert len(context.get_ca_certs()) == 1


def test_a_pkcs12_key_store_is_read_by_librdkafka_only(identity: Identity, tmp_path: Path) -> None:
    store = tmp_path / "client.p12"
    store.write_bytes(identity.pkcs12)
    properties = {
        **SSL,
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(store),
        "ssl.keystore.password": PASSWORD,
    }
    config = confluent_config(properties, "admin")
    assert config["ssl.keystore.location"] == str(store)
    AdminClient({**config, "logger": logging.getLogger("quiet"), "log_level": 0})
    with pytest.raises(ConfigError, match="PKCS12 store cannot be read by kafka-python") as caught:
        kafka_python_config(properties)
    assert caught.value.key == "ssl.keystore.type"
    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize(
    ("store", "kind"),
    [("truststore", "JKS"), ("keystore", "JKS"), ("truststore", None), ("truststore", "PKCS12")],
)
def test_a_store_that_neither_client_reads_is_refused_with_advice(
    store: str, kind: str | None
) -> None:
    properties = {
        **SSL,
        f"ssl.{store}.location": "/etc/kafka/store",
        f"ssl.{store}.password": PASSWORD,
    }
    if kind:
        properties[f"ssl.{store}.type"] = kind
    for translate in (lambda p: confluent_config(p, "admin", file="f.yaml"), kafka_python_config):
        with pytest.raises(ConfigError, match="can be read by neither Kafka client") as caught:
            translate(properties)
        assert caught.value.key == f"ssl.{store}.type"
        assert "PEM" in caught.value.advice
        assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize(
    ("algorithm", "checks"),
    [(None, True), ("https", True), ("HTTPS", True), ("", False), ("none", False)],
)
def test_the_host_name_is_checked_unless_the_algorithm_is_empty(
    algorithm: str | None, checks: bool
) -> None:
    properties = dict(SSL)
    if algorithm is not None:
        properties["ssl.endpoint.identification.algorithm"] = algorithm
    config, settings = both_clients_accept(properties)
    named = "ssl.endpoint.identification.algorithm"
    assert config.get(named) == (None if checks else "none")
    assert settings["ssl_check_hostname"] is checks


@pytest.mark.parametrize("given", ["ssl.keystore.key", "ssl.keystore.certificate.chain"])
def test_a_key_and_its_certificates_go_together(given: str) -> None:
    with pytest.raises(ConfigError, match="go together"):
        confluent_config({**SSL, "ssl.keystore.type": "PEM", given: "x"}, "admin")


def test_unreadable_pem_is_an_error_that_does_not_repeat_it() -> None:
    properties = {
        **SSL,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": "hunter2",
        "ssl.keystore.certificate.chain": "hunter2",
    }
    with pytest.raises(ConfigError, match="cannot be used") as caught:
        kafka_python_config(properties)
    assert "hunter2" not in str(caught.value)
    config = confluent_config(properties, "admin")
    with pytest.raises(KafkaException):
        AdminClient({**config, "logger": logging.getLogger("quiet"), "log_level": 0})
