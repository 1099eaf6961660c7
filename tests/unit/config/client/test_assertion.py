"""JWT assertions in Java's properties: which of them count, and how they get to other machines."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_ferry.config import Cluster, confluent_config, kafka_python_config
from kafka_ferry.config.client.assertion import (
    ASSERTION_FILE,
    ISSUER,
    PASSPHRASE,
    PRIVATE_KEY,
    TEMPLATE,
    Assertion,
)
from kafka_ferry.config.client.login_values import LoginFile
from kafka_ferry.config.client.oauth import OAUTH_LOGIN, OAuthLogin, oauth_login
from kafka_ferry.errors import ConfigError

PACKAGE = "org.apache.kafka.common.security.oauthbearer."
JWT_BEARER = {"sasl.oauthbearer.jwt.retriever.class": f"{PACKAGE}JwtBearerJwtRetriever"}
URL = "https://id.example.com/oauth2/token"
ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
AT = "sasl.oauthbearer.assertion."
CLIENT = "sasl.oauthbearer.client.credentials.client."
PLACE = "f.yaml: primary"
SECRET = "hunter2"
WHOLE = {
    "bootstrap.servers": "127.0.0.1:1",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    ENDPOINT: URL,
}
KEY = LoginFile("/key.pem", PRIVATE_KEY)
PREPARED = LoginFile("/assertion", ASSERTION_FILE)
BY_KEY = {PRIVATE_KEY: "/key.pem", ISSUER: "ferry"}
ISS = (("iss", "ferry"),)


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({ASSERTION_FILE: "/assertion"}, Assertion(prepared=PREPARED)),
        ({**BY_KEY, ASSERTION_FILE: "/assertion"}, Assertion(prepared=PREPARED)),
        (BY_KEY, Assertion(key=KEY, claims=ISS)),
        (BY_KEY | {PASSPHRASE: SECRET}, Assertion(key=KEY, passphrase=SECRET, claims=ISS)),
        (
            BY_KEY | {f"{AT}algorithm": "es256"},
            Assertion(key=KEY, algorithm="ES256", claims=ISS),
        ),
        (
            BY_KEY | {f"{AT}claim.aud": "id", f"{AT}claim.sub": "me"},
            Assertion(key=KEY, claims=(("aud", "id"), *ISS, ("sub", "me"))),
        ),
        (
            BY_KEY | {TEMPLATE: "/t.json"},
            Assertion(key=KEY, claims=ISS, template=LoginFile("/t.json", TEMPLATE)),
        ),
        (
            BY_KEY
            | {
                f"{AT}claim.exp.seconds": "86400",
                f"{AT}claim.nbf.seconds": "0",
                f"{AT}claim.jti.include": "TRUE",
            },
            Assertion(key=KEY, claims=ISS, life_s=86_400, back_s=0, has_id=True),
        ),
    ],
)
def test_properties_say_where_an_assertion_comes_from(
    properties: dict[str, str], expected: Assertion
) -> None:
    ids = {f"{CLIENT}id": "ann", f"{CLIENT}secret": SECRET}
    assert oauth_login(WHOLE | properties, PLACE) == OAuthLogin(URL, assertion=expected)
    # An assertion wins over a secret; the id goes with it.
    assert oauth_login(WHOLE | ids | properties, PLACE) == OAuthLogin(
        URL, "ann", assertion=expected
    )
    assert oauth_login(WHOLE | ids | JWT_BEARER | properties, PLACE) == OAuthLogin(
        URL, assertion=expected, is_jwt_bearer=True
    )


def test_a_key_alone_is_no_assertion_of_client_credentials_as_in_java() -> None:
    ids = {f"{CLIENT}id": "ann", f"{CLIENT}secret": SECRET, PRIVATE_KEY: "/key.pem"}
    assert oauth_login(WHOLE | ids, PLACE) == OAuthLogin(URL, "ann", SECRET)
    assert oauth_login(WHOLE | ids | JWT_BEARER, PLACE).assertion == Assertion(key=KEY)


def test_the_jwt_bearer_grant_takes_its_scope_from_the_property_only() -> None:
    jaas = {"sasl.jaas.config": f"{PACKAGE}OAuthBearerLoginModule required scope=a;"}
    assert oauth_login(WHOLE | JWT_BEARER | BY_KEY | jaas, PLACE).scope == ""
    both = WHOLE | JWT_BEARER | BY_KEY | jaas | {"sasl.oauthbearer.scope": "b"}
    assert oauth_login(both, PLACE).scope == "b"


@pytest.mark.parametrize(
    ("changes", "key", "said"),
    [
        (JWT_BEARER, PRIVATE_KEY, "is required to sign an assertion"),
        ({ISSUER: "ferry"}, PRIVATE_KEY, f"or {ASSERTION_FILE}"),
        ({PRIVATE_KEY: "/key.pem"}, f"{CLIENT}id", f"set {ASSERTION_FILE} or {ISSUER}"),
        (BY_KEY | {f"{AT}algorithm": "HS256"}, f"{AT}algorithm", "one of RS256, ES256"),
        (BY_KEY | {f"{AT}claim.exp.seconds": "86401"}, f"{AT}claim.exp.seconds", "0 to 86400"),
        (BY_KEY | {f"{AT}claim.nbf.seconds": "3601"}, f"{AT}claim.nbf.seconds", "0 to 3600"),
        (BY_KEY | {f"{AT}claim.nbf.seconds": "-1"}, f"{AT}claim.nbf.seconds", "0 to 3600"),
        (BY_KEY | {f"{AT}claim.jti.include": "yes"}, f"{AT}claim.jti.include", "true or false"),
        (JWT_BEARER | BY_KEY | {ENDPOINT: "file:///token"}, ENDPOINT, "must be https://"),
    ],
)
def test_what_gives_no_assertion_is_refused_by_its_key(
    changes: dict[str, str], key: str, said: str
) -> None:
    for translate in (lambda p: confluent_config(p, "admin"), kafka_python_config):
        with pytest.raises(ConfigError) as caught:
            translate(WHOLE | {PASSPHRASE: SECRET} | changes)
        assert caught.value.key == key
        assert said in str(caught.value)
        assert SECRET not in str(caught.value)


def test_nothing_of_an_assertion_is_reported_as_ignored(caplog: pytest.LogCaptureFixture) -> None:
    confluent_config(WHOLE | JWT_BEARER | BY_KEY | {TEMPLATE: "/t", PASSPHRASE: SECRET}, "admin")
    assert not caplog.messages


@pytest.mark.parametrize("name", [ASSERTION_FILE, PRIVATE_KEY, TEMPLATE, ENDPOINT])
def test_a_cluster_for_other_processes_has_the_files_content_unless_they_have_the_file(
    name: str, tmp_path: Path
) -> None:
    file = tmp_path / "a file"
    file.write_text(f"{SECRET}\nover\nlines")
    more = {ENDPOINT: file.as_uri()} if name == ENDPOINT else {name: str(file)}
    if name == TEMPLATE:
        (tmp_path / "key").write_text("key")
        more |= {PRIVATE_KEY: str(tmp_path / "key")}
    if name != ENDPOINT:
        more |= JWT_BEARER
    cluster = Cluster(alias="primary", properties=WHOLE | more, file="f.yaml").resolve()
    found = kafka_python_config(cluster.client_properties("consumer"))[OAUTH_LOGIN]

    assert isinstance(found, OAuthLogin)
    carried = {
        ASSERTION_FILE: lambda: found.assertion.prepared,
        PRIVATE_KEY: lambda: found.assertion.key,
        TEMPLATE: lambda: found.assertion.template,
        ENDPOINT: lambda: found.token_file,
    }[name]()
    file.write_text("this machine's")
    assert carried.read(PLACE) == "this machine's"
    file.unlink()
    assert carried.read(PLACE) == f"{SECRET}\nover\nlines"
    assert SECRET not in f"{cluster!r} {found!r} {found.assertion!r} {cluster.model_dump_json()}"


def test_a_file_that_the_driver_lacks_is_refused_there() -> None:
    cluster = Cluster(alias="primary", properties=WHOLE | BY_KEY, file="f.yaml")
    with pytest.raises(ConfigError, match=r"/key\.pem cannot be read: No such file") as caught:
        cluster.resolve()
    assert caught.value.key == PRIVATE_KEY
