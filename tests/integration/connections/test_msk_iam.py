"""Getting in as into Amazon MSK: a real broker checks the signed URL that AWS's library makes, on both planes."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_sandbox.cluster import KafkaCluster
from kafka_sandbox.logins.secure import Authority, SecureBroker
from tests.support.brokers.access import allow
from tests.support.brokers.secure import trust_store
from tests.support.java.programs import compiled
from tests.support.runs.command_line import ferry_process
from tests.support.runs.flows import assert_same, copy_now, failures, remote
from tests.support.runs.pair import Unique

from .test_secure import contents, filled, plainly, secured_flow

KEY, SECRET, REGION = "AKIDEXAMPLE", "wJalrXUtnFEMI-EXAMPLE", "eu-west-1"
VALIDATOR = "SignedUrlValidator"
MSK = "software.amazon.msk.auth.iam"
FORMS = {
    "AWS_MSK_IAM": {
        "sasl.client.callback.handler.class": f"{MSK}.IAMClientCallbackHandler",
        "sasl.jaas.config": f"{MSK}.IAMLoginModule required;",
    },
    "OAUTHBEARER": {
        "sasl.login.callback.handler.class": f"{MSK}.IAMOAuthBearerLoginCallbackHandler",
        "sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;",
    },
}


class IamBroker(SecureBroker):
    """Lets in over TLS whose token the one key has signed; as user, the key's id."""

    def __init__(self, directory: Path, authority: Authority) -> None:
        super().__init__(directory, authority, {"ann": "unused"})
        at = "listener.name.sasl_ssl.oauthbearer.sasl"
        module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
        self.config |= {
            "listener.name.sasl_ssl.sasl.enabled.mechanisms": "OAUTHBEARER",
            # The broker logs in to itself by the same module, which wants a name as soon as there are options.
            f"{at}.jaas.config": f"{module} required unsecuredLoginStringClaim_sub=broker "
            f'keyId={KEY} secret="{SECRET}" region="{REGION}";',
            f"{at}.server.callback.handler.class": VALIDATOR,
        }

    @property
    def _class_folders(self) -> tuple[Path, ...]:
        return (compiled(VALIDATOR),)


@pytest.fixture(scope="module")
def root() -> Authority:
    return Authority("root")


@pytest.fixture(scope="module")
def broker(root: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[IamBroker]:
    broker = IamBroker(tmp_path_factory.mktemp("iam") / "broker", root)
    broker.start()
    with broker:
        yield broker


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """AWS's client finds one key in the environment, and nothing of this machine's."""
    for name in ("SESSION_TOKEN", "PROFILE", "DEFAULT_REGION"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    for name, file in (("CONFIG_FILE", "config"), ("SHARED_CREDENTIALS_FILE", "credentials")):
        monkeypatch.setenv(f"AWS_{name}", str(tmp_path / file))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    # The hosts' names have none.
    monkeypatch.setenv("AWS_REGION", REGION)


@pytest.fixture
def way(broker: IamBroker, root: Authority, tmp_path: Path) -> dict[str, str]:
    """Where the broker is, and whose certificates count."""
    return {
        "bootstrap.servers": broker.listener("SASL_SSL"),
        "security.protocol": "SASL_SSL",
        **trust_store("PEM", tmp_path, root),
    }


# Each side, each mechanism and each format once: none of them depends on another.
@pytest.mark.parametrize(
    ("as_target", "mechanism", "suffix"),
    [(False, "AWS_MSK_IAM", ".yaml"), (True, "OAUTHBEARER", ".properties")],
    ids=["source", "target"],
)
def test_both_planes_get_in_with_a_signed_url(
    as_target: bool,
    mechanism: str,
    suffix: str,
    folder: Path,
    broker: IamBroker,
    way: dict[str, str],
    backup: KafkaCluster,
    unique: Unique,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    source, target = (backup, broker) if as_target else (broker, backup)
    topic = filled(source, unique("signed"))
    if not as_target:
        # No other login may: it is the key's id that the broker knows the client by.
        allow(broker, f"topic {topic}: {KEY} ALLOW ALL")
    secured = {**way, "sasl.mechanism": mechanism, **FORMS[mechanism]}
    sides = (plainly(backup), secured) if as_target else (secured, plainly(backup))
    flow = secured_flow(folder, *sides, topic, suffix)

    assert failures(copy_now(flow)) == []

    assert_same(source, topic, target, remote(flow, topic))
    shown = f"{flow!r}{flow.model_dump_json()}{caplog.text}".encode()
    shown += b"".join(contents(folder / "state"))
    assert SECRET.encode() not in shown


def test_a_key_that_the_cluster_does_not_know_is_told(
    folder: Path, way: dict[str, str], backup: KafkaCluster
) -> None:
    secured = {**way, "sasl.mechanism": "AWS_MSK_IAM", **FORMS["AWS_MSK_IAM"]}
    flow = secured_flow(folder, secured, plainly(backup), "any")
    # This process has a token already.
    wrong = {"AWS_SECRET_ACCESS_KEY": "another"}
    planned = ferry_process("plan", "--config", flow.file, environment=wrong)
    assert planned.returncode == 4
    assert "refused the login: invalid_token" in planned.stderr
