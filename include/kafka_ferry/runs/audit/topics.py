"""Which topics an audit compares with which."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from kafka_ferry.audit.result import SkippedTopic
from kafka_ferry.config import Flow
from kafka_ferry.config.types.problems import did_you_mean_each
from kafka_ferry.control import ClusterControl
from kafka_ferry.errors import InputError
from kafka_ferry.model import RunOptions, Topic
from kafka_ferry.model.remarks import Skipped
from kafka_ferry.model.rights import Right, how_to_grant
from kafka_ferry.plan import policy_of, select, select_topics
from kafka_ferry.plan.topics.missing import named_topics
from kafka_ferry.plan.topics.subset import unmatched_names
from kafka_ferry.plan.topics.topic_filter import Selection
from kafka_ferry.runs.audit.request import AuditRequest
from kafka_ferry.runs.provenance.heartbeats import heartbeat_topics
from kafka_ferry.runs.provenance.opposite_flow import returned_topics
from kafka_ferry.runs.provenance.upstream_flows import find_upstream


@dataclass(frozen=True)
class AuditedTopics:
    """The topics of an audit.

    Attributes:
        pairs: topics that exist on both clusters, source and target.
        skipped: topics that cannot be compared, and why.
        without_counterpart: topics of the source that the policy pairs with none of the target's.
        left_out: topics that the flow does not copy, since their records came from the target or, where the audit
            names them, for any other reason, and why.
    """

    pairs: list[tuple[Topic, Topic]]
    skipped: list[SkippedTopic] = field(default_factory=list)
    without_counterpart: list[str] = field(default_factory=list)
    left_out: list[Skipped] = field(default_factory=list)


def audited_topics(
    flow: Flow,
    source: ClusterControl,
    target: ClusterControl,
    request: AuditRequest,
) -> AuditedTopics:
    """Which topics are compared, and with which.

    Args:
        flow: whose filter chooses the source's topics, and whose policy names them on the target.
        source: the source.
        target: the target.
        request: what is asked for; without its ``topics``, those in its ``names`` alone are compared.

    Raises:
        ConfigError: a pattern is not valid.
        FerryError: no topic is left, or a cluster cannot be read.
    """
    patterns, mapped = request.topics, request.names
    by_policy = None if mapped and not patterns else _by_policy(flow, source, target, patterns)
    chosen = {**(by_policy.names if by_policy else {}), **mapped}
    names = source.topic_names()
    if not chosen:
        raise _none_matches(flow, patterns, by_policy, names)
    ours, refused = source.readable_topics(chosen)
    theirs, refused_there = target.readable_topics(set(chosen.values()))
    audited = AuditedTopics([])
    if by_policy:
        audited.left_out.extend(entry for entry in by_policy.skipped if entry.topic not in mapped)
        audited.skipped.extend(
            SkippedTopic(entry.topic, "", entry.reason)
            for entry in by_policy.refused
            if entry.topic not in mapped
        )
        audited.skipped.extend(
            entry
            for entry in _lacking(flow, source, target, patterns, names)
            if entry.topic not in mapped
        )
    for name, remote in sorted(chosen.items()):
        if error := refused.get(name) or refused_there.get(remote):
            audited.skipped.append(SkippedTopic(name, remote, str(error)))
        elif name in ours and remote in theirs:
            audited.pairs.append((ours[name], theirs[remote]))
        elif request.paired_only and name not in mapped:
            audited.without_counterpart.append(name)
        else:
            alias, lacking = (target.alias, remote) if name in ours else (source.alias, name)
            reason = f"{alias} has no topic {lacking}."
            if name in mapped and name not in ours and remote in names:
                reason += f" --map takes the source's topic first: --map {remote}={name}."
            audited.skipped.append(SkippedTopic(name, remote, reason))
    return audited


def _lacking(
    flow: Flow,
    source: ClusterControl,
    target: ClusterControl,
    patterns: Collection[str],
    names: Collection[str],
) -> Iterator[SkippedTopic]:
    """The topics that are named or have a copy, and of which the source shows none that the flow copies.

    A broker silently omits from its list what the principal may not see. A copy whose topic is gone from the source
    is compared with nothing, and is not among them.

    Args:
        flow: the flow.
        source: its source.
        target: its target, whose topics tell what was copied.
        patterns: what the audit is limited to; all topics of the flow where empty.
        names: the topics that the source lists.
    """
    wanted, policy = RunOptions(topics=tuple(patterns)).topic_filter, policy_of(flow)
    named = set(unmatched_names(patterns or named_topics(flow), names))
    upstream = map(policy.upstream_topic, target.topic_names())
    copied, _ = select_topics(flow, {*filter(None, upstream)}.difference(names))
    lacking = named.union(name for name in copied if not wanted or wanted.matches(name))
    unknown = source.unknown(lacking) if lacking else set()
    for name in sorted(lacking):
        if name not in unknown:
            grant = how_to_grant(Right.topic("READ", name))
            reason = f"{source.alias} does not let the flow see whether it has this topic. {grant}"
        elif name in named:
            reason = f"{source.alias} has no topic {name}."
        else:
            continue
        yield SkippedTopic(name, policy.remote_topic(name), reason)


def _none_matches(
    flow: Flow,
    patterns: Collection[str],
    by_policy: Selection | None,
    names: Collection[str],
) -> InputError:
    listed = ", ".join(patterns) or "the topics of the flow"
    left_out = (
        [f"{skipped.topic}: {skipped.reason}" for skipped in by_policy.skipped] if by_policy else []
    )
    near = did_you_mean_each(patterns, names)
    return InputError(
        f"{flow.source.alias} has no topic that matches {listed}.",
        advice=near
        or "; ".join(
            ["Name topics by their names on the source, by patterns, or by --map", *left_out]
        )
        + ".",
    )


def _by_policy(
    flow: Flow, source: ClusterControl, target: ClusterControl, patterns: Collection[str]
) -> Selection:
    """The topics that a plan of the flow would copy, and those that it leaves out by cluster id."""
    wanted, names = RunOptions(topics=tuple(patterns)).topic_filter, source.topic_names()
    selected, ignored = select_topics(flow, names)
    topics, _ = source.readable_topics(selected)
    upstream, target_id = find_upstream(flow, source, names, topics), target.cluster_id()
    returned = returned_topics(flow, upstream, target_id)
    beats = heartbeat_topics(flow, topics, wanted=(*flow.topics, *patterns))
    selection = select(flow, selected, upstream.origins, target_id, returned, beats)

    def is_wanted(topic: str) -> bool:
        return wanted is None or wanted.matches(topic)

    # Who names a topic hears of it, also where the flow does not copy it.
    ignored = [it for it in ignored if it.topic in patterns and it.topic not in selection.names]
    return Selection(
        {topic: remote for topic, remote in selection.names.items() if is_wanted(topic)},
        [*(entry for entry in selection.skipped if is_wanted(entry.topic)), *ignored],
        [entry for entry in selection.refused if is_wanted(entry.topic)],
    )
