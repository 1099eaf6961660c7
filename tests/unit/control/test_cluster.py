"""What the control plane makes of answers that a healthy broker does not give."""

from __future__ import annotations

import socket
from concurrent.futures import Future

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ListConsumerGroupsResult

from kafka_ferry.config import Cluster
from kafka_ferry.control import ClusterControl
from kafka_ferry.errors import ClusterUnreachable
from kafka_ferry.retry import retry_for


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_broker_that_lists_no_groups_is_one_that_is_not_reached(
    monkeypatch: pytest.MonkeyPatch, wrapped: bool
) -> None:
    error = KafkaError(KafkaError._TRANSPORT)
    answer: Future[ListConsumerGroupsResult] = Future()
    answer.set_result(ListConsumerGroupsResult([], [KafkaException(error) if wrapped else error]))
    monkeypatch.setattr(AdminClient, "list_consumer_groups", lambda *_, **__: answer)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        cluster = ClusterControl(Cluster(alias="backup", properties={"bootstrap.servers": address}))

        with retry_for(0.1), pytest.raises(ClusterUnreachable, match="listing groups"):
            cluster.group_names()


def test_a_wrong_port_is_named_before_any_request_times_out() -> None:
    cluster = ClusterControl(
        Cluster(alias="backup", properties={"bootstrap.servers": "127.0.0.1:1"})
    )

    with (
        retry_for(0.1),
        pytest.raises(ClusterUnreachable, match=r"Connection refused at 127\.0\.0\.1:1"),
    ):
        cluster.cluster_id()
