"""Getting in: TLS with stores of every kind, and logins, for both Kafka clients, on one real broker."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from kafka_ferry.config import Cluster, Flow, kafka_python_config, load_flow
from kafka_ferry.control import ClusterControl
from kafka_ferry.errors import AccessDenied, ConfigError, FerryError
from kafka_ferry.runs import Run
from kafka_ferry.spark import session as spark_session
from kafka_ferry.spark.properties import EVERY_JOB
from kafka_ferry.spark.session import SparkSource
from kafka_ferry.wire import WireCluster
from kafka_ferry.wire.transactions.markers import may_write_markers
from kafka_sandbox.cluster import KafkaCluster
from kafka_sandbox.logins.secure import Authority, Identity, SecureBroker
from tests.support.brokers.access import add_user, deny
from tests.support.brokers.secure import (
    KINDS,
    PASSWORD,
    as_properties,
    key_store,
    login,
    trust_store,
)
from tests.support.records.builders import Record, create_topic, produce, read_all
from tests.support.records.offsets import assert_same_offsets
from tests.support.runs.flows import assert_same, copy_now, failures, plan_now, remote
from tests.support.runs.pair import Unique
from tests.support.waiting import wait_until

WORD = "l0gin-pa5sword"
WRONG = "wr0ng-pa5sword"
# With what JAAS, SCRAM and Java's properties each have a meaning for.
USERS = {"ann": WORD, "bob": WORD}
SECONDS = 20
"""The longest that a client waits for an error that no retry can mend."""


class Site(NamedTuple):
    """A broker that demands TLS and logins, and the stores of one of its clients."""

    broker: SecureBroker
    stores: Mapping[str, Mapping[str, str]]
    identity: Identity
    authority: Authority

    def trusting(self, kind: str = "PEM") -> dict[str, str]:
        """The properties of a client that trusts the broker."""
        return {k: v for k, v in self.stores[kind].items() if "truststore" in k}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("secure")
    root = Authority("root")
    # The broker knows the root alone: the client has to show who stands between.
    identity = Authority("between", root).issue("ferry")
    broker = SecureBroker(folder / "broker", root, USERS)
    stores = folder / "stores"
    stores.mkdir()
    broker.start()
    made = {
        kind: key_store(kind, stores, identity) | trust_store(kind, stores, root) for kind in KINDS
    }
    with broker:
        yield Site(broker, made, identity, root)


def ways(site: Site, way: str) -> dict[str, str]:
    """The properties of a client that gets into the secure broker in this ``way``."""
    if way in KINDS:
        listener, protocol, more = "REQUIRED", "SSL", dict(site.stores[way])
    elif way == "no certificate":
        listener, protocol, more = "SSL", "SSL", site.trusting()
    else:
        listener, _, mechanism = way.partition(" ")
        protocol = listener
        more = site.trusting() if listener == "SASL_SSL" else {}
        more |= login(mechanism, "ann", WORD)
    return {
        "bootstrap.servers": site.broker.listener(listener),
        "security.protocol": protocol,
        **more,
    }


WAYS = (
    *KINDS,
    "no certificate",
    "SASL_SSL PLAIN",
    "SASL_SSL SCRAM-SHA-256",
    "SASL_SSL SCRAM-SHA-512",
    "SASL_PLAINTEXT SCRAM-SHA-512",
)


def secured_flow(
    folder: Path,
    source: Mapping[str, str],
    target: Mapping[str, str],
    topic: str,
    suffix: str = ".yaml",
    extra: Mapping[str, str] | None = None,
) -> Flow:
    """A flow of one topic between clusters with these properties, read from a file."""
    options = {"replication.factor": "1", "writers": "1", "state.dir": str(folder / "state")}
    file = folder / f"flow{suffix}"
    if suffix == ".yaml":
        sides = {"source": {"alias": folder.name, **source}, "target": {"alias": "there", **target}}
        file.write_text(json.dumps({**sides, **options, "topics": [topic], **(extra or {})}))
    else:
        content = {"clusters": f"{folder.name}, there", "topics": topic, **options}
        content |= {f"{folder.name}.{key}": value for key, value in source.items()}
        content |= {f"there.{key}": value for key, value in target.items()}
        content |= {f"{folder.name}->there.enabled": "true", **(extra or {})}
        file.write_text(as_properties(content))
    return load_flow(file)


def plainly(broker: KafkaCluster) -> dict[str, str]:
    return {"bootstrap.servers": broker.bootstrap}


def filled(broker: KafkaCluster, name: str) -> str:
    """A topic with a few records."""
    create_topic(broker.bootstrap, name, partitions=2)
    records = [Record(key=b"%d" % i, value=b"v") for i in range(20)]
    produce(broker.bootstrap, name, records)
    return name


@pytest.mark.short("JKS", "SASL_SSL SCRAM-SHA-512")
@pytest.mark.parametrize("way", WAYS)
def test_each_way_in_works_in_both_directions(
    way: str, folder: Path, site: Site, backup: KafkaCluster, unique: Unique
) -> None:
    out, back = folder / unique("out"), folder / unique("back")
    out.mkdir()
    back.mkdir()
    there, here = filled(site.broker, unique("there")), filled(backup, unique("here"))

    outward = secured_flow(out, ways(site, way), plainly(backup), there)
    assert not failures(copy_now(outward))
    assert_same(site.broker, there, backup, f"{out.name}.{there}")

    inward = secured_flow(back, plainly(backup), ways(site, way), here)
    assert not failures(copy_now(inward))
    assert_same(backup, here, site.broker, f"{back.name}.{here}")


def test_mirrormaker_2s_properties_with_a_config_provider_get_in(
    folder: Path, site: Site, backup: KafkaCluster, unique: Unique
) -> None:
    topic = filled(site.broker, unique("provided"))
    secrets = folder / "secrets.properties"
    secrets.write_text(as_properties({"word": WORD, "store": PASSWORD}))
    way = ways(site, "SASL_SSL SCRAM-SHA-512") | site.trusting("JKS")
    way["ssl.truststore.password"] = f"${{file:{secrets}:store}}"
    way["sasl.jaas.config"] = way["sasl.jaas.config"].replace(WORD, f"${{file:{secrets}:word}}")
    providers = {
        "config.providers": "file",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
    }

    flow = secured_flow(folder, way, plainly(backup), topic, ".properties", providers)

    assert not failures(copy_now(flow))
    assert_same(site.broker, topic, backup, f"{folder.name}.{topic}")


def connection(site: Site) -> str:
    """An Airflow connection to the broker, with librdkafka's names."""
    extra = {
        "bootstrap.servers": site.broker.listener("SASL_SSL"),
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "ann",
        "sasl.password": WORD,
        "ssl.ca.location": site.stores["PEM"]["ssl.truststore.location"],
        "group.id": "airflow",
    }
    return json.dumps({"conn_type": "kafka", "extra": json.dumps(extra)})


@pytest.mark.parametrize("suffix", [".yaml", ".properties"])
def test_an_airflow_connection_gets_in(
    suffix: str,
    folder: Path,
    site: Site,
    backup: KafkaCluster,
    unique: Unique,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = filled(site.broker, unique("connected"))
    monkeypatch.delenv("AIRFLOW_CONN_SITE", raising=False)
    flow = secured_flow(folder, {"airflow.connection": "site"}, plainly(backup), topic, suffix)
    with pytest.raises(ConfigError, match="'site' is not known") as caught:
        Run(flow, "run-0").plan()
    assert str(folder / f"flow{suffix}") in str(caught.value)

    monkeypatch.setenv("AIRFLOW_CONN_SITE", connection(site))

    assert not failures(copy_now(flow))
    assert_same(site.broker, topic, backup, f"{folder.name}.{topic}")


def refusal(
    folder: Path, site: Site, backup: KafkaCluster, changes: Mapping[str, str], *, as_target: bool
) -> FerryError:
    """What a plan says, and soon; ``changes`` are in the properties of a client that would get in."""
    secured, plain = {**ways(site, "SASL_SSL SCRAM-SHA-512"), **changes}, plainly(backup)
    sides = (plain, secured) if as_target else (secured, plain)
    flow = secured_flow(folder, *sides, "any")
    began = time.monotonic()
    with pytest.raises(FerryError) as caught:
        Run(flow, "run-1").plan()
    assert time.monotonic() - began < SECONDS
    alias = "there" if as_target else folder.name
    assert alias in str(caught.value)
    assert not caught.value.transient
    for secret in (WORD, WRONG, PASSWORD):
        assert secret not in str(caught.value)
    return caught.value


@pytest.mark.parametrize("as_target", [False, True], ids=["source", "target"])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_wrong_password_is_told_at_once(
    mechanism: str, as_target: bool, folder: Path, site: Site, backup: KafkaCluster
) -> None:
    changes = login(mechanism, "ann", WRONG)
    error = refusal(folder, site, backup, changes, as_target=as_target)
    assert isinstance(error, AccessDenied)
    assert error.exit_code == 4
    assert "refused the login: Authentication failed" in error.message
    assert "sasl.jaas.config" in error.advice


def test_the_command_line_says_so_too(folder: Path, site: Site, backup: KafkaCluster) -> None:
    way = ways(site, "SASL_SSL PLAIN") | login("PLAIN", "ann", WRONG)
    flow = secured_flow(folder, way, plainly(backup), "any")
    command = [sys.executable, "-m", "kafka_ferry", "plan", "--config", flow.file]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS * 2, check=False)
    assert done.returncode == 4
    assert f"ERROR: {folder.name} ({site.broker.listener('SASL_SSL')}) refused" in done.stderr
    assert "Traceback" not in done.stderr
    assert WRONG not in done.stdout + done.stderr


@pytest.mark.parametrize("as_target", [False, True], ids=["source", "target"])
def test_an_untrusted_certificate_is_told_at_once(
    as_target: bool, folder: Path, site: Site, backup: KafkaCluster
) -> None:
    changes = trust_store("PEM", folder, Authority("another client"))
    error = refusal(folder, site, backup, changes, as_target=as_target)
    assert error.exit_code == 4
    assert "shows a certificate that is not trusted" in error.message
    assert "ssl.truststore" in error.advice


def test_a_certificate_for_another_host_is_told_at_once_unless_host_names_are_not_checked(
    folder: Path, site: Site, backup: KafkaCluster
) -> None:
    elsewhere = {
        "bootstrap.servers": site.broker.listener("SASL_SSL").replace("127.0.0.1", "localhost")
    }
    error = refusal(folder, site, backup, elsewhere, as_target=False)
    assert error.exit_code == 4
    assert "shows a certificate for another host" in error.message
    assert "localhost" in error.message
    assert "ssl.endpoint.identification.algorithm" in error.advice

    unchecked = elsewhere | {"ssl.endpoint.identification.algorithm": ""}
    way = ways(site, "SASL_SSL SCRAM-SHA-512") | unchecked
    assert not plan_now(secured_flow(folder, way, plainly(backup), "none-of-these")).ranges


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"ssl.truststore.location": "/nowhere/trust.pem"}, "/nowhere/trust.pem cannot be read"),
        ({"ssl.truststore.type": "JKS"}, "is PEM"),
    ],
)
def test_what_the_file_has_wrong_is_told_by_file_and_key(
    changes: dict[str, str], said: str, folder: Path, site: Site, backup: KafkaCluster
) -> None:
    error = refusal(folder, site, backup, changes, as_target=False)
    assert isinstance(error, ConfigError)
    assert f"{folder / 'flow.yaml'}: {folder.name}: {next(iter(changes))}: " in str(error)
    assert said in str(error)


@pytest.mark.parametrize("as_target", [False, True], ids=["source", "target"])
@pytest.mark.parametrize("shown", ["nothing", "another client's"])
def test_a_client_that_the_broker_does_not_trust_is_told_at_once(
    shown: str, as_target: bool, folder: Path, site: Site, backup: KafkaCluster
) -> None:
    changes = {"bootstrap.servers": site.broker.listener("REQUIRED"), "security.protocol": "SSL"}
    if shown == "another client's":
        changes |= key_store("PEM", folder, Authority("another client").issue("ferry"))
    error = refusal(folder, site, backup, changes, as_target=as_target)
    assert error.exit_code == 4
    assert "refused the TLS connection" in error.message
    assert "ssl.keystore" in error.advice


def test_a_missing_right_is_named_with_its_topic(
    folder: Path, site: Site, backup: KafkaCluster, unique: Unique
) -> None:
    topic = filled(site.broker, unique("forbidden"))
    deny(site.broker, f"topic {topic}", "READ", "bob")
    way = ways(site, "SASL_SSL PLAIN") | login("PLAIN", "bob", WORD)
    flow = secured_flow(folder, way, plainly(backup), topic)

    said = failures(copy_now(flow))

    assert said
    assert all(topic in sentence and "TOPIC_AUTHORIZATION_FAILED" in sentence for sentence in said)


def test_gaps_are_filled_by_transactions_where_markers_may_not_be_written(
    folder: Path, site: Site, backup: KafkaCluster, unique: Unique
) -> None:
    topic = unique("gaps")
    create_topic(backup.bootstrap, topic)
    for _ in range(2):
        produce(backup.bootstrap, topic, [Record()] * 2, transactional_id=topic)
    way = ways(site, "SASL_SSL PLAIN") | login("PLAIN", "bob", WORD)
    flow = secured_flow(folder, plainly(backup), way, topic, extra={"offsets": "preserved"})
    settings = kafka_python_config(flow.target.client_properties("producer"))
    with WireCluster("target", settings) as cluster:
        assert may_write_markers(cluster)
        deny(site.broker, "cluster kafka-cluster", "CLUSTER_ACTION", "bob")
        wait_until(lambda: not may_write_markers(cluster))

    assert not failures(copy_now(flow))

    assert_same_offsets(backup, topic, site.broker, remote(flow, topic))


def contents(folder: Path) -> list[bytes]:
    """Of all files in a folder and below it."""
    return [file.read_bytes() for file in folder.rglob("*") if file.is_file()]


@pytest.fixture(scope="module")
def spark_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Spark's event log and its own temporary files go."""
    return tmp_path_factory.mktemp("spark")


@pytest.fixture(scope="module")
def spark(spark_files: Path) -> Iterator[SparkSource]:
    places = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": spark_files.as_uri(),
        "spark.local.dir": str(spark_files),
    }
    with pytest.MonkeyPatch.context() as patch:
        # Another module's JVM may be running, which takes no arguments any more.
        patch.setattr(spark_session, "EVERY_JOB", {**EVERY_JOB, **places})
        with spark_session.terminal_spark("secure") as spark:
            spark()
            yield spark


@pytest.mark.long
def test_stores_that_spark_writes_to_a_file_are_not_to_be_read_there(
    folder: Path,
    site: Site,
    backup: KafkaCluster,
    unique: Unique,
    spark: SparkSource,
    spark_files: Path,
) -> None:
    topic = filled(site.broker, unique("large"))
    bundle = folder / "authorities.pem"
    others = (Authority(f"other {number}").pem for number in range(2_500))
    bundle.write_text("".join([site.authority.pem, *others]))
    way = ways(site, "SASL_SSL PLAIN") | {"ssl.truststore.location": str(bundle)}
    run = Run(secured_flow(folder, way, plainly(backup), topic), "run-1")
    run.plan()
    run.sync_topics()

    run.mirror(spark)

    assert not any(WORD.encode() in content for content in contents(spark_files))


def test_a_whole_run_leaves_no_secret_and_its_tasks_need_no_files(
    folder: Path,
    site: Site,
    unique: Unique,
    spark: SparkSource,
    spark_files: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """From a connection into stores; Spark was started before either was there."""
    caplog.set_level(logging.DEBUG)
    topic = filled(site.broker, unique("whole"))
    monkeypatch.setenv("AIRFLOW_CONN_SITE", connection(site))
    away = SecureBroker(folder / "away", site.authority, USERS)
    stores = folder / "stores"
    stores.mkdir()
    keys = key_store("JKS", stores, site.identity) | trust_store("PKCS12", stores, site.authority)
    with away:
        target = {
            "bootstrap.servers": away.listener("REQUIRED"),
            "security.protocol": "SSL",
            **keys,
        }
        flow = secured_flow(folder, {"airflow.connection": "site"}, target, topic)
        run = Run(flow, "run-1")
        run.plan()
        plan = run.sync_topics()
        run.mirror(spark)
        run.verify(spark)
        run.sync_groups()
        report = run.publish()
        assert (report.state, report.counts.records) == ("verified", 20)
        assert_same(site.broker, topic, away, f"{folder.name}.{topic}")
        ledger = read_all(away.bootstrap, f"ferry-ledger.{folder.name}.internal")[0]

    shown = [
        repr(flow),
        str(flow.model_dump()),
        flow.model_dump_json(),
        plan.to_json(),
        caplog.text,
    ]
    shown += [report.to_json(), *map(str, spark().sparkContext.getConf().getAll())]
    left = contents(folder / "state") + contents(spark_files)
    spark.stop()
    # Only now its event log is whole, and its temporary files are gone.
    left += contents(spark_files)
    assert any(b"SparkListenerJobEnd" in content for content in left)
    found = "\n".join(shown).encode() + b"".join([*left, *(r.value or b"" for r in ledger)])
    assert topic.encode() in found
    assert len(left) > 5
    key_lines = site.identity.key_pem.splitlines()[1:-1]
    for secret in (WORD, PASSWORD, *key_lines):
        assert secret.encode() not in found


@pytest.mark.parametrize("user", ["team,a", "a=b", "=2C,=3D"])
def test_a_users_name_may_hold_what_scram_ends_a_name_with(site: Site, user: str) -> None:
    add_user(site.broker, user, WORD)
    way = ways(site, "SASL_SSL SCRAM-SHA-512") | login("SCRAM-SHA-512", user, WORD)
    cluster = Cluster(alias="primary", properties=way)
    with WireCluster(
        cluster.alias, kafka_python_config(cluster.client_properties("admin"))
    ) as wire:
        assert wire.nodes()
    assert ClusterControl(cluster).cluster_id()
