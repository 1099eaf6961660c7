"""The outcomes of copying, stored in a run's folder by the Spark driver."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from pydantic import TypeAdapter, ValidationError

from kafka_ferry.copy.outcome import Outcome
from kafka_ferry.state import StateFolder

log = logging.getLogger(__name__)

_OUTCOMES: Final = TypeAdapter(list[Outcome])
_FILES: Final = "outcomes-"


@dataclass(frozen=True)
class OutcomeFiles:
    """The outcomes of one attempt at a run, a file for each micro-batch.

    Attributes:
        folder: the run's folder.
        attempt: a unique text for this attempt.
    """

    folder: StateFolder
    attempt: str

    def write(self, batch: int, outcomes: Iterable[Outcome]) -> None:
        """Store the outcomes of a micro-batch; a repeated one replaces them."""
        self.folder.write(
            f"{_FILES}{self.attempt}-{batch:06d}.json", _OUTCOMES.dump_json(list(outcomes))
        )

    @classmethod
    def read_all(cls, folder: StateFolder) -> list[Outcome]:
        """The outcomes of every attempt at the run, a range's as often as it was tried.

        An invalid file is ignored: outcomes are for measures, not for proofs.
        """
        outcomes: list[Outcome] = []
        for name in folder.names(".json"):
            if name.startswith(_FILES):
                try:
                    outcomes += _OUTCOMES.validate_json(folder.read(name) or b"")
                except ValidationError as error:
                    reason = error.errors(include_url=False, include_input=False)[0]["msg"]
                    log.warning("%s in %s is ignored: %s", name, folder.location, reason)
        return outcomes
