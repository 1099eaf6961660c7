"""Sessions that a broker ends (KIP-368): connections log in again before that, and nothing is lost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ScramMechanism, UserScramCredentialDeletion
from kafka.protocol.metadata import MetadataRequest

from kafka_ferry.config import kafka_python_config
from kafka_ferry.copy import RateLimit, copy_for_flow
from kafka_ferry.errors import AccessDenied
from kafka_ferry.model.rate import Rate
from kafka_ferry.wire import Connection
from kafka_sandbox.cluster import KafkaCluster
from kafka_sandbox.logins.secure import Authority, SecureBroker
from tests.support.brokers.secure import login
from tests.support.records.builders import Record, create_topic, produce
from tests.support.runs.flows import assert_same, failures, plan_now
from tests.support.runs.pair import Unique

from .test_secure import plainly, secured_flow

SESSION_S = 2.0
WORD = "l0gin-pa5sword"
MECHANISMS = ("PLAIN", "SCRAM-SHA-512")


@pytest.fixture(scope="module")
def restless(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    """A broker that ends each session after two seconds."""
    sessions = {"connections.max.reauth.ms": str(int(SESSION_S * 1000))}
    folder = tmp_path_factory.mktemp("restless")
    users = {"ann": WORD, "bob": WORD}
    broker = SecureBroker(folder, Authority("root"), users, config=sessions)
    broker.start()
    with broker:
        yield broker


def properties(broker: SecureBroker, mechanism: str, user: str = "ann") -> dict[str, str]:
    return {
        "bootstrap.servers": broker.listener("SASL_PLAINTEXT"),
        "security.protocol": "SASL_PLAINTEXT",
        **login(mechanism, user, WORD),
    }


def connect(broker: SecureBroker, mechanism: str, user: str = "ann") -> Connection:
    settings = kafka_python_config(properties(broker, mechanism, user))
    host, _, port = broker.listener("SASL_PLAINTEXT").partition(":")
    return Connection(host, int(port), settings)


def ask(topic: str) -> MetadataRequest:
    named = MetadataRequest.MetadataRequestTopic(name=topic)
    return MetadataRequest(topics=[named], allow_auto_topic_creation=False)


@pytest.mark.long
@pytest.mark.parametrize(("mechanism", "in_flight"), [*zip(MECHANISMS, [1, 4], strict=True)])
def test_a_connection_outlives_its_sessions_and_gives_all_answers_in_their_order(
    mechanism: str, in_flight: int, restless: SecureBroker
) -> None:
    connection = connect(restless, mechanism)
    until = time.monotonic() + 3 * SESSION_S
    sent = received = 0

    while time.monotonic() < until or received < sent:
        if time.monotonic() < until and sent - received < in_flight:
            connection.send(ask(f"topic-{sent}"))
            sent += 1
            time.sleep(0.02)
        else:
            answer = connection.receive()
            assert [topic.name for topic in answer.topics] == [f"topic-{received}"]
            received += 1

    assert not connection.closed
    connection.close()


def test_a_session_that_ended_while_nothing_was_asked_is_renewed(restless: SecureBroker) -> None:
    connection = connect(restless, "PLAIN")
    time.sleep(SESSION_S + 1)
    assert connection.call(ask("any")).topics
    connection.close()


def test_a_login_that_is_no_longer_right_is_told(restless: SecureBroker) -> None:
    connection = connect(restless, "SCRAM-SHA-512", "bob")
    client = AdminClient({"bootstrap.servers": restless.bootstrap})
    deletion = UserScramCredentialDeletion("bob", ScramMechanism.SCRAM_SHA_512)
    for done in client.alter_user_scram_credentials([deletion]).values():
        done.result()
    time.sleep(SESSION_S)

    with pytest.raises(AccessDenied, match="refused the login"):
        connection.call(ask("any"))
    assert connection.closed


@pytest.mark.long
def test_a_copy_takes_longer_than_its_sessions(
    folder: Path, restless: SecureBroker, backup: KafkaCluster, unique: Unique
) -> None:
    out, back = folder / unique("out"), folder / unique("back")
    out.mkdir()
    back.mkdir()
    topic = unique("slow")
    way = properties(restless, "SCRAM-SHA-512")
    for broker, flow in (
        (restless, secured_flow(out, way, plainly(backup), topic)),
        (backup, secured_flow(back, plainly(backup), way, topic)),
    ):
        create_topic(broker.bootstrap, topic)
        for number in range(30):
            produce(broker.bootstrap, topic, [Record(value=b"%d" % number * 20_000)])
        plan, began = plan_now(flow), time.monotonic()

        outcomes = copy_for_flow(flow, plan.run, list(plan.ranges), RateLimit(Rate(100_000)))

        assert failures(outcomes) == []
        assert time.monotonic() - began > 2 * SESSION_S
    assert_same(restless, topic, backup, f"{out.name}.{topic}")
    assert_same(backup, topic, restless, f"{back.name}.{topic}")
