import logging
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from kafka.net.manager import KafkaConnectionManager

from kafka_ferry.config import (
    Cluster,
    confluent_config,
    kafka_python_config,
    only_kafka_python_logs_in,
)
from kafka_ferry.config.client import translate as translate_module
from kafka_ferry.config.client.cluster import ClientProperties
from kafka_ferry.config.client.jaas import TOKEN_AUTH
from kafka_ferry.config.client.property_names import ROLES, Role
from kafka_ferry.config.client.translate import KAFKA_PYTHON, LIBRDKAFKA
from kafka_ferry.errors import ConfigError

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
BASE = {"bootstrap.servers": "127.0.0.1:1,127.0.0.1:2"}


@pytest.fixture(autouse=True)
def _nothing_logged_yet() -> Iterator[None]:
    translate_module._log_once.cache_clear()
    yield


def start_client(role: Role, config: dict[str, object]) -> None:
    """librdkafka checks names and values when a client is made; it needs no broker for that."""
    quiet = {**config, "logger": logging.getLogger("quiet"), "log_level": 0}
    match role:
        case "consumer":
            Consumer({"group.id": "g", **quiet}).close()
        case "producer":
            Producer(quiet)
        case "admin":
            AdminClient(quiet)


def login(module: str = PLAIN, mechanism: str = "PLAIN") -> dict[str, str]:
    return {
        **BASE,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{module} required username="ann" password="p;\\"w";',
    }


SAMPLES = {
    "acks": "all",
    "allow.auto.create.topics": "true",
    "auto.offset.reset": "none",
    "bootstrap.servers": "127.0.0.1:1",
    "check.crcs": "true",
    "client.dns.lookup": "use_all_dns_ips",
    "compression.type": "zstd",
    "delivery.timeout.ms": "120000",
    "enable.auto.commit": "true",
    "enable.idempotence": "true",
    "enable.metrics.push": "true",
    "group.protocol": "classic",
    "isolation.level": "read_committed",
    "metadata.recovery.strategy": "rebootstrap",
    "security.protocol": "plaintext",
}
# What librdkafka demands beside an extreme value.
BESIDE: dict[str, dict[str, object]] = {
    "max.poll.interval.ms": {"session.timeout.ms": "1"},
    "retry.backoff.max.ms": {"retry.backoff.ms": "1"},
    "retry.backoff.ms": {"retry.backoff.max.ms": "300000"},
    "session.timeout.ms": {"max.poll.interval.ms": "3600001"},
    "transaction.timeout.ms": {"transactional.id": "t"},
}


@pytest.mark.parametrize("key", sorted(LIBRDKAFKA))
def test_librdkafka_takes_every_name_and_limit_of_the_table(key: str) -> None:
    setting = LIBRDKAFKA[key]
    numbers = {number for number in (setting.low, setting.high) if number is not None}
    for value in {str(number) for number in numbers} or {SAMPLES.get(key, "1")}:
        for role in setting.roles:
            config = confluent_config({**BASE, key: value}, role)
            assert setting.name in config
            start_client(role, {**config, **BESIDE.get(key, {})})


@pytest.mark.parametrize(
    ("key", "value", "role", "expected"),
    [
        ("fetch.max.wait.ms", "500", "consumer", {"fetch.wait.max.ms": "500"}),
        ("request.timeout.ms", "1000", "admin", {"socket.timeout.ms": "1000"}),
        ("request.timeout.ms", "600000", "admin", {"socket.timeout.ms": "300000"}),
        ("send.buffer.bytes", "-1", "producer", {"socket.send.buffer.bytes": "0"}),
        (
            "reconnect.backoff.ms",
            "20000",
            "admin",
            {"reconnect.backoff.ms": "20000", "reconnect.backoff.max.ms": "20000"},
        ),
        (
            "reconnect.backoff.max.ms",
            "20",
            "admin",
            {"reconnect.backoff.ms": "20", "reconnect.backoff.max.ms": "20"},
        ),
        ("max.request.size", "2000", "producer", {"message.max.bytes": "2000"}),
        ("auto.offset.reset", "none", "consumer", {"auto.offset.reset": "error"}),
        ("auto.offset.reset", "earliest", "consumer", {"auto.offset.reset": "earliest"}),
        ("client.id", "ferry", "admin", {"client.id": "ferry"}),
        ("acks", "all", "consumer", {}),
        ("max.poll.records", "5", "consumer", {}),
        ("ssl.truststore.location", "/x.jks", "admin", {}),  # plain text needs no store
        ("sasl.jaas.config", "nonsense", "admin", {}),
    ],
)
def test_a_java_property_becomes_librdkafkas(
    key: str, value: str, role: Role, expected: dict[str, object]
) -> None:
    config = confluent_config({**BASE, key: value}, role)
    assert config == {"bootstrap.servers": BASE["bootstrap.servers"], **expected}


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("max.poll.records", "5", "is ignored"),
        ("sasl.login.class", "x.Y", "is ignored"),
        ("ssl.provider", "x", "is ignored"),
        ("acks", "all", "is ignored"),
        ("request.timeout.ms", "600000", "nearest value is 300000"),
    ],
)
def test_what_librdkafka_lacks_is_logged_once(
    key: str, value: str, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        confluent_config({**BASE, key: value}, "consumer")
    (line,) = caplog.messages
    assert key in line
    assert words in line


def test_a_secret_that_is_left_out_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    confluent_config({**BASE, "my.client.secret": "hunter2"}, "admin")
    assert "my.client.secret" in caplog.text
    assert "hunter2" not in caplog.text


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(
    ("module", "mechanism"),
    [
        (PLAIN, "PLAIN"),
        (SCRAM, "SCRAM-SHA-256"),
        (SCRAM, "SCRAM-SHA-512"),
        (f"kafkashaded.{SCRAM}", "SCRAM-SHA-512"),
    ],
)
def test_a_login_becomes_user_name_and_password(role: Role, module: str, mechanism: str) -> None:
    config = confluent_config(login(module, mechanism), role)
    assert config == {
        "bootstrap.servers": BASE["bootstrap.servers"],
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": "ann",
        "sasl.password": 'p;"w',
    }
    start_client(role, config)
    assert kafka_python_config(login(module, mechanism)) == {
        "bootstrap_servers": ["127.0.0.1:1", "127.0.0.1:2"],
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "ann",
        "sasl_plain_password": 'p;"w',
    }


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_commas_and_equal_signs_in_a_name_are_sent_as_scram_wants_them(mechanism: str) -> None:
    """RFC 5802 (saslname): librdkafka escapes them itself, kafka-python does not."""
    module = PLAIN if mechanism == "PLAIN" else SCRAM
    properties = login(module, mechanism) | {
        "sasl.jaas.config": f'{module} required username="a=b,c" password="p=w,";'
    }
    assert confluent_config(properties, "admin")["sasl.username"] == "a=b,c"
    settings = kafka_python_config(properties)
    sent = "a=b,c" if mechanism == "PLAIN" else "a=3Db=2Cc"
    assert settings["sasl_plain_username"] == sent
    assert settings["sasl_plain_password"] == "p=w,"


def test_an_error_names_the_file_and_the_cluster_that_the_properties_come_from() -> None:
    properties = {**login(), "sasl.mechanism": "OAUTHBEARER"}
    cluster = Cluster(alias="primary", properties=properties, file="f.yaml")
    for translate in (lambda p: confluent_config(p, "admin"), kafka_python_config):
        with pytest.raises(
            ConfigError, match=r"^f\.yaml: primary: sasl\.jaas\.config: OAUTHBEARER needs"
        ):
            translate(cluster.client_properties("admin"))


@pytest.mark.parametrize(
    ("changes", "key", "reason"),
    [
        ({"sasl.mechanism": "NTLM"}, "sasl.mechanism", "one of PLAIN, SCRAM-SHA-256"),
        ({"sasl.mechanism": "OAUTHBEARER"}, "sasl.jaas.config", "needs the login module"),
        ({"sasl.mechanism": "SCRAM-SHA-256"}, "sasl.jaas.config", "needs the login module Scram"),
        ({"sasl.jaas.config": "hunter2"}, "sasl.jaas.config", "Its form is"),
        ({"sasl.jaas.config": f"{PLAIN} required hunter2=a;"}, "sasl.jaas.config", "are required"),
        (
            {
                "sasl.mechanism": "SCRAM-SHA-256",
                "sasl.jaas.config": f"{SCRAM} required tokenauth=true username=hunter2;",
            },
            "sasl.jaas.config",
            "username and password are required",
        ),
    ],
)
def test_a_login_that_the_clients_cannot_use_is_refused_without_its_secrets(
    changes: dict[str, str], key: str, reason: str
) -> None:
    for translate in (lambda p: confluent_config(p, "admin"), kafka_python_config):
        with pytest.raises(ConfigError) as caught:
            translate({**login(), **changes})
        assert caught.value.key == key
        assert reason in str(caught.value)
        assert "hunter2" not in str(caught.value)


BY_TOKEN = {
    "sasl.mechanism": "SCRAM-SHA-256",
    "sasl.jaas.config": f"{SCRAM} required tokenauth='TRUE' username=id password='aG1hYw==';",
}


def test_a_delegation_token_is_for_kafka_pythons_connections() -> None:
    settings = kafka_python_config({**login(), **BY_TOKEN})
    assert settings[TOKEN_AUTH] is True
    assert (settings["sasl_plain_username"], settings["sasl_plain_password"]) == ("id", "aG1hYw==")
    assert TOKEN_AUTH not in kafka_python_config(login())
    assert only_kafka_python_logs_in({**login(), **BY_TOKEN})
    assert not only_kafka_python_logs_in(login())
    with pytest.raises(ConfigError, match=r"with which librdkafka cannot log in") as caught:
        confluent_config({**login(), **BY_TOKEN}, "admin")
    assert caught.value.key == "sasl.jaas.config"
    assert "aG1hYw" not in str(caught.value)


@pytest.mark.parametrize("role", ["consumer", "producer"])
def test_the_control_plane_may_have_another_login_where_the_data_plane_has_a_token(
    role: Role,
) -> None:
    admin = {f"admin.{key}": value for key, value in login().items()}
    more = {f"{role}.client.id": "mine", "admin.client.id": "admins"}
    cluster = Cluster(alias="primary", properties={**login(), **BY_TOKEN, **admin, **more})
    config = confluent_config(cluster.control_properties(role), role)
    assert config["sasl.mechanism"] == login()["sasl.mechanism"]
    assert config["client.id"] == "mine"
    assert kafka_python_config(cluster.client_properties(role))[TOKEN_AUTH]

    named = Cluster(alias="primary", properties={**login(), **admin, **more})
    assert named.control_properties(role) == named.client_properties(role)


def test_a_login_without_a_module_or_mechanism_is_refused() -> None:
    incomplete = login()
    del incomplete["sasl.jaas.config"]
    with pytest.raises(ConfigError, match="is required with SASL_PLAINTEXT"):
        confluent_config(incomplete, "admin")
    without_mechanism = login()
    del without_mechanism["sasl.mechanism"]
    with pytest.raises(ConfigError, match="GSSAPI needs the login module"):  # Java's default
        kafka_python_config(without_mechanism)


def test_kafka_python_knows_every_name_of_the_table() -> None:
    # These are read by wire.sockets and copy.source.
    ours = {"receive_buffer_bytes", "send_buffer_bytes", "client_rack"}
    names = {name.replace(".", "_") for name in KAFKA_PYTHON}
    assert names - ours <= set(KafkaConnectionManager.DEFAULT_CONFIG)


def test_kafka_pythons_connection_settings_are_typed() -> None:
    properties = {**BASE, "client.id": "ferry", "request.timeout.ms": "5000", "linger.ms": "5"}
    assert kafka_python_config(properties) == {
        "bootstrap_servers": ["127.0.0.1:1", "127.0.0.1:2"],
        "security_protocol": "PLAINTEXT",
        "client_id": "ferry",
        "request_timeout_ms": 5000,
    }


def test_brokers_are_listed_without_spaces_and_listener_names() -> None:
    properties = {"bootstrap.servers": "EXTERNAL://a:1, b:2"}
    assert confluent_config(properties, "admin") == {"bootstrap.servers": "a:1,b:2"}
    assert kafka_python_config(properties)["bootstrap_servers"] == ["a:1", "b:2"]


def test_a_number_that_is_none_is_an_error_with_its_key() -> None:
    with pytest.raises(ConfigError, match=r"f\.yaml: request\.timeout\.ms: must be a whole number"):
        kafka_python_config(ClientProperties({**BASE, "request.timeout.ms": "soon"}, "f.yaml"))
    with pytest.raises(ConfigError, match=r"fetch\.min\.bytes: must be a whole number"):
        confluent_config({**BASE, "fetch.min.bytes": "x"}, "consumer")


def test_the_operator_keeps_librdkafka_from_the_answers_of_brokers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert not only_kafka_python_logs_in(BASE)
    monkeypatch.setenv("FERRY_CONTROL_PLANE", "wire")
    assert only_kafka_python_logs_in(BASE)
