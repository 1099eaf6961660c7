"""The checks of the reconciliation table, as a table. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from kafka_ferry.batches import Reason
from kafka_ferry.config.options.verify import Severity
from kafka_ferry.flat import columns_of
from kafka_ferry.verify.counts import count
from kafka_ferry.verify.rows import UNKNOWN, PartitionRow, RangeRow
from kafka_ferry.verify.verdict import COVERED, Table, Verdict

Row = TypeVar("Row")


# No slots: Python 3.11 cannot create generic dataclasses with slots.
@dataclass(frozen=True)
class Check(Generic[Row]):
    """One expectation.

    Attributes:
        key: its name in options, one of ``config.options.verify.CHECKS``.
        name: the sentence that should be true.
        left: the column that is checked.
        explain: what is wrong with a row, to follow its name.
        advice: what to check.
        right: the column that must be equal to ``left``; "" where ``left`` must be 0.
        only_where: the column without which a row is not checked; "" for every row.
        severity: its own severity, where it is not the suite's.
    """

    key: str
    name: str
    left: str
    explain: Callable[[Row], str]
    advice: str
    right: str = ""
    only_where: str = ""
    severity: Severity | None = None

    def holds(self, row: Row) -> bool:
        """Whether it is true of ``row``."""
        columns = columns_of(type(row))
        if self.only_where and not columns[self.only_where](row):
            return True
        wanted = columns[self.right](row) if self.right else 0
        return bool(columns[self.left](row) == wanted)


@dataclass(frozen=True)
class Suite(Generic[Row]):
    """Checks of one table; ``severity`` is for checks without their own."""

    name: str
    table: Table
    severity: Severity
    checks: tuple[Check[Row], ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the checks look at, each once."""
        named = (name for it in self.checks for name in (it.left, it.right, it.only_where))
        return tuple(dict.fromkeys(filter(None, named)))

    def severities(self, chosen: Mapping[str, Severity]) -> dict[str, Severity]:
        """The severity of each check, by its key.

        Args:
            chosen: the severities that the flow sets, by the checks' keys.
        """
        return {
            check.key: chosen.get(check.key, check.severity or self.severity)
            for check in self.checks
        }


_FAULT: Final = (
    "The ledger contradicts itself, which is a bug in the copier. Leave the ledger and both topics "
    "as they are and report it."
)

_STRANGER: Final = (
    "Find the other producer and revoke its WRITE permission on the remote topic. No client can delete single records: "
    "each run fails here until `ferry repair --topic`, with the remote topic and --yes, gives the copy up. The next "
    "run makes it again, of all that the source still has."
)


def _first(at: int, producer_id: int) -> str:
    """Where the first of some foreign records is on the target, and whose, to follow their count; "" if unknown."""
    if at == UNKNOWN:
        return ""
    producer = "a producer without an id" if producer_id == UNKNOWN else f"producer {producer_id}"
    return f", the first at offset {at} by {producer}"


def _writer_of(row: RangeRow) -> str:
    """Who has written the foreign records of a range, as far as that was seen."""
    if row.recount.foreign_own:
        return "of this flow's own writers that its ledger does not have (any more)"
    return "of another producer"


def _past_plan(row: PartitionRow) -> str:
    """That no later run continues a plan, to follow what it has not covered; "" where the next one does."""
    if row.position < row.planned_end:
        return ""
    return f", and the position is {row.position} already"


def _intervals(intervals: Iterable[tuple[int, int]]) -> str:
    return ", ".join(f"[{start}, {end})" for start, end in intervals)


RANGES: Final = Suite[RangeRow](
    "ranges",
    "ranges",
    "critical",
    (
        Check(
            "accounted",
            "every source offset is a record on the target or has a reason",
            "source_offsets",
            lambda row: (
                f"{count(row.source_offsets, 'offset')}, {row.ledger.accounted:,} accounted for"
            ),
            _FAULT,
            right="accounted",
        ),
        Check(
            "read",
            "every range was read back",
            "unread_ranges",
            lambda row: f"{row.target} was not read back: {row.recount.unread}",
            "What is not read is not proved. The other partitions were read all the same.",
        ),
        Check(
            "counts",
            "the target holds as many records as were copied",
            "copied",
            lambda row: (
                f"{count(row.ledger.copied, 'record')} copied, {row.recount.target_records:,} on the target, "
                f"{row.recount.expired:,} expired, {row.recount.target_compacted:,} compacted away"
            ),
            "Look for an unclean leader election on the target, for deleted records, for a "
            "changed cleanup.policy of the remote topic, and for an open transaction of another "
            "producer that hides them (kafka-transactions.sh find-hanging).",
            right="found",
            only_where="is_read",
        ),
        Check(
            "digests",
            "the target's bytes are those that were sent",
            "digest_sent",
            lambda row: (
                f"digest {row.ledger.digest_sent} sent, {row.recount.digest_read} read back"
            ),
            "Compare the remote topic's compression.type and message.timestamp.type with the "
            "source's: a broker that recompresses or restamps batches changes the bytes. Otherwise "
            "records were changed or damaged.",
            right="digest_read",
            only_where="digest_comparable",
        ),
        Check(
            "transforms",
            "the target has what the transform rules give for the source's records",
            "unlike_rule",
            lambda row: (
                f"{count(row.rule.unlike_rule, 'offset')} unlike the rule; {'; '.join(row.rule.evaluation)}"
            ),
            "Look at what the rule depends on besides the record: a secret that was changed since, another release "
            "of Spark, or a function that does not give the same every time. Otherwise the records were changed.",
        ),
        Check(
            "witness",
            "what was booked without a record has none on the source",
            "contradicted",
            lambda row: (
                f"{count(row.witness.contradicted, 'offset')} without a record on the target, and by the ledger "
                f"for a reason that the source gives; {'; '.join(row.witness.contradiction)}"
            ),
            "The ledger's record of it is wrong. Find out which principals may write to the ledger's topic. To copy "
            "all of the topic again, give its copy up with `ferry repair`.",
        ),
        Check(
            "letters",
            "the dead letter topic has the records that went there",
            "letters_missing",
            lambda row: (
                f"{count(row.letters.letters_missing, 'record')} of {row.source} not there"
                + (f": {row.letters.letters_unread}" if row.letters.letters_unread else "")
            ),
            "If the topic could not be read, see to that first, and run again. What is missing there is nowhere on the "
            "target: find out who has deleted the topic, or look for an unclean leader election or a power cut on the "
            "target. If the records are not needed any more, let verify.severity have letters: warning for one run.",
        ),
        Check(
            "foreign",
            "nothing lies between our records that the ledger does not have",
            "foreign",
            lambda row: (
                f"{count(row.recount.foreign, 'record')} {_writer_of(row)} in {row.target}"
                + _first(row.recount.foreign_at, row.recount.foreign_by)
            ),
            f"{_STRANGER} What the flow's own writers have written is there twice, or not proved.",
        ),
        Check(
            "offsets",
            "records keep their source's offsets",
            "misplaced",
            lambda row: f"{count(row.ledger.misplaced, 'record')} at other offsets in {row.target}",
            _FAULT,
        ),
        Check(
            "mapped",
            "every copied record has its place in the offset map",
            "unmapped",
            lambda row: (
                f"{count(row.ledger.copied, 'record')} copied, {row.ledger.unmapped:,} without a place"
            ),
            _FAULT,
        ),
        Check(
            "ascending",
            "the target's offsets ascend",
            "displaced",
            lambda row: (
                f"{count(row.ledger.displaced, 'record')} at offsets of {row.target} that an earlier range has"
            ),
            "The target's log was truncated and written on, as by an unclean leader election: records of the "
            "earlier range are gone, and groups that were moved there read others. To copy all of it again, give the "
            "copy up with `ferry repair`.",
        ),
        Check(
            "before-kept",
            "the record that was copied before a range is still there",
            "gone_before",
            lambda row: (
                f"the last record of {row.target} before this range is gone, or hidden from consumers"
            ),
            "The target's log was truncated while the run began, as by an unclean leader election, and written on: "
            "`ferry verify --all` names what is gone, or hidden by a transaction whose marker is. To copy it again, "
            "give the copy up with `ferry repair`.",
        ),
        Check(
            "losses-named",
            "every lost offset is named",
            "losses_unnamed",
            lambda row: (
                f"{count(row.ledger.reasons[Reason.LOST], 'offset')} lost, of which "
                f"{_intervals(row.ledger.lost_intervals) or 'none'} by name"
            ),
            _FAULT,
        ),
    ),
)

PARTITIONS: Final = Suite[PartitionRow](
    "partitions",
    "partitions",
    "critical",
    (
        Check(
            "gaps",
            "the ranges of a partition join without a gap",
            "gap_offsets",
            lambda row: f"{count(row.coverage.gap_offsets, 'offset')} in between in no range",
            "If the run names this partition as failed, the next run continues there. Otherwise its "
            "remote topic was deleted (a warning says so), positions were moved by hand, or ledger "
            "records are missing.",
        ),
        Check(
            "overlaps",
            "no offset was copied twice",
            "overlap_offsets",
            lambda row: f"{count(row.coverage.overlap_offsets, 'offset')} in more than one range",
            "Look for a position of the flow's group that was reset by hand.",
        ),
        Check(
            "positions",
            "the ledger ends where the position is",
            "beyond_position",
            lambda row: (
                f"the ledger ends at {row.coverage.covered_end}, "
                + ("no position" if row.position == UNKNOWN else f"the position is {row.position}")
            ),
            "Look for a position of the flow's group that was reset, deleted or forgotten.",
        ),
        Check(
            "beyond",
            "nothing lies beyond what the ledger knows",
            "target_beyond",
            lambda row: (
                f"{count(row.log.target_beyond, 'record')} on the target after the ledger's last one"
                + _first(row.log.beyond_at, row.log.beyond_by)
            ),
            f"{_STRANGER} Where a person has set records of the ledger aside, or it has lost some, they may be the "
            "flow's own.",
        ),
        Check(
            "end-read",
            "what follows the ledger's last record was read",
            "unread_ends",
            lambda row: f"it was not read on the target: {row.log.unread}",
            "What is not read is not proved. The other partitions were read all the same.",
        ),
        Check(
            "before",
            "nothing lies before the mirror's start",
            "target_before",
            lambda row: (
                f"{count(row.log.target_before, 'record')} on the target before the ledger's first one"
            ),
            "Another producer has written to the remote topic before the mirror began, or records that "
            "stand for nothing could not be deleted: the flow needs the right to do so.",
        ),
        Check(
            "reach",
            "the target's log goes as far as the ledger",
            "unreached",
            lambda row: (
                f"read_committed consumers of {row.remote_topic} do not get to its last "
                f"{count(row.log.unreached, 'offset')}"
            ),
            "Look for an unclean leader election on the target, and for a transaction of another "
            "producer that is open in the remote topic (kafka-transactions.sh find-hanging).",
        ),
        Check(
            "start",
            "the target's log starts where the mirror does",
            "exposed",
            lambda row: (
                f"{row.remote_topic} still shows {count(row.log.exposed, 'offset')} before its start"
            ),
            "The flow needs DELETE on the remote topic; the next run tries again.",
        ),
        Check(
            "source-kept",
            "the source's log is still the one that was copied",
            "replaced",
            lambda row: (
                f"it has lost or replaced {count(row.replaced, 'offset')} before {row.position}, at the least"
            ),
            "Look for an unclean leader election on the source after it was copied. The next run says where the logs "
            "part, and does what on.source.divergence and on.source.truncation say.",
        ),
        Check(
            COVERED,
            "every planned offset is covered",
            "uncovered",
            lambda row: (
                f"planned [{row.planned_start}, {row.planned_end}), "
                f"covered [{row.coverage.covered_start}, {row.coverage.covered_end})"
                + _past_plan(row)
            ),
            "The run did not reach the end of its plan here: its report says why. The "
            "next run continues from the position. Where that is not before the plan's end, a later run has continued, "
            "and this run's plan is out of date: clear its task plan, with the tasks after it, to plan what is left.",
        ),
    ),
)

WARNINGS: Final = Suite[RangeRow](
    "warnings",
    "ranges",
    "warning",
    (
        Check(
            "reasons",
            "every reason is one that this release knows",
            "other_reasons",
            lambda row: (
                f"{count(row.ledger.other_reasons, 'offset')} for reasons of another release"
            ),
            "A newer release has copied this: verify with that release, which knows these reasons.",
            only_where="first_proof",
        ),
        Check(
            "source-gaps",
            "compacted offsets lie where the source compacts",
            "source_gaps",
            lambda row: (
                f"{count(row.source_gaps, 'offset')} without a record between others of the source's log, "
                "and by the run's plan the source does not compact the topic"
            ),
            "Right if the topic's cleanup.policy had compact when these were written. Otherwise the source itself "
            "has lost records, as with a segment's file: look at its brokers' disks and logs. Whatever its log still "
            "holds was copied.",
            only_where="first_proof",
        ),
        Check(
            "expired",
            "no copied record has expired on the target",
            "expired",
            lambda row: (
                f"{row.recount.expired:,} of {count(row.ledger.copied, 'record')} below the log start"
            ),
            "The remote topic's retention is shorter than the time until it was verified; or the "
            "source's log start, which it follows where offsets are preserved, has passed them.",
            only_where="first_proof",
        ),
        Check(
            "compacted",
            "the target's cleaner has removed no record of a topic that the source does not compact",
            "oddly_compacted",
            lambda row: (
                f"{row.oddly_compacted:,} of {count(row.ledger.copied, 'record')} compacted away"
            ),
            "The remote topic's cleanup.policy has compact, and the source's has not, or is not known "
            "to this run: set it back. What was removed cannot be counted any more.",
        ),
        Check(
            "lost",
            "no record was lost before it could be copied",
            "lost",
            lambda row: (
                f"{count(row.ledger.reasons[Reason.LOST], 'offset')} deleted on the source before they were copied: "
                f"{_intervals(row.ledger.lost_intervals)}"
            ),
            "on.source.truncation is set to continue: mirror more often, or keep the source's "
            "records longer.",
            only_where="first_proof",
        ),
        Check(
            "evaluated-again",
            "the rules of all chosen ranges could be evaluated again",
            "unevaluated",
            lambda row: (
                f"{count(row.rule.unevaluated, 'offset')} could not be evaluated again; "
                f"{'; '.join(row.rule.evaluation)}"
            ),
            "The source's retention is shorter than the time until it was verified, or the rule has changed since. "
            "What was copied was read back all the same.",
        ),
        Check(
            "dead-lettered",
            "no record went to the dead letter topic",
            "dead_lettered",
            lambda row: (
                f"{count(row.ledger.reasons[Reason.DEAD_LETTERED], 'record')} that {row.target} rejected"
                + (
                    f", of which {row.letters.letters_deleted:,} were deleted from the dead letter topic"
                    if row.letters.letters_deleted
                    else ""
                )
            ),
            "on.rejected.record is set to dead-letter: the dead letter topic holds the records, with "
            "their coordinates and the broker's error in headers.",
            only_where="first_proof",
        ),
        Check(
            "cut-back",
            "the source's log was not truncated below what was copied",
            "rewound",
            lambda row: (
                f"truncated to {row.start}: {count(row.rewound, 'offset')} "
                f"[{row.start}, {row.ledger.rewound_from}) had been copied from a branch that is lost"
                + (
                    "; of keys that the source does not write again, its records stay the newest ones on the target"
                    if row.compaction_expected
                    else ""
                )
            ),
            "on.source.divergence is set to continue: the target keeps the records of the lost "
            "branch. Look for an unclean leader election on the source. Where the topic is compacted, `ferry audit` "
            "names the keys whose newest record is not the source's.",
            only_where="first_proof",
        ),
        Check(
            "topic-gone",
            "the remote topic that was copied into is still there",
            "gone",
            lambda row: (
                f"{count(row.recount.gone, 'record')} went into {row.remote_topic}, which was deleted since"
            ),
            "Nothing can be read back of them. on.target.topic.lost: recopy copies what the source "
            "still has again.",
            only_where="first_proof",
        ),
    ),
)


def decisive(
    table: Table,
    verdict: Verdict | None,
    suites: Iterable[Suite[Any]] = (RANGES, WARNINGS, PARTITIONS),
) -> tuple[Check[Any], ...]:
    """The checks of a table that fail a run, by the run's verdict.

    Args:
        table: the table.
        verdict: the run's; without one, what is critical by itself.
        suites: the suites with its checks.
    """
    judged = (
        {}
        if verdict is None
        else {expectation.key: expectation.severity for expectation in verdict.expectations}
    )
    return tuple(
        check
        for suite in suites
        if suite.table == table
        for check in suite.checks
        if suite.severities(judged)[check.key] == "critical"
    )


def unproved_rows(
    table: Table,
    verdict: Verdict | None,
    rows: Iterable[Row],
    suites: Iterable[Suite[Any]] = (RANGES, WARNINGS, PARTITIONS),
) -> list[Row]:
    """The rows of a table of which a check is not true that fails a run; arguments as of ``decisive``."""
    checks = decisive(table, verdict, suites)
    return [row for row in rows if not all(check.holds(row) for check in checks)]
