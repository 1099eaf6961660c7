"""What the step ``mirror`` has read back of its own copies, while its Spark was there, for the step ``verify``.

``verify`` takes a partition's recount only if the ledger claims of that partition exactly what was
claimed when it was read, and takes it once: a step that is repeated reads all of it again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from kafka_ferry.as_json import AsJson
from kafka_ferry.clock import now_ms
from kafka_ferry.errors import FerryError
from kafka_ferry.model import TopicPartition
from kafka_ferry.state import StateFolder
from kafka_ferry.verify import PartitionRecount
from kafka_ferry.verify.claim import RangeClaim

log = logging.getLogger(__name__)

Claims = Mapping[TopicPartition, Sequence[RangeClaim]]
"""By *target* partition, what the ledger claims of each of its ranges, in the ledger's order."""

# Between two steps of a run lie seconds; after a pause, whatever may have happened to the target.
_MAX_AGE_MS: Final = 15 * 60 * 1000
_PREFIX: Final = "recounts-"


@dataclass(frozen=True)
class _Recounted:
    partition: TopicPartition
    claims: tuple[RangeClaim, ...]
    found: PartitionRecount


@dataclass(frozen=True)
class _Recounts(AsJson):
    WHAT: ClassVar = "the recounts of a step"

    at: int
    partitions: tuple[_Recounted, ...]


class StoredRecounts:
    """The recounts in the folder of a run.

    Args:
        folder: the folder.
    """

    def __init__(self, folder: StateFolder) -> None:
        self._folder = folder

    def save(
        self, part: str, claims: Claims, found: Mapping[TopicPartition, PartitionRecount]
    ) -> None:
        """Store what a step, or a shard of it, has found of what the ledger claims; replaces its earlier ones.

        Args:
            part: the step, or its shard.
            claims: what was read back.
            found: what was found of it.
        """
        partitions = tuple(
            _Recounted(tp, tuple(claims[tp]), of_partition) for tp, of_partition in found.items()
        )
        self._folder.write(_file(part), _Recounts(now_ms(), partitions).to_json())

    def of(self, claims: Claims) -> dict[TopicPartition, PartitionRecount]:
        """What was found of these claims, as far as just these were read back a short time ago."""
        fresh = now_ms() - _MAX_AGE_MS
        return {
            it.partition: it.found
            for recounts in self._readable()
            if recounts.at >= fresh
            for it in recounts.partitions
            if it.claims == tuple(claims.get(it.partition, ()))
        }

    def forget(self, parts: Iterable[str] | None = None) -> None:
        """Delete what some steps or shards have stored; None for all."""
        self._folder.delete(self._names() if parts is None else map(_file, parts))

    def _readable(self) -> Iterator[_Recounts]:
        """What the files hold; of one that no release has written, all is to be read from the target."""
        for name in self._names():
            try:
                yield _Recounts.from_json(self._folder.read(name) or b"")
            except FerryError as error:
                log.warning("%s is left out: %s", name, error)

    def _names(self) -> list[str]:
        return [name for name in self._folder.names(".json") if name.startswith(_PREFIX)]


def _file(part: str) -> str:
    return f"{_PREFIX}{part}.json"
