"""What a producer may make of a batch's records and of their compressed streams: what a real broker takes, we read."""

from __future__ import annotations

import tracemalloc
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import lz4.frame
import pytest
import xxhash
from kafka.protocol.producer import ProduceRequest

from kafka_ferry.batches import MalformedBatch, read_records, split_batches
from kafka_ferry.batches.record_format.codecs import compress
from kafka_ferry.batches.record_format.content import read_content
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.wire import WireCluster
from kafka_ferry.wire.partitions.partition_log import leader_of
from kafka_sandbox.cluster import KafkaCluster
from tests.support.brokers.segments import read_batches
from tests.support.records.batches import CONTROL, a_batch, a_bomb, with_payload
from tests.support.records.builders import create_topic
from tests.support.runs.flows import copy_planned, failures, plan_now, remote
from tests.support.runs.pair import Pair
from tests.support.runs.proof import prove

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


def gzip_member(flags: int, more: bytes = b"") -> bytes:
    """A member with flags in its header, and what they say is in it."""
    header = b"\x1f\x8b\x08" + bytes([flags]) + b"\0\0\0\0\0\xff" + more
    if flags & 2:
        header += (zlib.crc32(header) & 0xFFFF).to_bytes(2, "little")
    return header + ONE[GZIP][10:]


def lz4_frame(**options: bool) -> bytes:
    return lz4.frame.compress(PLAIN, block_linked=False, **options)


def with_bytes(packed: bytes, at: int, other: bytes) -> bytes:
    return packed[:at] + other + packed[at:][len(other) :]


def lz4_of_another_size() -> bytes:
    """A frame that says that it has 9 bytes."""
    packed = with_bytes(lz4_frame(store_size=True), 6, (9).to_bytes(8, "little"))
    return with_bytes(packed, 14, bytes([xxhash.xxh32_intdigest(packed[4:14]) >> 8 & 0xFF]))


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
    Case("gzip with a name", GZIP, gzip_member(0x08, b"name\0")),
    Case("gzip with all flags", GZIP, gzip_member(0x1F, b"\2\0xxname\0comment\0")),
    Case("gzip with flags that nobody knows", GZIP, gzip_member(0xFF, b"\2\0xxname\0comment\0")),
    Case("gzip without its header's end", GZIP, gzip_member(0xE8)[:10]),
    Case("lz4 with a wrong checksum", LZ4, lz4_frame(content_checksum=True)[:-4] + b"none"),
    Case("lz4 of another size", LZ4, lz4_of_another_size()),
    Case("lz4 with a wrong checksum of its header", LZ4, with_bytes(lz4_frame(), 14, b"\0")),
    Case("lz4 with checksums of blocks", LZ4, lz4_frame(block_checksum=True)),
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


def is_read(batch: bytes, records: int = RECORDS) -> bool:
    (split,) = split_batches(batch)
    try:
        return [read_content(it[3]).key for it in read_records(split)] == [
            read_content(it[3]).key for it in read_records(*split_batches(a_batch(records)))
        ]
    except MalformedBatch:
        return False


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_streams_are_read_as_a_broker_reads_them(
    case: Case, cluster: WireCluster, topic: str
) -> None:
    batch = batch_of(case)

    assert is_read(batch) == is_taken(cluster, topic, batch)


# What follows the length, attributes, time and place of a record: a key, no value, no headers.
REST = b"\x0akey 0\1\0"
ODD = {
    "a length with more bits than 32": b"\x96\x80\x80\x80\x70" + b"\0\0\0" + REST,
    "a place with more bits than 32": b"\x1e" + b"\0\0\x80\x80\x80\x80\x10" + REST,
    "a time with more bits than 64": b"\x28" + b"\0" + b"\x80" * 9 + b"\x7e\0" + REST,
    "a key's length with more bits than 32": b"\x1e"
    + b"\0\0\0"
    + b"\x8a\x80\x80\x80\x70"
    + REST[1:],
    "a length that does not end": b"\x96\x80\x80\x80\x80\0" + b"\0\0\0" + REST,
    "a negative length of a value": b"\x16" + b"\0\0\0" + REST[:-2] + b"\x0d\0",
    "bytes after its headers": b"\x18" + b"\0\0\0" + REST + b"\0",
    "fewer headers than none": b"\x16" + b"\0\0\0" + REST[:-1] + b"\1",
}


@pytest.mark.parametrize("codec", [0, LZ4])
@pytest.mark.parametrize("record", ODD.values(), ids=ODD)
def test_records_are_read_as_a_broker_reads_them(
    record: bytes, codec: int, cluster: WireCluster, topic: str
) -> None:
    batch = with_payload(a_batch(1), compress(record, codec), attributes=codec, leader_epoch=-1)

    assert is_read(batch, 1) == is_taken(cluster, topic, batch)


@pytest.mark.usefixtures("without_spark")
@pytest.mark.parametrize("deltas", [[0, 0, 0], [2, 1, 0], [5, 9, 2], [-7, 2**31 - 1, 1]])
def test_records_at_places_that_brokers_do_not_look_at_stop_no_partition(
    deltas: list[int], pair: Pair, cluster: WireCluster
) -> None:
    topic = pair.unique("places")
    create_topic(pair.primary.bootstrap, topic, retention_ms="-1")
    for batch in (a_batch(1), a_batch(3, deltas=deltas, last_offset_delta=2), a_batch(2)):
        assert is_taken(cluster, topic, with_payload(batch, batch[61:], leader_epoch=-1))
    flow = pair.flow([topic])

    assert prove(flow, "run-1").state == "verified"

    keys = [b"key 0", b"key 0", b"key 1", b"key 2", b"key 0", b"key 1"]
    assert [it.key for it in pair.copied(flow, topic)[0]] == keys
    assert [it.offset for it in pair.copied(flow, topic)[0]] == list(range(6))


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
