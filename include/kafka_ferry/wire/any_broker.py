"""Requests that any broker answers, or only the controller, if its release supports them; and one for all brokers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafka_ferry.errors import FerryError
from kafka_ferry.wire.cluster import WireCluster
from kafka_ferry.wire.connections.connection import Connection
from kafka_ferry.wire.error_codes import UNKNOWN_TOPIC_OR_PARTITION
from kafka_ferry.wire.partition_leader import topics_request


class TooOld(FerryError):
    """A broker's release does not support a request."""


def require_offered(connection: Connection, request: Any, doing: str, release: str) -> None:
    """Check that a broker supports a kind of request, which Kafka has since ``release``.

    Raises:
        TooOld: if it does not.
    """
    if not connection.offers(request):
        raise TooOld(f"{connection.address} is too old to {doing}: that needs Kafka {release}.")


def ask(
    cluster: WireCluster, request: Any, *, version: int = 0, of_controller: bool = False
) -> Any:
    """Send ``request`` to a broker and wait for its answer.

    Args:
        cluster: the cluster.
        request: the message.
        version: the oldest version of it that can express the request.
        of_controller: ask only the controller. Before KRaft, only the controller changes
            users' credentials (``KafkaApis.handleAlterUserScramCredentialsRequest``).

    Raises:
        TooOld: if the broker does not know that version.
        BrokerError: transient while no controller is known.
        ClusterUnreachable: if no broker answers.
    """
    connection = cluster.controller() if of_controller else cluster.any_connection()
    if not connection.offers(request, version=version):
        name = request.name.removesuffix("Request")
        raise TooOld(f"{connection.address} is too old for {name} v{version}.")
    return connection.call(request)


def unknown_everywhere(cluster: WireCluster, topics: Iterable[str]) -> set[str]:
    """The topics that no broker that is up has: one that is behind its controller does not know all that are there.

    Raises:
        ClusterUnreachable: if one of the brokers does not answer.
        AccessDenied: if it refuses the login.
    """
    unknown = set(topics)
    for node in cluster.nodes() if unknown else ():
        answer = cluster.connection(node).call(topics_request(sorted(unknown)))
        unknown &= {
            topic.name for topic in answer.topics if topic.error_code == UNKNOWN_TOPIC_OR_PARTITION
        }
        if not unknown:
            break
    return unknown
