"""Reports, their rows and plans, made and changed by the names that stored values have."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

from pydantic import TypeAdapter

from kafka_ferry.flat import columns_of
from kafka_ferry.model import Refusal, TopicPartition
from kafka_ferry.model.results.failures import Failure
from kafka_ferry.report import RunReport
from kafka_ferry.verify import PartitionRow, RangeRow
from kafka_ferry.verify.rows import Coverage

T = TypeVar("T")
_adapter: Any = cache(TypeAdapter)


def made(kind: type[T], **values: Any) -> T:
    """An object from the values of its flat form."""
    whole: T = _adapter(kind).validate_python(values)
    assert {name: columns_of(kind)[name](whole) for name in values} == values
    return whole


def changed(whole: T, **values: Any) -> T:
    """The object with these values, by their names in its flat form."""
    flat = {name: value(whole) for name, value in columns_of(type(whole)).items()}
    new: T = _adapter(type(whole)).validate_python(flat | values)
    assert {name: columns_of(type(whole))[name](new) for name in values} == values
    return new


RANGE = made(
    RangeRow,
    **{"topic": "orders", "partition": 3, "remote_topic": "eu.orders", "start": 100, "end": 200},
    **{"run": "r", "ledger_offset": 7, "copied": 90, "aborted": 8, "control": 2},
    **{"target_records": 90, "digest_sent": "d1", "digest_read": "d1"},
)
PARTITION = PartitionRow("orders", 3, "eu.orders", 100, 200, Coverage(100, 200), 200)


def a_failure(
    topic: str = "orders", partition: int = 0, message: str = "too large.", shard: int | None = None
) -> Failure:
    """The failure of a partition at its offset 7."""
    source, target = TopicPartition(topic, partition), TopicPartition(f"eu.{topic}", partition)
    return Failure(source, target, 7, message, transient=False, shard=shard)


A_FAILURE = a_failure()
A_REFUSAL = Refusal("old", "fewer partitions.", "Add 3.")


def a_report(flow: str = "eu->us", run: str = "run", **values: Any) -> RunReport:
    """The report of a run that did nothing else."""
    source, _, target = flow.partition("->")
    at = {"planned_at": 1_000, "finished_at": 9_000}
    return made(RunReport, flow=flow, run=run, source=source, target=target, **at | values)
