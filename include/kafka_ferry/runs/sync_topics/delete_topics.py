"""Gives remote topics up and deletes them, so that copying starts over.

The order of events, with the state after a crash:

1. the ledger says that the remote topic is given up: plans leave it alone until the deletion is repeated;
2. the remote topic is deleted: the next run that needs it recreates it;
3. its positions are gone: brokers delete them when they learn of the topic's deletion.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from kafka_ferry.batched import batched
from kafka_ferry.clock import now_ms
from kafka_ferry.control import ClusterControl, read_positions
from kafka_ferry.errors import FerryError
from kafka_ferry.ledger import ReleasedTopic, ReleaseEntry, append_entry
from kafka_ferry.model import position_group
from kafka_ferry.retry import retry
from kafka_ferry.runs.state.run_context import RunContext

# Keeps a ledger record far below max.message.bytes.
_TOPICS_AT_ONCE: Final = 1_000


class _StillThere(FerryError):
    """Positions in a remote topic that was deleted; brokers delete them a moment later."""

    transient = True


def release(run: RunContext, topics: Sequence[ReleasedTopic]) -> None:
    """Record in the ledger, whose topic exists, that a run gives remote topics up."""
    flow = run.flow
    for some in batched(topics, _TOPICS_AT_ONCE):
        entry = ReleaseEntry(flow=flow.name, run=run.run_id, at=now_ms(), remote_topics=some)
        append_entry(flow, entry)
    if topics:
        run.project_ledger()


def delete_released(
    run: RunContext, target: ClusterControl, topic_ids: Mapping[str, str]
) -> dict[str, FerryError]:
    """Delete remote topics that were given up, each only if it still has the given id.

    Args:
        run: the run that gave them up.
        target: the target.
        topic_ids: by name; "" where the topic is gone, and only its positions may be left.

    Returns:
        An error for each topic that could not be deleted; nothing is left of the others.

    Raises:
        FerryError: if a deleted topic's positions stay for a minute.
    """
    errors = target.delete_topics({name: id_ for name, id_ in topic_ids.items() if id_})
    retry(lambda: _see_positions_gone(run, topic_ids.keys() - errors.keys()))
    return errors


def _see_positions_gone(run: RunContext, remote_topics: Collection[str]) -> None:
    """Positions in deleted topics would block copying to the new ones."""
    flow, void = run.flow, run.ledger.released_topics() | {""}
    positions = read_positions(flow.target, flow.name)
    remaining = {tp.topic for tp, position in positions.items() if position.remote_topic_id in void}
    left = sorted(remaining & set(remote_topics))
    if left:
        raise _StillThere(
            f"{left[0]} was deleted, and its positions are still there.",
            advice="Delete them with kafka-consumer-groups.sh --delete-offsets --group "
            f"'{position_group(flow.name)}' --topic {left[0]}",
        )
