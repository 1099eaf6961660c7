"""Moving the start of the target's logs, to where a mirror begins or where the source's log starts by now."""

from __future__ import annotations

from collections.abc import Mapping

from kafka_ferry.copy.target.preserved.gap_filler import Fail
from kafka_ferry.copy.target.preserved.partition_queue import Track
from kafka_ferry.copy.target.produce_errors import Verdicts
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.wire import WireCluster
from kafka_ferry.wire.error_codes import error_name, is_transient
from kafka_ferry.wire.partitions.ends import delete_records


class LogStarts:
    """Moves the start of tracks' logs (DeleteRecords).

    Args:
        cluster: the target; no answers may be due on its connections.
        verdicts: counts the brokers' transient failures.
        fail: stops a partition.
    """

    def __init__(self, cluster: WireCluster, verdicts: Verdicts, fail: Fail) -> None:
        self._cluster = cluster
        self._verdicts = verdicts
        self._fail = fail

    def move(
        self,
        tracks: Mapping[TopicPartition, Track],
        starts: Mapping[TopicPartition, int],
        *,
        otherwise: str,
    ) -> None:
        """Have the logs of ``tracks`` begin at ``starts``; ``otherwise`` is the option that does without."""
        for tp, code in self._delete(tracks, starts).items():
            track = tracks[tp]
            if is_transient(code) and track.range:
                self._verdicts.failed_transiently(track.range, track.end, code)
            else:
                self._refuse(track, starts[tp], code, otherwise)

    def follow(
        self, tracks: Mapping[TopicPartition, Track], committed: Mapping[TopicPartition, int]
    ) -> None:
        """Let the logs start where the source's do, as far as is ``committed``, by *source* partition.

        Where a leader has moved, the next transaction's end, or the next run, sees to it.
        """
        starts = {}
        for tp, track in tracks.items():
            assert track.range is not None
            start = min(track.range.log_start, committed.get(track.range.source, track.fill_to))
            if start > track.starts_at:
                starts[tp] = start
        if not starts:
            return
        refused = self._delete(tracks, starts)
        for tp, start in starts.items():
            if tp not in refused:
                tracks[tp].starts_at = start
            elif not is_transient(refused[tp]):
                self._refuse(tracks[tp], start, refused[tp], "on.source.start.moved: keep")

    def _delete(
        self, tracks: Mapping[TopicPartition, Track], starts: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        return delete_records(self._cluster, {tp: tracks[tp].node for tp in starts}, starts)

    def _refuse(self, track: Track, start: int, code: int, otherwise: str) -> None:
        message = (
            f"the start of its log could not be moved to {start}: {error_name(code)}. "
            f"That needs DELETE on the topic; {otherwise} does without."
        )
        self._fail(track, track.end, message, code)
