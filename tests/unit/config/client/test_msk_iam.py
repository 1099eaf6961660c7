"""Logins to Amazon MSK with AWS's credentials, as the properties of AWS's Java library describe them."""

from __future__ import annotations

import pytest

from kafka_ferry.config import Cluster, confluent_config, kafka_python_config
from kafka_ferry.config.client.msk_iam import IamLogin, iam_login, is_iam
from kafka_ferry.config.client.oauth import OAUTH_LOGIN, OAuthLogin
from kafka_ferry.errors import ConfigError

PACKAGE = "software.amazon.msk.auth.iam."
MODULE = f"{PACKAGE}IAMLoginModule"
SERVERS = "b-1.demo.a1b2c3.c4.kafka.eu-west-1.amazonaws.com:9098"
JAAS = "sasl.jaas.config"
CLIENT_HANDLER = "sasl.client.callback.handler.class"
LOGIN_HANDLER = "sasl.login.callback.handler.class"
ROLE = "arn:aws:iam::123456789012:role/ferry"
SECRET = "hunter2"
BASE = {"bootstrap.servers": SERVERS, "security.protocol": "SASL_SSL"}
IAM = {
    **BASE,
    "sasl.mechanism": "AWS_MSK_IAM",
    JAAS: f"{MODULE} required;",
    CLIENT_HANDLER: f"{PACKAGE}IAMClientCallbackHandler",
}
BEARER_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
BEARER = {
    **BASE,
    "sasl.mechanism": "OAUTHBEARER",
    JAAS: f"{BEARER_MODULE} required;",
    LOGIN_HANDLER: f"{PACKAGE}IAMOAuthBearerLoginCallbackHandler",
}


@pytest.mark.parametrize("properties", [IAM, BEARER], ids=["AWS_MSK_IAM", "OAUTHBEARER"])
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", IamLogin("eu-west-1")),
        (" awsProfileName=prod", IamLogin("eu-west-1", profile="prod")),
        (f" awsRoleArn='{ROLE}'", IamLogin("eu-west-1", role=ROLE)),
        (
            f" awsRoleArn='{ROLE}' awsRoleSessionName=s awsRoleExternalId=x awsStsRegion=us-east-1",
            IamLogin("eu-west-1", role=ROLE, session="s", external_id="x", sts_region="us-east-1"),
        ),
        (
            f" awsRoleArn='{ROLE}' awsRoleAccessKeyId=id awsRoleSecretAccessKey={SECRET}",
            IamLogin("eu-west-1", role=ROLE, key_id="id", secret_key=SECRET),
        ),
        (" awsDebugCreds=true awsMaxRetries=7", IamLogin("eu-west-1")),
    ],
)
def test_both_forms_become_oauthbearer_on_both_planes(
    options: str,
    expected: IamLogin,
    properties: dict[str, str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    whole = {**properties, JAAS: properties[JAAS].replace(";", f"{options};")}
    config, settings = confluent_config(whole, "admin"), kafka_python_config(whole)
    assert config["sasl.mechanism"] == settings["sasl_mechanism"] == "OAUTHBEARER"
    assert config[OAUTH_LOGIN] == settings[OAUTH_LOGIN] == OAuthLogin("", iam=expected)
    assert not caplog.messages
    assert SECRET not in f"{expected!r} {config[OAUTH_LOGIN]!r}"


@pytest.mark.parametrize(
    ("servers", "region"),
    [
        (SERVERS, "eu-west-1"),
        ("boot-a1.c1.kafka-serverless.us-east-2.amazonaws.com:9098", "us-east-2"),
        ("b-1-public.demo.a1.c4.kafka.us-gov-west-1.amazonaws.com:9198", "us-gov-west-1"),
        ("b-1.demo.a1.c4.kafka.cn-north-1.amazonaws.com.cn:9098", "cn-north-1"),
        ("kafka.example.com:9098", ""),
        ("10.0.0.1:9098", ""),
    ],
)
def test_the_hosts_names_say_the_region(servers: str, region: str) -> None:
    assert iam_login(IAM | {"bootstrap.servers": servers}, "f.yaml").region == region


@pytest.mark.parametrize(
    ("changes", "key", "said"),
    [
        ({JAAS: f"x.PlainLoginModule required password={SECRET};"}, JAAS, "login module software"),
        ({JAAS: SECRET}, JAAS, "Its form is: software"),
        ({JAAS: f"{MODULE} required password={SECRET};"}, JAAS, "password is not one of"),
        (
            {JAAS: f"{MODULE} required awsProfileName={SECRET} awsRoleArn=a;"},
            JAAS,
            "takes the profile",
        ),
        ({JAAS: f"{MODULE} required awsRoleSecretAccessKey={SECRET};"}, JAAS, "together"),
        (
            {CLIENT_HANDLER: "com.example.Handler"},
            CLIENT_HANDLER,
            "com.example.Handler is a Java class",
        ),
    ],
)
def test_what_is_no_login_is_refused_by_its_key(
    changes: dict[str, str], key: str, said: str
) -> None:
    for translate in (lambda p: confluent_config(p, "admin"), kafka_python_config):
        with pytest.raises(ConfigError) as caught:
            translate(IAM | changes)
        assert caught.value.key == key
        assert said in str(caught.value)
        assert SECRET not in str(caught.value)


def test_other_logins_are_not_iams() -> None:
    assert not is_iam({"sasl.mechanism": "OAUTHBEARER"})
    assert not is_iam({"sasl.mechanism": "PLAIN", LOGIN_HANDLER: BEARER[LOGIN_HANDLER]})


@pytest.mark.parametrize("properties", [IAM, BEARER], ids=["AWS_MSK_IAM", "OAUTHBEARER"])
def test_other_processes_get_the_same_login(properties: dict[str, str]) -> None:
    cluster = Cluster(alias="msk", properties=properties, file="f.yaml")
    there = kafka_python_config(cluster.resolve().client_properties("producer"))
    assert there[OAUTH_LOGIN] == OAuthLogin("", iam=IamLogin("eu-west-1"))
