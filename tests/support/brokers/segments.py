"""Log segments of a broker, read and written by hand: what no client of today can produce.

A segment may only be written while its broker is stopped. The broker makes everything else that
belongs to it (indexes, producer snapshots) at its start, where it is missing.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from kafka.codec import gzip_encode, lz4_encode, lz4_encode_old_kafka, snappy_encode
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from kafka_sandbox.broker import Broker
from kafka_sandbox.cluster import KafkaCluster
from tests.support.records.batches import CONTROL, DELETE_HORIZON, TRANSACTIONAL
from tests.support.records.builders import Record

_LOG_OVERHEAD: Final = 12
_MAGIC_AT: Final = 16
_ATTRIBUTES_AT: Final = 22
_PRODUCER_AT: Final = slice(43, 51)
_LOG_APPEND_TIME: Final = 0x08
_COMPRESS: Final = {
    (0, 1): gzip_encode,
    (0, 2): snappy_encode,
    (0, 3): lz4_encode_old_kafka,
    (1, 1): gzip_encode,
    (1, 2): snappy_encode,
    (1, 3): lz4_encode,
}


def segments(broker: KafkaCluster, topic: str, partition: int = 0) -> list[Path]:
    """The files of a partition's log, oldest first."""
    return sorted(_folder(broker, topic, partition).glob("*.log"))


def read_batches(broker: KafkaCluster, topic: str, partition: int = 0) -> list[bytes]:
    """The batches that lie in a partition's log, as they lie there."""
    while True:
        # The cleaner may put another file in a segment's place meanwhile.
        with suppress(FileNotFoundError):
            files = [segment.read_bytes() for segment in segments(broker, topic, partition)]
            return [batch for content in files for batch in _split(content)]


def write_log(broker: Broker, topic: str, log: Iterable[bytes], partition: int = 0) -> None:
    """Put ``log`` in the place of all that a partition of a stopped broker holds."""
    assert broker.pid is None, "its broker must be stopped"
    folder = _folder(broker, topic, partition)
    for pattern in ("*.log", "*.index", "*.timeindex", "*.txnindex", "*.snapshot"):
        for file in folder.glob(pattern):
            file.unlink()
    (folder / f"{0:020}.log").write_bytes(b"".join(log))


@contextmanager
def broker_down(cluster: KafkaCluster, *, orderly: bool = False) -> Iterator[None]:
    """Within it, a cluster's only broker is down; after it, the broker is ready again.

    Args:
        cluster: the cluster.
        orderly: whether it finds the mark of an orderly end. Without, it looks at all of its logs when it starts, as
            after a kill; killed itself, it would not be let in before its old session is over.
    """
    assert isinstance(cluster, Broker)
    cluster.stop()
    if not orderly:
        (cluster.directory / "data" / ".kafka_cleanshutdown").unlink(missing_ok=True)
    yield
    cluster.start().wait_ready()


@contextmanager
def restored_from_backup(broker: Broker) -> Iterator[None]:
    """Within it, a cluster's only broker goes on; after it, it has what it had before, as from a backup."""
    backup = broker.directory.with_name(f"{broker.directory.name}-backup")
    with broker_down(broker, orderly=True):
        shutil.copytree(broker.directory / "data", backup)
    yield
    with broker_down(broker, orderly=True):
        shutil.rmtree(broker.directory / "data")
        backup.rename(broker.directory / "data")


def rewrite(broker: Broker, topics: Iterable[str], change: Callable[[bytes], bytes]) -> None:
    """Stop a broker, replace each batch of the topics' partition 0 by what ``change`` makes of it, and start it."""
    with broker_down(broker, orderly=True):
        for topic in topics:
            write_log(broker, topic, list(map(change, read_batches(broker, topic))))


def cut_log(broker: Broker, topic: str, offset: int, partition: int = 0) -> None:
    """Leave of a stopped broker's log what lies before the batch at ``offset``, as an unclean
    election of a follower that lagged behind would."""
    before = len(read_batches(broker, topic, partition))
    keep_before(broker, topic, offset, partition)
    assert len(read_batches(broker, topic, partition)) < before


def keep_before(broker: Broker, topic: str, offset: int, partition: int = 0) -> None:
    """The same for a replica that may have nothing from there on."""
    batches = read_batches(broker, topic, partition)
    write_log(broker, topic, [it for it in batches if base_offset(it) < offset], partition)


def forget_log_starts(broker: Broker) -> None:
    """Have a stopped broker's logs start where their first segments do, as replicas do that know no other start."""
    assert broker.pid is None, "its broker must be stopped"
    (broker.log_folder("", 0).parent / "log-start-offset-checkpoint").write_text("0\n0\n")


def ends_of_transactions(batches: Iterable[bytes]) -> list[int]:
    """The base offsets of those of a log's batches before which no transaction is open."""
    open_, offsets = set(), []
    for batch in batches:
        if not open_:
            offsets.append(base_offset(batch))
        attributes, producer = batch[_ATTRIBUTES_AT], batch[_PRODUCER_AT]
        if attributes & CONTROL:
            open_.discard(producer)
        elif attributes & TRANSACTIONAL:
            open_.add(producer)
    return offsets


def damage(broker: Broker, topic: str, *, number: int, at: int, partition: int = 0) -> None:
    """Turn a bit of a stopped broker's batch, which no broker notices after an orderly stop.

    Args:
        number: which batch of the partition, from 0.
        at: which of its bytes; negative from its end.
    """
    assert broker.pid is None, "its broker must be stopped"
    (segment,) = segments(broker, topic, partition)
    batches = _split(segment.read_bytes())
    batch = bytearray(batches[number])
    batch[at] ^= 1
    batches[number] = bytes(batch)
    segment.write_bytes(b"".join(batches))


def has_delete_horizon(batch: bytes) -> bool:
    """Whether the cleaner has set the time until which it keeps the batch's tombstones."""
    return batch[_MAGIC_AT] == 2 and bool(batch[_ATTRIBUTES_AT] & DELETE_HORIZON)


def an_old_message_set(
    magic: int,
    records: Sequence[Record],
    *,
    at: int,
    codec: int = 0,
    append_time: int | None = None,
) -> bytes:
    """Messages in format v0 or v1, compressed into one where there is a codec.

    Args:
        magic: 0 or 1.
        records: their keys, values and, in v1, timestamps; these formats have no headers.
        at: the offset of the first one.
        codec: 0 none, 1 gzip, 2 snappy, 3 lz4.
        append_time: what the broker that stored a v1 set put in the place of the timestamps.
    """
    stamp = 0 if append_time is None else _LOG_APPEND_TIME
    # In a compressed v1 set the offsets inside count from 0.
    first = 0 if codec and magic else at
    messages = b"".join(
        _message(
            magic,
            first + number,
            (record.timestamp or 0) if append_time is None or codec else append_time,
            record.key,
            record.value,
            0 if codec else stamp,
        )
        for number, record in enumerate(records)
    )
    if not codec:
        return messages
    newest = max(record.timestamp or 0 for record in records)
    return _message(
        magic,
        at + len(records) - 1,
        newest if append_time is None else append_time,
        None,
        _COMPRESS[magic, codec](messages),
        codec | stamp,
    )


def _message(
    magic: int, offset: int, timestamp: int, key: bytes | None, value: bytes | None, attributes: int
) -> bytes:
    builder = LegacyRecordBatchBuilder(magic, 0, 0)
    builder._buffer = bytearray(builder.size_in_bytes(offset, timestamp, key, value))
    builder._encode_msg(0, offset, timestamp, key, value, attributes)
    return bytes(builder._buffer)


def _folder(broker: KafkaCluster, topic: str, partition: int) -> Path:
    return broker.log_folder(topic, partition)


def base_offset(batch: bytes) -> int:
    """The offset of a batch's first record."""
    return int.from_bytes(batch[:8], "big")


def _split(log: bytes) -> list[bytes]:
    batches, at = [], 0
    while at + _LOG_OVERHEAD <= len(log):
        size = int.from_bytes(log[at + 8 : at + 12], "big") + _LOG_OVERHEAD
        # What lies after the last batch of a segment that is still written to is not yet anything.
        if size <= _LOG_OVERHEAD or at + size > len(log):
            break
        batches.append(log[at : at + size])
        at += size
    return batches
