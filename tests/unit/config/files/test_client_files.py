"""Two clusters from the properties of a client of each."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_ferry.config.files.client_files import flow_of_clients
from kafka_ferry.errors import ConfigError


def test_clients_files_make_a_flow_that_reads_both(tmp_path: Path) -> None:
    source, target = tmp_path / "source.properties", tmp_path / "target.properties"
    source.write_text(
        "bootstrap.servers=a:9092\nsecurity.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="me" password="s3cret";\n'
    )
    target.write_text("bootstrap.servers=b:9092\nacks=all\n")

    flow, remarks = flow_of_clients(
        source, target, source_alias="us", policy="IdentityReplicationPolicy"
    )

    assert (flow.name, flow.replication_policy_class) == (
        "us->target",
        "IdentityReplicationPolicy",
    )
    assert flow.source.client_properties("consumer")["sasl.mechanism"] == "PLAIN"
    assert flow.target.client_properties("consumer")["bootstrap.servers"] == "b:9092"
    assert [(file, remark.key) for file, remark in remarks] == [(target, "acks")]
    assert "s3cret" not in repr(flow)


@pytest.mark.parametrize(
    ("content", "arguments", "said"),
    [
        ("acks=all", {}, "bootstrap.servers: is required"),
        ("bootstrap.servers=a:9092", {"source_alias": "a b"}, "alias"),
        ("bootstrap.servers=a:9092", {"policy": "no such"}, "replication.policy.class"),
        ("bootstrap.servers=a:9092", {"source_alias": "target"}, "alias other than"),
    ],
)
def test_a_mistake_is_named(
    content: str, arguments: dict[str, str], said: str, tmp_path: Path
) -> None:
    source, target = tmp_path / "source.properties", tmp_path / "target.properties"
    source.write_text(content)
    target.write_text("bootstrap.servers=b:9092")
    with pytest.raises(ConfigError, match=said):
        flow_of_clients(source, target, **arguments)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent.properties: .*cannot be read"):
        flow_of_clients(tmp_path / "absent.properties", tmp_path / "absent.properties")


def test_the_copy_of_a_topic_may_be_on_its_own_cluster(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=a:9092")
    flow, _ = flow_of_clients(file, file)
    assert flow.source.brokers == flow.target.brokers
