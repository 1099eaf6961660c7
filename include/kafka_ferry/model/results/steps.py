"""How the steps of a run ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kafka_ferry.as_json import AsJson
from kafka_ferry.errors import StepFailed
from kafka_ferry.model.remarks import Refusal
from kafka_ferry.model.results.failures import Failure


@dataclass(frozen=True, slots=True)
class StepPart:
    """A step of a run, or one shard of it; its text names files and tasks.

    Attributes:
        step: the step's name.
        shard: the shard, None for the whole step.
    """

    step: str
    shard: int | None = None

    def __str__(self) -> str:
        return self.step if self.shard is None else f"{self.step}-{self.shard}"


@dataclass(frozen=True, slots=True)
class StepRecord(AsJson):
    """How a step or its shard ended.

    Attributes:
        part: the step or shard.
        seconds: how long it took.
        error: what it raised, None if it succeeded.
        failures: the partitions that it did not copy to their end.
        refused: the topics and partitions that its plan refuses.
        details: its error as a sentence for each group or change, where it is about some.
        transient: whether the same step may succeed later without a change.
        exit_code: the command line's exit status for the error, 0 without one.
    """

    WHAT: ClassVar = "the record of a step"

    part: StepPart
    seconds: float
    error: str | None = None
    failures: tuple[Failure, ...] = ()
    refused: tuple[Refusal, ...] = ()
    details: tuple[str, ...] = ()
    transient: bool = False
    exit_code: int = 0

    @property
    def failure(self) -> StepFailed | None:
        """What it raised, as an error; None if it succeeded."""
        if self.error is None:
            return None
        return StepFailed(self.error, transient=self.transient, exit_code=self.exit_code)

    @property
    def other_errors(self) -> tuple[str, ...]:
        """What it raised beside failures and refusals, a sentence each."""
        if self.details or self.failures or self.refused or self.error is None:
            return self.details
        return (self.error,)

    @property
    def problems(self) -> tuple[Refusal | Failure | str, ...]:
        """All that it raised; the text of each is a sentence."""
        return (*self.refused, *self.failures, *self.other_errors)
