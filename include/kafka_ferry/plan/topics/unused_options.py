"""What a flow's file says in vain: of topics that the flow does not copy, and of registries that it does not ask. Pure.

A misspelt name there has no other effect: the topic that was meant is copied by the defaults.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Final

from kafka_ferry.config import Flow
from kafka_ferry.config.doubts import TRANSFORM, topic_patterns
from kafka_ferry.config.types.name_filter import compile_patterns
from kafka_ferry.config.types.problems import did_you_mean, nearest
from kafka_ferry.model.remarks import Note
from kafka_ferry.plan.topics.topic_filter import Selection

# Of a pattern, some letters are no name's.
_ALIKE: Final = 0.6


def unused_options(
    flow: Flow, selection: Selection, refused: Container[str] = ()
) -> Iterator[Note]:
    """A note for each pattern of an option that matches none of the flow's topics, and each topic named in vain.

    Args:
        flow: the flow.
        selection: what becomes of the source's topics.
        refused: topics left out of which a refusal says so.
    """
    for option, pattern in topic_patterns(flow):
        if not any(map(compile_patterns([pattern]).fullmatch, selection.names)):
            text = f"{option} has {pattern!r}, which none of the flow's topics matches."
            yield Note("", f"{text}{_similar_topic(flow, option, pattern, selection)}")
    for name in flow.topics_rename:
        if name not in selection.names:
            text = f"topics.rename has {name!r}, which is none of the flow's topics."
            yield Note("", f"{text}{_similar_topic(flow, 'topics.rename', name, selection)}")
    for skipped in selection.skipped:
        if skipped.topic in flow.topics and skipped.topic not in refused:
            yield Note(skipped.topic, f"topics names it, and it is not copied: {skipped.reason}.")


def _similar_topic(flow: Flow, option: str, pattern: str, selection: Selection) -> str:
    """The topic with a similar name; that a rule leaves it as it is, is said in as many words: it may mask a field."""
    names = sorted(selection.names)
    if not (alike := nearest(pattern, names, cutoff=_ALIKE)):
        return ""
    is_unchanged = option == TRANSFORM and not flow.transform_of(alike)
    unchanged = f" {alike} is copied unchanged." if is_unchanged else ""
    return f" {did_you_mean(pattern, names, cutoff=_ALIKE)}{unchanged}"


_ABOUT_SCHEMAS: Final = ("schemas_subjects", "schemas_ids_in", "on_unknown_schema")


def unused_registries(flow: Flow) -> Iterator[Note]:
    """A note for schema registries that the flow never asks, and for options that only mirrored schemas need.

    ``sync.schemas: none`` says that this is meant.
    """
    if flow.sync_schemas != "none":
        return
    reads_formats = any(rule.registry_formats for rule in flow.transform)
    unused = [cluster.alias for cluster in (flow.source, flow.target) if cluster.has_registry]
    if reads_formats and flow.source.alias in unused:
        unused.remove(flow.source.alias)
    if unused and "sync_schemas" not in flow.model_fields_set:
        yield Note(
            "",
            f"schema.registry of {' and '.join(unused)} has no effect, since sync.schemas is not set: no schema is "
            "mirrored, and records keep the ids of the source's schemas. Set sync.schemas to translate-ids or "
            "keep-ids, or to none if that is meant.",
        )
    for name in _ABOUT_SCHEMAS:
        if name in flow.model_fields_set:
            option = type(flow).model_fields[name].alias or name
            yield Note("", f"{option} has no effect without sync.schemas.")
