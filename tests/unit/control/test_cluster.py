"""What the control plane makes of answers that a healthy broker does not give."""

from __future__ import annotations

import pytest

from kafka_ferry.config import Cluster
from kafka_ferry.control import ClusterControl
from kafka_ferry.errors import ClusterUnreachable
from kafka_ferry.retry import retry_for


def test_a_wrong_port_is_named_before_any_request_times_out() -> None:
    cluster = ClusterControl(
        Cluster(alias="backup", properties={"bootstrap.servers": "127.0.0.1:1"})
    )

    with (
        retry_for(0.1),
        pytest.raises(ClusterUnreachable, match=r"Connection refused at 127\.0\.0\.1:1"),
    ):
        cluster.cluster_id()
