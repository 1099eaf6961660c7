"""Gives records the ids that their schemas have on the target.

An id that the run's map lacks is asked for once by each task: a schema may have been registered after the run's
schemas were mirrored, or under a subject that the flow does not mirror. The next run's map has it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from contextlib import ExitStack
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Final

from kafka_ferry.batches import ConvertedBatch, TopicLimits
from kafka_ferry.copy.source.changed import BatchChange
from kafka_ferry.model.ranges import IdPart, Range, TopicPartition
from kafka_ferry.schemas.translate import IdBytes, with_target_ids
from kafka_ferry.transform import TransformedBatch

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.schemas.ids import MirroredSchema
    from kafka_ferry.schemas.mirror import SchemaMirror

log = logging.getLogger(__name__)

WITHOUT_ID: Final = "the ids of schemas on the target cannot be given"
HOW_TO_REGISTER: Final = (
    "Register the schema on the source again, or say with on.unknown.schema what becomes of such "
    "records."
)


def id_changes(ranges: Iterable[Range], ids: IdBytes) -> dict[str, BatchChange]:
    """What becomes of the batches of the topics of ``ranges`` whose records get other ids, by topic.

    Args:
        ranges: what is copied.
        ids: what ids become; ``ClusterUnreachable`` if a registry that must be asked does not answer.
    """
    parts = {range_.topic: range_.id_parts for range_ in ranges}
    return {
        # What is known is the same everywhere; of unknown ids, each topic has its own number.
        topic: partial(_change_ids, of_topic, copy(ids))
        for topic, of_topic in parts.items()
        if of_topic
    }


def _change_ids(
    parts: Collection[IdPart],
    ids: IdBytes,
    converted: ConvertedBatch,
    _: TopicPartition,
    topic_limits: TopicLimits,
) -> TransformedBatch:
    became = with_target_ids(converted, parts, ids, topic_limits)
    unknown = {
        at: f"the schema {schema_id} is not known" for at, schema_id in became.unknown.items()
    }
    return TransformedBatch(became.converted, unknown)


class MissingSchemas:
    """Mirrors schemas that the run's map lacks; asks no registry before there is one.

    Args:
        flow: the flow, with the secrets that its registries need.
        remote_topics: the flow's topics of the task, each with its remote topic.

    Attributes:
        mirrored: those that were mirrored.
    """

    def __init__(self, flow: Flow, remote_topics: Mapping[str, str]) -> None:
        self._flow, self._remote_topics = flow, remote_topics
        self._clients = ExitStack()
        self._mirror: SchemaMirror | None = None
        self.mirrored: list[MirroredSchema] = []

    def resolve(self, schema_id: int | str) -> int | str | None:
        """The target's id of a schema; None if it cannot be mirrored, or only its GUID is known.

        Raises:
            ClusterUnreachable, AccessDenied: as ``SchemaRegistry``.
        """
        if isinstance(schema_id, str):
            return None
        mirror = self._mirror or self._connect()
        for at in mirror.source.places(schema_id):
            counterpart = mirror.at_target(at)
            if counterpart and counterpart.source_id != schema_id:
                # What the task met there was deleted since, and its version is another schema's now.
                mirror = self._mirror = mirror.anew()
                counterpart = mirror.at_target(at)
            if counterpart and counterpart.source_id == schema_id:
                log.info(
                    "The schema %d of the source is %d on the target",
                    schema_id,
                    counterpart.target_id,
                )
                self.mirrored.append(counterpart)
                return counterpart.target_id
        for problem in mirror.problems:
            log.warning("%s", problem)
        mirror.problems.clear()
        return None

    def close(self) -> None:
        """Close the connections, if there are any."""
        self._clients.close()

    def _connect(self) -> SchemaMirror:
        from kafka_ferry.schemas.mirror import SchemaMirror
        from kafka_ferry.schemas.registry import open_registry
        from kafka_ferry.schemas.subjects import SubjectNames

        source, target = (
            self._clients.enter_context(open_registry(cluster))
            for cluster in (self._flow.source, self._flow.target)
        )
        names = SubjectNames(self._remote_topics)
        self._mirror = SchemaMirror(source, target, names, changes=True)
        return self._mirror
