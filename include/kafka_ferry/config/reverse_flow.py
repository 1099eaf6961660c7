"""A flow's reverse flow: the same flow from its target to its source."""

from __future__ import annotations

from pathlib import Path

import regex

from kafka_ferry.config.files.load import load_opposite
from kafka_ferry.config.flow import Flow
from kafka_ferry.config.types.per_topic import PerTopic


def reverse_flow(flow: Flow) -> Flow:
    """The flow from ``flow``'s target to its source, with the same options except these.

    Records that came from the source are left out (``on.returned.records``), the source's own topics are
    written to (``on.foreign.records``), and so offsets are translated; ``topics.rename`` is inverted; no topic
    has to be there; copying begins at the logs' starts, since ``topics.start`` is about the other cluster's;
    no rule changes or leaves out what the source lacks; topics keep their configs, and new ones have those of
    the copies; it places no replicas, since ``topics.replica.placement`` names racks of the other cluster; and it
    has no timetable.
    """
    renamed = {remote: topic for topic, remote in flow.topics_rename.items()}
    return for_reverse_flow(
        flow.model_copy(
            update={
                "source": flow.target,
                "target": flow.source,
                "topics": (*flow.topics, *map(regex.escape, renamed)),
                "topics_rename": renamed,
                "topics_start": PerTopic(""),
                "topics_configs": PerTopic(""),
                "topics_replica_placement": PerTopic(""),
                "transform": (),
                "offsets": PerTopic("translated"),
                "schedule": None,
            }
        )
    )


def for_reverse_flow(flow: Flow) -> Flow:
    """The same flow, allowed to write to the target's own topics, without records that came from there.

    None of its topics has to exist: no application need have written under the target's names on the source. What one
    has written there before the first run is copied, too. The target's own topics keep their configs: a copy may have
    a shorter retention than its original, or be compacted, and would have the original's records deleted.
    """
    return flow.model_copy(
        update={
            "on_returned_records": "leave-out",
            "on_foreign_records": "adopt",
            "topics_optional": flow.topics,
            "auto_offset_reset": "earliest",
            "isolation_level": "read_committed",
            "sync_topic_configs_enabled": False,
        }
    )


def load_reverse_flow(path: str | Path, flow: Flow) -> Flow:
    """The reverse flow of ``flow``: the opposite flow of its file, if there is one, else derived from it.

    Its runs move no groups: a failback does, after them.

    Raises:
        ConfigError: if the file's opposite flow is invalid.
    """
    back = load_opposite(path, flow) or reverse_flow(flow)
    return for_reverse_flow(back).model_copy(update={"sync_group_offsets_enabled": False})
