import pickle

import pytest
from pydantic import ValidationError

from kafka_ferry.config import Cluster
from kafka_ferry.config.cluster import MASK, is_secret

from .builders import a_cluster


@pytest.mark.parametrize(
    ("key", "secret"),
    [
        ("ssl.key.password", True),
        ("ssl.keystore.password", True),
        ("consumer.ssl.truststore.password", True),
        ("sasl.jaas.config", True),
        ("admin.sasl.jaas.config", True),
        ("ssl.keystore.key", True),
        ("sasl.oauthbearer.client.credentials.client.secret", True),
        ("sasl.oauthbearer.assertion.private.key.passphrase", True),
        ("my.access.token", True),
        ("SASL.PASSWORD", True),
        ("bootstrap.servers", False),
        ("ssl.keystore.location", False),
        ("ssl.truststore.certificates", False),
        ("key.deserializer", False),
        ("sasl.mechanism", False),
    ],
)
def test_keys_with_secret_values_are_known(key: str, secret: bool) -> None:
    assert is_secret(key) is secret


def test_secrets_never_show_but_clients_get_them() -> None:
    cluster = a_cluster(ssl__key__password="hunter2", consumer__sasl__jaas__config="hunter2")
    shown = [repr(cluster), str(cluster), repr(cluster.properties), f"{cluster.properties}"]
    shown += [str(cluster.model_dump()), cluster.model_dump_json(), repr(dict(cluster))]
    shown += [repr(cluster.client_properties("consumer"))]
    assert not [text for text in shown if "hunter2" in text]
    assert cluster.model_dump()["properties"]["ssl.key.password"] == MASK
    assert cluster.client_properties("consumer")["sasl.jaas.config"] == "hunter2"


def test_an_invalid_secret_is_not_repeated_by_the_error() -> None:
    with pytest.raises(ValidationError) as caught:
        Cluster(alias="a", properties={"ssl.key.passwords": "hunter2"})
    assert "hunter2" not in str(caught.value)


def test_a_role_gets_the_shared_connection_names_and_its_own_properties_win() -> None:
    cluster = a_cluster(
        security__protocol="SSL",
        consumer__security__protocol="PLAINTEXT",
        consumer__fetch__max__wait__ms="500",
        producer__acks="all",
    )
    assert cluster.client_properties("consumer") == {
        "bootstrap.servers": "source:9092",
        "security.protocol": "PLAINTEXT",
        "fetch.max.wait.ms": "500",
    }
    assert cluster.client_properties("admin") == {
        "bootstrap.servers": "source:9092",
        "security.protocol": "SSL",
    }


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({}, "bootstrap.servers: is required"),
        ({"bootstrap.servers": " "}, "bootstrap.servers: is required"),
        ({"bootstrap.servers": "host"}, "host:port"),
        ({"bootstrap.servers": "host:9092,"}, "host:port"),
        ({"bootstrap.servers": "host:99999"}, "host:port"),
        ({"bootstrap.servers": "${file:/run/x:y}"}, "host:port"),
        ({"bootstrap.servers": "h:1", "security.protocol": "TLS"}, "must be one of PLAINTEXT"),
        ({"bootstrap.servers": "h:1", "producer.security.protocol": "x"}, "producer.security"),
        ({"bootstrap.servers": "h:1", "ssl.trustore.type": "PEM"}, "is no property"),
        ({"bootstrap.servers": "h:1", "fetch.min.bytes": "1"}, "is no property"),
    ],
)
def test_a_cluster_that_no_client_could_use_is_refused(
    properties: dict[str, str], reason: str
) -> None:
    with pytest.raises(ValidationError, match=reason):
        Cluster(alias="a", properties=properties)


@pytest.mark.parametrize("servers", ["h:1", "a_b.c-d:9092, [::1]:9092", "PLAINTEXT://127.0.0.1:1"])
def test_brokers_are_listed_as_java_lists_them(servers: str) -> None:
    assert a_cluster(bootstrap__servers=servers).properties["bootstrap.servers"] == servers


@pytest.mark.parametrize("alias", ["", "a b", "a/b", "a->b", "ä"])
def test_an_alias_must_fit_into_a_topic_name(alias: str) -> None:
    with pytest.raises(ValidationError, match="alias"):
        a_cluster(alias)


def test_clusters_are_values_that_travel_between_processes() -> None:
    cluster = a_cluster(ssl__key__password="hunter2")
    copy = pickle.loads(pickle.dumps(cluster))
    assert copy == cluster
    assert hash(copy) == hash(cluster)
    assert copy.client_properties("admin")["ssl.key.password"] == "hunter2"
