"""Estimates how densely a log is filled from the headers of a few batches; no batch is opened."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Final

from kafka_ferry.batched import batched
from kafka_ferry.batches import AbortFilter, Batch, BatchHeader, MalformedBatch, split_batches
from kafka_ferry.batches.record_format.header import HEADER
from kafka_ferry.config import Flow
from kafka_ferry.model import TopicPartition
from kafka_ferry.retry import retry
from kafka_ferry.wire import Fetched, WireCluster, connect, send_fetch
from kafka_ferry.wire.error_codes import NONE, THROTTLED, fault
from kafka_ferry.wire.partitions.by_leader import by_node

# Relative places in what is still to be copied: its start, its middle, near its end.
_PLACES: Final = (0.0, 0.5, 0.9)
_AT_ONCE: Final = 250
_BYTES: Final = 64 * 1024
_LEAST_BYTES: Final = 16 * 1024
_BYTES_OF_ALL: Final = 32 * 1024 * 1024
# For a topic with fewer batches in the answer, because they are larger.
_FEW_BATCHES: Final = 8
_BYTES_ALONE: Final = 1024 * 1024

Spans = Mapping[TopicPartition, tuple[int, int]]


@dataclass(slots=True)
class _Sample:
    """What was seen of ``[start, end)``, up to ``seen_to``: ``records`` of ``offsets`` hold a record."""

    start: int
    end: int
    seen_to: int
    batches: int = 0
    offsets: int = 0
    records: float = 0

    @property
    def is_seen(self) -> bool:
        """Whether all of it was seen."""
        return self.offsets >= self.end - self.start

    def place(self, share: float) -> int:
        """Where to look next, not before what was seen."""
        return max(self.seen_to, self.start + int((self.end - self.start) * share))

    def add(self, fetched: Fetched, at: int) -> None:
        """Count the batches that were fetched from the offset ``at`` on."""
        aborted = AbortFilter(fetched.aborted)
        seen_to = at
        with suppress(MalformedBatch):  # the copier reports it
            for batch in batches_of(fetched.records):
                header = batch.header
                first, following = max(header.base_offset, at), min(header.next_offset, self.end)
                is_data = not (aborted.is_aborted(batch) or header.is_control)
                if is_data and first < following:
                    share = (following - first) / (header.next_offset - header.base_offset)
                    self.records += header.records * share
                seen_to = max(seen_to, following)
                self.batches += 1
        self.offsets += seen_to - at
        self.seen_to = max(self.seen_to, seen_to)


def batches_of(records: bytes) -> Iterator[Batch]:
    """The batches of an answer, and the header of a truncated last one: else only small ones would count.

    They end before bytes that are no batch, which the copier reports.
    """
    at = 0
    try:
        for batch in split_batches(records):
            at += batch.header.size
            yield batch
            if batch.stored_format != 2:
                at = len(records)
    except MalformedBatch:
        return
    if len(records) - at >= HEADER.size:
        header = BatchHeader._make(HEADER.unpack_from(records, at))
        is_right = header.magic == 2 and min(header.last_offset_delta, header.records) >= 0
        if is_right and not header.is_control:
            yield Batch(header, b"")


def sample_densities(flow: Flow, spans: Spans) -> dict[TopicPartition, float]:
    """Estimates which share of the offsets in ``spans`` hold a record that a read_committed consumer sees.

    Args:
        flow: the flow.
        spans: by source partition, the start and end offset to look at.

    Returns:
        A number between 0 and 1 by partition; a partition that could not be read is absent.

    Raises:
        ClusterUnreachable: if the source does not answer for a minute.
    """
    spans = {tp: span for tp, span in spans.items() if span[0] < span[1]}
    if not spans:
        return {}
    with connect(flow.source) as cluster:
        samples = retry(partial(_samples, cluster, spans))
    return {
        tp: min(1.0, sample.records / sample.offsets)
        for tp, sample in samples.items()
        if sample.offsets
    }


def _samples(cluster: WireCluster, spans: Spans) -> dict[TopicPartition, _Sample]:
    samples = {tp: _Sample(start, end, start) for tp, (start, end) in spans.items()}
    leaders = cluster.leaders(samples)
    by_leader = by_node({tp: leader.node for tp, leader in leaders.items() if leader.node >= 0})
    each = max(_LEAST_BYTES, min(_BYTES, _BYTES_OF_ALL // len(samples)))
    for node, partitions in by_leader.items():
        for share in _PLACES:
            for some in batched(partitions, _AT_ONCE):
                _look(cluster, node, {tp: samples[tp] for tp in some}, share, each)
    for node, topic in _sparse_samples(by_leader, samples):
        _look_again(cluster, node, topic)
    return samples


def _look_again(cluster: WireCluster, node: int, topic: Mapping[TopicPartition, _Sample]) -> None:
    """Look at the longest partition of a topic instead of all of them.

    A broker leaves out what does not fit completely, except for the first partition of a request:
    what fits is not typical then.
    """
    for sample in topic.values():
        sample.seen_to, sample.batches, sample.offsets, sample.records = sample.start, 0, 0, 0
    longest = max(topic, key=lambda tp: topic[tp].end - topic[tp].start)
    _look(cluster, node, {longest: topic[longest]}, 0.0, _BYTES_ALONE)


def _look(
    cluster: WireCluster,
    node: int,
    samples: Mapping[TopicPartition, _Sample],
    share: float,
    each: int,
) -> None:
    """Fetch once from one broker, at the relative place ``share`` of each partition."""
    places = {tp: sample.place(share) for tp, sample in samples.items()}
    places = {tp: at for tp, at in places.items() if at < samples[tp].end}
    if not places:
        return
    for fetched in peek(cluster, node, places, each, f"Sampling topics of {cluster.alias}"):
        samples[fetched.partition].add(fetched, places[fetched.partition])


def peek(
    cluster: WireCluster,
    node: int,
    places: Mapping[TopicPartition, int],
    each: int,
    doing: str = "",
) -> list[Fetched]:
    """What one broker has at the offset ``places`` names for each partition, without those that it refuses.

    Args:
        cluster: the cluster.
        node: the broker.
        places: the offsets.
        each: the most bytes of a partition.
        doing: for the error of a broker that is over its quota; "" to take no answer for an answer.

    Raises:
        FerryError: the broker is over its quota.
    """
    all_bytes = each * len(places)
    pending = send_fetch(
        cluster, node, places, max_bytes=all_bytes, partition_max_bytes=each, max_wait_ms=0
    )
    answers = list(pending.answers())
    if doing and not answers:
        raise fault(THROTTLED, doing)
    return [fetched for fetched in answers if fetched.error == NONE]


def _sparse_samples(
    by_leader: Mapping[int, Iterable[TopicPartition]],
    samples: Mapping[TopicPartition, _Sample],
) -> Iterator[tuple[int, Mapping[TopicPartition, _Sample]]]:
    """The partitions, of one leader, of topics with few batches in the answer although there are more."""
    for node, partitions in by_leader.items():
        for _, of_topic in groupby(sorted(partitions), attrgetter("topic")):
            topic = {tp: samples[tp] for tp in of_topic}
            is_seen = all(sample.is_seen for sample in topic.values())
            if not is_seen and sum(sample.batches for sample in topic.values()) < _FEW_BATCHES:
                yield node, topic
