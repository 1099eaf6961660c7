"""Brokers of older lines than the sandbox's own."""

from __future__ import annotations

import os
from pathlib import Path

from kafka_sandbox.broker import QUICK_CLEANER, Broker
from kafka_sandbox.cluster import KafkaCluster
from kafka_sandbox.java.jars import line
from kafka_sandbox.zookeeper import ZooKeeperBroker

# The oldest with today's batches and transactions, the oldest that preserves offsets, the first
# without ZooKeeper.
VERSIONS = os.environ.get("FERRY_BROKER_VERSIONS", "0.11.0.3 2.4.1 3.3.2").split()
"""The versions to test; docs/compatibility.md says how to test others."""


def broker_of(version: str, folder: Path) -> KafkaCluster:
    """A broker of a version from 0.11 on, not started; before 3.3 it has a ZooKeeper."""
    kind = Broker if line(version) >= (3, 3) else ZooKeeperBroker
    return kind(folder, version=version, config=QUICK_CLEANER)
