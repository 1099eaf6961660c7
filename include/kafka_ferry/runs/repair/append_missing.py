"""Appends records that the target has lost: fetched again from the source, written after all others.

Promises:
(a) nothing twice: a source offset is copied only if the target has no record of it at any offset that the ledger
    names (``missing``). What is written is a backfill for the rest of the protocol: its writer has fenced the
    flow's earlier one before it reads what the ledger has since the proposal was made. The target's log is read twice
    before that, and once more after it: a broker that gives less than it has may be back by then;
(b) what the ledger says stays true: the appended range has a ledger record of its own, in the transaction of its
    records, and accounts for each of its source offsets; the damaged range is then recorded as left as it is, with
    what the target has of it. A repair that was killed in between appends nothing again: the next one finds the
    records where the ledger says;
(c) no proposal where that would not hold: each case is named in ``_refusals`` and ``_refusal_by_content``.

Not promised: order. The records come after those that were written since.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from kafka_ferry.batches import Segment
from kafka_ferry.clock import run_id_now
from kafka_ferry.config import Flow
from kafka_ferry.control import ClusterControl
from kafka_ferry.copy import copy_for_flow
from kafka_ferry.errors import FerryError
from kafka_ferry.ledger import CopiedRange, LedgerRange, RangeKey
from kafka_ferry.ledger.proofs import accepted_ranges
from kafka_ferry.ledger.queries.copied_ranges import CopiedSpan, ranges_with, spans_beside
from kafka_ferry.ledger.queries.run_starts import last_run
from kafka_ferry.model import Range, TopicPartition
from kafka_ferry.model.ranges import Backfill, Settled
from kafka_ferry.plan.backfill.windows import BEGINNING, FOREVER
from kafka_ferry.plan.schedule.sharding import writers_of
from kafka_ferry.retry import retry
from kafka_ferry.runs.provenance.diverged_epochs import copies_of
from kafka_ferry.runs.provenance.diverged_logs import all_diverged
from kafka_ferry.runs.provenance.log_mismatches import lost_ends
from kafka_ferry.runs.repair.accept import accept_ranges, range_at
from kafka_ferry.runs.repair.consequences import CommittedOffsets, committed_offsets, consequences
from kafka_ferry.runs.repair.held_records import HeldRecords, read_held, read_lacking
from kafka_ferry.runs.repair.missing_offsets import spans_of, without
from kafka_ferry.runs.state.run_context import RunContext
from kafka_ferry.runs.verify.again import read_ranges
from kafka_ferry.verify import RangeRow
from kafka_ferry.verify.counts import count
from kafka_ferry.wire import connect
from kafka_ferry.wire.partitions.at_offset import has_same_batch
from kafka_ferry.wire.partitions.partition_log import partition_log

_ONLY_RECORD: Final = (
    "An earlier repair has appended all of them, and was interrupted: only the ledger's record that the old range is "
    "left as it is remains to be written."
)
_UNSTEADY: Final = (
    "Find out which broker gives less than it has: its log, its disks, its remote storage."
)
_NOTHING_LEFT: Final = "An earlier repair has appended all of them: nothing is left to do."


@dataclass(frozen=True, slots=True)
class AppendProposal:
    """What appending the missing records of a range comes to.

    Attributes:
        name: the range's partition and first offset on the source: ``orders-3:120``.
        entry: the damaged range in the ledger.
        refusal: why its records cannot be appended; "" where they can.
        consequences: what it means, a sentence each in the order in which it happens; none where it cannot be.
        range: what is copied; None where nothing is.
        records: how many records are appended.
        lacking: how many of the range's records are not at their own places on the target, and have not expired.
        unavailable: how many are missing and no longer on the source.
        is_done: whether an earlier repair has done all of it.
    """

    name: str
    entry: LedgerRange
    refusal: str = ""
    consequences: tuple[str, ...] = ()
    range: Range | None = None
    records: int = 0
    lacking: int = 0
    unavailable: int = 0
    is_done: bool = False


@dataclass(frozen=True, slots=True)
class Appended:
    """What was appended.

    Attributes:
        name: the damaged range, as in its proposal.
        run: the run of the repair in the ledger.
        target: the partition on the target.
        records: how many records.
        start: the target offset of the first one.
        end: the target offset after the last one.
    """

    name: str
    run: str
    target: TopicPartition
    records: int
    start: int
    end: int


class AppendMissing:
    """Proposes to append what is missing of a range, and does it once a person has approved.

    Raises:
        FerryError: the ledger cannot be read.
    """

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        # Two repairs may begin in the same second, and must not take each other's records for their own.
        self._run = RunContext.of(flow, f"{run_id_now('repair')}-{secrets.token_hex(3)}")
        self._target = ClusterControl(flow.target)
        self._ledger_end = self._run.project_ledger()

    def proposal(self, source: TopicPartition, offset: int) -> AppendProposal:
        """What appending comes to for the range with a source offset; changes nothing.

        Raises:
            FerryError: if the ledger has no such range, or a cluster cannot be read.
        """
        return self._proposal(self._entry(source, offset))

    def proposal_at(self, key: RangeKey) -> AppendProposal:
        """The proposal for a range in the ledger."""
        return self._proposal(range_at(self._run.ledger, key))

    def _proposal(self, entry: LedgerRange) -> AppendProposal:
        copied = entry.copied
        name = f"{copied.topic}-{copied.partition}:{copied.start}"
        if refusal := next(self._refusals(entry), ""):
            return AppendProposal(name, entry, refusal)
        return self._by_content(AppendProposal(name, entry))

    def append(self, proposal: AppendProposal, reason: str) -> Appended:
        """Append the records, prove them, and record that the damaged range is left as it is.

        Args:
            proposal: what a person has approved.
            reason: why, for those who read the ledger.

        Raises:
            FerryError: if it is refused, the copying fails, or the target does not hold what was appended. A
                repetition appends what is still missing.
        """
        if proposal.refusal:
            raise FerryError(f"{proposal.name} cannot be appended: {proposal.refusal}")
        entries = self._copy(proposal, proposal.range) if proposal.range else []
        segments = [segment for entry in entries for segment in entry.copied.segments]
        done = Appended(
            name=proposal.name,
            run=self._run.run_id,
            target=proposal.entry.target,
            records=sum(records for _, _, records in segments),
            start=min((target for _, target, _ in segments), default=0),
            end=max((target + records for _, target, records in segments), default=0),
        )
        at = f"offsets {done.start} to {done.end - 1}" if segments else "an earlier repair"
        self._accept(proposal.entry, f"{reason} ({count(done.records, 'record')} appended: {at})")
        return done

    # --- the ledger

    def _entry(self, source: TopicPartition, offset: int) -> LedgerRange:
        """The newest ordinary range with a source offset."""
        ranges = ranges_with(self._run.ledger, source, offset)
        ordinary = [entry for entry in ranges if entry.window is None]
        if not ordinary:
            raise FerryError(
                f"The ledger has no range with the offset {offset} of {source}",
                advice="ferry where says what it has of an offset.",
            )
        return ordinary[-1]

    def _copy(self, proposal: AppendProposal, range_: Range) -> list[LedgerRange]:
        """Copy a range, and return what the ledger then has of it, read back."""
        name, target = proposal.name, proposal.entry.target
        if (lacking := self._lacking(proposal.entry)) != proposal.lacking:
            raise FerryError(
                f"Nothing of {name} was appended: {target} lacked {count(proposal.lacking, 'record')} of it when it "
                f"was read for the proposal, and lacks {lacking} now.",
                advice=_UNSTEADY,
            )
        (outcome,) = copy_for_flow(self._flow, self._run.run_id, [range_])
        if outcome.failure:
            raise FerryError(
                f"Not all of {name} was appended: {outcome.failure}",
                advice="Repeat it: what was appended is in the ledger.",
            )
        self._run.project_ledger()
        entries = [
            entry
            for entry in self._run.ledger.ranges(since=self._ledger_end, of_run=self._run.run_id)
            if entry.ledger_offset >= self._ledger_end
            and entry.run == self._run.run_id
            and (entry.copied.topic, entry.copied.partition) == (range_.topic, range_.partition)
        ]
        self._prove(entries)
        if self._lacking(proposal.entry) < lacking:
            raise FerryError(
                f"{target} gives records of {name} by now that it did not give before: consumers get them twice, since "
                f"{count(proposal.records, 'record')} of it were appended.",
                advice=f"{_UNSTEADY} Only a new copy has each record once: see `ferry repair --topic {target.topic}`.",
            )
        return entries

    def _lacking(self, entry: LedgerRange) -> int:
        """How many of a range's records are not at their own places, by another look at the target."""
        return sum(end - start for start, end in read_lacking(self._flow, entry))

    def _prove(self, entries: Sequence[LedgerRange]) -> None:
        for row in self._read_back([entry for entry in entries if entry.copied.records]):
            recount, ledger = row.recount, row.ledger
            is_other = recount.digest_comparable and recount.digest_read != ledger.digest_sent
            if recount.found != ledger.copied or is_other:
                raise FerryError(
                    f"{row.target} does not hold what was appended of {row}: {recount.target_records} of "
                    f"{count(ledger.copied, 'record')}",
                    advice="Find out what happens to the target's log before anything else is done.",
                )

    def _read_back(self, entries: Sequence[LedgerRange]) -> list[RangeRow]:
        return read_ranges(self._run, self._target, entries) if entries else []

    def _accept(self, entry: LedgerRange, reason: str) -> None:
        """Record that the range is left as it is, and what earlier repairs of it have lost again."""
        earlier = [repair for repair in self._earlier_repairs(entry) if repair.copied.records]
        rows = self._read_back([entry, *earlier])
        lacking = [
            row
            for row in rows
            if row.ledger.ledger_offset == entry.ledger_offset
            or row.recount.target_records + row.recount.expired < row.ledger.copied
        ]
        accept_ranges(self._run, lacking, reason)

    def _earlier_repairs(self, entry: LedgerRange) -> Iterator[LedgerRange]:
        """Ranges that only repairs have copied: no other may have records of the same source offsets."""
        copied = entry.copied
        for span in spans_beside(self._run.ledger, entry):
            key = span.ledger_offset, copied.topic, copied.partition, span.start
            for range_ in self._run.ledger.ranges_within(key[0], key[0] + 1):
                if range_.key == key and any(
                    _has_records_of(copied, segment) for segment in range_.copied.segments
                ):
                    yield range_

    # --- whether it can be

    def _refusals(self, entry: LedgerRange) -> Iterator[str]:
        """Why records of a range can never be appended, as far as no log has to be read for that."""
        flow, copied = self._flow, entry.copied
        remote = self._target.topics([copied.remote_topic]).get(copied.remote_topic)
        here = ClusterControl(flow.source).topics([copied.topic]).get(copied.topic)
        if entry.window is not None:
            yield (
                "a backfill has copied it, or an earlier repair: only what is missing of ordinary ranges is appended. "
                "Ask for an offset of it with --append."
            )
        if copied.preserved:
            yield (
                f"{copied.remote_topic} keeps the source's offsets, and Kafka writes only at a log's end: there the "
                "records would have other offsets."
            )
        if copied.transform or copied.schema_ids or flow.fingerprint_of(copied.topic):
            yield (
                "records of the topic go through a rule: the target's cannot be compared with the source's, so that "
                "it is not certain which are missing."
            )
        if remote is None or remote.topic_id != copied.remote_topic_id:
            yield f"{copied.remote_topic} was deleted or created again since."
        elif remote.topic_id in self._run.ledger.released_topics():
            yield f"the flow has given {copied.remote_topic} up."
        elif remote.is_compacted:
            yield (
                f"{copied.remote_topic} is compacted: an older record after a newer one of its key would replace it."
            )
        elif entry.target in lost_ends(flow, self._target, self._run.ledger, [remote]):
            yield (
                f"{entry.target} has lost the end of its log: what is appended would get offsets at which the ledger "
                "has other records. Copy the topic again."
            )
        if here is None or here.topic_id != copied.topic_id:
            yield f"{copied.topic} was deleted on the source, or created again since: it has other records."
        if any(_is_rewind_after(entry, span) for span in spans_beside(self._run.ledger, entry)):
            yield (
                "the source's log was truncated since: it has other records at these offsets, which later ranges "
                "have copied."
            )
        elif self._is_source_replaced(copied):
            yield (
                f"the log of {copied.topic} on {flow.source.alias} was truncated since, or restored from a backup: it "
                "has other records at these offsets."
            )
        if self._have_writers_changed():
            yield "the flow's writers have changed since its last run: run it first."

    def _is_source_replaced(self, copied: CopiedRange) -> bool:
        """Whether the source's log parts before a range's end from the one that it was copied from.

        A source restored from a backup counts its epochs once more: there its batch at the range's end tells.
        """
        flow, source = self._flow, TopicPartition(copied.topic, copied.partition)
        positions, names = copies_of(self._run.ledger, {copied.topic: copied.topic_id})
        diverged = all_diverged(
            *(flow.source, flow.target, self._run.ledger),
            {tp: position for tp, position in positions.items() if tp == source},
            names,
            by_records=copied.last_crc < 0,
        ).offsets
        if diverged.get(source, copied.end) < copied.end:
            return True
        with connect(flow.source) as cluster:
            log = retry(lambda: partition_log(cluster, source))
            return log.end < copied.end or (
                copied.last_crc >= 0
                and has_same_batch(cluster, log, copied.end - 1, copied.last_crc) is False
            )

    def _have_writers_changed(self) -> bool:
        last = last_run(self._run.ledger)
        return last is not None and not last.has_writers(writers_of(self._flow))

    def _by_content(self, proposal: AppendProposal) -> AppendProposal:
        """The proposal once both logs are read, as far as the ledger says that the range's records are there."""
        entry = proposal.entry
        other_segments = spans_beside(self._run.ledger, entry)
        held = read_held(self._flow, entry, [it for span in other_segments for it in span.segments])
        if held.is_appended:
            is_done = self._is_accepted(entry)
            left = _NOTHING_LEFT if is_done else _ONLY_RECORD
            return replace(proposal, consequences=(left,), is_done=is_done)
        if refusal := self._refusal_by_content(entry, held):
            return replace(proposal, refusal=refusal)
        return replace(
            proposal,
            range=self._range(entry, held),
            records=len(held.wanted),
            lacking=held.lacking,
            unavailable=held.unavailable,
            consequences=consequences(self._flow, proposal.name, held, self._offsets),
        )

    def _is_accepted(self, entry: LedgerRange) -> bool:
        return entry.key in accepted_ranges(self._run.ledger)

    def _refusal_by_content(self, entry: LedgerRange, held: HeldRecords) -> str:
        if not held.missing:
            if held.expired:
                before = count(held.expired, "record")
                return f"the target's log starts after {before} of it, which count as deleted: no other is missing."
            return "the target has a record at each of its offsets: nothing is missing."
        if not held.wanted:
            return (
                f"the source no longer has any of the {count(held.unavailable, 'missing record')}."
            )
        remote = self._target.topics([entry.target.topic])[entry.target.topic]
        if other := held.first_other(compare_times=not remote.stamps_append_time):
            return (
                f"the target's record at offset {other[1]} is another one than the source's at {other[0]}: not only "
                "are records missing, others were written or changed in their place."
            )
        (row,) = self._read_back([entry])
        if row.recount.foreign:
            return f"records of another producer lie between its own in {row.target}: revoke its WRITE first."
        return ""

    @cached_property
    def _offsets(self) -> CommittedOffsets:
        return committed_offsets(self._flow)

    def _range(self, entry: LedgerRange, held: HeldRecords) -> Range:
        """What is copied: the missing records, and everything between them counts as settled."""
        copied, wanted = entry.copied, held.wanted
        times = [held.here[at][0] for at in wanted]
        start, end = wanted[0], wanted[-1] + 1
        settled = without((start, end), spans_of(wanted))
        return Range(
            topic=copied.topic,
            partition=copied.partition,
            start=start,
            end=end,
            topic_id=copied.topic_id,
            remote_topic=copied.remote_topic,
            writer=writers_of(self._flow).of(entry.target),
            remote_topic_id=copied.remote_topic_id,
            origins=copied.origins,
            backfill=Backfill(
                since=min(times),
                until=max(times) + 1,
                ledger_since=self._ledger_end,
                settled=tuple(Settled(*span, BEGINNING, FOREVER) for span in settled),
            ),
        )


def _has_records_of(copied: CopiedRange, segment: Segment) -> bool:
    return any(
        segment.source < own.source + own.records and own.source < segment.source + segment.records
        for own in copied.segments
    )


def _is_rewind_after(entry: LedgerRange, span: CopiedSpan) -> bool:
    return span.rewound_from >= 0 and span.ledger_offset > entry.ledger_offset
