"""What evaluates the rules' expressions for rows of records, as ``transform`` needs it: Spark does."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from kafka_ferry.errors import FerryError

if TYPE_CHECKING:
    from kafka_ferry.transform.columns import Column, RecordRows


class TransformFailed(FerryError):
    """The rules cannot be evaluated at all; a record for which an expression fails is no such case."""


@dataclass(frozen=True, slots=True)
class Evaluated:
    """What the expressions gave for one record.

    Attributes:
        keep: whether the record is copied.
        values: what each path of its rule's ``set`` becomes, in their order: the bytes of a key, a value or
            a header, or for a field a JSON object with it alone (``WRAPPED``); None for null.
        failed: which step failed for it (``TransformRule.steps``), -1 if none did.
    """

    keep: bool
    values: tuple[bytes | None, ...] = ()
    failed: int = -1


class Evaluator(Protocol):
    """Evaluates rows of records, in the order in which they are given."""

    @property
    def columns(self) -> frozenset[Column]:
        """The columns that expressions use; others may be empty."""

    def evaluate(self, rows: RecordRows) -> Future[list[Evaluated]]:
        """What becomes of each row; ``TransformFailed`` if that cannot be found out."""
