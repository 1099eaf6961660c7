"""Records that a group would read next, and that the target has lost since they were copied.

By the ledger they are copied, so that nothing else counts them before a verification has read their place again. The
first record that a consumer gets shows it: the ledger has records between the group's offset and that one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from kafka_ferry.control import ClusterControl
from kafka_ferry.groups.outlook import UNKNOWN, GroupOutlook, PartitionOutlook
from kafka_ferry.groups.routes import Route, routes
from kafka_ferry.ledger.queries.accepted_losses import accepted_losses
from kafka_ferry.plan.topics.configs import follows_source
from kafka_ferry.verify.counts import count

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.ledger import LedgerTable
    from kafka_ferry.model import Topic, TopicPartition
    from kafka_ferry.plan.backfill.windows import Span


class UnreadCopies:
    """Counts what is lost right after the groups' offsets.

    Args:
        flow: the flow into the cluster that the groups move to.
        ledger: its ledger, projected.
        topics: the remote topics that exist.
        source_starts: where the logs start that the groups leave, as far as known, by *source* partition.
        asks_source: whether the flow's source answers.
    """

    def __init__(
        self,
        flow: Flow,
        ledger: LedgerTable,
        topics: Collection[Topic],
        source_starts: Mapping[TopicPartition, int],
        *,
        asks_source: bool,
    ) -> None:
        self._flow, self._ledger = flow, ledger
        self._topics = {topic.name: topic for topic in topics}
        self._source_starts, self._asks_source = source_starts, asks_source

    def stuck(self, groups: Iterable[GroupOutlook]) -> tuple[GroupOutlook, ...]:
        """The groups, those ``stuck`` that are ready but for records which the target has lost."""
        return tuple(self._stuck(group) if group.state == "ready" else group for group in groups)

    def _stuck(self, group: GroupOutlook) -> GroupOutlook:
        lost = {one.source: records for one in group.partitions if (records := self._count(one))}
        if not lost:
            return group
        partitions = tuple(_with_lost(one, lost.get(one.source, 0)) for one in group.partitions)
        one = next(one for one in partitions if one.source in lost)
        assert one.first is not None
        more = f" (and of {len(lost) - 1} more partitions)" if len(lost) > 1 else ""
        reason = (
            f"{count(lost[one.source], 'record')} of {one.source}{more} that it has not read are gone from "
            f"{one.target} on {self._flow.target.alias}, where they were copied: from {one.offset} on it would get the "
            f"record at {one.first.offset} first, and miss them."
        )
        return replace(group, state="stuck", reason=reason, partitions=partitions)

    def _count(self, one: PartitionOutlook) -> int:
        """How many records the target has lost between a group's offset and the first record that it gets."""
        if one.target is None or one.offset is None or one.first is None:
            return 0
        if one.first.offset <= one.offset or self._may_be_cleaned(one):
            return 0
        route = self._routes.get(one.source)
        if route is None or route.target != one.target:
            return 0
        since = max(one.committed, self._source_starts.get(one.source, 0))
        accepted = self._accepted.get(one.target, [])
        return route.map.count_copies(one.offset, one.first.offset, since=since, accepted=accepted)

    def _may_be_cleaned(self, one: PartitionOutlook) -> bool:
        """Whether log compaction removes records of the target as the source does, or as the flow says.

        Where only a client has made the remote topic compacted, groups miss what the source keeps.
        """
        remote = self._topics.get(one.target.topic) if one.target else None
        if remote is None or not remote.is_compacted:
            return False
        name = "cleanup.policy"
        is_as_on_source = (
            self._flow.sync_topic_configs_enabled
            and name not in self._flow.configs_of(one.source.topic)
            and follows_source(self._flow, name, tiers=False)
        )
        return not is_as_on_source or one.source.topic not in self._uncompacted

    @cached_property
    def _uncompacted(self) -> frozenset[str]:
        """The topics of the source that are known not to be compacted."""
        if not self._asks_source:
            return frozenset()
        names = self._ledger.topics()
        wanted = [names[topic] for topic in self._topics if topic in names]
        known, _ = ClusterControl(self._flow.source).readable_topics(wanted)
        return frozenset(name for name, topic in known.items() if not topic.is_compacted)

    @cached_property
    def _routes(self) -> dict[TopicPartition, Route]:
        ids = {name: topic.topic_id for name, topic in self._topics.items()}
        return routes(self._ledger, self._ledger.topic_ids(), ids)

    @cached_property
    def _accepted(self) -> dict[TopicPartition, list[Span]]:
        """By *target* partition, what a person has accepted as missing, or a repair has appended elsewhere."""
        spans: dict[TopicPartition, list[Span]] = defaultdict(list)
        for loss in accepted_losses(self._ledger):
            spans[loss.entry.target] += loss.targets
        return spans


def _with_lost(one: PartitionOutlook, records: int) -> PartitionOutlook:
    is_known = one.not_copied != UNKNOWN
    return replace(one, not_copied=one.not_copied + records) if is_known else one
