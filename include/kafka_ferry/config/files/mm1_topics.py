"""MirrorMaker 1's topics: a whitelist or a blacklist."""

from __future__ import annotations

from typing import Final, NamedTuple

from kafka_ferry.config.types.name_filter import PatternError, compile_patterns
from kafka_ferry.config.types.problems import Problem, config_error

# org.apache.kafka.common.internals.Topic.INTERNAL_TOPICS
_KAFKAS_OWN: Final = ("__consumer_offsets", "__transaction_state", "__share_group_state")
_PLACE: Final = "command line"
_OURS: Final = (r"ferry-ledger\..*\.internal", r"ferry-dead-letter\..*\.internal")


class MirroredTopics(NamedTuple):
    """The topics of a mirror, as the options ``topics`` and ``topics.exclude`` of a flow."""

    topics: tuple[str, ...]
    topics_exclude: tuple[str, ...]


def mirrored_topics(whitelist: str | None, blacklist: str | None) -> MirroredTopics:
    """The topics that a whitelist names, or those that a blacklist does not.

    A list is one Java regular expression, matched against whole names, in which a comma is another way
    to write ``|``; spaces do not count, nor do quotes around it (``kafka.consumer.TopicFilter``).
    Kafka's own topics and Kafka Ferry's are left out.

    Raises:
        ConfigError: none of the two is given, or both are, or the expression is not valid.
    """
    if (whitelist is None) == (blacklist is None):
        key = "whitelist" if whitelist is None else "blacklist"
        reason = "neither it nor blacklist is given" if whitelist is None else "is given as well"
        raise config_error(_PLACE, Problem(key, reason, "Give exactly one of the two."))
    key, text = ("whitelist", whitelist) if blacklist is None else ("blacklist", blacklist)
    pattern = _as_pattern(text or "")
    try:
        compile_patterns([pattern])
    except PatternError as error:
        raise config_error(_PLACE, Problem(key, str(error))) from None
    if not pattern:
        raise config_error(_PLACE, Problem(key, "names no topic", "Any topic is '.*'."))
    if key == "whitelist":
        return MirroredTopics((pattern,), (*_KAFKAS_OWN, *_OURS))
    return MirroredTopics((".*",), (pattern, *_KAFKAS_OWN, *_OURS))


def _as_pattern(text: str) -> str:
    pattern = text.strip().replace(",", "|").replace(" ", "")
    return pattern.lstrip("\"'").rstrip("\"'")
