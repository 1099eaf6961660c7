"""The data plane's border: Kafka's protocol over blocking sockets, with kafka-python's messages."""

from kafka_ferry.wire.cluster import GROUP, TRANSACTION, WireCluster
from kafka_ferry.wire.connections.connection import Connection
from kafka_ferry.wire.partition_leader import PartitionLeader
from kafka_ferry.wire.partitions.fetch import (
    Expected,
    Fetched,
    PendingFetch,
    await_answers,
    send_fetch,
)
from kafka_ferry.wire.partitions.list_offsets import log_start
from kafka_ferry.wire.pool import borrow, connect

__all__ = [
    "GROUP",
    "TRANSACTION",
    "Connection",
    "Expected",
    "Fetched",
    "PartitionLeader",
    "PendingFetch",
    "WireCluster",
    "await_answers",
    "borrow",
    "connect",
    "log_start",
    "send_fetch",
]
