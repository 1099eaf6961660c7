"""Record batches: what may pass unopened, what is rebuilt, what is dropped. Pure: bytes in, bytes out."""

from kafka_ferry.batches.aborted import AbortedTransaction, AbortFilter
from kafka_ferry.batches.digest import RangeDigest
from kafka_ferry.batches.header import (
    Batch,
    BatchHeader,
    MalformedBatch,
    for_producer,
    next_sequence,
    split_batches,
)
from kafka_ferry.batches.passage import Passage, Reason, Rebuilt, gap, passages
from kafka_ferry.batches.records import single_record
from kafka_ferry.batches.segments import Segment, SegmentList

__all__ = [
    "AbortFilter",
    "AbortedTransaction",
    "Batch",
    "BatchHeader",
    "MalformedBatch",
    "Passage",
    "RangeDigest",
    "Reason",
    "Rebuilt",
    "Segment",
    "SegmentList",
    "for_producer",
    "gap",
    "next_sequence",
    "passages",
    "single_record",
    "split_batches",
]
