"""The way back of a flow: the same flow from its target to its source."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import regex

from kafka_ferry.config.files.load import load_flow
from kafka_ferry.config.flow import Flow
from kafka_ferry.config.types.per_topic import PerTopic
from kafka_ferry.errors import ConfigError

_ARROW: Final = "->"


def way_back(flow: Flow) -> Flow:
    """The flow from ``flow``'s target to its source, with the same options but for these.

    What came from the source is left out (``on.returned.records``), the source's own topics are written to
    (``on.foreign.records``), and so offsets are translated; names of ``topics.rename`` are taken back; and it has
    no timetable.
    """
    renamed = {remote: topic for topic, remote in flow.topics_rename.items()}
    return for_way_back(
        flow.model_copy(
            update={
                "source": flow.target,
                "target": flow.source,
                "topics": (*flow.topics, *map(regex.escape, renamed)),
                "topics_rename": renamed,
                "offsets": PerTopic("translated"),
                "schedule": None,
            }
        )
    )


def for_way_back(flow: Flow) -> Flow:
    """The same flow, so that it may write to topics of its target and returns nothing that came from there."""
    return flow.model_copy(
        update={"on_returned_records": "leave-out", "on_foreign_records": "adopt"}
    )


def load_way_back(path: str | Path, flow: Flow) -> Flow:
    """The way back of ``flow``: the opposite flow of its file, if it has that one, or else derived.

    Raises:
        ConfigError: if the file's opposite flow is not right.
    """
    if Path(path).suffix != ".properties":
        # Such a file holds no other flow, and to read it again would take the longest by far.
        return for_way_back(way_back(flow))
    return for_way_back(load_either(path, f"{flow.target.alias}{_ARROW}{flow.source.alias}"))


def load_either(path: str | Path, name: str | None = None) -> Flow:
    """The flow ``name`` of a file, as ``load_flow``; or the way back of the one that goes the other way.

    Raises:
        ConfigError: as ``load_flow``; or the file has neither of the two.
    """
    try:
        return load_flow(path, name)
    except ConfigError:
        source, arrow, target = (name or "").partition(_ARROW)
        if not arrow or not _has(path, f"{target}{_ARROW}{source}"):
            raise
    return way_back(load_flow(path, f"{target}{_ARROW}{source}"))


def _has(path: str | Path, name: str) -> bool:
    try:
        load_flow(path, name)
    except ConfigError:
        return False
    return True
