"""Records in several compressed streams after each other: what a real broker makes of them is what we do."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pytest
from kafka.protocol.producer import ProduceRequest

from kafka_ferry.batches import MalformedBatch, read_records, split_batches
from kafka_ferry.batches.record_format.codecs import compress
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.wire import WireCluster
from kafka_ferry.wire.partitions.partition_log import leader_of
from kafka_sandbox.cluster import KafkaCluster
from tests.support.brokers.segments import read_batches
from tests.support.records.batches import CONTROL, a_batch, a_bomb, with_payload
from tests.support.records.builders import create_topic
from tests.support.runs.flows import copy_planned, failures, plan_now, remote
from tests.support.runs.pair import Pair

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
RECORDS = 1_300
PLAIN = a_batch(RECORDS)[61:]


def pieces(count: int) -> Sequence[bytes]:
    """The records in so many pieces, wherever these begin and end."""
    size = -(-len(PLAIN) // count)
    return [PLAIN[at : at + size] for at in range(0, len(PLAIN), size)]


def streams(codec: int, count: int, between: bytes = b"") -> bytes:
    return between.join(compress(piece, codec) for piece in pieces(count))


def xerial_blocks(count: int) -> bytes:
    """One stream of so many blocks."""
    packed = [compress(piece, SNAPPY) for piece in pieces(count)]
    return packed[0] + b"".join(one[16:] for one in packed[1:])


ONE = {codec: compress(PLAIN, codec) for codec in (GZIP, SNAPPY, LZ4, ZSTD)}
EMPTY = {codec: compress(b"", codec) for codec in (GZIP, SNAPPY, LZ4, ZSTD)}


class Case(NamedTuple):
    name: str
    codec: int
    payload: bytes


CASES = [
    *(Case(f"{n} gzip members", GZIP, streams(GZIP, n)) for n in (1, 2, 64, 65, 1_000)),
    Case("gzip members with zeros between", GZIP, streams(GZIP, 3, bytes(7))),
    Case("gzip and zeros", GZIP, ONE[GZIP] + bytes(9)),
    Case("gzip and garbage", GZIP, ONE[GZIP] + b"garbage after it all"),
    Case("gzip and half a header", GZIP, ONE[GZIP] + ONE[GZIP][:5]),
    Case("gzip and a half member", GZIP, ONE[GZIP] + EMPTY[GZIP][:-4]),
    Case("gzip and empty members", GZIP, ONE[GZIP] + EMPTY[GZIP] * 70),
    Case("empty gzip members first", GZIP, EMPTY[GZIP] * 70 + ONE[GZIP]),
    Case("gzip without its trailer", GZIP, ONE[GZIP][:-8]),
    Case("gzip with a wrong CRC", GZIP, ONE[GZIP][:-8] + bytes(4) + ONE[GZIP][-4:]),
    *(Case(f"{n} lz4 frames", LZ4, streams(LZ4, n)) for n in (1, 2, 65)),
    Case("lz4 and an empty frame", LZ4, ONE[LZ4] + EMPTY[LZ4]),
    Case("lz4 and garbage", LZ4, ONE[LZ4] + b"garbage"),
    Case("an empty lz4 frame first", LZ4, EMPTY[LZ4] + ONE[LZ4]),
    *(Case(f"{n} zstd frames", ZSTD, streams(ZSTD, n)) for n in (1, 2, 65)),
    Case("zstd and garbage", ZSTD, ONE[ZSTD] + b"garbage"),
    Case("zstd and a skippable frame", ZSTD, ONE[ZSTD] + b"\x50\x2a\x4d\x18\x03\0\0\0abc"),
    Case("zstd cut off", ZSTD, ONE[ZSTD][:-3]),
    *(Case(f"{n} xerial blocks", SNAPPY, xerial_blocks(n)) for n in (1, 2, 65)),
    *(Case(f"{n} xerial streams", SNAPPY, streams(SNAPPY, n)) for n in (2, 65)),
    Case("an empty xerial stream first", SNAPPY, EMPTY[SNAPPY] + ONE[SNAPPY]),
    Case("xerial and an empty stream", SNAPPY, ONE[SNAPPY] + EMPTY[SNAPPY]),
    Case("xerial and half a size", SNAPPY, ONE[SNAPPY] + b"\0\0"),
    Case("xerial and a cut off block", SNAPPY, ONE[SNAPPY] + b"\0\0\0\x09abc"),
    Case("xerial and a size of zero", SNAPPY, ONE[SNAPPY] + bytes(4)),
    Case("xerial and half a header", SNAPPY, ONE[SNAPPY] + EMPTY[SNAPPY][:10]),
]


@pytest.fixture(scope="module")
def topic(primary: KafkaCluster) -> str:
    create_topic(primary.bootstrap, "streams", retention_ms="-1")
    return "streams"


@pytest.fixture(scope="module")
def cluster(primary: KafkaCluster) -> Iterator[WireCluster]:
    with WireCluster("primary", {"bootstrap_servers": primary.bootstrap.split(",")}) as cluster:
        yield cluster


def batch_of(case: Case) -> bytes:
    return with_payload(a_batch(RECORDS), case.payload, attributes=case.codec, leader_epoch=-1)


def is_taken(cluster: WireCluster, topic: str, batch: bytes) -> bool:
    """Whether a broker, which reads with the Java client's code, takes a batch."""
    data: Any = ProduceRequest.TopicProduceData
    part = data.PartitionProduceData(index=0, records=batch)
    leader = leader_of(cluster, TopicPartition(topic, 0))
    answer = cluster.connection(leader).call(
        ProduceRequest(
            transactional_id=None,
            acks=-1,
            timeout_ms=30_000,
            topic_data=[data(name=topic, partition_data=[part])],
        )
    )
    return not answer.responses[0].partition_responses[0].error_code


def is_read(batch: bytes) -> bool:
    (split,) = split_batches(batch)
    try:
        return len(read_records(split)) == RECORDS
    except MalformedBatch:
        return False


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_streams_are_read_as_a_broker_reads_them(
    case: Case, cluster: WireCluster, topic: str
) -> None:
    batch = batch_of(case)

    assert is_read(batch) == is_taken(cluster, topic, batch)


@pytest.mark.long
def test_batches_that_unpack_to_half_a_gibibyte_take_no_memory_and_arrive_as_they_are(
    pair: Pair, cluster: WireCluster
) -> None:
    topic, mebibytes = pair.unique("bombs"), (520, 520)
    create_topic(pair.primary.bootstrap, topic, retention_ms="-1")
    for each in mebibytes:
        assert is_taken(cluster, topic, a_bomb(each))
    flow = pair.flow([topic], join_batches_below=1024 * 1024)
    plan = plan_now(flow)

    tracemalloc.start()
    outcomes = copy_planned(flow, plan)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert failures(outcomes) == []
    there, here = (
        [batch[61:] for batch in read_batches(broker, name) if not batch[22] & CONTROL]
        for broker, name in ((pair.primary, topic), (pair.backup, remote(flow, topic)))
    )
    assert there == here
    assert len(there) == len(mebibytes)
    assert peak < 64 * 1024 * 1024
