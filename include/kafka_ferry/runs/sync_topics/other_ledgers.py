"""Remote topics that a flow with another ledger has marked first.

Flows of one source share a ledger, whose order says which of two has marked a topic first, and a topic that is
created has one creator. A topic that exists and is empty has neither where the flows' sources have different aliases:
each flow would find it free, and copy to it. So such a flow looks into the other ledgers, before it marks the topic
and again afterwards: of two that begin at one moment, at least one sees the other's mark.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from kafka_ferry.errors import AccessDenied
from kafka_ferry.ledger import (
    LedgerError,
    OwnershipEntry,
    ReleaseEntry,
    is_ledger_topic,
    ledger_topic,
    read_ledger,
)

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.control import ClusterControl

log = logging.getLogger(__name__)


class MarkOf(NamedTuple):
    """Whose the first mark on a remote topic is.

    Attributes:
        at: when it was made, in milliseconds since 1970.
        flow: the flow's name.
    """

    at: int
    flow: str


NEVER: Final = MarkOf(2**63, "")
"""Of a flow that has not marked a topic yet: each other one is before it."""


def marks_in_other_ledgers(
    flow: Flow, target: ClusterControl, own: Mapping[str, MarkOf]
) -> dict[str, str]:
    """By remote topic's id, the flow that has marked it before this one, in a ledger of another source.

    A ledger that cannot be read says nothing, and a warning names it.

    Args:
        flow: the flow.
        target: its target.
        own: this flow's mark on each topic that is asked for, by the topic's id.

    Raises:
        FerryError: if the target does not answer.
    """
    if not own:
        return {}
    ledgers = filter(is_ledger_topic, target.topic_names())
    first: dict[str, MarkOf] = {}
    for name in sorted({*ledgers} - {ledger_topic(flow.source.alias)}):
        try:
            marks = _marks(flow, name, own.keys())
        except (AccessDenied, LedgerError) as error:
            log.warning("Whether flows of %s copy to the same topics is not known: %s", name, error)
            continue
        for topic_id, mark in marks.items():
            first[topic_id] = min(mark, first.get(topic_id, NEVER))
    return {topic_id: mark.flow for topic_id, mark in first.items() if mark < own[topic_id]}


def _marks(flow: Flow, ledger: str, topic_ids: Collection[str]) -> dict[str, MarkOf]:
    """The first mark on each topic in a ledger; a flow that gives a topic up or back leaves it to the next one."""
    marks: dict[str, dict[str, MarkOf]] = {topic_id: {} for topic_id in topic_ids}
    for _, entry in read_ledger(flow.target, ledger, 0):
        if isinstance(entry, OwnershipEntry):
            for mark in entry.marks:
                of_topic = marks.get(mark.remote_topic_id, {})
                if mark.given_back:
                    of_topic.pop(entry.flow, None)
                else:
                    of_topic.setdefault(entry.flow, MarkOf(entry.at, entry.flow))
        elif isinstance(entry, ReleaseEntry):
            for released in entry.remote_topics:
                marks.get(released.remote_topic_id, {}).pop(entry.flow, None)
    return {topic_id: min(by_flow.values()) for topic_id, by_flow in marks.items() if by_flow}
