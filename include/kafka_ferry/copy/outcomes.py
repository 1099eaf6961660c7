"""The outcomes of copying, stored in a run's folder by the process that heard of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from pydantic import TypeAdapter

from kafka_ferry.copy.copier import Outcome
from kafka_ferry.plan import TopicPartition
from kafka_ferry.state import StateFolder

_OUTCOMES: Final = TypeAdapter(list[Outcome])
_FILES: Final = "outcomes-"


def outcomes_to_json(outcomes: Iterable[Outcome]) -> bytes:
    """The outcomes as JSON."""
    return _OUTCOMES.dump_json(list(outcomes))


def outcomes_from_json(stored: bytes) -> list[Outcome]:
    """What ``outcomes_to_json`` wrote."""
    return _OUTCOMES.validate_json(stored)


@dataclass(frozen=True)
class OutcomeFiles:
    """The outcomes of one attempt at a run, a file for each micro-batch.

    Attributes:
        folder: the run's folder.
        attempt: a text that no other attempt has.
    """

    folder: StateFolder
    attempt: str

    def write(self, batch: int, outcomes: Iterable[Outcome]) -> None:
        """Store the outcomes of a micro-batch; a repeated one replaces them."""
        self.folder.write(f"{self._prefix}{batch:06d}.json", outcomes_to_json(outcomes))

    def read(self) -> list[Outcome]:
        """The outcome of each range; of one that two micro-batches held, the last one's."""
        latest: dict[TopicPartition, Outcome] = {}
        for name in self.folder.names(".json"):
            if name.startswith(self._prefix):
                for outcome in outcomes_from_json(self.folder.read(name) or b"[]"):
                    latest[outcome.range.source] = outcome
        return list(latest.values())

    @classmethod
    def read_all(cls, folder: StateFolder) -> list[Outcome]:
        """The outcomes of every attempt at the run, a range's as often as it was tried."""
        names = [name for name in folder.names(".json") if name.startswith(_FILES)]
        return [
            outcome for name in names for outcome in outcomes_from_json(folder.read(name) or b"[]")
        ]

    @property
    def _prefix(self) -> str:
        return f"{_FILES}{self.attempt}-"
