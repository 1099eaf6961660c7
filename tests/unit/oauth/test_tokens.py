"""Tokens are fetched once, renewed in time, and shown nowhere; the token endpoint is a real HTTP server."""

from __future__ import annotations

import base64
import logging
import os
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote_plus

import pytest

from kafka_ferry.config.client.oauth import OAuthLogin, Renewal
from kafka_ferry.errors import AccessDenied, ClusterUnreachable, ConfigError, FerryError
from kafka_ferry.oauth import forget_token, token_for
from kafka_sandbox.broker import free_port
from kafka_sandbox.logins.secure import Authority
from tests.support.servers.identity_provider import SECRET, IdentityProvider, identity_provider

PLACE = "f.yaml: primary"


@pytest.fixture
def provider() -> Iterator[IdentityProvider]:
    with identity_provider() as provider:
        yield provider


def login(provider: IdentityProvider, **changes: object) -> OAuthLogin:
    quick = OAuthLogin(provider.endpoint, "ferry", SECRET, backoff_s=0.01, origin=PLACE)
    return replace(quick, **changes)


def refusal(kind: type[FerryError], refused: OAuthLogin) -> str:
    with pytest.raises(kind) as caught:
        token_for(refused)
    assert str(caught.value).startswith(PLACE)
    assert refused.client_secret not in str(caught.value) or not refused.client_secret
    return str(caught.value)


def test_id_secret_and_scope_are_sent_as_java_sends_them(provider: IdentityProvider) -> None:
    token = token_for(login(provider, scope="a b"))
    ((headers, form),) = provider.requests
    assert token.text == provider.tokens[0]
    assert form == {"grant_type": ["client_credentials"], "scope": ["a b"]}
    words = base64.b64encode(f"ferry:{SECRET}".encode()).decode()
    assert headers["Authorization"] == f"Basic {words}"
    assert headers["Content-Type"] == "application/x-www-form-urlencoded"


def test_id_and_secret_may_be_url_encoded(provider: IdentityProvider) -> None:
    odd = "a+b c/%"
    with pytest.raises(AccessDenied):
        token_for(login(provider, client_secret=odd, is_encoded=True))
    sent = base64.b64decode(provider.requests[0][0]["Authorization"].removeprefix("Basic "))
    assert sent.decode() == f"ferry:{quote_plus(odd)}"


def test_a_token_serves_all_threads_until_it_is_renewed(provider: IdentityProvider) -> None:
    provider.pause_s = 0.1
    wanted = login(provider, renewal=Renewal(0.5, 0, 0))
    provider.life_s = 2
    with ThreadPoolExecutor(8) as pool:
        first = set(pool.map(lambda _: token_for(wanted).text, range(8)))
    assert first == {provider.tokens[0]}
    assert token_for(wanted).text == provider.tokens[0]

    time.sleep(1.1)

    assert token_for(wanted).text == provider.tokens[1]
    assert len(provider.requests) == 2


@pytest.mark.parametrize(
    ("life_s", "low", "high"), [(3600, 2880, 3060), (600, 480, 510), (100_000, 80_000, 85_000)]
)
def test_a_token_is_renewed_after_four_fifths_of_its_life(
    life_s: int, low: float, high: float, provider: IdentityProvider
) -> None:
    provider.life_s = life_s
    token = token_for(login(provider))
    assert low - 5 <= token.renew_at - time.time() <= high
    assert life_s - 5 <= token.expires_at - time.time() <= life_s


def test_while_the_endpoint_fails_the_old_token_serves_until_its_end(
    provider: IdentityProvider, caplog: pytest.LogCaptureFixture
) -> None:
    provider.life_s = 1
    wanted = login(provider, renewal=Renewal(0, 0, 0), retry_s=0)
    old = token_for(wanted)
    provider.failures = [503, 503]
    assert token_for(wanted) is old
    assert "HTTP 503" in caplog.text
    assert old.text not in caplog.text + repr(old)
    time.sleep(1)
    assert "HTTP 503" in refusal(ClusterUnreachable, wanted)


def test_transient_failures_are_retried(provider: IdentityProvider) -> None:
    provider.failures = [503, 429, 500]
    assert token_for(login(provider)).text == provider.tokens[0]
    assert len(provider.requests) == 4


def test_a_refused_token_is_not_shown_again(provider: IdentityProvider) -> None:
    wanted = login(provider)
    refused = token_for(wanted)
    forget_token(wanted, refused)
    assert token_for(wanted).text == provider.tokens[1] != refused.text


def test_a_wrong_secret_is_told_at_once_and_never_shown(provider: IdentityProvider) -> None:
    began = time.monotonic()
    said = refusal(AccessDenied, login(provider, client_secret="wr0ng-s3cret"))
    assert time.monotonic() - began < 2
    assert f"the token endpoint {provider.endpoint} gave no token: HTTP 401" in said
    assert "invalid_client: wrong secret ******" in said
    assert "sasl.oauthbearer.client.credentials.client.secret" in said
    assert len(provider.requests) == 1


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({}, "no access_token"),
        ({"access_token": ""}, "no access_token"),
        ({"access_token": "two words", "expires_in": 5}, "no access_token"),
        ({"access_token": "a\x01b=c", "expires_in": 5}, "no access_token"),
        ({"access_token": 5, "expires_in": 5}, "no access_token"),
        ({"access_token": "opaque"}, "says nowhere when the token expires"),
    ],
)
def test_an_answer_without_a_token_is_told(
    answer: dict[str, object], said: str, provider: IdentityProvider
) -> None:
    provider.answer = answer
    assert said in refusal(AccessDenied, login(provider))


def test_the_life_of_a_token_is_what_the_answer_or_the_token_says(
    provider: IdentityProvider,
) -> None:
    provider.answer = {"access_token": "opaque", "expires_in": "60"}
    assert 55 < token_for(login(provider)).expires_at - time.time() <= 60
    provider.answer = {"access_token": provider.token("ann", exp=4_000_000_000)}
    assert token_for(login(provider, scope="another")).expires_at == 4_000_000_000


def test_a_redirect_does_not_get_the_secret(provider: IdentityProvider) -> None:
    provider.failures = [307]
    assert "is not followed" in refusal(AccessDenied, login(provider))
    assert len(provider.requests) == 1


def test_an_endpoint_that_is_not_there_or_silent_is_transient(provider: IdentityProvider) -> None:
    nowhere = login(provider, endpoint=f"http://127.0.0.1:{free_port()}/t", retry_s=0)
    assert "cannot be reached" in refusal(ClusterUnreachable, nowhere)
    provider.pause_s = 1
    silent = login(provider, read_s=0.1, retry_s=0)
    assert "timed out" in refusal(ClusterUnreachable, silent)


def test_the_endpoints_certificate_must_be_trusted(tmp_path: Path) -> None:
    authority, file = Authority("root"), tmp_path / "ca.pem"
    file.write_text(authority.pem)
    trusting = (("ssl.truststore.location", str(file)), ("ssl.truststore.type", "PEM"))
    with identity_provider(authority.issue("id", "127.0.0.1")) as provider:
        said = refusal(AccessDenied, login(provider))
        assert "shows a certificate that is not trusted" in said
        assert "ssl.truststore.location" in said
        assert token_for(login(provider, tls=trusting)).text == provider.tokens[0]


def test_a_token_in_a_file_is_read_at_each_login(tmp_path: Path) -> None:
    file, provider = tmp_path / "to ken", IdentityProvider("https://id")
    kept = OAuthLogin(f"file://{tmp_path}/to%20ken", origin=PLACE)
    for number in range(2):
        token = provider.token("ann", number=number)
        file.write_text(f"{token}\n")
        assert token_for(kept).text == token
    file.write_text("no token")
    assert "holds no JWT" in refusal(ConfigError, kept)
    file.unlink()
    assert "cannot be read: No such file" in refusal(ConfigError, kept)


def test_a_fork_has_the_token_and_no_lock(provider: IdentityProvider) -> None:
    """Airflow and Spark fork their tasks' processes, maybe while a thread fetches a token."""
    wanted = login(provider)
    token_for(wanted)
    provider.pause_s = 1
    slow = login(provider, scope="slow")
    with ThreadPoolExecutor(1) as pool:
        fetching = pool.submit(token_for, slow)
        while len(provider.requests) < 2:
            time.sleep(0.01)
        child = os.fork()
        if not child:
            ok = token_for(wanted).text == provider.tokens[0] and token_for(slow)
            os._exit(0 if ok else 1)
        fetching.result()
    deadline = time.monotonic() + 10
    while not (done := os.waitpid(child, os.WNOHANG))[0] and time.monotonic() < deadline:
        time.sleep(0.05)
    assert done == (child, 0)


def test_nothing_is_logged_of_secrets(
    provider: IdentityProvider, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    token = token_for(login(provider))
    assert token.text not in caplog.text
    assert SECRET not in caplog.text


@pytest.mark.parametrize(
    ("begin", "kind", "words"),
    [
        (b"HTTP/1.1 200 OK\r\nX: ", ClusterUnreachable, "timed out"),
        (b"HTTP/1.1 200 OK\r\n\r\n", ClusterUnreachable, "timed out"),
        (b"HT", ClusterUnreachable, "timed out"),
        (b"HTTP/1.1 400 Bad\r\n\r\n", AccessDenied, "HTTP 400"),
    ],
)
def test_an_answer_byte_by_byte_is_cut_off(
    begin: bytes, kind: type[FerryError], words: str
) -> None:
    """A timeout of each read would wait for as long as the server likes."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        endpoint = f"http://127.0.0.1:{server.getsockname()[1]}/token"
        drip = threading.Thread(target=drip_into, args=[server, begin], daemon=True)
        drip.start()
        began = time.monotonic()
        slow = OAuthLogin(endpoint, "f", SECRET, origin=PLACE, read_s=1, retry_s=0)
        assert words in refusal(kind, slow)
        assert time.monotonic() - began < 6
    drip.join(10)


def drip_into(server: socket.socket, begin: bytes) -> None:
    """Answers one client, a byte each fifth of a second, until it hangs up."""
    client, _ = server.accept()
    with client, suppress(OSError):
        client.sendall(begin)
        for _ in range(60):
            time.sleep(0.2)
            client.sendall(b"a")
