"""Moves the start of the target's logs to where a mirror begins, or where the source's log starts now."""

from __future__ import annotations

from collections.abc import Mapping

from kafka_ferry.copy.target.preserved.gap_filler import Fail
from kafka_ferry.copy.target.preserved.partition_queue import PreservedQueue
from kafka_ferry.copy.target.produce.verdicts import Verdicts
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.model.rights import Right, advice_on
from kafka_ferry.wire import WireCluster
from kafka_ferry.wire.error_codes import error_name, is_transient
from kafka_ferry.wire.partitions.ends import delete_records


class LogStarts:
    """Moves the start of queues' logs (DeleteRecords).

    Args:
        cluster: the target; no answers may be pending on its connections.
        verdicts: counts the brokers' transient failures.
        fail: stops a partition.
    """

    def __init__(self, cluster: WireCluster, verdicts: Verdicts, fail: Fail) -> None:
        self._cluster = cluster
        self._verdicts = verdicts
        self._fail = fail

    def move(
        self,
        queues: Mapping[TopicPartition, PreservedQueue],
        starts: Mapping[TopicPartition, int],
        *,
        otherwise: str,
    ) -> None:
        """Move the log starts of ``queues`` to ``starts``; ``otherwise`` is the option that avoids this."""
        for tp, code in self._delete(queues, starts).items():
            queue = queues[tp]
            if is_transient(code) and queue.range:
                self._verdicts.fail_for_now(queue.range, queue.end, code)
            else:
                self._refuse(tp, queue, starts[tp], code, otherwise)

    def follow(
        self,
        queues: Mapping[TopicPartition, PreservedQueue],
        committed: Mapping[TopicPartition, int],
    ) -> None:
        """Move the log starts to the source's, as far as ``committed``, by *source* partition.

        Where a leader has moved, the next commit or the next run does it.
        """
        starts = {}
        for tp, queue in queues.items():
            assert queue.range is not None
            start = min(queue.range.log_start, committed.get(queue.range.source, queue.fill_to))
            if start > queue.starts_at:
                starts[tp] = start
        if not starts:
            return
        refused = self._delete(queues, starts)
        for tp, start in starts.items():
            if tp not in refused:
                queues[tp].starts_at = start
            elif not is_transient(refused[tp]):
                option = "on.source.start.moved: keep"
                self._refuse(tp, queues[tp], start, refused[tp], option)

    def _delete(
        self, queues: Mapping[TopicPartition, PreservedQueue], starts: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        return delete_records(self._cluster, {tp: queues[tp].node for tp in starts}, starts)

    def _refuse(
        self, tp: TopicPartition, queue: PreservedQueue, start: int, code: int, otherwise: str
    ) -> None:
        denied = advice_on(code, [Right.topic("DELETE", tp.topic)])
        advice = f"{denied} Or set" if denied else "To avoid this, set"
        message = (
            f"the start of its log could not be moved to {start}: {error_name(code)}. "
            f"{advice} {otherwise}."
        )
        self._fail(queue, queue.end, message, code)
