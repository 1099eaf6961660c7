"""OAUTHBEARER in Java's properties and login module."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_ferry.config import Cluster, confluent_config, kafka_python_config
from kafka_ferry.config.client.jaas import parse_login
from kafka_ferry.config.client.oauth import OAUTH_LOGIN, OAuthLogin, Renewal, oauth_login
from kafka_ferry.errors import ConfigError
from kafka_sandbox.logins.secure import Authority

PACKAGE = "org.apache.kafka.common.security.oauthbearer."
MODULE = f"{PACKAGE}OAuthBearerLoginModule"
URL = "https://id.example.com/oauth2/token"
ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
HANDLER = "sasl.login.callback.handler.class"
RETRIEVER = "sasl.oauthbearer.jwt.retriever.class"
CREDENTIALS = "sasl.oauthbearer.client.credentials."
JAAS = "sasl.jaas.config"
SECRET = "hunter2"
IN_JAAS = f"{MODULE} required clientId='ann' clientSecret='{SECRET}'"
IN_PROPERTIES = {f"{CREDENTIALS}client.id": "ann", f"{CREDENTIALS}client.secret": SECRET}
BASE = {ENDPOINT: URL, JAAS: f"{IN_JAAS};"}
WHOLE = {
    "bootstrap.servers": "127.0.0.1:1",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    **BASE,
}
ANN = OAuthLogin(URL, "ann", SECRET)


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        (BASE, ANN),
        (BASE | {HANDLER: f"{PACKAGE}OAuthBearerLoginCallbackHandler"}, ANN),
        (BASE | {HANDLER: f"{PACKAGE}secured.OAuthBearerLoginCallbackHandler"}, ANN),
        (BASE | {RETRIEVER: f"{PACKAGE}DefaultJwtRetriever"}, ANN),
        (BASE | {RETRIEVER: f"{PACKAGE}ClientCredentialsJwtRetriever"}, ANN),
        (BASE | {JAAS: f"kafkashaded.{IN_JAAS};"}, ANN),
        ({ENDPOINT: URL, **IN_PROPERTIES}, ANN),
        ({ENDPOINT: URL, JAAS: f"{MODULE} required;", **IN_PROPERTIES}, ANN),
        (BASE | {f"{CREDENTIALS}client.id": "bob"}, OAuthLogin(URL, "bob", SECRET)),
        (BASE | {JAAS: f"{IN_JAAS} scope='a b';"}, OAuthLogin(URL, "ann", SECRET, "a b")),
        (
            BASE | {JAAS: f"{IN_JAAS} scope='a';", "sasl.oauthbearer.scope": "b"},
            OAuthLogin(URL, "ann", SECRET, "b"),
        ),
        (
            BASE | {JAAS: f"{IN_JAAS} extension_logicalCluster='lkc-1' extension_a='b c';"},
            OAuthLogin(URL, "ann", SECRET, extensions=(("a", "b c"), ("logicalCluster", "lkc-1"))),
        ),
        (
            BASE | {JAAS: f"{IN_JAAS} ssl.truststore.location='/ca.p12';"},
            OAuthLogin(URL, "ann", SECRET, tls=(("ssl.truststore.location", "/ca.p12"),)),
        ),
        (
            BASE | {"sasl.oauthbearer.header.urlencode": "true"},
            OAuthLogin(URL, "ann", SECRET, is_encoded=True),
        ),
        (
            BASE
            | {
                "sasl.login.connect.timeout.ms": "1000",
                "sasl.login.read.timeout.ms": "2000",
                "sasl.login.retry.backoff.ms": "300",
                "sasl.login.retry.backoff.max.ms": "4000",
            },
            OAuthLogin(URL, "ann", SECRET, connect_s=1, read_s=2, backoff_s=0.3, retry_s=4),
        ),
        (
            BASE
            | {
                "sasl.login.refresh.window.factor": "0.5",
                "sasl.login.refresh.window.jitter": "0.1",
                "sasl.login.refresh.buffer.seconds": "60",
            },
            OAuthLogin(URL, "ann", SECRET, renewal=Renewal(0.5, 0.1, 60)),
        ),
        ({ENDPOINT: "file:///run/token"}, OAuthLogin("file:///run/token")),
        (
            {ENDPOINT: "file:///run/token", RETRIEVER: f"{PACKAGE}FileJwtRetriever"},
            OAuthLogin("file:///run/token"),
        ),
    ],
)
def test_javas_properties_say_where_a_token_comes_from(
    properties: dict[str, str], expected: OAuthLogin
) -> None:
    assert oauth_login(properties, "f.yaml: primary") == expected


@pytest.mark.parametrize(
    ("changes", "key", "said"),
    [
        ({ENDPOINT: ""}, ENDPOINT, "is required with OAUTHBEARER"),
        ({ENDPOINT: "id.example.com"}, ENDPOINT, "must be a URL"),
        ({ENDPOINT: "ftp://id.example.com"}, ENDPOINT, "must be a URL"),
        ({ENDPOINT: "https://"}, ENDPOINT, "must be a URL"),
        ({ENDPOINT: "https://a:b/"}, ENDPOINT, "must be a URL"),
        ({RETRIEVER: f"{PACKAGE}FileJwtRetriever"}, ENDPOINT, "must be file:///"),
        (
            {RETRIEVER: f"{PACKAGE}ClientCredentialsJwtRetriever", ENDPOINT: "file:///t"},
            ENDPOINT,
            "must be https://",
        ),
        ({RETRIEVER: "com.example.Retriever"}, RETRIEVER, "com.example.Retriever is a Java class"),
        ({HANDLER: "com.example.Handler"}, HANDLER, "com.example.Handler is a Java class"),
        (
            {JAAS: f"{MODULE} required clientSecret={SECRET};"},
            f"{CREDENTIALS}client.id",
            "clientId",
        ),
        ({JAAS: f"{MODULE} required clientId=ann;"}, f"{CREDENTIALS}client.secret", "is required"),
        ({JAAS: f"{MODULE} required unsecuredLoginStringClaim_sub=a;"}, JAAS, "unsecured tokens"),
        ({JAAS: SECRET}, JAAS, "Its form is"),
        ({JAAS: f"x.PlainLoginModule required password={SECRET};"}, JAAS, "needs the login module"),
        ({JAAS: f"{IN_JAAS} extension_auth='{SECRET}';"}, JAAS, "extension_auth is no name"),
        ({JAAS: f"{IN_JAAS} extension_a1='{SECRET}';"}, JAAS, "extension_a1 is no name"),
        ({JAAS: f"{IN_JAAS} extension_a='{SECRET}\\001';"}, JAAS, "value of extension_a"),
        ({"sasl.login.read.timeout.ms": "x"}, "sasl.login.read.timeout.ms", "whole number"),
        (
            {"sasl.login.refresh.window.factor": "8"},
            "sasl.login.refresh.window.factor",
            "from 0 to 1",
        ),
    ],
)
def test_what_cannot_give_a_token_is_refused_by_its_key_without_secrets(
    changes: dict[str, str], key: str, said: str
) -> None:
    for translate in (lambda p: confluent_config(p, "admin"), kafka_python_config):
        with pytest.raises(ConfigError) as caught:
            translate(WHOLE | changes)
        assert caught.value.key == key
        assert said in str(caught.value)
        assert SECRET not in str(caught.value)


def test_both_planes_get_the_same_login() -> None:
    config, settings = confluent_config(WHOLE, "admin"), kafka_python_config(WHOLE)
    assert config["sasl.mechanism"] == settings["sasl_mechanism"] == "OAUTHBEARER"
    assert config[OAUTH_LOGIN] == settings[OAUTH_LOGIN] == ANN
    assert not {"sasl.username", "sasl.password"} & config.keys()


def test_nothing_of_the_login_is_reported_as_ignored(caplog: pytest.LogCaptureFixture) -> None:
    confluent_config(
        WHOLE | IN_PROPERTIES | {HANDLER: f"{PACKAGE}OAuthBearerLoginCallbackHandler"}, "admin"
    )
    assert not caplog.messages


def test_a_printed_login_shows_no_secret() -> None:
    url = f"https://ann:{SECRET}@id.example.com:8443/token?secret={SECRET}"
    login = OAuthLogin(url, "ann", SECRET, extensions=(("a", SECRET),), tls=(("ssl.x", SECRET),))
    assert repr(login) == "OAuthLogin(https://id.example.com:8443/token, client_id='ann')"


def test_a_cluster_for_other_processes_has_the_token_endpoints_authorities_in_it(
    tmp_path: Path,
) -> None:
    authority, file = Authority("id"), tmp_path / "ca.pem"
    file.write_text(authority.pem)
    stores = f"ssl.truststore.type=PEM ssl.truststore.location='{file}'"
    properties = WHOLE | {JAAS: f"{IN_JAAS} {stores};"}
    cluster = Cluster(alias="primary", properties=properties, file="f.yaml").resolve()
    file.unlink()

    found = cluster.client_properties("producer")

    options = parse_login(found[JAAS]).options
    assert options["ssl.truststore.certificates"].strip() == authority.pem.strip()
    assert options["clientSecret"] == SECRET
    assert not any("location" in name for name in options)
    assert SECRET not in repr(cluster)
    assert kafka_python_config(found)[OAUTH_LOGIN]
