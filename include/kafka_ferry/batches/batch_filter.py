"""What leaves records of a source partition out."""

from __future__ import annotations

from abc import ABC, abstractmethod

from kafka_ferry.batches.converted_batch import Absent, Reason
from kafka_ferry.batches.record_format.header import Batch
from kafka_ferry.batches.record_format.records import Record


class BatchFilter(ABC):
    """Leaves records of one source partition out, each for a reason; other filters may leave out more.

    A batch is decided on by its header where that is enough; it is opened only where it is not.
    """

    @abstractmethod
    def left_out_from(self, offset: int) -> Absent | None:
        """The stretch from ``offset`` on that need not be read, if there is one."""

    def is_sure(self, absent: Absent) -> bool:  # noqa: ARG002
        """Whether such a stretch may be passed over unread; may ask the source."""
        return True

    @abstractmethod
    def reason(self, batch: Batch, start: int, end: int) -> Reason | None:
        """Why nothing of a batch's offsets ``[start, end)`` is copied, as far as the header tells.

        Raises:
            MalformedBatch: if the batch cannot be one that the filter was made for.
        """

    def takes_whole(self, batch: Batch, start: int, end: int) -> bool:  # noqa: ARG002
        """Whether all of ``[start, end)`` is copied, as far as the header tells."""
        return True

    def leave_out(self, records: list[Record]) -> tuple[list[Record], list[Absent]]:
        """The ``records`` that are copied, and the offsets of the others."""
        return records, []
