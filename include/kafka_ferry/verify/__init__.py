"""Proof that a copy is complete: the ledger is compared with what was read back, judged and documented."""

from kafka_ferry.verify.expectations.judge import Terms, judge
from kafka_ferry.verify.reconciliation import partition_rows, range_row
from kafka_ferry.verify.recount_result import PartitionRecount, Recount
from kafka_ferry.verify.rows import PartitionRow, RangeRow
from kafka_ferry.verify.topics import TopicRow, topic_rows
from kafka_ferry.verify.verdict import ExpectationResult, Verdict

__all__ = [
    "ExpectationResult",
    "PartitionRecount",
    "PartitionRow",
    "RangeRow",
    "Recount",
    "Terms",
    "TopicRow",
    "Verdict",
    "judge",
    "partition_rows",
    "range_row",
    "topic_rows",
]
