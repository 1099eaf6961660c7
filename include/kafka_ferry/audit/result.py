"""The result of an audit: for people, for programs, and what it says of itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from kafka_ferry.as_json import AsJson
from kafka_ferry.audit.comparison.findings import KINDS, Finding, FindingKind
from kafka_ferry.audit.terms import AuditPair, AuditTerms
from kafka_ferry.clock import moment_text

AuditState = Literal["same", "differs", "nothing", "not compared"]
"""``same``: all that was to be compared is the same, and there was something. ``differs``: there are
findings. ``nothing``: neither side had a record that could be compared. ``not compared``: see the reason."""


@dataclass(frozen=True)
class PairCounts:
    """How many records of a pair of partitions fared how.

    ``source_records = matched + counted + superseded there + missing + reordered + altered + removed +
    pending``, and ``target_records = matched + counted + superseded there + doubled + reordered + altered +
    foreign + expired``, where the pair was compared in order; altered records that are in another partition
    count there.

    Attributes:
        source_records: records of the source that were looked at.
        target_records: records of the target.
        matched: records that are the same on both sides; with ``by="keys"``, keys.
        counted: records of blocks that were only counted, on both sides.
        superseded: with ``by="keys"``, records of both sides with a later record of the same key.
        missing: records that the target lacks.
        doubled: records that the target has more often than the source.
        reordered: records at another place in the order.
        altered: records that differ in parts, or are in another partition.
        foreign: records that the source does not have.
        removed: records of the source that the target's retention has deleted; not compared.
        expired: records of the target that the source's retention has deleted; not compared.
        pending: records that were too recent to be called missing; not compared.
    """

    source_records: int = 0
    target_records: int = 0
    matched: int = 0
    counted: int = 0
    superseded: int = 0
    missing: int = 0
    doubled: int = 0
    reordered: int = 0
    altered: int = 0
    foreign: int = 0
    removed: int = 0
    expired: int = 0
    pending: int = 0

    @property
    def found(self) -> int:
        """Records with a finding."""
        return sum(self.of(kind) for kind in KINDS)

    def of(self, kind: FindingKind) -> int:
        """Records with a finding of a kind."""
        count: int = getattr(self, kind)
        return count


@dataclass(frozen=True)
class PartitionAudit:
    """The result for a pair of partitions.

    Attributes:
        pair: the pair.
        counts: how its records fared.
        findings: what was found, in runs of consecutive offsets.
        unlisted: records with a finding that ``findings`` do not list, because there are too many.
        in_order: whether the order was compared too.
        passes: how often both logs were read.
        seconds: how long it took.
        reason: why it could not be compared; "" if it was.
        appended: how many of the reordered records are where a backfill or a repair of the flow has appended them, as
            its ledger says; ``findings`` do not list these.
    """

    pair: AuditPair
    counts: PairCounts = PairCounts()
    findings: tuple[Finding, ...] = ()
    unlisted: int = 0
    in_order: bool = True
    passes: int = 1
    seconds: float = 0.0
    reason: str = ""
    appended: int = 0

    @property
    def state(self) -> AuditState:
        """The result in a word or two."""
        if self.reason:
            return "not compared"
        if self.counts.found > self.appended:
            return "differs"
        return "same" if self.counts.matched or self.appended else "nothing"


@dataclass(frozen=True)
class SkippedTopic:
    """A topic that was not compared.

    Attributes:
        topic: the source's topic.
        remote_topic: the topic on the target.
        reason: why not.
    """

    topic: str
    remote_topic: str
    reason: str


@dataclass(frozen=True)
class AuditReport(AsJson):
    """An audit that is over.

    Attributes:
        audit: its id.
        source: the source's alias.
        target: the target's alias.
        source_cluster_id: the source's cluster id.
        target_cluster_id: the target's.
        began_at: when the ends of the logs were read, in milliseconds since 1970: what was written later
            was not looked at.
        finished_at: when it was over.
        terms: what was compared, and how.
        partitions: by pair of partitions.
        skipped: topics that were not compared at all.
    """

    WHAT: ClassVar = "an audit's report"

    audit: str
    source: str
    target: str
    source_cluster_id: str
    target_cluster_id: str
    began_at: int
    finished_at: int
    terms: AuditTerms
    partitions: tuple[PartitionAudit, ...] = ()
    skipped: tuple[SkippedTopic, ...] = ()

    @property
    def found(self) -> dict[FindingKind, int]:
        """Records with a finding, by kind; without kinds that were not found, and without appended records."""
        counts = {kind: sum(part.counts.of(kind) for part in self.partitions) for kind in KINDS}
        counts["reordered"] -= self._appended_count
        return {kind: count for kind, count in counts.items() if count}

    @property
    def findings(self) -> Iterator[Finding]:
        """All findings that are listed."""
        for part in self.partitions:
            yield from part.findings

    @property
    def state(self) -> AuditState:
        """The result in a word or two: the worst of all partitions, and never ``same`` if nothing was."""
        states = Counter(part.state for part in self.partitions)
        if states["differs"]:
            return "differs"
        if states["not compared"] or self.skipped:
            return "not compared"
        return "same" if states["same"] else "nothing"

    @property
    def headline(self) -> str:
        """The result in a sentence."""
        if self.state == "differs":
            differences = ", ".join(f"{count:,} {kind}" for kind, count in self.found.items())
            return f"The copy differs: {differences}"
        same = sum(part.state == "same" for part in self.partitions)
        if self.state == "not compared":
            failed = sum(part.state == "not compared" for part in self.partitions)
            left = [f"{failed:,} partition(s)"] if failed else []
            left += [f"{len(self.skipped):,} topic(s)"] if self.skipped else []
            rest = f"; the other {same:,} partitions are the same" if same else ""
            return f"Not everything could be compared: {' and '.join(left)} were not{rest}"
        if self.state == "nothing":
            return "Nothing could be compared: neither side has a record that both could have"
        sample = " in what was compared" if self.terms.one_in > 1 else ""
        return f"The copy is the same as its source{sample}: {self._compared_count():,} records"

    def _compared_count(self) -> int:
        return sum(part.counts.matched for part in self.partitions) + self._appended_count

    @property
    def _appended_count(self) -> int:
        return sum(part.appended for part in self.partitions)

    @property
    def statements(self) -> Iterator[str]:
        """What was compared and what was not, in sentences."""
        terms = self.terms
        yield (
            f"Compared is what a {terms.isolation} consumer could read on both clusters at "
            f"{moment_text(self.began_at)}."
        )
        if terms.since_ms is not None or terms.until_ms is not None:
            yield f"Only records with timestamps {_window(terms)} were compared."
        yield from self._of_sample()
        by_keys = _names(part for part in self.partitions if part.pair.by == "keys")
        if by_keys:
            yield (
                f"Compacted topics were compared by the latest record of each key, and not by their "
                f"order: {by_keys}."
            )
        if there_alone := _names(
            part
            for part in self.partitions
            if part.pair.by == "keys" and not part.pair.source_compacts
        ):
            yield (
                f"Only {self.target} compacts {there_alone}: whether it lacks older records of a key, which "
                f"{self.source} keeps, was not compared."
            )
        if no_times := _names(part for part in self.partitions if not part.pair.times):
            yield (
                "Timestamps were not compared where the target's topic has message.timestamp.type="
                f"LogAppendTime: {no_times}."
            )
        if shuffled := _names(part for part in self.partitions if not part.in_order):
            yield (
                "Too many records were at other places: order was not compared, and altered records are "
                f"told as missing and foreign, in {shuffled}."
            )
        if self._appended_count:
            yield (
                f"{self._appended_count:,} records are out of order only because a backfill or a repair has appended "
                f"them, as the ledger of {self.source}->{self.target} says: order between these and other runs was "
                "never promised."
            )
        yield from self._skip_lines()

    def _of_sample(self) -> Iterator[str]:
        if self.terms.one_in == 1:
            return
        counted = sum(part.counts.counted for part in self.partitions)
        yield (
            f"All records were counted. The content of one block of {self.terms.block:,} source records "
            f"in {self.terms.one_in} was compared, and of all around a difference: {self._compared_count():,} "
            f"records were compared, {counted:,} were only counted. An alteration among these, or a loss "
            "that is made up for by a duplicate, is not found."
        )

    def _skip_lines(self) -> Iterator[str]:
        counts = [part.counts for part in self.partitions]
        sums = {
            "records of the target were not compared: the source's retention may have deleted their records, "
            "before its log start": sum(one.expired for one in counts),
            "records of the source were not compared: the target's retention may have deleted their copies, "
            "before its log start": sum(one.removed for one in counts),
            "records at the end of the source's logs were too recent to be called missing": sum(
                one.pending for one in counts
            ),
        }
        for text, count in sums.items():
            if count:
                yield f"{count:,} {text}."
        empty = sum(part.state == "nothing" for part in self.partitions)
        if empty:
            yield f"{empty:,} partitions had nothing to compare."
        if unlisted := sum(part.unlisted for part in self.partitions):
            yield f"{unlisted:,} records with a finding are counted, but not listed."
        for skipped in self.skipped:
            yield f"{skipped.topic} was not compared with {skipped.remote_topic}: {skipped.reason}"
        for part in self.partitions:
            if part.reason:
                yield f"{part.pair} was not compared: {part.reason}"


def _window(terms: AuditTerms) -> str:
    since = "" if terms.since_ms is None else f"from {moment_text(terms.since_ms)} on"
    until = "" if terms.until_ms is None else f"before {moment_text(terms.until_ms)}"
    return " and ".join(filter(None, (since, until)))


def _names(parts: Iterator[PartitionAudit]) -> str:
    return ", ".join(dict.fromkeys(part.pair.topic for part in parts))
