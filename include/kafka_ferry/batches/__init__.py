"""Record batches: what is copied unopened, rebuilt or dropped. Pure: bytes in, bytes out."""

from kafka_ferry.batches.aborted_transactions import (
    AbortedTransaction,
    AbortFilter,
    TransactionFates,
    is_abort_marker,
)
from kafka_ferry.batches.batch_filter import BatchFilter
from kafka_ferry.batches.converted_batch import (
    Absent,
    ConvertedBatch,
    Reason,
    Rebuilt,
    gap,
    left_out,
    lost_batch,
)
from kafka_ferry.batches.digest import RangeDigest
from kafka_ferry.batches.empty_batches import empty_batch, empty_batches, is_empty_batch
from kafka_ferry.batches.fetch_response import converted_batches
from kafka_ferry.batches.record_format.codecs import OPENED_AT_ONCE, TooLarge
from kafka_ferry.batches.record_format.content import key_value_of
from kafka_ferry.batches.record_format.header import (
    Batch,
    BatchHeader,
    MalformedBatch,
    for_producer,
    next_sequence,
)
from kafka_ferry.batches.record_format.records import (
    Record,
    each_record,
    read_records,
    single_record,
)
from kafka_ferry.batches.record_format.split import split_batches
from kafka_ferry.batches.record_times import NO_AGES, Spread, Times, first_time
from kafka_ferry.batches.rejected_records import (
    Rejected,
    by_runs,
    cut_at,
    dead_letter,
    halves,
    in_parts,
    is_too_large,
    offsets_at,
    records_of,
    restore,
    set_aside,
    unfit,
)
from kafka_ferry.batches.returned_records import Returned
from kafka_ferry.batches.segments import Segment, SegmentList
from kafka_ferry.batches.topic_limits import LIMITING_CONFIGS, TopicLimits
from kafka_ferry.batches.windows import SettledSpan, TimeWindow

__all__ = [
    "LIMITING_CONFIGS",
    "NO_AGES",
    "OPENED_AT_ONCE",
    "AbortFilter",
    "AbortedTransaction",
    "Absent",
    "Batch",
    "BatchFilter",
    "BatchHeader",
    "ConvertedBatch",
    "MalformedBatch",
    "RangeDigest",
    "Reason",
    "Rebuilt",
    "Record",
    "Rejected",
    "Returned",
    "Segment",
    "SegmentList",
    "SettledSpan",
    "Spread",
    "TimeWindow",
    "Times",
    "TooLarge",
    "TopicLimits",
    "TransactionFates",
    "by_runs",
    "converted_batches",
    "cut_at",
    "dead_letter",
    "each_record",
    "empty_batch",
    "empty_batches",
    "first_time",
    "for_producer",
    "gap",
    "halves",
    "in_parts",
    "is_abort_marker",
    "is_empty_batch",
    "is_too_large",
    "key_value_of",
    "left_out",
    "lost_batch",
    "next_sequence",
    "offsets_at",
    "read_records",
    "records_of",
    "restore",
    "set_aside",
    "single_record",
    "split_batches",
    "unfit",
]
