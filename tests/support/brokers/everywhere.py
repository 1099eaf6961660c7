"""Waiting until each broker of a cluster knows of a change: they hear of it one after the other."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from typing import Final

from kafka.protocol.admin import DescribeConfigsRequest
from kafka.protocol.metadata import MetadataRequest

from kafka_ferry.errors import ClusterUnreachable
from kafka_ferry.wire import Connection

_TOPIC: Final = 2
_Asked = DescribeConfigsRequest.DescribeConfigsResource
_VERSION: Final = 4


def wait_for_topic(bootstrap: str, topic: str, partitions: int) -> None:
    """Return when each broker knows leaders of so many partitions; 0 when none knows the topic."""

    def holds(connection: Connection) -> bool:
        asked = [MetadataRequest.MetadataRequestTopic(name=topic)]
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
        (found,) = connection.call(request).topics
        return len([it for it in found.partitions if it.leader_id >= 0]) == partitions

    _wait(bootstrap, holds)


def wait_for_config(bootstrap: str, topic: str, name: str, value: str | None) -> None:
    """Return when each broker has the config of the topic; None where it is the default again."""

    def holds(connection: Connection) -> bool:
        asked = [_Asked(resource_type=_TOPIC, resource_name=topic, configuration_keys=[name])]
        request = DescribeConfigsRequest(version=_VERSION, resources=asked)
        (result,) = connection.call(request).results
        own = [it.value for it in result.configs if it.config_source == 1]
        return own == ([] if value is None else [value])

    _wait(bootstrap, holds)


def _wait(bootstrap: str, holds: Callable[[Connection], bool]) -> None:
    deadline = time.monotonic() + 20
    for server in bootstrap.split(","):
        host, _, port = server.rpartition(":")
        try:
            with closing(Connection(host, int(port), {})) as connection:
                while not holds(connection):
                    assert time.monotonic() < deadline, f"{server} does not hear of it"
                    time.sleep(0.01)
        except ClusterUnreachable:
            continue  # a broker that is down
