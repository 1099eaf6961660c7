"""What evaluates the rules' expressions for rows of records, as ``transform`` needs it: Spark does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from kafka_ferry.batches.rule_counts import RuleUse
from kafka_ferry.config.types.record_path import Part
from kafka_ferry.errors import FerryError

if TYPE_CHECKING:
    from kafka_ferry.transform.columns import Columns, RecordRows


class TransformFailed(FerryError):
    """The rules cannot be evaluated at all; a record for which an expression fails is no such case."""


Values = Sequence["bytes | None"]
Decimals = Sequence[Mapping[Part, Sequence[str]]]
"""For each rule of a flow, the names of the fields of keys and of values that are decimals, or have some in them."""
Reads = Sequence[Sequence[RuleUse]]
"""For each rule of a flow, the fields and headers that its expressions read by name: at most ``MOST_READS``."""
MOST_READS: Final = 63
"""How many of them are looked for in each record: as many as a Spark bigint has bits."""


@dataclass(slots=True)
class Evaluated:
    """What the expressions gave for rows of records, column by column.

    Attributes:
        keep: whether each record is copied.
        failed: which step failed for each (``TransformRule.steps``), -1 for none; empty if none failed for any.
        values: for each, what each path of its rule's ``set`` becomes, in their order: the bytes of a key, a
            value or a header, or for a field a JSON object with it alone (``WRAPPED``); None for null. Empty
            where no rule sets anything.
        seen: for each, which of its rule's ``Evaluator.reads`` it has, a bit each; empty where no rule reads any.
    """

    keep: list[bool] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)
    values: list[Values] = field(default_factory=list)
    seen: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.keep)

    def add(self, other: Evaluated) -> None:
        """Add what the expressions gave for further rows."""
        if self.failed or other.failed:
            self.failed += [-1] * (len(self) - len(self.failed))
            self.failed += other.failed or [-1] * len(other)
        if self.values or other.values:
            self.values += [()] * (len(self) - len(self.values))
            self.values += other.values or [()] * len(other)
        if self.seen or other.seen:
            self.seen += [0] * (len(self) - len(self.seen))
            self.seen += other.seen or [0] * len(other)
        self.keep += other.keep

    def part(self, begin: int, end: int) -> Evaluated:
        """The part for the rows ``[begin, end)``."""
        failed = self.failed[begin:end]
        has_failed = any(step >= 0 for step in failed)
        return Evaluated(
            self.keep[begin:end],
            failed if has_failed else [],
            self.values[begin:end],
            self.seen[begin:end],
        )

    def at(self, places: Sequence[int]) -> Evaluated:
        """The part for the rows at ``places``, which exist, and whose first occurrences ascend."""
        if len(places) == len(self):
            return self
        return Evaluated(
            [self.keep[place] for place in places],
            [self.failed[place] for place in places] if self.failed else [],
            [self.values[place] for place in places] if self.values else [],
            [self.seen[place] for place in places] if self.seen else [],
        )


class Evaluator(Protocol):
    """Evaluates rows of records, in the order in which they are given."""

    @property
    def columns(self) -> Columns:
        """For each rule of the flow, the columns that its expressions use; in its rows, others may be empty."""

    @property
    def decimals(self) -> Decimals:
        """For each rule of the flow, the names of the fields that are decimals in its rows."""

    @property
    def reads(self) -> Reads:
        """For each rule of the flow, what its expressions read by name."""

    def evaluate(self, rows: RecordRows) -> Future[Evaluated]:
        """What becomes of each row; ``TransformFailed`` if that cannot be found out."""
