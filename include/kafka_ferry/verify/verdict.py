"""The verdict on a copy: which expectations are true, and what does not agree. Also as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Final, Literal

from kafka_ferry.as_json import AsJson
from kafka_ferry.config.options.verify import Severity
from kafka_ferry.verify.counts import count, records_text

Table = Literal["ranges", "partitions", "topics", "groups"]


COVERED: Final = "covered"
"""The key of the check that the run has copied each partition to the end of its plan."""


@dataclass(frozen=True, slots=True)
class ExpectationResult:
    """One expectation and its result.

    Attributes:
        name: the expectation, as a sentence that should be true.
        table: the table that it checks.
        success: whether it is true of every row; False where it could not be evaluated.
        severity: only critical ones decide the verdict, and info ones are not reported.
        unexpected: the rows for which it is not true, as sentences; only the first ones, and how
            many more there are.
        raised: why it could not be evaluated, None where it was.
        advice: what to check where it is not true.
        key: its name in options, "" where it is not one of Kafka Ferry's own.
        source: the user's file that it comes from, and the line; "" for Kafka Ferry's own.
    """

    name: str
    table: Table
    success: bool
    severity: Severity
    unexpected: tuple[str, ...] = ()
    raised: str | None = None
    advice: str = ""
    key: str = ""
    source: str = ""

    @property
    def failed(self) -> bool:
        """Whether it fails the verdict: a false warning does not, an unevaluated one does."""
        return self.raised is not None or (not self.success and self.severity == "critical")

    @property
    def warned(self) -> bool:
        """Whether it is a warning to report."""
        return not (self.success or self.failed) and self.severity == "warning"

    @property
    def sentences(self) -> tuple[str, ...]:
        """What is not as expected, a sentence each; none where it is true."""
        if self.raised is not None:
            return (f'The check "{self.name}" could not be evaluated: {self.raised}',)
        if not self.success and not self.unexpected:
            return (f"Not true, with no row named: {self.name}",)
        return tuple(f"{row} (expected: {self.name})" for row in self.unexpected)


def advice_on(expectations: Iterable[ExpectationResult]) -> list[str]:
    """What to do about expectations that are not true, each sentence once, to follow their own sentences."""
    return [*dict.fromkeys(f"What to do: {one.advice}" for one in expectations if one.advice)]


@dataclass(frozen=True, slots=True)
class Verdict(AsJson):
    """The result of all expectations.

    Attributes:
        success: the copy is proved complete.
        expectations: every expectation, the kept ones too.
        failures: sentences that name topic, partition and range.
        warnings: the same for what is worth knowing but does not make the copy incomplete.
        ranges: ranges that were looked at.
        gone: ranges whose remote topic was deleted or given up since: nothing of these was looked at.
        records: records that were found on the target in these ranges.
        heartbeats: how many of these are in topics of heartbeats.
        compacted: copied records of these ranges that are not there, which the cleaner of a compacted topic may
            have removed: nothing else is known of them.
        accepted: copied records of these ranges that are missing, which a person has decided to leave so.
        expired: copied records of these ranges that lie before the start of the target's log.
        docs: the index page of the Data Docs, None where none were written.
    """

    WHAT: ClassVar = "a verdict"

    success: bool
    expectations: tuple[ExpectationResult, ...] = ()
    failures: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    ranges: int = 0
    gone: int = 0
    records: int = 0
    heartbeats: int = 0
    compacted: int = 0
    accepted: int = 0
    expired: int = 0
    docs: Path | None = None

    @property
    def summary(self) -> str:
        """What was read back, and how many checks are true, in a line; "proved" only of what was read."""
        true = sum(expectation.success for expectation in self.expectations)
        checks = f"{true} of {len(self.expectations)} checks are true"
        if not self.ranges:
            return f"Nothing new was read back: {checks}"
        state = "Proved complete" if self.success else "Not proved complete"
        return f"{state}: {self._read} read back{self.not_there}, {checks}"

    @property
    def found(self) -> str:
        """How many records were read back from how many ranges, and how many are not there any more."""
        return f"{self._read}{self.not_there}"

    @property
    def _read(self) -> str:
        records = records_text(self.records, self.heartbeats)
        return f"{records} in {count(self.ranges, 'range')}"

    @property
    def not_there(self) -> str:
        """How many records are not there for a reason, and which ranges are gone; or "".

        A lost segment leaves the same as retention or a cleaner: of the latter an audit, which reads keys, can tell.
        """
        compacted = (
            f" ({self.compacted:,} more are not there any more, which the target's log compaction may explain; "
            "ferry audit compares keys)"
        )
        expired = (
            f" ({self.expired:,} more lie before the start of the target's log: retention or DeleteRecords has taken "
            "them, or a disk has lost them)"
        )
        accepted = f" ({self.accepted:,} more are missing, and accepted: repair --leave)"
        gone = (
            f"; {count(self.gone, 'range')} of a copy that was deleted or given up since, of which nothing was "
            "looked at"
        )
        parts = {
            compacted: self.compacted,
            expired: self.expired,
            accepted: self.accepted,
            gone: self.gone,
        }
        return "".join(text for text, is_any in parts.items() if is_any)

    def join(self, results: Iterable[ExpectationResult]) -> Verdict:
        """The verdict with the results of other expectations, added later."""
        results = tuple(results)
        return replace(
            self,
            success=self.success and not any(result.failed for result in results),
            expectations=self.expectations + results,
            failures=self.failures + sentences_of(result for result in results if result.failed),
            warnings=self.warnings + sentences_of(result for result in results if result.warned),
        )


def sentences_of(results: Iterable[ExpectationResult]) -> tuple[str, ...]:
    """A sentence for each row that these expectations are not true for."""
    return tuple(sentence for result in results for sentence in result.sentences)
