"""Records of remote topics that the flow has created and that its ledger does not have."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafka_ferry.errors import FerryError
from kafka_ferry.ledger.queries.copied_ranges import spans_in
from kafka_ferry.model import TopicPartition
from kafka_ferry.plan.backfill.windows import gaps
from kafka_ferry.runs.provenance.log_mismatches import lost_ends
from kafka_ferry.wire import connect
from kafka_ferry.wire.partitions.partition_log import partition_logs
from kafka_ferry.wire.partitions.scan import holds_records_in

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.control import ClusterControl
    from kafka_ferry.ledger import LedgerTable
    from kafka_ferry.model import Topic
    from kafka_ferry.plan.backfill.windows import Span
    from kafka_ferry.wire import WireCluster


@dataclass(frozen=True)
class _Own:
    """What the ledger has of a *target* partition.

    Attributes:
        spans: the offsets of records, each transaction's with the one after them.
        markers: those ones, at which their markers should be.
    """

    spans: list[Span] = field(default_factory=list)
    markers: set[int] = field(default_factory=set)


def records_of_others(
    flow: Flow, target: ClusterControl, ledger: LedgerTable, topics: Mapping[str, Topic]
) -> dict[str, str]:
    """Which of ``topics``, which the flow has created, hold records that its ledger does not have; a sentence for each.

    So with those of which that is not known. Only what lies between the flow's own records is read, so that a log
    which has lost some of these counts too: others may have taken their offsets.
    """
    if not topics:
        return {}
    try:
        lost = sorted(lost_ends(flow, target, ledger, [*topics.values()]))
    except FerryError as error:
        return dict.fromkeys(topics, _unknown(error))
    found = {
        tp.topic: f"{tp} has lost records that were copied, and others may lie in their place."
        for tp in lost
    }
    ids = {topic.topic_id: name for name, topic in topics.items() if topic.topic_id}
    own: dict[TopicPartition, _Own] = defaultdict(_Own)
    for copied in spans_in(ledger, ids):
        places = own[TopicPartition(copied.remote_topic, copied.partition)]
        spans = [(it.target, it.target + it.records) for it in copied.segments]
        if spans and copied.preserved:
            # Nothing but control records fits in between.
            spans = [(spans[0][0], copied.end)]
        elif spans:
            # Its transaction's marker follows.
            first, end = spans[-1]
            spans[-1] = (first, end + 1)
            places.markers.add(end)
        places.spans.extend(spans)
    with connect(flow.target) as cluster:
        for name in ids.values() - found.keys():
            try:
                place = _place_of_others(cluster, topics[name], own)
            except FerryError as error:
                found[name] = _unknown(error)
                continue
            if place:
                found[name] = f"it holds records that this flow has not copied, such as in {place}."
    return found


def _unknown(error: FerryError) -> str:
    return f"whether it holds records that this flow has not copied is unknown. {error}"


def _place_of_others(cluster: WireCluster, topic: Topic, own: Mapping[TopicPartition, _Own]) -> str:
    partitions = [TopicPartition(topic.name, number) for number in range(topic.partitions)]
    for tp, log in partition_logs(cluster, partitions).items():
        places = own.get(tp, _Own())
        # The log's end is a gap in any case.
        for begin, after in gaps(sorted(places.spans), (log.start, log.end + 1)):
            # Another's record may have come before the marker, which then lies in the gap; at the end it may be gone.
            start = max(begin - (begin - 1 in places.markers), log.start)
            end = min(after, log.end)
            if start < end and holds_records_in(cluster, log, start, end):
                return f"{tp} [{start}, {end})"
    return ""
