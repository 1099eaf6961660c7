"""A flow reaches Spark's tasks inside their code."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.exceptions import InvalidTag

from kafka_ferry.config import Cluster, Flow
from kafka_ferry.config.client.property_names import ROLES
from kafka_ferry.spark.security import flow_key
from kafka_ferry.spark.security.serialized_flow import (
    envelope,
    open_envelope,
    pack_flow,
    unpack_flow,
)
from kafka_sandbox.logins.secure import Authority
from tests.support.brokers.secure import PASSWORD, key_store


def test_what_is_carried_needs_no_files_any_more(tmp_path: Path) -> None:
    identity = Authority("root").issue("ferry")
    secured = {
        "bootstrap.servers": "a:1",
        "security.protocol": "SSL",
        **key_store("PKCS12", tmp_path, identity),
    }
    flow = Flow(
        source=Cluster(alias="a", properties=secured),
        target=Cluster(alias="b", properties={"bootstrap.servers": "b:1"}),
        topics=("x",),
    )
    carried = pack_flow(flow)
    for file in tmp_path.iterdir():
        file.unlink()

    there = unpack_flow(carried)

    assert (there.name, there.topics) == (flow.name, flow.topics)
    properties = there.source.client_properties("consumer")
    assert properties["ssl.keystore.key"] == identity.key_pem
    assert PASSWORD not in str(dict(properties))


def test_a_store_is_carried_once_however_many_clients_have_it(tmp_path: Path) -> None:
    """As the system's authorities on both sides: some 220 KB for each client of each cluster."""
    bundle = tmp_path / "authorities.pem"
    bundle.write_text("".join(Authority(f"root {number}").pem for number in range(300)))
    trusting = {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(bundle),
    }
    source, target = (
        Cluster(alias=alias, properties={"bootstrap.servers": f"{alias}:1", **trusting})
        for alias in "ab"
    )

    carried = pack_flow(Flow(source=source, target=target, topics=("x",)))

    size = bundle.stat().st_size
    assert size > 140_000
    assert size < len(carried) < size + 30_000
    there = unpack_flow(carried)
    for cluster in (there.source, there.target):
        for role in ROLES:
            properties = cluster.client_properties(role)
            assert properties["ssl.truststore.certificates"] == bundle.read_text()


def test_an_envelope_shows_nothing_and_opens_only_with_the_application_s_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    flow_key.task_key.cache_clear()
    secret = {"bootstrap.servers": "a:1", "schema.registry.basic.auth.user.info": f"u:{PASSWORD}"}
    flow = Flow(
        source=Cluster(alias="a", properties=secret | {"schema.registry.url": "http://r:1"}),
        target=Cluster(alias="b", properties={"bootstrap.servers": "b:1"}),
    )
    environment = {"FERRY_FLOW_SECRET": "00", "KEPT": "1"}
    flow_key.keep_out_of_code(environment, local=True)
    assert environment.keys() == {"KEPT", "FERRY_FLOW_KEY_FILE"}
    assert flow_key.driver_key().hex() not in str(environment)
    monkeypatch.setenv("FERRY_FLOW_KEY_FILE", environment["FERRY_FLOW_KEY_FILE"])

    sent = envelope(flow)

    assert PASSWORD.encode() in pack_flow(flow)
    assert PASSWORD.encode() not in sent
    assert open_envelope(sent).name == flow.name
    assert envelope(flow) != sent
    with pytest.raises(InvalidTag):
        open_envelope(sent[:-1] + bytes([sent[-1] ^ 1]))
    assert flow_key.key_properties(local=True) == {}
    assert [*flow_key.key_properties(local=False)] == ["spark.executorEnv.FERRY_FLOW_SECRET"]
