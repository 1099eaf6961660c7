"""Moving the start of the target's logs, to where a mirror begins or where the source's log starts by now."""

from __future__ import annotations

from collections.abc import Mapping

from kafka_ferry.copy.gaps import Fail
from kafka_ferry.copy.tracks import Track
from kafka_ferry.plan.ranges import TopicPartition
from kafka_ferry.wire import WireCluster
from kafka_ferry.wire.ends import delete_records
from kafka_ferry.wire.faults import error_name


class LogStarts:
    """Moves the start of tracks' logs (DeleteRecords).

    Args:
        cluster: the target; no answers may be due on its connections.
        fail: stops a partition.
    """

    def __init__(self, cluster: WireCluster, fail: Fail) -> None:
        self._cluster = cluster
        self._fail = fail

    def move(
        self,
        tracks: Mapping[TopicPartition, Track],
        starts: Mapping[TopicPartition, int],
        *,
        otherwise: str,
    ) -> None:
        """Have the logs of ``tracks`` begin at ``starts``; ``otherwise`` is the option that does without."""
        nodes = {tp: tracks[tp].node for tp in starts}
        for tp, code in delete_records(self._cluster, nodes, starts).items():
            message = (
                f"the start of its log could not be moved to {starts[tp]}: {error_name(code)}. "
                f"That needs DELETE on the topic; {otherwise} does without."
            )
            self._fail(tracks[tp], tracks[tp].end, message, code)

    def follow(
        self, tracks: Mapping[TopicPartition, Track], sealed: Mapping[TopicPartition, int]
    ) -> None:
        """Let the logs start where the source's do, as far as is ``sealed``, by *source* partition."""
        starts = {}
        for tp, track in tracks.items():
            assert track.range is not None
            start = min(track.range.log_start, sealed.get(track.range.source, track.fill_to))
            if start > track.starts_at:
                starts[tp] = track.starts_at = start
        if starts:
            self.move(tracks, starts, otherwise="on.source.start.moved: keep")
