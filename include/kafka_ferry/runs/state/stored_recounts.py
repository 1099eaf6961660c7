"""What the step ``mirror`` has read back of its own copies while its Spark was running, for ``verify``.

``verify`` uses a partition's recount only if the ledger's claims for it are exactly those at the time
it was read, and uses it once: a step that is repeated reads all of it again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from kafka_ferry.as_json import AsJson
from kafka_ferry.clock import now_ms
from kafka_ferry.errors import FerryError
from kafka_ferry.ledger import RangeKey
from kafka_ferry.model import TopicPartition
from kafka_ferry.model.results.steps import StepPart
from kafka_ferry.state import StateFolder, digest_of
from kafka_ferry.verify import PartitionRecount
from kafka_ferry.verify.claim import RangeClaim
from kafka_ferry.verify.rows import RuleEvaluation

NOTHING_EVALUATED: Final[Mapping[RangeKey, RuleEvaluation]] = {}

log = logging.getLogger(__name__)

Claims = Mapping[TopicPartition, Sequence[RangeClaim]]
"""By *target* partition, what the ledger claims of each of its ranges, in the ledger's order."""

# The steps of a run are seconds apart; after a longer pause the target may have changed.
_MAX_AGE_MS: Final = 15 * 60 * 1000
_PREFIX: Final = "recounts-"


@dataclass(frozen=True)
class _Recounted:
    partition: TopicPartition
    claims: tuple[RangeClaim, ...]
    found: PartitionRecount


@dataclass(frozen=True)
class _Evaluated:
    range: RangeKey
    found: RuleEvaluation


@dataclass(frozen=True)
class _Recounts(AsJson):
    WHAT: ClassVar = "the recounts of a step"

    at: int
    partitions: tuple[_Recounted, ...]
    evaluated: tuple[_Evaluated, ...] = ()


class StoredRecounts:
    """The recounts in a run's folder.

    Args:
        folder: the folder.
        digests: by file, ``digest_of`` the content that is believed; None to believe every file.
    """

    def __init__(self, folder: StateFolder, digests: Mapping[str, str] | None = None) -> None:
        self._folder, self._digests = folder, digests

    def save(
        self,
        part: StepPart,
        claims: Claims,
        recounts: Mapping[TopicPartition, PartitionRecount],
        evaluated: Mapping[RangeKey, RuleEvaluation] = NOTHING_EVALUATED,
    ) -> dict[str, str]:
        """Store what a step or its shard has found for the ledger's claims; replaces its earlier results.

        Args:
            part: the step or its shard.
            claims: what was read back.
            recounts: what was found.
            evaluated: what came of evaluating the rules of some of the ranges again.

        Returns:
            The file's content, by its name.
        """
        partitions = tuple(
            _Recounted(tp, tuple(claims[tp]), of_partition) for tp, of_partition in recounts.items()
        )
        of_rules = tuple(_Evaluated(key, evaluation) for key, evaluation in evaluated.items())
        content = _Recounts(now_ms(), partitions, of_rules).to_json()
        self._folder.write(recounts_of(part), content)
        return {recounts_of(part): content}

    def of(self, claims: Claims) -> dict[TopicPartition, PartitionRecount]:
        """What was found for these claims, as far as exactly these were read back a short time ago."""
        return {
            part.partition: part.found
            for recounts in self._fresh()
            for part in recounts.partitions
            if part.claims == tuple(claims.get(part.partition, ()))
        }

    def evaluations(self) -> dict[RangeKey, RuleEvaluation]:
        """By range, what came of evaluating its rule again a short time ago."""
        return {
            evaluated.range: evaluated.found
            for recounts in self._fresh()
            for evaluated in recounts.evaluated
        }

    def forget(self) -> None:
        """Delete what all steps and shards have stored."""
        self._folder.delete(self._names())

    def _fresh(self) -> Iterator[_Recounts]:
        # What was read in the future has no known age: the clock was wrong then, or is now.
        now = now_ms()
        return (it for it in self._readable() if now - _MAX_AGE_MS <= it.at <= now)

    def _readable(self) -> Iterator[_Recounts]:
        """The files' content; what an invalid file was for is read from the target again."""
        for name in self._names():
            content = self._folder.read(name) or b""
            if self._digests is not None and self._digests.get(name) != digest_of(content):
                log.warning("%s is ignored: it is not what the step has left.", name)
                continue
            try:
                yield _Recounts.from_json(content)
            except FerryError as error:
                log.warning("%s is ignored: %s", name, error)

    def _names(self) -> list[str]:
        return [name for name in self._folder.names(".json") if name.startswith(_PREFIX)]


def recounts_of(part: StepPart) -> str:
    """The file of what a step or shard has read back."""
    return f"{_PREFIX}{part}.json"
