"""Retires remote topics whose source topics are gone. Pure; a deletion cannot be undone.

A remote topic is deleted only if all of this holds, and otherwise stays. A note says why, or a refusal where the
source's topic may be there:

(a) the source says that it does not have the topic: a missing permission to see it is no proof;
(b) the topic has been missing for ``retire.after.ms``, in every run in between;
(c) this flow has created the remote topic, by its mark on that topic's id;
(d) the remote topic is a copy of the cluster that the source's alias stands for now (``plan.removals``);
(e) no other flow copies to it;
(f) it holds no record that this flow has not copied: of an application's own, or of another flow whose positions
    the target has forgotten. Where its log has lost copied records, others may lie in their place.

A source topic that returns before that is copied again, and the time starts over if it disappears again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from kafka_ferry.model.changes import Retirement
from kafka_ferry.model.remarks import Note, Refusal
from kafka_ferry.model.topic_pair import Pair
from kafka_ferry.plan.topics.refusals import judge_topic
from kafka_ferry.plan.topics.topic_filter import select_topics

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.model.cluster_state import ClusterState, Mark

NOBODY_KNOWS: Final = "?"
"""In ``OtherFlows.shared``: which other flows copy to a topic is unknown."""

# What keeps a remote topic, and its message; the first that holds is reported.
_KEEPS: Final[tuple[tuple[Callable[[Pair, ClusterState], bool], str], ...]] = (
    (
        lambda pair, state: pair.topic not in state.source.gone,
        "the source does not let the flow see it, which is no proof that it is gone.",
    ),
    (
        lambda pair, _: pair.mark is None or not pair.mark.created,
        "this flow has not created it.",
    ),
    (
        lambda pair, _: pair.remote is not None and not pair.remote.topic_id,
        "brokers before 2.8 give topics no ids, and without an id it is not safe to delete one.",
    ),
    (
        lambda pair, state: state.other_flows.shared.get(pair.remote_topic) == NOBODY_KNOWS,
        "whether other flows copy to it is unknown.",
    ),
    (
        lambda pair, state: pair.remote_topic in state.other_flows.shared,
        "{other} copies to it too.",
    ),
    (lambda pair, state: pair.remote_topic in state.target.of_others, "{of_others}"),
)


def missing_topics(
    flow: Flow, names: Collection[str], copied: Mapping[str, str], marks: Mapping[str, Mark]
) -> dict[str, str]:
    """The topics that were mirrored and are not on the source, each with its remote topic.

    Args:
        flow: the flow; topics that it no longer selects are not missing.
        names: all topics of the source.
        copied: the topics that the ledger has records of, with their remote topics.
        marks: the marks on remote topics, which even empty topics have.
    """
    known = {mark.topic: mark.remote_topic for mark in marks.values()} | dict(copied)
    missing, _ = select_topics(flow, known.keys() - set(names))
    return {name: known[name] for name in missing}


def retire(flow: Flow, state: ClusterState, at: int) -> Iterator[Retirement | Note | Refusal]:
    """What becomes of the remote topics whose source topics are gone.

    Args:
        flow: the flow, which says ``on.source.topic.deleted: retire``.
        state: the state of both clusters.
        at: now, in milliseconds since 1970.
    """
    missing = missing_topics(flow, state.source.names, state.ledger.copied, state.ledger.marks)
    for topic, remote_topic in missing.items():
        pair = Pair.of(topic, remote_topic, state)
        if pair.refused:
            text = f"the topic is no longer on the source, and its copy {remote_topic} stays."
            yield Note(topic, f"{text} {pair.refused}")
        if pair.invisible:
            # It may have records that are not copied.
            yield from judge_topic(flow, pair)
            continue
        if pair.remote is None:
            continue
        why = next((words for keeps, words in _KEEPS if keeps(pair, state)), "")
        if why:
            other = state.other_flows.shared.get(remote_topic, "")
            of_others = state.target.of_others.get(remote_topic, "")
            text = f"the topic is no longer on the source. Its copy {remote_topic} stays: "
            yield Note(topic, text + why.format(other=other, of_others=of_others))
            continue
        since = state.ledger.applied.missed.get(_id(pair), at)
        due = since + flow.retire_after_ms
        yield Retirement(topic, remote_topic, _id(pair), since, due)


def _id(pair: Pair) -> str:
    return pair.remote.topic_id if pair.remote else ""
