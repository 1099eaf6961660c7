"""What a flow does with groups, and what it writes for clients of MirrorMaker 2's own topics."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kafka_ferry.config.options.base import Options
from kafka_ferry.config.types.values import Number, TextPatterns, Truth


class GroupOptions(Options):
    """The options of a flow about groups and MirrorMaker 2's own topics."""

    groups: TextPatterns = Field(
        default=(".*",),
        description="Names or Java regular expressions of the groups whose offsets are translated. "
        "Kafka Ferry's own never are.",
    )
    groups_exclude: TextPatterns = Field(
        default=("console-consumer-.*", "connect-.*", "__.*"),
        description="Names or Java regular expressions of groups to leave out; wins over groups.",
    )
    sync_group_offsets_enabled: Truth = Field(
        default=False,
        description="Whether each run commits translated offsets on the target, to groups that have "
        "no members there.",
    )
    on_source_group_reset: Literal["keep", "follow"] = Field(
        default="keep",
        description="When a group was set back on the source since the last run: keep leaves its "
        "offsets on the target where they are, and the report says so; follow sets them back too.",
    )
    on_source_group_deleted: Literal["keep", "delete"] = Field(
        default="keep",
        description="When a group that was synced, or its offsets of a topic, are gone from the "
        "source: keep leaves them on the target; delete deletes them there too, while the group has "
        "no members.",
    )
    emit_checkpoints_enabled: Truth = Field(
        default=True,
        description="Whether each run writes the groups' translated offsets into "
        "{source}.checkpoints.internal on the target, for MirrorMaker 2's clients (RemoteClusterUtils).",
    )
    checkpoints_topic_replication_factor: Number = Field(
        default=3,
        ge=-1,
        le=32767,
        description="Replicas of that topic; -1 takes the brokers' default. There are never more "
        "than the cluster has brokers.",
    )
    emit_heartbeats_enabled: Truth = Field(
        default=True,
        description="Whether each run writes a heartbeat into the topic heartbeats on the target, and "
        "into {source}.heartbeats unless the flow copies the source's topic heartbeats there.",
    )
    heartbeats_topic_replication_factor: Number = Field(
        default=3,
        ge=-1,
        le=32767,
        description="Replicas of that topic, as for the checkpoints'.",
    )
    emit_offset_syncs_enabled: Truth = Field(
        default=False,
        alias="emit.offset-syncs.enabled",
        description="Whether each run writes offset syncs for MirrorMaker 2's checkpoint connector. "
        "Kafka Ferry itself needs none: its ledger has every offset.",
    )
    offset_syncs_topic_location: Literal["source", "target"] = Field(
        default="source",
        alias="offset-syncs.topic.location",
        description="The cluster that has the topic of offset syncs: "
        "mm2-offset-syncs.{target}.internal on the source, mm2-offset-syncs.{source}.internal on the "
        "target.",
    )
    offset_syncs_topic_replication_factor: Number = Field(
        default=3,
        ge=-1,
        le=32767,
        alias="offset-syncs.topic.replication.factor",
        description="Replicas of that topic, as for the checkpoints'.",
    )
