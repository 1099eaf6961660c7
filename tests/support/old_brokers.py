"""Brokers of older lines than the sandbox's own."""

from __future__ import annotations

from pathlib import Path

from kafka_sandbox.broker import Broker
from kafka_sandbox.jars import line
from kafka_sandbox.zookeeper import ZooKeeperBroker


def broker_of(version: str, folder: Path) -> Broker:
    """A broker of a version from 0.11 on, not started; before 3.3 with ZooKeeper, then without."""
    kind = Broker if line(version) >= (3, 3) else ZooKeeperBroker
    return kind(folder, version=version)
