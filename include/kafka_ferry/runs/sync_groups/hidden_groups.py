"""What a cluster does not show of groups and of their offsets, without saying that it is gone.

A broker silently omits from its lists the groups and the topics that the principal may not see, and from a group's
offsets those of such topics. It tells them from what is gone only where it is asked for them by name.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from kafka_ferry.control import ClusterControl
from kafka_ferry.control.groups import GroupControl
from kafka_ferry.errors import AccessDenied
from kafka_ferry.model.rights import Right, how_to_grant

if TYPE_CHECKING:
    from kafka_ferry.config import Cluster, Flow


def hidden_groups(flow: Flow, names: Collection[str]) -> dict[str, AccessDenied]:
    """The groups among ``names`` that the source does not let the flow see, each with its error."""
    with GroupControl(flow.source) as source:
        answers = source.describe(sorted(names))
    return {name: error for name, error in answers.items() if isinstance(error, AccessDenied)}


def hidden_topics(cluster: Cluster, topics: Collection[str]) -> dict[str, AccessDenied]:
    """The topics that the cluster may have and does not show, and so no group's offset in them; each with an error."""
    control = ClusterControl(cluster)
    hidden = control.hidden(topics, control.topic_names()) if topics else ()
    return {
        topic: AccessDenied(
            f"What groups have committed in {topic} is unknown: {cluster.alias} does not let the flow see whether "
            "it still has this topic.",
            advice=how_to_grant(Right.topic("READ", topic)),
        )
        for topic in sorted(hidden)
    }
