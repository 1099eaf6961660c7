"""Runs work in Spark's tasks: one item, one task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Generic, TypeVar

from kafka_ferry.errors import mask_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def run_in_tasks(
    spark: SparkSession, work: Callable[[_Item], _Result], items: Sequence[_Item]
) -> list[_Result]:
    """The results of ``work`` for each item, each in its own task, in the items' order.

    It is an RDD job, not a query: there is nothing to optimize, and the JVM, which would load and compile
    a thousand classes for a query, only passes bytes on.

    Args:
        spark: the session.
        work: called in a worker. Neither its closure, which is sent in the task's code, nor the items may hold a
            secret outside of an envelope (``serialized_flow``).
        items: the items, each of which pickles.

    Raises:
        Py4JJavaError: if a task fails too often.
    """
    if not items:
        return []
    context = spark.sparkContext
    return context.parallelize(items, len(items)).map(_Masked(work)).collect()


class _Masked(Generic[_Item, _Result]):
    """Work whose errors show no secret: a worker's traceback is printed by its executor, and by the driver."""

    def __init__(self, work: Callable[[_Item], _Result]) -> None:
        self._work = work

    def __call__(self, item: _Item) -> _Result:
        with mask_errors():
            return self._work(item)


def deal(items: Sequence[_Item], lists: int) -> list[list[_Item]]:
    """The items in at most ``lists`` lists, one to each in turn."""
    return [list(islice(items, first, None, lists)) for first in range(min(lists, len(items)))]
