"""Topics that a flow names and the source does not have. Pure.

MirrorMaker 2 silently waits for such a topic, so that a misspelt name looks like a complete copy.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final

import regex

from kafka_ferry.config import Flow
from kafka_ferry.config.types.name_filter import NameFilter, compile_patterns
from kafka_ferry.config.types.problems import did_you_mean
from kafka_ferry.model.remarks import Refusal
from kafka_ferry.model.rights import Right, how_to_grant
from kafka_ferry.plan.topics.replication_policy import policy_of
from kafka_ferry.plan.topics.resources import resources_of
from kafka_ferry.plan.topics.topic_filter import Selection

# org.apache.kafka.common.internals.Topic.LEGAL_CHARS
_NAME: Final = regex.compile(r"[A-Za-z0-9._-]+")


def missing_topics(
    flow: Flow,
    names: frozenset[str],
    copied: Collection[str],
    selection: Selection,
    invisible: Collection[str] = (),
) -> Iterator[Refusal]:
    """What the flow is to copy and the source does not have, unless ``topics.optional`` names it.

    Args:
        flow: the flow.
        names: the source's topics.
        copied: topics that were copied before: where one is gone, ``on.source.topic.deleted`` decides.
        selection: what becomes of the source's topics.
        invisible: topics that the flow may not see, so that it does not know whether they are there.
    """
    required = [*_required_entries(flow)]
    missing = [
        item
        for item in required
        if _NAME.fullmatch(item)
        # Most are there: to match each with every name takes minutes where both are many.
        and item not in names
        and item not in copied
        and not any(map(compile_patterns([item]).fullmatch, names))
    ]
    for item in missing:
        if item in invisible:
            reason = f"{flow.source.alias} does not let the flow see whether it has this topic."
            yield Refusal(item, reason, how_to_grant(Right.topic("READ", item)))
            continue
        hint = did_you_mean(item, sorted(names), cutoff=0.6)
        advice = f"{hint} If it may be missing, name it in topics.optional.".lstrip()
        yield Refusal(item, f"{flow.source.alias} has no topic of this name.", advice)
    if required and not missing and not selection.refused:
        yield from _nothing_matches(flow, copied, selection)


def _nothing_matches(
    flow: Flow, copied: Collection[str], selection: Selection
) -> Iterator[Refusal]:
    """A refusal if the source has no topic that the flow copies, or would copy but for its origin."""
    if any(_topics_that_count(flow, selection.names)):
        return
    # Topics left out because of their origin exist, and deleted ones have a policy of their own.
    meant = [*_topics_that_count(flow, (skipped.topic for skipped in selection.skipped)), *copied]
    if not any(map(flow.topic_filter.matches, meant)):
        rights = (
            Right("TOPIC", name, "READ", prefixed) for name, prefixed in resources_of(flow.topics)
        )
        yield Refusal(
            "",
            f"{flow.source.alias} has no topic that {', '.join(map(repr, flow.topics))} matches, or "
            "topics.exclude leaves all of them out, or the flow may not see them.",
            "Check both, and the source's bootstrap.servers. If that is intended, add the patterns to "
            "topics.optional exactly as in topics. If the topics are there: "
            + how_to_grant(*rights),
        )


def _topics_that_count(flow: Flow, selected: Iterable[str]) -> Iterator[str]:
    """The topics that were selected because the flow asks for them.

    Heartbeats are copied without being asked for, and no pattern means them.
    """
    policy = policy_of(flow)
    for name in selected:
        if name in flow.topics or not policy.is_heartbeats_topic(name):
            yield name


def named_topics(flow: Flow) -> Iterator[str]:
    """The topics that the flow names, and that must exist."""
    return filter(_NAME.fullmatch, _required_entries(flow))


def _required_entries(flow: Flow) -> Iterator[str]:
    """The entries of ``topics`` that must match something."""
    optional = NameFilter(flow.topics_optional, (), flow.file, "topics.optional")
    for item in flow.topics:
        if item not in flow.topics_optional and not (
            _NAME.fullmatch(item) and optional.matches(item)
        ):
            yield item
