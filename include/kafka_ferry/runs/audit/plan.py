"""What an audit is to compare: pairs of partitions with the ends of their logs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import ClassVar

from kafka_ferry.as_json import AsJson
from kafka_ferry.audit.result import SkippedTopic
from kafka_ferry.audit.terms import AuditPair, AuditTerms, LogExtent
from kafka_ferry.clock import now_ms, run_id_now
from kafka_ferry.config import Cluster, Flow, IsolationLevelName
from kafka_ferry.control import ClusterControl
from kafka_ferry.errors import ClusterUnreachable, FerryError
from kafka_ferry.model import Topic, TopicPartition
from kafka_ferry.model.cluster_state import LogBounds
from kafka_ferry.runs.audit.request import AuditRequest
from kafka_ferry.runs.audit.topics import AuditedTopics
from kafka_ferry.runs.plan.first_starts import first_offsets

_NO_WINDOW = (
    "a compacted topic is compared by the latest record of each key, which may lie outside the window. "
    "Audit it without --from and --to."
)
_NO_TIMES = (
    "the target's topic has message.timestamp.type=LogAppendTime, so that its records have lost the times by "
    "which the window is chosen. Audit it without --from and --to."
)
Extents = Mapping[TopicPartition, LogExtent]


@dataclass(frozen=True)
class AuditPlan(AsJson):
    """What an audit compares.

    Attributes:
        audit: its id.
        key: of what was asked for: an interrupted audit is continued by one with the same key.
        source_cluster_id: the source's cluster id.
        target_cluster_id: the target's.
        began_at: when the ends of the logs were read, in milliseconds since 1970.
        terms: what is compared, and how.
        pairs: the pairs of partitions.
        skipped: topics that cannot be compared.
    """

    WHAT: ClassVar = "an audit's plan"

    audit: str
    key: str
    source_cluster_id: str
    target_cluster_id: str
    began_at: int
    terms: AuditTerms
    pairs: tuple[AuditPair, ...]
    skipped: tuple[SkippedTopic, ...]


def planned_audit(
    flow: Flow,
    source: ClusterControl,
    target: ClusterControl,
    topics: AuditedTopics,
    request: AuditRequest,
) -> AuditPlan:
    """Read the ends of both clusters' logs.

    The target's ends are read first, so that the target has no record whose original lies after the source's
    end.

    Args:
        flow: the flow.
        source: the source.
        target: the target.
        topics: the topics.
        request: what is asked for.

    Raises:
        FerryError: a cluster cannot be read.
    """
    terms, lag_ms = request.terms, request.lag_ms
    ids = source.cluster_id(), target.cluster_id()
    chosen, skipped = _fit(topics, terms)
    theirs, unread = _extents(flow.target, target, [pair[1] for pair in chosen], terms)
    began_at = now_ms()
    here, unread_here = _extents(flow.source, source, [pair[0] for pair in chosen], terms)
    pairs: list[AuditPair] = []
    for ours, remote in chosen:
        if why := unread_here.get(ours.name, unread.get(remote.name, "")):
            skipped.append(SkippedTopic(ours.name, remote.name, why))
        else:
            pairs += _pairs(ours, remote, here, theirs)
    # What is stamped far ahead would be recent in every audit.
    recent = (began_at - lag_ms, began_at + lag_ms) if lag_ms else None
    return AuditPlan(
        audit=run_id_now("audit"),
        key=_key([*ids, request.run], topics, terms, lag_ms),
        source_cluster_id=ids[0],
        target_cluster_id=ids[1],
        began_at=began_at,
        terms=replace(terms, recent=recent),
        pairs=tuple(pairs),
        skipped=tuple(skipped),
    )


def _key(of: list[str], topics: AuditedTopics, terms: AuditTerms, lag_ms: int) -> str:
    """Stands for what is audited and how: clusters, topics by their ids, terms."""
    key_parts = {
        "of": of,
        "topics": [[*map(_identity, pair)] for pair in topics.pairs],
        "terms": asdict(replace(terms, recent=None, bytes_per_s=0)),
        "lag": lag_ms,
    }
    return hashlib.sha256(json.dumps(key_parts, sort_keys=True).encode()).hexdigest()[:16]


def _identity(topic: Topic) -> list[str | int]:
    return [topic.name, topic.topic_id, topic.partitions]


def _fit(
    topics: AuditedTopics, terms: AuditTerms
) -> tuple[list[tuple[Topic, Topic]], list[SkippedTopic]]:
    """The pairs of topics that can be compared in this way, and the others."""
    chosen, skipped = [], list(topics.skipped)
    for ours, remote in topics.pairs:
        if why := _unfit(ours, remote, terms):
            skipped.append(SkippedTopic(ours.name, remote.name, why))
        else:
            chosen.append((ours, remote))
    return chosen, skipped


def _unfit(ours: Topic, remote: Topic, terms: AuditTerms) -> str:
    """Why two topics cannot be compared in this way, "" if they can."""
    if terms.since_ms is None and terms.until_ms is None:
        return ""
    if ours.is_compacted or remote.is_compacted:
        return _NO_WINDOW
    return _NO_TIMES if remote.stamps_append_time else ""


def _pairs(
    ours: Topic, remote: Topic, source_extents: Extents, target_extents: Extents
) -> list[AuditPair]:
    gone = LogExtent(gone=True)
    is_compacted = ours.is_compacted or remote.is_compacted
    return [
        AuditPair(
            topic=ours.name,
            partition=number,
            remote_topic=remote.name,
            source=source_extents.get(TopicPartition(ours.name, number), gone),
            # Of the source, an application may delete what it has read, as Kafka Streams does, whatever retention says.
            target=replace(
                target_extents.get(TopicPartition(remote.name, number), gone),
                kept=remote.is_kept_forever,
            ),
            by="keys" if is_compacted else "order",
            times=not remote.stamps_append_time,
            source_compacts=ours.is_compacted,
        )
        for number in range(max(ours.partitions, remote.partitions))
    ]


def _extents(
    cluster: Cluster, control: ClusterControl, topics: list[Topic], terms: AuditTerms
) -> tuple[dict[TopicPartition, LogExtent], dict[str, str]]:
    """What is compared of each log; and by topic, why its logs cannot be read."""
    bounds, unread = _bounds(control, topics, terms.isolation)
    for topic in topics:
        missing = [
            n for n in range(topic.partitions) if TopicPartition(topic.name, n) not in bounds
        ]
        if missing and topic.name not in unread:
            listed = ", ".join(map(str, missing[:5]))
            unread[topic.name] = f"{control.alias} has no leader for its partitions {listed}."
    extents = {tp: LogExtent(log.start, log.start, log.end) for tp, log in bounds.items()}
    if terms.since_ms is None:
        return extents, unread
    offsets, failed = first_offsets(cluster, dict.fromkeys(extents, terms.since_ms))
    unread |= {tp.topic: str(error) for tp, error in failed.items()}
    return {tp: _window(extent, offsets.get(tp)) for tp, extent in extents.items()}, unread


def _window(extent: LogExtent, offset: int | None) -> LogExtent:
    since = extent.end if offset is None else min(max(offset, extent.log_start), extent.end)
    return replace(extent, since=since)


def _bounds(
    control: ClusterControl, topics: list[Topic], isolation: IsolationLevelName
) -> tuple[dict[TopicPartition, LogBounds], dict[str, str]]:
    try:
        return control.log_bounds(topics, isolation), {}
    except ClusterUnreachable:
        raise
    except FerryError:
        # One that may not be described stops the others.
        pass
    bounds: dict[TopicPartition, LogBounds] = {}
    unread: dict[str, str] = {}
    for topic in topics:
        try:
            bounds |= control.log_bounds([topic], isolation)
        except ClusterUnreachable:
            raise
        except FerryError as error:
            unread[topic.name] = str(error)
    return bounds, unread
