"""Records that change on the way: what rules in Spark SQL leave of a converted batch. Spark itself is not here."""

from kafka_ferry.transform.apply import TransformedBatch, apply_rule
from kafka_ferry.transform.changer import WRAPPED, Changer
from kafka_ferry.transform.columns import Column, Columns, RecordRows, rows_of
from kafka_ferry.transform.evaluator import (
    MOST_READS,
    Decimals,
    Evaluated,
    Evaluator,
    Reads,
    TransformFailed,
)
from kafka_ferry.transform.field_format import FieldFormat
from kafka_ferry.transform.functions import (
    FunctionRule,
    TransformFunction,
    TransformRecord,
    load_functions,
)
from kafka_ferry.transform.record_limits import MOST_BYTES

__all__ = [
    "MOST_BYTES",
    "MOST_READS",
    "WRAPPED",
    "Changer",
    "Column",
    "Columns",
    "Decimals",
    "Evaluated",
    "Evaluator",
    "FieldFormat",
    "FunctionRule",
    "Reads",
    "RecordRows",
    "TransformFailed",
    "TransformFunction",
    "TransformRecord",
    "TransformedBatch",
    "apply_rule",
    "load_functions",
    "rows_of",
]
