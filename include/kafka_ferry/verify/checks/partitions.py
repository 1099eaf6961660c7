"""What has to be true of each partition. Pure."""

from __future__ import annotations

from typing import Final

from kafka_ferry.verify.checks.check import Check, Suite
from kafka_ferry.verify.checks.sentences import STRANGER, first_foreign
from kafka_ferry.verify.counts import count
from kafka_ferry.verify.rows import UNKNOWN, PartitionRow
from kafka_ferry.verify.verdict import COVERED


def _past_plan(row: PartitionRow) -> str:
    """That no later run continues a plan, to follow what it has not covered; "" where the next one does."""
    if row.position < row.planned_end:
        return ""
    return f", and the position is {row.position} already"


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
                + first_foreign(row.log.beyond_at, row.log.beyond_by)
            ),
            f"{STRANGER} Where a person has set records of the ledger aside, or it has lost some, they may be the "
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
            "part, and does what on.source.divergence and on.source.truncation say. If it says nothing, a transaction "
            "that was copied in part has ended otherwise since: `ferry audit` names its records. To copy all of the "
            "topic again, give its copy up with `ferry repair`.",
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
