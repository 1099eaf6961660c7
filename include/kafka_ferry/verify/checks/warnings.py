"""What a person should know of ranges that are proved all the same. Pure."""

from __future__ import annotations

from typing import Final

from kafka_ferry.batches import Reason
from kafka_ferry.verify.checks.check import Check, Suite
from kafka_ferry.verify.checks.sentences import interval_list
from kafka_ferry.verify.counts import count
from kafka_ferry.verify.rows import RangeRow

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
            "source's log start, which it follows where offsets are preserved, has passed them. Where it keeps records "
            "for ever, a client has deleted them, or a disk has lost them.",
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
                f"{interval_list(row.ledger.lost_intervals)}"
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
