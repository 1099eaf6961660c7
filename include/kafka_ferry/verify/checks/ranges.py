"""What has to be true of each range that was copied. Pure."""

from __future__ import annotations

from typing import Final

from kafka_ferry.batches import Reason
from kafka_ferry.verify.checks.check import Check, Suite
from kafka_ferry.verify.checks.sentences import FAULT, STRANGER, first_foreign, interval_list
from kafka_ferry.verify.counts import count
from kafka_ferry.verify.rows import RangeRow


def _writer_of(row: RangeRow) -> str:
    """Who has written the foreign records of a range, as far as that was seen."""
    if row.recount.foreign_own:
        return "of this flow's own writers that its ledger does not have (any more)"
    return "of another producer"


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
            FAULT,
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
                + first_foreign(row.recount.foreign_at, row.recount.foreign_by)
            ),
            f"{STRANGER} What the flow's own writers have written is there twice, or not proved.",
        ),
        Check(
            "offsets",
            "records keep their source's offsets",
            "misplaced",
            lambda row: f"{count(row.ledger.misplaced, 'record')} at other offsets in {row.target}",
            FAULT,
        ),
        Check(
            "mapped",
            "every copied record has its place in the offset map",
            "unmapped",
            lambda row: (
                f"{count(row.ledger.copied, 'record')} copied, {row.ledger.unmapped:,} without a place"
            ),
            FAULT,
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
                f"{interval_list(row.ledger.lost_intervals) or 'none'} by name"
            ),
            FAULT,
        ),
    ),
)
