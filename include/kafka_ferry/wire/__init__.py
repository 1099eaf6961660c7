"""The data plane's border: Kafka's protocol over blocking sockets, with kafka-python's messages."""

from kafka_ferry.wire.cluster import GROUP, TRANSACTION, PartitionLeader, WireCluster
from kafka_ferry.wire.connection import Connection
from kafka_ferry.wire.fetch import Expected, Fetched, fetch, log_start

__all__ = [
    "GROUP",
    "TRANSACTION",
    "Connection",
    "Expected",
    "Fetched",
    "PartitionLeader",
    "WireCluster",
    "fetch",
    "log_start",
]
