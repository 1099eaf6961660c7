"""How long topics keep their records, and remote topics that keep them shorter than the source. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from kafka_ferry.batches.topic_limits import config_number
from kafka_ferry.clock import duration_text
from kafka_ferry.model.changes import ConfigChange
from kafka_ferry.model.remarks import Note

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.model.cluster_state import Topic
    from kafka_ferry.model.topic_pair import Pair

_CONFIGS: Final = frozenset({"cleanup.policy", "retention.ms", "retention.bytes"})


class Retention(NamedTuple):
    """How much a topic keeps at least.

    Attributes:
        ms: for how long, in milliseconds; -1 where time does not limit it.
        bytes: how many bytes of each partition; -1 where size does not limit it.
    """

    ms: int = -1
    bytes: int = -1


def retention_ms(topic: Topic) -> int | None:
    """How long a topic keeps records at least, None where it keeps them all, or is only compacted."""
    return _limit(topic, "retention.ms")


def retention_bytes(topic: Topic) -> int | None:
    """How many bytes of each partition a topic keeps at least, None where size does not limit it."""
    return _limit(topic, "retention.bytes")


def is_deleted_from(topic: Topic) -> bool:
    """Whether a topic's records are deleted sooner or later, regardless of their keys."""
    return retention_ms(topic) is not None or retention_bytes(topic) is not None


def retention_of(topic: Topic) -> Retention:
    """How much a topic keeps."""
    ms, size = retention_ms(topic), retention_bytes(topic)
    return Retention(-1 if ms is None else ms, -1 if size is None else size)


def retention_notes(flow: Flow, pair: Pair, steps: Iterable[object]) -> Iterator[Note]:
    """The note on a remote topic that exists (``shorter_retention``).

    Args:
        flow: the flow.
        pair: the topic.
        steps: what is about to change about it; where that is its retention, what comes of it shows only then.
    """
    changed = {step.name for step in steps if isinstance(step, ConfigChange)}
    if pair.source and pair.remote and not changed & _CONFIGS:
        chosen = flow.configs_of(pair.topic)
        if note := shorter_retention(pair.topic, retention_of(pair.source), pair.remote, chosen):
            yield note


def shorter_retention(
    topic: str, source: Retention, remote: Topic, chosen: Collection[str]
) -> Note | None:
    """The note on a remote topic that deletes what the source still keeps, None for one that does not.

    A copy is proved when it is read back; nothing fails when it is deleted later.

    Args:
        topic: the source's topic.
        source: how much of it the source keeps.
        remote: the remote topic, with its effective configs.
        chosen: the configs that the flow's ``topics.configs`` sets, which are meant.
    """
    ours = retention_of(remote)
    by_time = "retention.ms" not in chosen and _is_less(ours.ms, source.ms)
    by_size = "retention.bytes" not in chosen and _is_less(ours.bytes, source.bytes)
    limits = []
    if by_time:
        limits.append(f"{_time(ours.ms)} (retention.ms={ours.ms}), the source {_time(source.ms)}")
    if by_size:
        limits.append(f"{_size(ours.bytes)} (retention.bytes), the source {_size(source.bytes)}")
    if not limits:
        return None
    return Note(
        topic,
        f"{remote.name} deletes records that the source keeps, copied and proved or not: it keeps "
        f"{' and '.join(limits)}. Set {' and '.join(_names(by_time, by_size))} in topics.configs, "
        "or name its present value there if that is meant.",
    )


def _names(by_time: bool, by_size: bool) -> list[str]:
    return ["retention.ms"] * by_time + ["retention.bytes"] * by_size


def _is_less(ours: int, source: int) -> bool:
    return ours >= 0 and (source < 0 or ours < source)


def _time(ms: int) -> str:
    return "all" if ms < 0 else duration_text(ms / 1000)


def _size(count: int) -> str:
    return "all" if count < 0 else f"{count:,} bytes of each partition"


def _limit(topic: Topic, config: str) -> int | None:
    if "delete" not in topic.configs.get("cleanup.policy", "delete"):
        return None
    kept = config_number(topic.configs, config, -1)
    return kept if kept >= 0 else None
