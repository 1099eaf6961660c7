"""Reads ranges with the ids that their schemas have on the target.

An id that the run's map lacks is asked for once by each task: a schema may have been registered after the run's
schemas were mirrored.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from kafka_ferry.batches import MalformedBatch, TopicLimits
from kafka_ferry.config.options.transform import ErrorPolicy
from kafka_ferry.copy.outcome import Failure
from kafka_ferry.copy.source.cursor import Read
from kafka_ferry.copy.source.reader import Reader
from kafka_ferry.copy.source.record_errors import RecordErrors
from kafka_ferry.model.ranges import Range, TopicPartition
from kafka_ferry.schemas.translate import IdBytes, with_target_ids

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.schemas.mirror import SchemaMirror

log = logging.getLogger(__name__)

_WHAT: Final = "the ids of schemas on the target cannot be given"
_ADVICE: Final = "Register the schema on the source again, or say with on.unknown.schema what becomes of such records."


class SchemaIdReader:
    """A ``Reader`` of the records that another one reads, with other ids of schemas.

    Args:
        reader: reads the records; closed with this one.
        ids: what ids become.
        limits_by_topic: what remote topics take.
        on_unknown: what becomes of a record with an unknown id.
    """

    def __init__(
        self,
        reader: Reader,
        ids: IdBytes,
        limits_by_topic: Mapping[str, TopicLimits],
        on_unknown: ErrorPolicy,
    ) -> None:
        self._reader, self._ids = reader, ids
        self._limits_by_topic, self._on_unknown = limits_by_topic, on_unknown
        self._failed: set[TopicPartition] = set()

    @property
    def round_trip_s(self) -> float:
        """See ``Reader``."""
        return self._reader.round_trip_s

    def next(self, timeout_s: float) -> Sequence[Read] | None:
        """See ``Reader``; ``ClusterUnreachable`` also if a registry that must be asked does not answer."""
        reads = self._reader.next(timeout_s)
        return None if reads is None else [self._translated(read) for read in reads]

    def drop(self, range_: Range) -> None:
        """See ``Reader``."""
        self._failed.add(range_.source)
        self._reader.drop(range_)

    def close(self) -> None:
        """See ``Reader``."""
        self._reader.close()

    def _translated(self, read: Read) -> Read:
        range_, failure = read.range, read.failure
        if not range_.id_parts:
            return read
        errors = RecordErrors(range_, self._on_unknown, _WHAT, _ADVICE)
        topic_limits = self._limits_by_topic.get(range_.remote_topic, TopicLimits())
        is_dropped = range_.source in self._failed
        for converted in read.converted_batches:
            if is_dropped or errors.failure:
                break
            try:
                became = with_target_ids(converted, range_.id_parts, self._ids, topic_limits)
            except MalformedBatch as error:
                message = f"the source sent {error}."
                failure = Failure(range_, converted.start, message, transient=False)
                is_dropped = True
                break
            said = {
                offset: f"the schema {found} is not known"
                for offset, found in became.unknown.items()
                if offset not in read.set_aside
            }
            errors.add(became.converted, said)
        if is_dropped or errors.failure:
            self.drop(range_)
        found = errors.read(failure)
        return Read(
            range_, found.converted_batches, found.failure, {**read.set_aside, **found.set_aside}
        )


class MissingSchemas:
    """Mirrors schemas that the run's map lacks; asks no registry before there is one.

    Args:
        flow: the flow, with the secrets that its registries need.
        remote_topics: the flow's topics of the task, each with its remote topic.
    """

    def __init__(self, flow: Flow, remote_topics: Mapping[str, str]) -> None:
        self._flow, self._remote_topics = flow, remote_topics
        self._clients = ExitStack()
        self._mirror: SchemaMirror | None = None

    def resolve(self, found: int | str) -> int | str | None:
        """The target's id of a schema; None if it cannot be mirrored, or only its GUID is known.

        Raises:
            ClusterUnreachable, AccessDenied: as ``SchemaRegistry``.
        """
        if isinstance(found, str):
            return None
        mirror = self._mirror or self._connected()
        for at in mirror.source.places(found):
            if there := mirror.at_target(at):
                log.info("The schema %d of the source is %d on the target", found, there.target_id)
                return there.target_id
        for problem in mirror.problems:
            log.warning("%s", problem)
        return None

    def close(self) -> None:
        """Close the connections, if there are any."""
        self._clients.close()

    def _connected(self) -> SchemaMirror:
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
