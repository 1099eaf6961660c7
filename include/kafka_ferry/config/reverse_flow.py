"""A flow's reverse flow: the same flow from its target to its source."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import regex

from kafka_ferry.config.files.load import load_flow
from kafka_ferry.config.flow import Flow
from kafka_ferry.config.types.per_topic import PerTopic
from kafka_ferry.errors import ConfigError

_ARROW: Final = "->"


def reverse_flow(flow: Flow) -> Flow:
    """The flow from ``flow``'s target to its source, with the same options except these.

    Records that came from the source are left out (``on.returned.records``), the source's own topics are
    written to (``on.foreign.records``), and so offsets are translated; ``topics.rename`` is inverted; no topic
    has to be there; it places no replicas, since ``topics.replica.placement`` names racks of the other cluster;
    and it has no timetable.
    """
    renamed = {remote: topic for topic, remote in flow.topics_rename.items()}
    return for_reverse_flow(
        flow.model_copy(
            update={
                "source": flow.target,
                "target": flow.source,
                "topics": (*flow.topics, *map(regex.escape, renamed)),
                "topics_rename": renamed,
                "topics_replica_placement": PerTopic(""),
                "offsets": PerTopic("translated"),
                "schedule": None,
            }
        )
    )


def for_reverse_flow(flow: Flow) -> Flow:
    """The same flow, allowed to write to the target's own topics, without records that came from there.

    None of its topics has to exist: no application need have written under the target's names on the source.
    """
    return flow.model_copy(
        update={
            "on_returned_records": "leave-out",
            "on_foreign_records": "adopt",
            "topics_optional": flow.topics,
        }
    )


def load_reverse_flow(path: str | Path, flow: Flow) -> Flow:
    """The reverse flow of ``flow``: the opposite flow of its file, if there is one, else derived from it.

    Its runs move no groups: a failback does, after them.

    Raises:
        ConfigError: if the file's opposite flow is invalid.
    """
    if Path(path).suffix != ".properties":
        # Such a file holds no other flow, and reading it again would take by far the longest time.
        back = reverse_flow(flow)
    else:
        back = load_either(path, f"{flow.target.alias}{_ARROW}{flow.source.alias}")
    return for_reverse_flow(back).model_copy(update={"sync_group_offsets_enabled": False})


def load_either(path: str | Path, name: str | None) -> Flow:
    """The flow ``name`` of a file, as ``load_flow``; or the reverse flow of its opposite flow.

    Raises:
        ConfigError: as ``load_flow``; or the file has neither of the two.
    """
    try:
        return load_flow(path, name)
    except ConfigError:
        source, arrow, target = (name or "").partition(_ARROW)
        if not arrow or not _has(path, f"{target}{_ARROW}{source}"):
            raise
    return reverse_flow(load_flow(path, f"{target}{_ARROW}{source}"))


def _has(path: str | Path, name: str) -> bool:
    try:
        load_flow(path, name)
    except ConfigError:
        return False
    return True
