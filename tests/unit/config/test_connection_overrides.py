"""A flow that names an Airflow connection changes nothing of where, how and as whom the connection logs in."""

from __future__ import annotations

import pytest

from kafka_ferry.config.client.cluster import Cluster
from kafka_ferry.config.connection_overrides import override_problems, role_problems
from kafka_ferry.config.permissions import HOSTS, TOKEN_ENDPOINT, restrict
from kafka_ferry.errors import ConfigError

SCRAM = "ScramLoginModule required username=a password=b;"
OWN = "ScramLoginModule required username=c password=d;"
OAUTH = "OAuthBearerLoginModule required;"
SECRET = "sasl.oauthbearer.client.credentials.client.secret"

BROKERS = {"bootstrap.servers": "k1:9093,k2:9093"}
CLEAR = BROKERS | {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.jaas.config": SCRAM,
}
PASSWORD = CLEAR | {"security.protocol": "SASL_SSL", "ssl.cipher.suites": "A,B"}
TOKEN = BROKERS | {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.jaas.config": OAUTH,
    TOKEN_ENDPOINT: "https://id.example.org/token",
    SECRET: "secret",
}
HOST_CHECK = "ssl.endpoint.identification.algorithm"


@pytest.fixture(autouse=True)
def in_airflow() -> None:
    restrict()


@pytest.mark.parametrize(
    ("connection", "own"),
    [
        (PASSWORD, {}),
        (PASSWORD, {"bootstrap.servers": "K2:9093"}),
        (PASSWORD, {"bootstrap.servers": "SASL_SSL://k2:9093"}),
        (PASSWORD, {"security.protocol": "sasl_ssl"}),
        (PASSWORD, {"ssl.cipher.suites": "B", "ssl.protocol": "TLSv1.3"}),
        (PASSWORD, {"sasl.mechanism": "SCRAM-SHA-512"}),
        (PASSWORD, {"sasl.login.refresh.buffer.seconds": "3", "client.id": "x"}),
        # A login of its own, whole.
        (PASSWORD, {"sasl.mechanism": "PLAIN", "sasl.jaas.config": OWN}),
        (TOKEN, {"sasl.mechanism": "PLAIN", "sasl.jaas.config": OWN}),
        (CLEAR, {"sasl.jaas.config": OWN}),
        (CLEAR, {"security.protocol": "SASL_SSL", "ssl.truststore.location": "/ca.pem"}),
        # The connection names the brokers only.
        (BROKERS, {"security.protocol": "SASL_PLAINTEXT", "sasl.jaas.config": OWN}),
        (
            BROKERS | {"sasl.mechanism": "AWS_MSK_IAM"},
            {"sasl.jaas.config": "IAMLoginModule required;"},
        ),
        (BROKERS, {"security.protocol": "SSL", HOST_CHECK: ""}),
        (PASSWORD | {HOST_CHECK: "none"}, {HOST_CHECK: ""}),
        (TOKEN, {TOKEN_ENDPOINT: TOKEN[TOKEN_ENDPOINT]}),
    ],
)
def test_a_flow_may_be_stricter_or_log_in_on_its_own(
    connection: dict[str, str], own: dict[str, str]
) -> None:
    assert not [*override_problems(own, connection)]


@pytest.mark.parametrize(
    ("connection", "own"),
    [
        (PASSWORD, {"security.protocol": "SASL_PLAINTEXT"}),
        # The connection's own clients would show no login without security.protocol.
        (CLEAR | {"security.protocol": "PLAINTEXT"}, {"security.protocol": "SASL_PLAINTEXT"}),
        (PASSWORD, {HOST_CHECK: ""}),
        (PASSWORD, {HOST_CHECK: "none"}),
        (PASSWORD, {HOST_CHECK: "NONE "}),
        (PASSWORD, {"ssl.truststore.location": "/tmp/own.pem"}),
        (PASSWORD, {"ssl.truststore.certificates": "CA"}),
        (PASSWORD, {"ssl.enabled.protocols": "TLSv1,TLSv1.2"}),
        (PASSWORD, {"ssl.protocol": "TLSv1.1"}),
        (PASSWORD, {"ssl.cipher.suites": "A,C"}),
        (TOKEN, {"ssl.cipher.suites": "A,@SECLEVEL=0"}),
        # With PLAIN the broker, or who listens, is shown the password that SCRAM only proves.
        (CLEAR, {"sasl.mechanism": "PLAIN"}),
        (TOKEN, {TOKEN_ENDPOINT: "http://id.example.org/token"}),
        (TOKEN, {"sasl.jaas.config": 'OAuthBearerLoginModule required ssl.truststore.type="PEM";'}),
        (TOKEN, {"sasl.oauthbearer.scope": "all"}),
        (TOKEN, {"sasl.oauthbearer.assertion.claim.sub": "admin"}),
        (TOKEN, {"sasl.login.callback.handler.class": "Own"}),
    ],
)
def test_a_flow_may_not_weaken_what_the_connection_says(
    connection: dict[str, str], own: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert {it.key for it in override_problems(own, connection)} == own.keys()
    monkeypatch.setenv(HOSTS, ".*")
    assert {it.key for it in override_problems(own, connection)} == own.keys()
    monkeypatch.delenv(HOSTS)
    assert not [*override_problems(own, connection)]


@pytest.mark.parametrize(
    ("brokers", "is_refused"),
    [
        (
            "b-1.name.a1.c4.kafka.eu-west-1.amazonaws.com:9098,boot-x.c1.kafka-serverless.eu-west-1.amazonaws.com:9098",
            False,
        ),
        ("attacker:9098", True),
        ("b-1.name.a1.c4.kafka.eu-west-1.amazonaws.com:9098,attacker:9098", True),
        ("ec2-1-2-3-4.compute-1.amazonaws.com:9098", True),
        ("b-1.kafka.eu-west-1.amazonaws.com.attacker:9098", True),
    ],
)
def test_the_machine_s_role_of_aws_goes_to_amazon_msk(
    brokers: str, is_refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is shown its token may use it at each MSK cluster of the region."""
    properties = {"bootstrap.servers": brokers, "sasl.mechanism": "AWS_MSK_IAM"}
    assert bool([*role_problems(properties)]) is is_refused
    module = "software.amazon.msk.auth.iam.IAMLoginModule required"
    own = f"{module} awsRoleAccessKeyId=a awsRoleSecretAccessKey=b;"
    assert not [*role_problems(properties | {"sasl.jaas.config": own})]
    # Empty options are none, and a profile is the machine's.
    for none in (f'{module} awsRoleAccessKeyId="";', own.replace(";", " awsProfileName=p;")):
        assert bool([*role_problems(properties | {"sasl.jaas.config": none})]) is is_refused
    assert not [*role_problems(properties | {"sasl.mechanism": "PLAIN"})]
    cluster = Cluster(alias="a", properties=properties | {"security.protocol": "SASL_SSL"})
    if is_refused:
        with pytest.raises(ConfigError, match="the machine's role of AWS may not go to"):
            cluster.client_properties("admin")
    monkeypatch.setenv(HOSTS, ".*")
    assert not [*role_problems(properties)]
    monkeypatch.delenv(HOSTS)
    assert not [*role_problems(properties)]


@pytest.mark.parametrize(
    ("connection", "own"),
    [
        (PASSWORD, {"bootstrap.servers": "k1:9093,attacker:9093"}),
        (PASSWORD, {"bootstrap.servers": "SASL_SSL://attacker:9093"}),
        # Another user of that machine may listen there.
        (PASSWORD, {"bootstrap.servers": "k1:10666"}),
        (PASSWORD, {"bootstrap.servers": "k1"}),
        (TOKEN, {TOKEN_ENDPOINT: "https://attacker.example/token"}),
        # Another tenant of an identity provider.
        (TOKEN, {TOKEN_ENDPOINT: "https://id.example.org/attacker/token"}),
        (TOKEN, {TOKEN_ENDPOINT: "https://id.example.org:8443/token"}),
    ],
)
def test_the_login_goes_where_the_connection_says_or_the_operator_allows(
    connection: dict[str, str], own: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (problem,) = override_problems(own, connection)
    assert "which it does not name" in problem.reason
    monkeypatch.setenv(HOSTS, r"attacker(\.example)?, k1, id\.example\.org")
    assert bool([*override_problems(own, connection)]) is (own == {"bootstrap.servers": "k1"})
