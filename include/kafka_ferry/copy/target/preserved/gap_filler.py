"""Fills gaps and waits until they are filled: a batch after a gap must not overtake its control records."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from kafka_ferry.copy.target.preserved.control_records import Filler
from kafka_ferry.copy.target.preserved.partition_queue import PreservedQueue
from kafka_ferry.copy.target.produce.verdicts import Verdicts
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.wire import WireCluster
from kafka_ferry.wire.error_codes import (
    NONE,
    TRANSACTION_COORDINATOR_FENCED,
    error_name,
    is_transient,
)
from kafka_ferry.wire.partitions.ends import settled_ends
from kafka_ferry.wire.partitions.list_offsets import high_watermarks
from kafka_ferry.wire.partitions.partition_log import partition_log
from kafka_ferry.wire.partitions.scan import stored_batches

# Control records are in the log milliseconds after the request.
_GRACE_S: Final = 2.0


class Fail(Protocol):
    """Stops a partition."""

    def __call__(
        self,
        queue: PreservedQueue,
        offset: int,
        message: str,
        code: int = NONE,
        *,
        advice: bool = False,
    ) -> None:
        """Stop writing to ``queue``, because of what happened at ``offset``."""


class Gaps:
    """Fills what is missing in queues.

    Args:
        cluster: the target; no answers may be pending on its connections.
        filler: writes control records.
        verdicts: counts the brokers' transient failures.
        fail: stops a partition.
        renew: begins a new epoch of the writer's producer, which ends what is still going on, and
            raises ``Fenced`` if another writer has taken over.
    """

    def __init__(
        self,
        cluster: WireCluster,
        filler: Filler,
        verdicts: Verdicts,
        fail: Fail,
        renew: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._filler = filler
        self._verdicts = verdicts
        self._fail = fail
        self._renew = renew

    def take_over(self) -> None:
        """See ``Filler``."""
        self._filler.take_over()

    def fill(self, queues: Mapping[TopicPartition, PreservedQueue]) -> None:
        """Fill some of what is missing in each of ``queues``; their ends then say how much."""
        gaps = {tp: (queue.end, queue.end + queue.missing) for tp, queue in queues.items()}
        filled = self._filler.fill(queues)
        expected = {
            tp: queues[tp].end + records
            for tp, records in filled.records.items()
            if tp not in filled.refused
        }
        ends = self._ends_after(queues, expected)
        for tp, end in expected.items():
            queues[tp].end = ends[tp]
            if ends[tp] > end:
                self._judge_more(tp, queues[tp], end, gaps[tp])
            queues[tp].settle()
        if TRANSACTION_COORDINATOR_FENCED in filled.refused.values():
            # Another writer has filled there since: has it taken over?
            self._renew()
        for tp, code in filled.refused.items():
            queue = queues[tp]
            if is_transient(code) and queue.range:
                self._verdicts.fail_for_now(queue.range, queue.end, code)
            else:
                self._fail(queue, queue.end, f"it refuses control records: {error_name(code)}.")

    def _judge_more(
        self, tp: TopicPartition, queue: PreservedQueue, filled_to: int, gap: tuple[int, int]
    ) -> None:
        """The error about a log that ends after what was filled."""
        first, end = gap
        stored = stored_batches(self._cluster, partition_log(self._cluster, tp), first, queue.end)
        if all(batch.header.is_control for batch in stored):
            if queue.end <= end:
                return
            why = (
                "Kafka has written a transaction's marker there twice, as it may when a leader moves under "
                "fill: transactions; fill: markers prevents that."
            )
        else:
            why = "something else has been written to it."
        message = f"its log ends at {queue.end}, although it was filled only to {filled_to}: {why}"
        self._fail(queue, filled_to, message, advice=True)

    def _ends_after(
        self,
        queues: Mapping[TopicPartition, PreservedQueue],
        expected: Mapping[TopicPartition, int],
    ) -> Mapping[TopicPartition, int]:
        """The log ends, once the requested control records are in them or will never be."""
        nodes = {tp: queues[tp].node for tp in expected}
        deadline, pause = time.monotonic() + _GRACE_S, 0.0002
        while time.monotonic() < deadline:
            ends = high_watermarks(self._cluster, nodes)
            if all(ends[tp] >= end for tp, end in expected.items()):
                return ends
            time.sleep(pause)
            pause = min(pause * 2, 0.05)
        # A broker that was down may have been left out (wire.transactions.settlement): this ends what is still open.
        self._renew()
        return settled_ends(self._cluster, {tp: queues[tp].leader for tp in expected})
