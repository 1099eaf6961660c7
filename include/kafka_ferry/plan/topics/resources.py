"""The resources that a flow's patterns stand for, as ACLs can name them: a name, a prefix, or all of a type. Pure.

An ACL knows no regular expression. So a pattern that is no name becomes the prefix that everything it
matches begins with, and ``*`` where there is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

import regex

from kafka_ferry.model.rights import EVERY
from kafka_ferry.plan.topics.replication_policy import policy_of, remote_prefix

if TYPE_CHECKING:
    from kafka_ferry.config import Flow

_NAME: Final = regex.compile(r"[A-Za-z0-9._-]+")
# What a pattern begins with, and no quantifier makes optional or repeats; users write dots for themselves.
_BEGINNING: Final = regex.compile(r"(?:(?:\\[._-]|[A-Za-z0-9._-])(?![*+?{]))*")


class Resource(NamedTuple):
    """Which resources of a type a rule is about.

    Attributes:
        name: the name, the prefix, or ``*``.
        prefixed: whether ``name`` is a prefix.
    """

    name: str
    prefixed: bool = False


def resources_of(patterns: Iterable[str]) -> tuple[Resource, ...]:
    """What patterns of names stand for, in their order."""
    patterns = list(patterns)
    if any("(?" in pattern for pattern in patterns):
        # A flag holds for all patterns that follow, and may make a name match others.
        return (Resource(EVERY),)
    parts = [part for pattern in patterns for part in _alternatives(pattern)]
    return tuple(dict.fromkeys(map(_resource_of, parts)))


def remote_resources(flow: Flow) -> tuple[Resource, ...]:
    """What the names of the flow's remote topics stand for.

    Raises:
        ConfigError: as ``policy_of``.
    """
    return tuple(dict.fromkeys(_remote(flow)))


def _remote(flow: Flow) -> Iterator[Resource]:
    policy = policy_of(flow)
    for name, prefixed in resources_of(flow.topics):
        if not prefixed and name != EVERY:
            yield Resource(policy.remote_topic(name))
            continue
        prefix = remote_prefix(policy, "" if name == EVERY else name)
        yield Resource(prefix, prefixed=True) if prefix else Resource(EVERY)
    for topic, renamed in flow.topics_rename.items():
        if flow.topic_filter.matches(topic):
            yield Resource(renamed)


def _alternatives(pattern: str) -> list[str]:
    return [pattern] if regex.search(r"[(\[\\]", pattern) else pattern.split("|")


def _resource_of(pattern: str) -> Resource:
    if _NAME.fullmatch(pattern):
        return Resource(pattern)
    match = _BEGINNING.match(pattern)
    beginning = match[0] if match else ""
    if "|" in pattern or not beginning:
        return Resource(EVERY)
    name = beginning.replace("\\", "")
    return Resource(name, prefixed=len(beginning) < len(pattern))
