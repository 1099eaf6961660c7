"""Which topics a flow writes for MirrorMaker 2's clients, and on which cluster."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_ferry.errors import ConfigError
from kafka_ferry.plan.topics.emitted_topics import emitted_topics
from tests.unit.config.builders import a_cluster, a_flow

PRIMARY, BACKUP = "primary", "backup"
CHECKPOINTS = ("primary.checkpoints.internal", BACKUP, 3)
HEARTBEATS = ("heartbeats", BACKUP, 3)
OF_SOURCE = ("primary.heartbeats", BACKUP, 3)


@pytest.mark.parametrize(
    ("options", "topics"),
    [
        ({}, [CHECKPOINTS, HEARTBEATS, OF_SOURCE]),
        ({"emit.checkpoints.enabled": False}, [HEARTBEATS, OF_SOURCE]),
        ({"emit.heartbeats.enabled": False}, [CHECKPOINTS]),
        ({"heartbeats.replication.enabled": True}, [CHECKPOINTS, HEARTBEATS, OF_SOURCE]),
        (
            {"checkpoints.topic.replication.factor": 1, "heartbeats.topic.replication.factor": -1},
            [
                ("primary.checkpoints.internal", BACKUP, 1),
                ("heartbeats", BACKUP, -1),
                ("primary.heartbeats", BACKUP, -1),
            ],
        ),
        (
            {"replication.policy.class": "IdentityReplicationPolicy"},
            [CHECKPOINTS, HEARTBEATS, OF_SOURCE],
        ),
        (
            {"emit.offset-syncs.enabled": True, "emit.heartbeats.enabled": False},
            [CHECKPOINTS, ("mm2-offset-syncs.backup.internal", PRIMARY, 3)],
        ),
        (
            {
                "emit.offset-syncs.enabled": True,
                "offset-syncs.topic.location": "target",
                "offset-syncs.topic.replication.factor": 2,
                "replication.policy.separator": "__",
            },
            [
                ("primary__checkpoints__internal", BACKUP, 3),
                HEARTBEATS,
                ("primary__heartbeats", BACKUP, 3),
                ("mm2-offset-syncs__primary__internal", BACKUP, 2),
            ],
        ),
        (
            {
                "replication.policy.separator": "__",
                "replication.policy.internal.topic.separator.enabled": False,
            },
            [CHECKPOINTS, HEARTBEATS, ("primary__heartbeats", BACKUP, 3)],
        ),
        # A name that is kept is one topic, not two.
        ({"topics.rename": {"heartbeats": "heartbeats"}}, [CHECKPOINTS, HEARTBEATS]),
    ],
)
def test_topics_are_named_and_placed_as_mirrormaker_2_does(
    options: dict[str, Any], topics: list[tuple[str, str, int]]
) -> None:
    found = emitted_topics(a_flow(**options))
    assert [(it.name, it.cluster.alias, it.replication_factor) for it in found] == topics


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"topics_rename": {"heartbeats": "ferry-ledger.other.internal"}}, "ferry-ledger.other"),
        ({"topics_rename": {"heartbeats": "__consumer_offsets"}}, "__consumer_offsets"),
        ({"source": a_cluster("ferry-ledger.a")}, "ferry-ledger.a.checkpoints.internal"),
    ],
)
def test_none_of_them_is_a_topic_of_kafkas_or_of_a_flows_own(
    options: dict[str, Any], name: str
) -> None:
    """A heartbeat in another flow's ledger would stop it."""
    with pytest.raises(ConfigError, match=name):
        emitted_topics(a_flow(**options))
