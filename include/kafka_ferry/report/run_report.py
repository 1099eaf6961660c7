"""What a run did, as one object: the web page, the JSON file and the metrics are made from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from pydantic import TypeAdapter, ValidationError

from kafka_ferry.errors import FerryError
from kafka_ferry.verify import PartitionRow, RangeRow, Verdict

State = Literal["verified", "not verified", "incomplete", "failed"]
_Json: TypeAlias = bytes | str


@dataclass(frozen=True, slots=True)
class RunReport:
    """One run of a flow.

    Attributes:
        flow: the flow's name.
        run: the run's id.
        source: the source's alias.
        target: the target's alias.
        planned_at: when it was planned, in milliseconds since 1970.
        finished_at: when it ended, in milliseconds since 1970.
        seconds: how long each step took, in the order in which they ran.
        records: records copied.
        bytes: bytes of their batches, compressed as they are.
        batches: batches copied.
        reasons: source offsets without a record on the target, by reason.
        rebuilt: batches that could not pass unopened, by reason.
        failures: partitions that were not copied to their end, a sentence each.
        refused: topics and partitions that cannot be mirrored as things are, a sentence each.
        skipped: source topics that the flow does not mirror, each with the reason.
        ranges: the ranges that were verified.
        partitions: their partitions.
        verdict: what the verification found, None where nothing was verified.
    """

    flow: str
    run: str
    source: str
    target: str
    planned_at: int
    finished_at: int
    seconds: Mapping[str, float] = field(default_factory=dict)
    records: int = 0
    bytes: int = 0
    batches: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)
    rebuilt: Mapping[str, int] = field(default_factory=dict)
    failures: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()
    ranges: tuple[RangeRow, ...] = ()
    partitions: tuple[PartitionRow, ...] = ()
    verdict: Verdict | None = None

    @property
    def offsets(self) -> int:
        """Source offsets accounted for: records copied and all reasons."""
        return self.records + sum(self.reasons.values())

    @property
    def state(self) -> State:
        """The worst that is true: something failed, is incomplete, or was not verified."""
        if self.failures or self.refused:
            return "failed"
        if self.verdict is None:
            return "not verified"
        return "verified" if self.verdict.success else "incomplete"

    def to_json(self) -> str:
        """The report as JSON text."""
        return _REPORT.dump_json(self, indent=1).decode()

    @classmethod
    def from_json(cls, text: _Json) -> RunReport:
        """What ``to_json`` wrote.

        Raises:
            FerryError: if it is something else.
        """
        try:
            return _REPORT.validate_json(text)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            raise FerryError(f"Not a run's report: {first['msg']}.") from error


_REPORT: Final = TypeAdapter(RunReport)
