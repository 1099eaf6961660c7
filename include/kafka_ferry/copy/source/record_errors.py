"""What becomes of records that cannot become what they should, by the flow's policy for them."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence

from kafka_ferry.batches import ConvertedBatch, cut_at
from kafka_ferry.config.options.transform import ErrorPolicy
from kafka_ferry.copy.source.cursor import Read
from kafka_ferry.model.ranges import Range
from kafka_ferry.model.results.failures import Failure
from kafka_ferry.printable import excerpt

log = logging.getLogger(__name__)


class RecordErrors:
    """Collects what was read of a range, up to a record that stops it.

    Args:
        range_: the range.
        policy: what becomes of a record with an error: ``fail`` stops the range before it, ``dead-letter`` sets
            it aside, ``pass`` copies it as it is.
        what: what cannot be done, such as ``a transform rule cannot be applied``.
        advice: what to do where that stops the range.

    Attributes:
        failure: why the range ends here, None if it does not.
    """

    def __init__(self, range_: Range, policy: ErrorPolicy, what: str, advice: str) -> None:
        self._range, self._policy, self._what, self._advice = range_, policy, what, advice
        self._found: list[ConvertedBatch] = []
        self._errors: dict[int, str] = {}
        self.failure: Failure | None = None

    def add(self, batches: Sequence[ConvertedBatch], errors: Mapping[int, str]) -> None:
        """Add batches, and by source offset what is wrong with records of them, which are unchanged there."""
        errors = {offset: excerpt(error) for offset, error in errors.items()}
        if errors and self._policy == "fail":
            self.failure = self._failure(errors)
            self._found += _before(batches, self.failure.offset)
            return
        self._found += batches
        self._errors |= errors

    def read(self, failure: Failure | None) -> Read:
        """What was read, with the failure that reading itself has found."""
        set_aside = self._errors
        if set_aside and self._policy == "pass":
            self._warn()
            set_aside = {}
        return Read(self._range, tuple(self._found), self.failure or failure, set_aside)

    def _failure(self, errors: Mapping[int, str]) -> Failure:
        offset = min(errors)
        message = f"{self._what} to the record at offset {offset} of {self._range.source}: {errors[offset]}."
        return Failure.of(self._range, offset, message, transient=False, advice=self._advice)

    def _warn(self) -> None:
        offset = min(self._errors)
        log.warning(
            "%d records of %s are copied as they are, since %s to them; the first is at offset %d: %s",
            len(self._errors),
            self._range.source,
            self._what,
            offset,
            self._errors[offset],
        )


def _before(batches: Sequence[ConvertedBatch], offset: int) -> Iterator[ConvertedBatch]:
    """The part of converted batches before a source offset."""
    for converted in batches:
        if converted.end <= offset:
            yield converted
        elif converted.start < offset:
            before, _ = cut_at(converted, offset)
            yield before
