"""What a flow's file says of topics that the flow does not copy. Pure.

A misspelt name there has no other effect: the topic that was meant is copied by the defaults.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kafka_ferry.config import Flow
from kafka_ferry.config.types.name_filter import compile_patterns
from kafka_ferry.config.types.per_topic import EVERY, PerTopic
from kafka_ferry.model.remarks import Note
from kafka_ferry.plan.topics.topic_filter import Selection


def unused_options(flow: Flow, selection: Selection) -> Iterator[Note]:
    """A note for each pattern of an option that matches none of the flow's topics, and each topic named in vain.

    Args:
        flow: the flow.
        selection: what becomes of the source's topics.
    """
    for option, pattern in _patterns(flow):
        if not any(map(compile_patterns([pattern]).fullmatch, selection.names)):
            yield Note("", f"{option} has {pattern!r}, which none of the flow's topics matches.")
    for name in flow.topics_rename:
        if name not in selection.names:
            yield Note("", f"topics.rename has {name!r}, which is none of the flow's topics.")
    for skipped in selection.skipped:
        if skipped.topic in flow.topics:
            yield Note(skipped.topic, f"topics names it, and it is not copied: {skipped.reason}.")


def _patterns(flow: Flow) -> Iterable[tuple[str, str]]:
    """The patterns of topics for which the file says something, each with its option."""
    for name, field in type(flow).model_fields.items():
        value = getattr(flow, name)
        if isinstance(value, PerTopic):
            for pattern in value.as_mapping():
                if pattern != EVERY:
                    yield field.alias or name, pattern
    for rule in flow.transform:
        for pattern in rule.topics:
            yield "transform", pattern
