"""TLS for both Kafka clients: what is translated is also handed to the real clients."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from kafka.net.manager import KafkaConnectionManager

from kafka_ferry.config import confluent_config, kafka_python_config
from kafka_ferry.config.client import translate as translate_module
from kafka_ferry.config.client.cluster import ClientProperties
from kafka_ferry.config.client.tls import PROTOCOLS, openssl_name
from kafka_ferry.errors import ConfigError
from kafka_sandbox.logins.secure import Authority, Identity
from tests.support.brokers.secure import KINDS, PASSWORD, key_store, trust_store

SSL = {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SSL"}


@pytest.fixture(autouse=True)
def _nothing_logged_yet() -> None:
    translate_module._log_once.cache_clear()


def both_clients_accept(properties: dict[str, str]) -> tuple[dict[str, object], ssl.SSLContext]:
    """librdkafka's settings and kafka-python's context, after librdkafka has taken its own."""
    config = confluent_config(properties, "admin")
    AdminClient({**config, "logger": logging.getLogger("quiet"), "log_level": 0})
    settings = kafka_python_config(properties)
    assert set(settings) <= set(KafkaConnectionManager.DEFAULT_CONFIG) | {"ssl_context"}
    context = settings["ssl_context"]
    assert isinstance(context, ssl.SSLContext)
    return config, context


@pytest.mark.parametrize("kind", KINDS)
def test_stores_reach_both_clients_as_text_in_memory(
    kind: str, tmp_path: Path, root: Authority, identity: Identity
) -> None:
    stores = key_store(kind, tmp_path, identity) | trust_store(kind, tmp_path, root)

    config, context = both_clients_accept({**SSL, **stores})

    assert config == {
        **SSL,
        "ssl.ca.pem": root.pem,
        "ssl.certificate.pem": identity.chain_pem,
        "ssl.key.pem": identity.key_pem,
    }
    assert [found["subject"] for found in context.get_ca_certs()] == [((("commonName", "root"),),)]
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED


def test_without_a_trust_store_the_systems_certificates_count() -> None:
    config, context = both_clients_accept(dict(SSL))
    assert config == SSL
    assert context.verify_mode is ssl.CERT_REQUIRED


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
    config, context = both_clients_accept(properties)
    named = "ssl.endpoint.identification.algorithm"
    assert config.get(named) == (None if checks else "none")
    assert context.check_hostname is checks
    assert context.verify_mode is ssl.CERT_REQUIRED


@pytest.mark.parametrize(
    ("enabled", "cap", "oldest", "newest"),
    [
        (None, None, "TLSv1.2", "TLSv1.3"),
        ("TLSv1.2", None, "TLSv1.2", "TLSv1.2"),
        ("TLSv1.3", None, "TLSv1.3", "TLSv1.3"),
        ("TLSv1.3, TLSv1.2", "TLSv1.2", "TLSv1.2", "TLSv1.2"),
        (None, "TLSv1.2", "TLSv1.2", "TLSv1.2"),
        (None, "TLS", "TLSv1.2", "TLSv1.3"),
        ("TLSv1.1,TLSv1.2", "TLSv1.3", "TLSv1.1", "TLSv1.2"),
    ],
)
def test_the_versions_of_tls_are_those_that_are_enabled(
    enabled: str | None, cap: str | None, oldest: str, newest: str
) -> None:
    given = {"ssl.enabled.protocols": enabled, "ssl.protocol": cap}
    properties = SSL | {key: value for key, value in given.items() if value is not None}
    _, context = both_clients_accept(properties)
    assert (context.minimum_version, context.maximum_version) == (
        PROTOCOLS[oldest],
        PROTOCOLS[newest],
    )


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"ssl.enabled.protocols": "SSLv3"}, "ssl.enabled.protocols"),
        ({"ssl.protocol": "SSL"}, "ssl.protocol"),
        ({"ssl.enabled.protocols": "TLSv1.3", "ssl.protocol": "TLSv1.2"}, "ssl.enabled.protocols"),
        (
            {"ssl.enabled.protocols": "TLSv1.2", "ssl.cipher.suites": "TLS_AES_256_GCM_SHA384"},
            "ssl.enabled.protocols",
        ),
        ({"ssl.cipher.suites": "TLS_ECDHE_RSA_WITH_NOTHING"}, "ssl.cipher.suites"),
        # With these no certificate is shown, or nothing is encrypted.
        ({"ssl.cipher.suites": "ADH-AES256-GCM-SHA384, @SECLEVEL=0"}, "ssl.cipher.suites"),
        ({"ssl.cipher.suites": "NULL-SHA256,@SECLEVEL=0"}, "ssl.cipher.suites"),
    ],
)
def test_versions_and_suites_that_leave_nothing_are_refused(
    changes: dict[str, str], key: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        kafka_python_config(ClientProperties(SSL | changes, "f.yaml"))
    assert (caught.value.file, caught.value.key) == ("f.yaml", key)


# https://www.rfc-editor.org/rfc/rfc5289 and its kin have Java's names, `openssl ciphers -stdname` both.
@pytest.mark.parametrize(
    ("java", "openssl"),
    [
        ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
        ("TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384", "ECDHE-RSA-AES256-SHA384"),
        ("TLS_DHE_RSA_WITH_AES_256_GCM_SHA384", "DHE-RSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA", "ECDHE-ECDSA-AES128-SHA"),
        ("TLS_RSA_WITH_AES_128_CBC_SHA256", "AES128-SHA256"),
        ("TLS_RSA_WITH_AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
        ("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
    ],
)
def test_a_suite_has_another_name_in_openssl(java: str, openssl: str) -> None:
    assert openssl_name(java) == openssl
    config, context = both_clients_accept({**SSL, "ssl.cipher.suites": java})
    assert config["ssl.cipher.suites"] == openssl
    names = {cipher["name"] for cipher in context.get_ciphers()}
    assert {name for name in names if not name.startswith("TLS_")} == {openssl}
    assert context.maximum_version is ssl.TLSVersion.TLSv1_2


def test_suites_of_tls_1_3_alone_allow_nothing_older() -> None:
    config, context = both_clients_accept({**SSL, "ssl.cipher.suites": "TLS_AES_256_GCM_SHA384"})
    assert "ssl.cipher.suites" not in config
    assert context.minimum_version is ssl.TLSVersion.TLSv1_3


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, ()),
        ({"ssl.enabled.protocols": "TLSv1.3,TLSv1.2", "ssl.protocol": "TLSv1.3"}, ()),
        ({"ssl.enabled.protocols": "TLSv1.3"}, ("ssl.enabled.protocols",)),
        ({"ssl.protocol": "TLSv1.2"}, ("ssl.protocol",)),
        ({"ssl.cipher.suites": "TLS_AES_256_GCM_SHA384"}, ("ssl.cipher.suites",)),
        (
            {"ssl.cipher.suites": "TLS_AES_256_GCM_SHA384,TLS_RSA_WITH_AES_256_GCM_SHA384"},
            (),
        ),
    ],
)
def test_what_librdkafka_cannot_be_held_to_is_said(
    changes: dict[str, str], said: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    confluent_config(SSL | changes, "admin")
    assert [line.split(": ")[1].split(" ")[0] for line in caplog.messages] == list(said)


def test_errors_name_file_and_key_and_no_secret(tmp_path: Path, identity: Identity) -> None:
    keys = key_store("PKCS12", tmp_path, identity) | {"ssl.keystore.password": "wr0ng"}
    for translate in (lambda p: confluent_config(p, "admin"), kafka_python_config):
        with pytest.raises(ConfigError, match="does not open") as caught:
            translate(SSL | keys)
        assert caught.value.key == "ssl.keystore.password"
        assert "wr0ng" not in str(caught.value)
        assert PASSWORD not in str(caught.value)
