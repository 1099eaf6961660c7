"""Getting in with a delegation token: both planes, or the data plane beside another login."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_ferry.errors import AccessDenied
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.runs import Run
from kafka_sandbox.cluster import KafkaCluster
from kafka_sandbox.logins.secure import Authority, SecureBroker
from tests.support.brokers.access import allow, deny
from tests.support.brokers.kafka_tools import create_delegation_token, expire_delegation_token
from tests.support.brokers.secure import as_properties, login
from tests.support.records.builders import read_all
from tests.support.records.groups import commit_alone
from tests.support.runs.command_line import ferry_process
from tests.support.runs.flows import assert_same, copy_now, failures, remote
from tests.support.runs.pair import Unique

from .test_secure import contents, filled, plainly, secured_flow

WORD = "l0gin-pa5sword"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    broker = SecureBroker(
        tmp_path_factory.mktemp("delegated") / "broker",
        Authority("root"),
        {"ann": WORD, "bob": WORD},
        config={"delegation.token.secret.key": "br0ker-s3cret"},
    )
    broker.start()
    with broker:
        yield broker


def by_password(broker: SecureBroker, user: str) -> dict[str, str]:
    return {
        "bootstrap.servers": broker.listener("SASL_PLAINTEXT"),
        "security.protocol": "SASL_PLAINTEXT",
        **login("SCRAM-SHA-512", user, WORD),
    }


class Token:
    """A delegation token of bob's."""

    def __init__(self, broker: SecureBroker, folder: Path) -> None:
        self._at, self._file = broker.listener("SASL_PLAINTEXT"), folder / "bob.properties"
        self._file.write_text(as_properties(by_password(broker, "bob")))
        self.id, self.hmac = create_delegation_token(self._at, self._file)

    def expire(self) -> None:
        expire_delegation_token(self._at, self._file, self.hmac)


@pytest.fixture(scope="module")
def token(broker: SecureBroker, tmp_path_factory: pytest.TempPathFactory) -> Token:
    return Token(broker, tmp_path_factory.mktemp("token"))


def way(broker: SecureBroker, token: Token, mechanism: str = "SCRAM-SHA-256") -> dict[str, str]:
    """As Kafka's documentation writes it, and MirrorMaker 2's users have it."""
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    options = f'tokenauth="true" username="{token.id}" password="{token.hmac}"'
    return {
        **by_password(broker, "bob"),
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f"{module} required {options};",
    }


def two_logins(broker: SecureBroker, token: Token) -> dict[str, str]:
    """The data plane's clients have bob's token, the control plane's ann's password."""
    password = login("PLAIN", "ann", WORD)
    return way(broker, token) | {f"admin.{key}": value for key, value in password.items()}


# Each side, each mechanism and each format once: none of them depends on another.
@pytest.mark.parametrize(
    ("as_target", "mechanism", "suffix"),
    [(False, "SCRAM-SHA-256", ".yaml"), (True, "SCRAM-SHA-512", ".properties")],
    ids=["source", "target"],
)
def test_a_token_alone_gets_both_planes_in(
    as_target: bool,
    mechanism: str,
    suffix: str,
    folder: Path,
    broker: SecureBroker,
    token: Token,
    backup: KafkaCluster,
    unique: Unique,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    source, target = (backup, broker) if as_target else (broker, backup)
    topic = filled(source, unique("delegated"))
    secured = way(broker, token, mechanism)
    sides = (plainly(backup), secured) if as_target else (secured, plainly(backup))
    flow = secured_flow(folder, *sides, topic, suffix)

    assert failures(copy_now(flow)) == []

    assert_same(source, topic, target, remote(flow, topic))
    shown = f"{flow!r}{flow.model_dump_json()}{caplog.text}".encode()
    shown += b"".join(contents(folder / "state"))
    assert topic.encode() in shown
    assert token.hmac.encode() not in shown


def test_a_token_has_its_owners_rights(
    folder: Path, broker: SecureBroker, token: Token, backup: KafkaCluster, unique: Unique
) -> None:
    topic = filled(broker, unique("forbidden"))
    allow(broker, f"topic {topic}: ann ALLOW ALL")
    deny(broker, f"topic {topic}", "READ", "bob")
    flow = secured_flow(folder, way(broker, token), plainly(backup), topic)

    said = failures(copy_now(flow))

    assert said
    assert all(topic in sentence and "TOPIC_AUTHORIZATION_FAILED" in sentence for sentence in said)


def test_the_control_plane_may_have_a_login_of_its_own(
    folder: Path, broker: SecureBroker, token: Token, backup: KafkaCluster, unique: Unique
) -> None:
    topic = filled(broker, unique("two-logins"))
    # The control plane's login may, and the token's owner may not.
    allow(broker, f"topic {topic}: ann ALLOW ALL")
    deny(broker, f"topic {topic}", "DESCRIBE_CONFIGS", "bob")
    flow = secured_flow(folder, two_logins(broker, token), plainly(backup), topic)
    assert failures(copy_now(flow)) == []
    assert_same(broker, topic, backup, remote(flow, topic))


@pytest.mark.long
def test_a_whole_run_with_tokens_is_proved(
    folder: Path, broker: SecureBroker, token: Token, backup: KafkaCluster, unique: Unique
) -> None:
    """Ledger, groups, ACLs and MirrorMaker 2's topics go over the data plane's connections too."""
    topic, group = filled(backup, unique("whole")), unique("readers")
    commit_alone(backup, group, {TopicPartition(topic, 0): 3})
    extra = {
        "groups": [group],
        "sync.group.offsets.enabled": "true",
        "emit.checkpoints.enabled": "true",
    }
    flow = secured_flow(folder, plainly(backup), way(broker, token), topic, extra=extra)

    ran = ferry_process("run", "--config", flow.file)

    assert ran.returncode == 0, ran.stderr
    assert_same(backup, topic, broker, remote(flow, topic))
    checkpoints = read_all(broker.bootstrap, f"{folder.name}.checkpoints.internal")[0]
    assert [group.encode() in (it.key or b"") for it in checkpoints] == [True]
    for content in (ran.stdout.encode(), ran.stderr.encode(), *contents(folder / "state")):
        assert token.hmac.encode() not in content


def test_an_expired_token_is_told(
    folder: Path, broker: SecureBroker, backup: KafkaCluster, unique: Unique
) -> None:
    token = Token(broker, folder)
    topic = filled(broker, unique("expired"))
    flow = secured_flow(folder, way(broker, token), plainly(backup), topic)
    token.expire()
    with pytest.raises(AccessDenied, match="refused the login") as caught:
        Run(flow, "run-1").plan()
    assert "that it has not expired" in caught.value.advice
    assert caught.value.exit_code == 4
    assert token.hmac not in str(caught.value)
