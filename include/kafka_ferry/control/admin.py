"""confluent-kafka's admin client, for a cluster that has accepted our login."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from kafka_ferry.config import Cluster, confluent_config, kafka_python_config
from kafka_ferry.errors import ClusterUnreachable, ConfigError
from kafka_ferry.wire import WireCluster

_KNOCK_MS: Final = 5_000


def admin_client(cluster: Cluster) -> AdminClient:
    """An admin client of ``cluster``.

    Where TLS or a login is configured, the data plane connects first: librdkafka retries a refused
    login, or an untrusted certificate, until the request times out, and then reports a time-out.

    Raises:
        AccessDenied: the cluster refuses the login or the client's certificate, or its certificate is
            not trusted.
        ConfigError: no client can be created with the settings.
    """
    properties = cluster.client_properties("admin")
    settings = kafka_python_config(properties)
    if settings["security_protocol"] != "PLAINTEXT":
        short = {"request_timeout_ms": _KNOCK_MS}
        # The first request reports a cluster that does not answer, and waits longer for it.
        with (
            suppress(ClusterUnreachable),
            WireCluster(cluster.alias, settings | short) as door,
        ):
            door.any_connection()
    try:
        return AdminClient({**confluent_config(properties, "admin"), "log_level": 0})
    except KafkaException as raised:
        reason = f"no client can be created from its properties: {raised.args[0].str()}"
        raise ConfigError(cluster.origin, "admin", reason) from None
