"""A flow reaches Spark's tasks inside their code."""

from __future__ import annotations

from pathlib import Path

from kafka_ferry.config import Cluster, Flow
from kafka_ferry.spark.carrying import packed, unpacked
from kafka_sandbox.secure import Authority
from tests.support.secure import PASSWORD, key_store


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
    carried = packed(flow)
    for file in tmp_path.iterdir():
        file.unlink()

    there = unpacked(carried)

    assert (there.name, there.topics) == (flow.name, flow.topics)
    properties = there.source.client_properties("consumer")
    assert properties["ssl.keystore.key"] == identity.key_pem
    assert PASSWORD not in str(dict(properties))
