import json
import pickle
from pathlib import Path

import pytest
from pydantic import ValidationError

from kafka_ferry.config import Cluster
from kafka_ferry.config.client.cluster import ClientProperties, is_secret
from kafka_ferry.errors import ConfigError
from kafka_ferry.secret_values import MASK
from kafka_sandbox.logins.secure import Authority
from tests.support.brokers.secure import key_store, trust_store
from tests.unit.config.builders import a_cluster


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
    cluster = a_cluster(
        ssl__key__password="hunter2",
        consumer__sasl__jaas__config="hunter2",
        security__protocol="SSL",
    )
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
        ({"bootstrap.servers": "h:1", "ssl.trustore.type": "PEM"}, "is not a property"),
        ({"bootstrap.servers": "h:1", "fetch.min.bytes": "1"}, "is not a property"),
    ],
)
def test_a_cluster_that_no_client_could_use_is_refused(
    properties: dict[str, str], reason: str
) -> None:
    with pytest.raises(ValidationError, match=reason):
        Cluster(alias="a", properties=properties)


def test_where_brokers_are_may_be_left_to_an_airflow_connection() -> None:
    cluster = Cluster(alias="a", properties={"airflow.connection": "my_kafka"})
    assert cluster.airflow_connection == "my_kafka"
    assert a_cluster().airflow_connection is None


def test_any_property_of_the_file_wins_over_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    extra = {"bootstrap.servers": "there:1", "security.protocol": "ssl", "ssl.key.password": "pw"}
    connection = json.dumps({"conn_type": "kafka", "extra": extra})
    monkeypatch.setenv("AIRFLOW_CONN_MY_KAFKA", connection)
    properties = {
        "airflow.connection": "my_kafka",
        "security.protocol": "PLAINTEXT",
        "consumer.bootstrap.servers": "here:2",
    }
    cluster = Cluster(alias="a", properties=properties)

    assert cluster.client_properties("admin") == {
        "bootstrap.servers": "there:1",
        "security.protocol": "PLAINTEXT",
        "ssl.key.password": "pw",
    }
    assert cluster.client_properties("consumer")["bootstrap.servers"] == "here:2"
    assert "airflow.connection" not in cluster.client_properties("consumer")


def test_a_store_of_the_file_takes_the_whole_place_of_the_connections(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    extra = {
        "bootstrap.servers": "there:1",
        "ssl.ca.pem": "CA",
        "ssl.keystore.location": "/k.p12",
        "ssl.keystore.password": "theirs",
    }
    monkeypatch.setenv("AIRFLOW_CONN_MY_KAFKA", json.dumps({"extra": extra}))
    properties = {
        "airflow.connection": "my_kafka",
        "ssl.truststore.location": "/own.jks",
        "ssl.keystore.password": "ours",
    }
    assert Cluster(alias="a", properties=properties).client_properties("admin") == {
        "bootstrap.servers": "there:1",
        "ssl.truststore.location": "/own.jks",
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": "/k.p12",
        "ssl.keystore.password": "ours",
    }


def test_brokers_that_neither_file_nor_connection_name_are_missed_when_a_client_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_EMPTY", '{"conn_type": "kafka", "extra": {}}')
    cluster = Cluster(alias="a", properties={"airflow.connection": "empty"}, file="f.yaml")
    with pytest.raises(ConfigError, match=r"f\.yaml: a: bootstrap\.servers: is required.*'empty'"):
        cluster.client_properties("admin")


@pytest.mark.parametrize("servers", ["kafka-1", ["kafka-1:9092"], 7])
def test_brokers_of_a_connection_that_are_none_are_named_when_a_client_is_made(
    servers: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    extra = {"bootstrap.servers": servers}
    monkeypatch.setenv("AIRFLOW_CONN_OURS", json.dumps({"conn_type": "kafka", "extra": extra}))
    cluster = Cluster(alias="eu", properties={"airflow.connection": "ours"})
    with pytest.raises(
        ConfigError, match="of the connection 'ours' must list brokers as host:port"
    ):
        cluster.client_properties("admin")


def test_a_resolved_cluster_needs_neither_files_nor_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Authority("root")
    identity = root.issue("ferry")
    stores = key_store("PKCS12", tmp_path, identity) | trust_store("PEM", tmp_path, root)
    monkeypatch.setenv("AIRFLOW_CONN_MY_KAFKA", "kafka://?bootstrap.servers=there%3A1")
    cluster = Cluster(
        alias="a",
        properties={
            "airflow.connection": "my_kafka",
            "security.protocol": "SSL",
            "producer.linger.ms": "5",
            "consumer.security.protocol": "PLAINTEXT",
            **stores,
        },
        file="f.yaml",
    )

    resolved = pickle.loads(pickle.dumps(cluster.resolve()))
    monkeypatch.delenv("AIRFLOW_CONN_MY_KAFKA")
    for file in tmp_path.iterdir():
        file.unlink()

    producer = resolved.client_properties("producer")
    assert producer["bootstrap.servers"] == "there:1"
    assert producer["linger.ms"] == "5"
    assert producer["ssl.keystore.key"] == identity.key_pem
    assert producer["ssl.truststore.certificates"] == root.pem
    assert resolved.client_properties("consumer") == {
        "bootstrap.servers": "there:1",
        "security.protocol": "PLAINTEXT",
    }
    assert resolved.resolve() == resolved
    assert identity.key_pem.splitlines()[1] not in repr(resolved) + str(resolved.model_dump())


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


@pytest.mark.parametrize(
    ("properties", "place"),
    [
        ({"bootstrap.servers": "a:1"}, "target.bootstrap.servers in f.yaml"),
        (
            {"airflow.connection": "my_kafka"},
            "bootstrap.servers in the Extra of the Airflow connection 'my_kafka'",
        ),
        (
            {"airflow.connection": "my_kafka", "bootstrap.servers": "a:1"},
            "target.bootstrap.servers in f.yaml",
        ),
        (
            {"airflow.connection": "my_kafka", "admin.bootstrap.servers": "a:1"},
            "target.admin.bootstrap.servers in f.yaml",
        ),
    ],
)
def test_advice_names_the_place_of_the_bootstrap_servers(
    properties: dict[str, str], place: str
) -> None:
    cluster = Cluster(
        alias="backup", properties=ClientProperties(properties), file="f.yaml", section="target"
    )
    assert cluster.servers_option == place


def test_a_connection_without_bootstrap_servers_says_where_they_belong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_MY_KAFKA", '{"conn_type": "kafka", "extra": {}}')
    cluster = Cluster(
        alias="backup", properties=ClientProperties({"airflow.connection": "my_kafka"})
    )
    with pytest.raises(ConfigError, match=r"Add it to the Extra of 'my_kafka'"):
        cluster.client_properties("consumer")
