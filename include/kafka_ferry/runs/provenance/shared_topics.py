"""What other flows have copied into the same remote topics, as their ledgers claim it.

Where several sources share a remote topic (``on.foreign.records: adopt``), the others' records lie
between a flow's own and after them. They are not foreign: each is where another ledger on the
target says. Records that no ledger knows stay foreign, and so do other flows' where the flow does not
say that it shares its topics.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final

from kafka_ferry.config import Flow
from kafka_ferry.control import ClusterControl
from kafka_ferry.errors import AccessDenied
from kafka_ferry.ledger import (
    CopyingEntry,
    LedgerError,
    LedgerRange,
    is_ledger_topic,
    ranges_of,
)
from kafka_ferry.ledger.topic import entries_with_producers
from kafka_ferry.model import Topic, TopicPartition
from kafka_ferry.retry import retry
from kafka_ferry.runs.provenance.authors import ranges_of_others
from kafka_ferry.verify import PartitionRecount
from kafka_ferry.verify.claim import RangeClaim
from kafka_ferry.verify.shared_topics import everything_after, with_strangers, without_others
from kafka_ferry.wire import connect
from kafka_ferry.wire.partitions.times import LookedUp, look_up

log = logging.getLogger(__name__)

Recounting = Callable[
    [Mapping[TopicPartition, Sequence[RangeClaim]]], Mapping[TopicPartition, PartitionRecount]
]

# A transaction lasts 15 minutes at most, and clocks differ.
_EARLIER_MS: Final = 60 * 60 * 1000
# The marker that ends a transaction reaches the ledger a moment after the data, or before.
_TRIES: Final = 3
_PAUSE_S: Final = 0.5


def with_others(
    flow: Flow,
    claims: Mapping[TopicPartition, Sequence[RangeClaim]],
    recounts: Mapping[TopicPartition, PartitionRecount],
    topics: Mapping[str, Topic],
    since: int,
    recount: Recounting,
    known: Collection[int],
) -> dict[TopicPartition, PartitionRecount]:
    """The recounts; partitions with foreign records are recounted with what other flows claim there.

    Args:
        flow: the flow.
        claims: by target partition, what the flow's ledger claims.
        recounts: what was found for them.
        topics: the remote topics.
        since: the time of the first of these claims, in milliseconds since 1970.
        recount: the function that recounts.
        known: the ledger offsets at which the flow's own ledger makes ``claims``: its claims at
            other offsets are of other runs of the flow, some of them newer.
    """
    results = dict(recounts)
    shared = {tp: claims[tp] for tp in with_strangers(results, claims)}
    if not shared:
        return results
    target = ClusterControl(flow.target)
    ledgers = [name for name in target.topic_names() if is_ledger_topic(name)]
    # What other flows copy meanwhile is after these ends, and is proved by them.
    ends = target.log_bounds(
        [topics[name] for name in {tp.topic for tp in shared}], "read_committed"
    )
    for _ in range(_TRIES):
        other_claims = _claims_of_others(flow, ledgers, shared, topics, since - _EARLIER_MS, known)
        combined = {
            tp: [*shared[tp], *other_claims[tp], everything_after(ends[tp].end)]
            for tp in shared.keys() & other_claims.keys() & ends.keys()
        }
        for tp, again in recount(combined).items():
            results[tp] = without_others(again, combined[tp], len(shared[tp]))
        shared = {tp: claims[tp] for tp in with_strangers(results, shared)}
        if not shared or not combined:
            break
        time.sleep(_PAUSE_S)
    return results


def _claims_of_others(
    flow: Flow,
    ledgers: Collection[str],
    shared: Mapping[TopicPartition, Sequence[RangeClaim]],
    topics: Mapping[str, Topic],
    since: int,
    known: Collection[int],
) -> dict[TopicPartition, list[RangeClaim]]:
    """What the other flows' ledgers claim after the first record of each partition's claims."""
    firsts = {
        tp: min(segment.target for claim in claims for segment in claim.segments)
        for tp, claims in shared.items()
    }
    by_flow: dict[str, list[LedgerRange]] = defaultdict(list)
    for name, entry in _ranges_of_others(flow, _starts(flow, ledgers, since), known):
        tp, copied = entry.target, entry.copied
        is_here = tp in firsts and copied.remote_topic_id == topics[tp.topic].topic_id
        if is_here and any(it.target >= firsts[tp] for it in copied.segments):
            by_flow[name].append(entry)
    claims_by_partition: dict[TopicPartition, list[RangeClaim]] = defaultdict(list)
    for name, entries in by_flow.items():
        strangers = {it.producer_id for it in ranges_of_others(flow.target, name, entries)}
        for entry in entries:
            if entry.producer_id in strangers:
                log.warning(
                    "What a ledger has of %s at offset %d is not by %s: it explains nothing.",
                    entry.target,
                    entry.ledger_offset,
                    name,
                )
                continue
            copied = entry.copied
            segments = tuple(it for it in copied.segments if it.target >= firsts[entry.target])
            claims_by_partition[entry.target].append(RangeClaim(segments, copied.start, copied.end))
    return claims_by_partition


def _ranges_of_others(
    flow: Flow, starts: Mapping[str, int], known: Collection[int]
) -> Iterator[tuple[str, LedgerRange]]:
    """The ranges in the ledgers from the given offsets on, as far as readable, except the ``known`` ones.

    Each with the name of the flow that is said to have copied it.
    """
    for ledger, start in starts.items():
        try:
            for offset, entry, producer_id in entries_with_producers(flow.target, ledger, start):
                is_own = entry.flow == flow.name
                counts = offset not in known if is_own else flow.on_foreign_records == "adopt"
                if isinstance(entry, CopyingEntry) and counts:
                    for copied in ranges_of(offset, entry, producer_id):
                        yield entry.flow, copied
        except (AccessDenied, LedgerError) as error:
            log.warning(
                "Other flows' records between those of %s are not known: %s", flow.name, error
            )


def _starts(flow: Flow, ledgers: Collection[str], since: int) -> dict[str, int]:
    """Where each ledger's entries since a time begin; ledgers without any are left out."""
    partitions = [TopicPartition(name, 0) for name in ledgers]
    with connect(flow.target) as cluster:

        def ask() -> LookedUp:
            nodes = {tp: leader.node for tp, leader in cluster.leaders(partitions).items()}
            return look_up(cluster, nodes, dict.fromkeys(partitions, since))

        lookup = retry(ask)
    starts = {tp.topic: entry.offset for tp, entry in lookup.entries.items() if entry}
    # Reading the whole ledger gives the same, and its reader reports damage.
    return starts | dict.fromkeys((tp.topic for tp in lookup.refused), 0)
