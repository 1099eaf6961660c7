"""Getting in with tokens: a real broker checks them with Kafka's own validator, on both planes."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from kafka_ferry.config.client.oauth import BY_ASSERTION, oauth_login
from kafka_ferry.copy import RateLimit, copy_for_flow
from kafka_ferry.errors import AccessDenied
from kafka_ferry.model.rate import Rate
from kafka_ferry.oauth import token_for
from kafka_ferry.runs import Run
from kafka_ferry.spark.security.serialized_flow import pack_flow, unpack_flow
from kafka_ferry.spark.session import terminal_spark
from kafka_sandbox.cluster import KafkaCluster
from kafka_sandbox.logins.secure import Authority
from kafka_sandbox.logins.token_broker import TokenBroker
from tests.support.brokers.kafka_tools import list_topics
from tests.support.brokers.secure import as_properties, trust_store
from tests.support.records.builders import Record, create_topic, produce, read_all
from tests.support.runs.flows import assert_same, copy_now, copy_planned, failures, plan_now, remote
from tests.support.runs.pair import Unique
from tests.support.servers.identity_provider import (
    AUDIENCE,
    SECRET,
    IdentityProvider,
    assertion_properties,
    identity_provider,
    locked,
    oauth_properties,
    private_key,
    read_jwt,
)

from .test_secure import contents, filled, plainly, secured_flow

SESSION_S = 2.0
WRONG = "wr0ng-s3cret"
WORD = "key-pa5sphrase"
SECONDS = 20


@pytest.fixture(scope="module")
def root() -> Authority:
    return Authority("root")


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    with identity_provider() as provider:
        yield provider


@pytest.fixture(autouse=True)
def _as_usual(provider: IdentityProvider) -> None:
    provider.life_s = 3600


@pytest.fixture(scope="module")
def broker(
    provider: IdentityProvider, root: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TokenBroker]:
    """A broker that ends each session after two seconds."""
    broker = TokenBroker(
        tmp_path_factory.mktemp("tokens") / "broker",
        root,
        {"ann": "unused"},
        keys=provider.keys,
        audience=AUDIENCE,
        config={"connections.max.reauth.ms": str(int(SESSION_S * 1000))},
    )
    broker.start()
    with broker:
        yield broker


def way(broker: TokenBroker, endpoint: str, secret: str = SECRET, **options: str) -> dict[str, str]:
    """The properties of a client that gets in with a token, without TLS."""
    return {
        "bootstrap.servers": broker.listener("SASL_PLAINTEXT"),
        "security.protocol": "SASL_PLAINTEXT",
        **oauth_properties(endpoint, secret, **options),
    }


def over_tls(
    properties: Mapping[str, str], broker: TokenBroker, stores: Path, root: Authority
) -> dict[str, str]:
    return {
        **properties,
        "bootstrap.servers": broker.listener("SASL_SSL"),
        "security.protocol": "SASL_SSL",
        **trust_store("PEM", stores, root),
    }


@pytest.mark.short("secret")
@pytest.mark.parametrize("shown_to_it", ["secret", "assertion"])
def test_a_run_through_tls_is_verified_and_leaves_no_secret(
    shown_to_it: str,
    folder: Path,
    broker: TokenBroker,
    provider: IdentityProvider,
    root: Authority,
    primary: KafkaCluster,
    unique: Unique,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    topic = filled(primary, unique("whole"))
    before = len(provider.tokens)
    login = way(broker, provider.endpoint, extension_pool="p1")
    secrets = [SECRET]
    if shown_to_it == "assertion":
        pem, provider.clients[folder.name] = private_key("RS256")
        key = folder / "key.pem"
        key.write_text(locked(pem, WORD))
        login |= assertion_properties(provider.endpoint, key, folder.name)
        login["sasl.oauthbearer.assertion.private.key.passphrase"] = WORD
        secrets = [WORD, *key.read_text().splitlines()[1:-1], *pem.splitlines()[1:-1]]
    target = over_tls(login, broker, folder, root)
    flow = secured_flow(folder, plainly(primary), target, topic)
    run = Run(flow, "run-1")
    with terminal_spark("oauth") as spark:
        run.plan()
        plan = run.sync_topics()
        run.mirror(spark)
        run.verify(spark)
        run.sync_groups()
        report = run.publish()
        options = spark().sparkContext.getConf().getAll()
    assert (report.state, report.counts.records) == ("verified", 20)
    assert_same(primary, topic, broker, f"{folder.name}.{topic}")
    ledger = read_all(broker.bootstrap, f"ferry-ledger.{folder.name}.internal")[0]

    shown = [repr(flow), flow.model_dump_json(), plan.to_json(), report.to_json(), caplog.text]
    shown += map(str, options)
    found = "\n".join(shown).encode() + b"".join(
        [*contents(folder / "state"), *(record.value or b"" for record in ledger)]
    )
    assert topic.encode() in found
    assert len(provider.tokens) > before
    for secret in (*secrets, *provider.tokens, *provider.assertions):
        assert secret.encode() not in found


@contextmanager
def kept_fresh(file: Path, provider: IdentityProvider) -> Iterator[list[str]]:
    """Replaces the token in a file each second, as another program would; gives the tokens so far."""
    over, tokens = threading.Event(), list[str]()

    def renew() -> None:
        while not over.wait(1):
            put()

    def put() -> None:
        new = file.with_suffix(".new")
        tokens.append(provider.token("ferry"))
        new.write_text(tokens[-1])
        new.replace(file)

    put()
    thread = threading.Thread(target=renew)
    thread.start()
    try:
        yield tokens
    finally:
        over.set()
        thread.join()


@pytest.mark.long
@pytest.mark.parametrize("kind", ["endpoint", "file"])
def test_a_copy_outlives_its_sessions_and_its_tokens(
    kind: str,
    folder: Path,
    broker: TokenBroker,
    provider: IdentityProvider,
    backup: KafkaCluster,
    unique: Unique,
) -> None:
    topic = unique("slow")
    create_topic(broker.bootstrap, topic)
    for number in range(30):
        produce(broker.bootstrap, topic, [Record(value=b"%d" % number * 20_000)])
    provider.life_s = 4
    token = folder / "token"
    endpoint = provider.endpoint if kind == "endpoint" else token.as_uri()
    flow = secured_flow(folder, way(broker, endpoint, scope="short"), plainly(backup), topic)
    with kept_fresh(token, provider) as in_file:
        tokens = provider.tokens if kind == "endpoint" else in_file
        plan, began, before = plan_now(flow), time.monotonic(), len(tokens)

        outcomes = copy_for_flow(flow, plan.run, list(plan.ranges), RateLimit(Rate(150_000)))

        assert failures(outcomes) == []
        assert time.monotonic() - began > max(2 * SESSION_S, provider.life_s)
        assert len(tokens) > before
    assert_same(broker, topic, backup, f"{folder.name}.{topic}")


@pytest.mark.parametrize("as_target", [False, True], ids=["source", "target"])
def test_a_wrong_secret_is_told_at_once(
    as_target: bool,
    folder: Path,
    broker: TokenBroker,
    provider: IdentityProvider,
    backup: KafkaCluster,
) -> None:
    wrong = way(broker, provider.endpoint, WRONG)
    sides = (plainly(backup), wrong) if as_target else (wrong, plainly(backup))
    flow = secured_flow(folder, *sides, "any")
    began = time.monotonic()
    with pytest.raises(AccessDenied) as caught:
        Run(flow, "run-1").plan()
    assert time.monotonic() - began < SECONDS
    alias = "there" if as_target else folder.name
    assert caught.value.exit_code == 4
    assert f"{alias}: the token endpoint {provider.endpoint} gave no token: HTTP 401" in str(
        caught.value
    )
    assert WRONG not in str(caught.value)


def test_the_command_line_says_so_too(
    folder: Path, broker: TokenBroker, provider: IdentityProvider, backup: KafkaCluster
) -> None:
    flow = secured_flow(folder, way(broker, provider.endpoint, WRONG), plainly(backup), "any")
    command = [sys.executable, "-m", "kafka_ferry", "plan", "--config", flow.file]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS * 2, check=False)
    assert done.returncode == 4
    assert f"{folder.name}: the token endpoint {provider.endpoint} gave no token" in done.stderr
    assert "Traceback" not in done.stderr
    assert WRONG not in done.stdout + done.stderr


@pytest.mark.parametrize("wrong", ["expired", "forged", "for another audience"])
@pytest.mark.parametrize("as_target", [False, True], ids=["source", "target"])
def test_a_token_that_the_broker_refuses_is_told_with_its_words(
    as_target: bool,
    wrong: str,
    folder: Path,
    broker: TokenBroker,
    provider: IdentityProvider,
    backup: KafkaCluster,
) -> None:
    tokens = {
        "expired": lambda: provider.token("ferry", exp=int(time.time()) - 600),
        "forged": lambda: IdentityProvider(provider.url).token("ferry"),
        "for another audience": lambda: provider.token("ferry", aud="elsewhere"),
    }
    file = folder / "token"
    file.write_text(tokens[wrong]())
    refused = way(broker, file.as_uri())
    sides = (plainly(backup), refused) if as_target else (refused, plainly(backup))
    began = time.monotonic()
    with pytest.raises(AccessDenied, match="refused the login: invalid_token") as caught:
        Run(secured_flow(folder, *sides, "any"), "run-1").plan()
    assert time.monotonic() - began < SECONDS
    assert caught.value.exit_code == 4
    assert ("there" if as_target else folder.name) in str(caught.value)
    assert str(file) in caught.value.advice
    assert file.read_text() not in str(caught.value)


def test_an_airflow_connection_with_librdkafkas_names_gets_in(
    folder: Path,
    broker: TokenBroker,
    provider: IdentityProvider,
    backup: KafkaCluster,
    unique: Unique,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = filled(broker, unique("connected"))
    extra = {
        "bootstrap.servers": broker.listener("SASL_PLAINTEXT"),
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "ferry",
        "sasl.oauthbearer.client.secret": SECRET,
        "sasl.oauthbearer.token.endpoint.url": provider.endpoint,
    }
    monkeypatch.setenv("AIRFLOW_CONN_SITE", json.dumps({"conn_type": "kafka", "extra": extra}))
    flow = secured_flow(folder, {"airflow.connection": "site"}, plainly(backup), topic)
    assert not failures(copy_now(flow))
    assert_same(broker, topic, backup, f"{folder.name}.{topic}")


@pytest.mark.parametrize("as_target", [False, True], ids=["source", "target"])
@pytest.mark.parametrize("kind", ["RS256", "ES256"])
def test_a_signed_assertion_gets_in_also_from_a_machine_without_the_key(
    kind: str,
    as_target: bool,
    folder: Path,
    broker: TokenBroker,
    provider: IdentityProvider,
    backup: KafkaCluster,
    unique: Unique,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """RS256 for a grant of its own, ES256 instead of a client's secret."""
    caplog.set_level(logging.DEBUG)
    pem, provider.clients[folder.name] = private_key(kind)
    key = folder / "key.pem"
    key.write_text(locked(pem, WORD))
    secured = {
        **way(broker, provider.endpoint),
        **assertion_properties(provider.endpoint, key, folder.name),
        "sasl.oauthbearer.assertion.algorithm": kind,
        "sasl.oauthbearer.assertion.private.key.passphrase": WORD,
        "sasl.oauthbearer.assertion.claim.jti.include": "true",
    }
    del secured["sasl.jaas.config"]
    if kind == "RS256":
        secured["sasl.oauthbearer.jwt.retriever.class"] = BY_ASSERTION
    source, target = (backup, broker) if as_target else (broker, backup)
    topic = filled(source, unique("asserted"))
    sides = (plainly(backup), secured) if as_target else (secured, plainly(backup))
    flow = secured_flow(folder, *sides, topic)
    plan = plan_now(flow)
    assert not plan.remarks.refused
    sent, before = pack_flow(flow), len(provider.assertions)
    lines = key.read_text().splitlines()[1:-1]
    key.unlink()

    outcomes = copy_planned(unpack_flow(sent), plan)

    assert failures(outcomes) == []
    assert_same(source, topic, target, remote(flow, topic))
    assert len(provider.assertions) > before
    field = "assertion" if kind == "RS256" else "client_assertion"
    assert provider.requests[-1][1][field] == provider.assertions[-1:]
    shown = f"{flow!r}{flow.model_dump_json()}{plan.to_json()}{caplog.text}".encode()
    shown += b"".join(contents(folder / "state"))
    for secret in (WORD, *lines, *provider.assertions):
        assert secret.encode() not in shown


@pytest.mark.parametrize("kind", ["RS256", "ES256"])
def test_javas_client_sends_the_same_with_the_same_properties(
    kind: str, folder: Path, broker: TokenBroker, provider: IdentityProvider, unique: Unique
) -> None:
    topic = filled(broker, unique("java"))
    pem, provider.clients[folder.name] = private_key(kind)
    key, template = folder / "key.pem", folder / "template.json"
    key.write_text(pem)
    claims = {"sub": "template", "exp": 5, "roles": ["a", {"b": 1}]}
    template.write_text(json.dumps({"header": {"kid": "k1", "alg": "none"}, "payload": claims}))
    properties = {
        **way(broker, provider.endpoint),
        **assertion_properties(provider.endpoint, key, folder.name),
        "sasl.oauthbearer.assertion.algorithm": kind,
        "sasl.oauthbearer.assertion.template.file": str(template),
        "sasl.oauthbearer.assertion.claim.jti.include": "true",
        "sasl.oauthbearer.assertion.claim.exp.seconds": "77",
        "sasl.oauthbearer.scope": "a b",
    }
    if kind == "RS256":
        properties["sasl.oauthbearer.jwt.retriever.class"] = BY_ASSERTION
    file = folder / "java.properties"
    file.write_text(as_properties(properties))
    allowed = {"urls": provider.endpoint, "files": f"{key},{template}"}
    prefix = "-Dorg.apache.kafka.sasl.oauthbearer.allowed"
    options = [f"{prefix}.{name}={value}" for name, value in allowed.items()]

    assert topic in list_topics(properties["bootstrap.servers"], file, *options)
    javas = provider.requests[-1]
    token_for(oauth_login(properties, "java.properties"))
    ours = provider.requests[-1]

    assert javas is not ours
    assert asked(*ours) == asked(*javas)


def asked(headers: dict[str, str], form: dict[str, list[str]]) -> tuple[object, ...]:
    """A request for a token, without what differs from one to the next."""
    field = "assertion" if "assertion" in form else "client_assertion"
    header, claims = read_jwt(form[field][0])
    lengths = [claims.pop(name) - claims["iat"] for name in ("exp", "nbf")]
    assert len(claims.pop("jti")) == 36
    del claims["iat"]
    names = ("Accept", "Authorization", "Cache-Control", "Content-Type")
    sent = {name: headers.get(name) for name in names}
    return sent, form | {field: []}, header, claims, lengths


def test_a_key_that_the_endpoint_does_not_know_is_told_at_once(
    folder: Path, broker: TokenBroker, provider: IdentityProvider, backup: KafkaCluster
) -> None:
    _, provider.clients["ferry"] = private_key("ES256")
    key = folder / "key.pem"
    key.write_text(private_key("ES256")[0])
    wrong = {
        **way(broker, provider.endpoint),
        **assertion_properties(provider.endpoint, key, "ferry"),
        "sasl.oauthbearer.assertion.algorithm": "ES256",
    }
    began = time.monotonic()
    with pytest.raises(AccessDenied, match=r"gave no token: HTTP 401.*: wrong signature") as caught:
        Run(secured_flow(folder, wrong, plainly(backup), "any"), "run-1").plan()
    assert time.monotonic() - began < SECONDS
    assert caught.value.exit_code == 4


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "suffix", "protocol"),
    [
        ("http", ".yaml", "SASL_PLAINTEXT"),
        ("https", ".properties", "SASL_SSL"),
        ("file", ".yaml", "SASL_SSL"),
        ("file", ".properties", "SASL_PLAINTEXT"),
    ],
)
def test_each_way_to_a_token_works_in_both_directions(
    kind: str,
    suffix: str,
    protocol: str,
    folder: Path,
    broker: TokenBroker,
    provider: IdentityProvider,
    root: Authority,
    backup: KafkaCluster,
    unique: Unique,
) -> None:
    out, back = folder / unique("out"), folder / unique("back")
    out.mkdir()
    back.mkdir()
    there, here = filled(broker, unique("there")), filled(backup, unique("here"))
    (folder / "token").write_text(provider.token("ferry"))
    authority = folder / "authority.pem"
    authority.write_text(root.pem)
    trusting = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(authority)}
    with identity_provider(root.issue("id", "127.0.0.1")) as secured:
        secured.key = provider.key
        properties = {
            "http": lambda: way(broker, provider.endpoint),
            "https": lambda: way(broker, secured.endpoint, **trusting),
            "file": lambda: way(broker, (folder / "token").as_uri()),
        }[kind]()
        if protocol == "SASL_SSL":
            properties = over_tls(properties, broker, folder, root)

        outward = secured_flow(out, properties, plainly(backup), there, suffix)
        assert not failures(copy_now(outward))
        assert_same(broker, there, backup, f"{out.name}.{there}")

        inward = secured_flow(back, plainly(backup), properties, here, suffix)
        assert not failures(copy_now(inward))
        assert_same(backup, here, broker, f"{back.name}.{here}")
