"""Tokens for Amazon MSK, signed by AWS's library; a role comes from a local server that speaks as STS does.

Only AWS could check such a token. So the signature is computed here again, from the description of Signature
Version 4 for signed URLs.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest

from kafka_ferry.config import kafka_python_config
from kafka_ferry.config.client.msk_iam import IamLogin
from kafka_ferry.errors import AccessDenied, ClusterUnreachable, ConfigError
from kafka_ferry.oauth.msk_token import msk_token
from kafka_ferry.wire.connections.sasl import log_in
from kafka_sandbox.broker import free_port
from tests.support.servers.http_server import QuietHandler, http_server

PLACE = "f.yaml: msk"
KEY, SECRET, SESSION = "AKIDEXAMPLE", "wJalrXUtnFEMI-EXAMPLE", "a-se55ion+token/="
ROLE = "arn:aws:iam::123456789012:role/ferry"
REGION = "eu-west-1"


@pytest.fixture(autouse=True)
def _no_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """AWS's client finds nothing of this machine's."""
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN", "PROFILE", "REGION"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    for name, file in (("CONFIG_FILE", "config"), ("SHARED_CREDENTIALS_FILE", "credentials")):
        monkeypatch.setenv(f"AWS_{name}", str(tmp_path / file))


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)


def signed_url(token: str) -> str:
    return base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()


def signature(url: str, secret: str, region: str) -> str:
    """What AWS computes for a URL that it gets."""
    parts = urlsplit(url)
    query = {name: value for name, (value,) in parse_qs(parts.query).items()}
    # Added after the signing; AWS ignores it.
    unsigned = ("X-Amz-Signature", "User-Agent")
    pairs = sorted((n, v) for n, v in query.items() if n not in unsigned)
    canonical = "\n".join(
        (
            "GET",
            "/",
            "&".join(f"{quote(n, safe='')}={quote(v, safe='')}" for n, v in pairs),
            f"host:{parts.netloc}",
            "",
            "host",
            hashlib.sha256(b"").hexdigest(),
        )
    )
    at = query["X-Amz-Date"]
    scope = f"{at[:8]}/{region}/kafka-cluster/aws4_request"
    hashed = hashlib.sha256(canonical.encode()).hexdigest()
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.digest(key, f"AWS4-HMAC-SHA256\n{at}\n{scope}\n{hashed}".encode(), "sha256").hex()


def checked(
    token: str, key: str = KEY, secret: str = SECRET, region: str = REGION
) -> dict[str, str]:
    """The parameters of a token's URL, whose signature is right."""
    url = signed_url(token)
    query = {name: value for name, (value,) in parse_qs(urlsplit(url).query).items()}
    assert url.startswith(f"https://kafka.{region}.amazonaws.com/?")
    assert query["Action"] == "kafka-cluster:Connect"
    assert query["X-Amz-Credential"].startswith(f"{key}/")
    assert query["X-Amz-Expires"] == "900"
    assert query["X-Amz-Signature"] == signature(url, secret, region)
    assert query["X-Amz-Signature"] != signature(url, "another", region)
    return query


@pytest.mark.usefixtures("keys")
def test_a_token_is_signed_as_aws_will_check_it(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    token, expires_at = msk_token(IamLogin(REGION), PLACE)
    assert 890 < expires_at - time.time() <= 900
    query = checked(token)
    assert "X-Amz-Security-Token" not in query

    monkeypatch.setenv("AWS_SESSION_TOKEN", SESSION)
    token, _ = msk_token(IamLogin(REGION), PLACE)
    assert checked(token)["X-Amz-Security-Token"] == SESSION
    for secret in (SECRET, SESSION, query["X-Amz-Signature"], token):
        assert secret not in caplog.text


@pytest.mark.usefixtures("keys")
@pytest.mark.parametrize("variable", ["AWS_REGION", "AWS_DEFAULT_REGION"])
def test_the_environment_says_the_region_where_no_host_does(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match="AWS_REGION") as caught:
        msk_token(IamLogin(), PLACE)
    assert (caught.value.file, caught.value.key) == (PLACE, "bootstrap.servers")
    monkeypatch.setenv(variable, "us-east-2")
    checked(msk_token(IamLogin(), PLACE)[0], region="us-east-2")


def test_a_profile_has_keys_and_region(tmp_path: Path) -> None:
    text = f"[prod]\naws_access_key_id = P1\naws_secret_access_key = {SECRET}\n"
    (tmp_path / "credentials").write_text(text)
    (tmp_path / "config").write_text("[profile prod]\nregion = us-west-2\n")
    checked(msk_token(IamLogin(profile="prod"), PLACE)[0], "P1", region="us-west-2")
    with pytest.raises(ConfigError, match=r"profile \(test\) could not be found") as caught:
        msk_token(IamLogin(REGION, profile="test"), PLACE)
    assert caught.value.key == "sasl.jaas.config"


@contextmanager
def sts(status: int, content: str) -> Iterator[tuple[str, list[tuple[dict[str, Any], str]]]]:
    """Yields the URL of a server that answers so, and form and signature of each request."""
    asked: list[tuple[dict[str, Any], str]] = []

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            asked.append((parse_qs(self.body().decode()), self.headers["Authorization"]))
            self.answer(status, content.encode())

    with http_server(Handler) as url:
        yield url, asked


GIVEN = f"""<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult>
<Credentials><AccessKeyId>ROLEKEY</AccessKeyId><SecretAccessKey>role-{SECRET}</SecretAccessKey>
<SessionToken>{SESSION}</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration></Credentials>
</AssumeRoleResult></AssumeRoleResponse>"""
DENIED = """<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code>
<Message>you may not assume it</Message></Error></ErrorResponse>"""


@pytest.mark.usefixtures("keys")
def test_a_role_is_assumed_and_its_keys_sign(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    with sts(200, GIVEN) as (url, asked):
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", url)
        wanted = IamLogin(REGION, role=ROLE, external_id="ext", sts_region="us-east-1")
        token, _ = msk_token(wanted, PLACE)
        with_key = IamLogin(REGION, role=ROLE, session="own", key_id="K2", secret_key="other")
        msk_token(with_key, PLACE)
    assert checked(token, "ROLEKEY", f"role-{SECRET}")["X-Amz-Security-Token"] == SESSION
    (form, signed), (second, signed_too) = asked
    assert form["RoleArn"] == [ROLE]
    assert form["RoleSessionName"] == ["aws-msk-iam-auth"]
    assert form["ExternalId"] == ["ext"]
    assert f"Credential={KEY}/" in signed
    assert "/us-east-1/sts/" in signed
    assert (second["RoleSessionName"], "ExternalId" in second) == (["own"], False)
    assert "Credential=K2/" in signed_too
    assert f"/{REGION}/sts/" in signed_too
    assert SECRET not in caplog.text
    assert SESSION not in caplog.text


@pytest.mark.usefixtures("keys")
def test_a_role_that_may_not_be_assumed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with sts(403, DENIED) as (url, _):
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", url)
        with pytest.raises(AccessDenied, match="you may not assume it") as caught:
            msk_token(IamLogin(REGION, role=ROLE), PLACE)
    assert str(caught.value).startswith(PLACE)


@pytest.mark.usefixtures("keys")
@pytest.mark.parametrize("content", [DENIED, GIVEN.replace("SessionToken", "Token"), GIVEN[:-9]])
def test_what_is_no_answer_of_sts_is_told(monkeypatch: pytest.MonkeyPatch, content: str) -> None:
    with sts(200, content) as (url, _):
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", url)
        with pytest.raises(ClusterUnreachable, match="does not answer as AWS does") as caught:
            msk_token(IamLogin(REGION, role=ROLE), PLACE)
    assert str(caught.value).startswith(PLACE)
    # The client's own error repeats the answer.
    shown = "".join(traceback.format_exception(caught.value))
    assert SECRET not in shown
    assert SESSION not in shown


@pytest.mark.usefixtures("keys")
def test_an_sts_that_is_not_there_is_transient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", f"http://127.0.0.1:{free_port()}")
    with pytest.raises(ClusterUnreachable, match="Could not connect"):
        msk_token(IamLogin(REGION, role=ROLE), PLACE)


def test_missing_credentials_are_told() -> None:
    with pytest.raises(AccessDenied, match="finds no credentials") as caught:
        msk_token(IamLogin(REGION), PLACE)
    assert "Spark's executors" in caught.value.advice


def test_without_awss_library_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", None)
    with pytest.raises(ConfigError, match="needs the package aws-msk-iam") as caught:
        msk_token(IamLogin(REGION), PLACE)
    assert "pip install aws-msk-iam-sasl-signer-python" in caught.value.advice


@pytest.mark.usefixtures("keys")
def test_a_login_shows_the_token_as_oauthbearer() -> None:
    sent: list[Any] = []

    def broker(request: Any) -> SimpleNamespace:
        sent.append(request)
        return SimpleNamespace(error_code=0, auth_bytes=b"", session_lifetime_ms=5)

    settings = kafka_python_config(
        {
            "bootstrap.servers": f"b-1.a.kafka.{REGION}.amazonaws.com:9098",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "AWS_MSK_IAM",
            "sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required;",
        }
    )
    assert log_in(broker, "b-1", "b-1", settings) == 5
    handshake, shown = sent
    assert handshake.mechanism == "OAUTHBEARER"
    start, end = b"n,,\x01auth=Bearer ", b"\x01\x01"
    assert shown.auth_bytes.startswith(start)
    assert shown.auth_bytes.endswith(end)
    checked(shown.auth_bytes.removeprefix(start).removesuffix(end).decode())
