"""Marks of ownership: which remote topics are to get one, and which have a different one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from kafka_ferry.errors import FerryError
from kafka_ferry.model.cluster_state import Mark
from kafka_ferry.model.plan import OffsetsChoice


def new_marks(
    choices: Iterable[OffsetsChoice],
    remote_ids: Mapping[str, str],
    marks: Mapping[str, Mark],
    created: Collection[str],
    empty: Collection[str] = (),
) -> tuple[Mark, ...]:
    """The marks that the remote topics of a plan lack.

    Args:
        choices: how the offsets of each topic are kept.
        remote_ids: the ids of the remote topics that exist.
        marks: the existing marks, by remote topic.
        created: the remote topics that the flow creates.
        empty: those of the others that hold no record yet.
    """
    lacking = []
    for choice in choices:
        remote_id = remote_ids.get(choice.remote_topic)
        mark = _valid(choice, remote_ids, marks)
        if remote_id is None or (mark and mark.preserved != choice.preserved):
            continue
        if mark is None or mark.topic_id != choice.topic_id:
            lacking.append(
                Mark(
                    topic=choice.topic,
                    topic_id=choice.topic_id,
                    remote_topic=choice.remote_topic,
                    remote_topic_id=remote_id,
                    preserved=choice.preserved,
                    created=mark.created if mark else choice.remote_topic in created,
                    given_back=mark.given_back if mark else False,
                    empty=mark.empty if mark else choice.remote_topic in empty,
                )
            )
    return tuple(lacking)


def find_marked(
    remote_ids: Mapping[str, str], other_owners: Mapping[str, str]
) -> dict[str, FerryError]:
    """An error for each remote topic that another flow has marked before, since the plan was made."""
    return {
        remote_topic: FerryError(
            f"the flow {other_owners[remote_id]} has marked it first since the run was planned, and copies to it.",
            advice="Let one of the two flows leave the topic out, or name its topics differently. "
            "To let both write there, set on.foreign.records=adopt.",
        )
        for remote_topic, remote_id in remote_ids.items()
        if remote_id in other_owners
    }


def unlike_their_marks(
    choices: Iterable[OffsetsChoice], remote_ids: Mapping[str, str], marks: Mapping[str, Mark]
) -> dict[str, FerryError]:
    """An error for each remote topic that another run has marked differently since the plan was made."""
    errors = {}
    for choice in choices:
        mark = _valid(choice, remote_ids, marks)
        if mark and mark.preserved != choice.preserved:
            kept = "preserved" if mark.preserved else "translated"
            errors[choice.remote_topic] = FerryError(
                f"it was marked as {kept} since the run was planned.", advice="Run it again."
            )
    return errors


def _valid(
    choice: OffsetsChoice, remote_ids: Mapping[str, str], marks: Mapping[str, Mark]
) -> Mark | None:
    mark = marks.get(choice.remote_topic)
    remote_id = remote_ids.get(choice.remote_topic)
    return mark if mark and mark.remote_topic_id == remote_id else None
