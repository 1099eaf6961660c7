"""Reads a certified range back without Kafka Ferry:

    python check_range.py PUBLIC_KEYS FILE orders-3:120 --target HOST:PORT [--source HOST:PORT] [--consumer FILE]

FILE is the certificate that names the range, orders-3:120 its partition and any source offset of it. Needs
check_certificates.py beside it, and the packages `cryptography`, `kafka-python`, `xxhash`, and those with which
kafka-python decompresses the topic's records. --consumer names a file of JSON with more of kafka-python's arguments
for both clusters, such as security_protocol. docs/certificates.md describes what is compared.
"""

import argparse
import base64
import json
import struct
import sys
import time
import uuid
from pathlib import Path

import xxhash
from check_certificates import check, public_keys
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.consumer import fetcher
from kafka.errors import for_code

HEADER_BYTES = 61
WAIT_S = 60


KEPT = {}


class Batches(fetcher.MemoryRecords):
    """Keeps the batches that consumers fetch, as they stand on the wire: base offset, and bytes."""

    __slots__ = ()

    def next_batch(self, *arguments):
        """See kafka-python: the next batch of a fetch response."""
        start = None if self._next_slice is None else bytes(self._next_slice)
        if start is not None:
            KEPT[struct.unpack_from(">q", start)[0]] = start
        return super().next_batch(*arguments)


fetcher.MemoryRecords = Batches


def require_topic(options, name, topic_id):
    """Exits unless the cluster has the topic, and that one of the name."""
    known = {key: value for key, value in options.items() if key in KafkaAdminClient.DEFAULT_CONFIG}
    admin = KafkaAdminClient(**known)
    try:
        (topic,) = admin.describe_topics([name])
    finally:
        admin.close()
    if topic["error_code"]:
        sys.exit(
            f"{name}: {for_code(topic['error_code']).__name__} by {options['bootstrap_servers']}"
        )
    there = uuid.UUID(str(topic.get("topic_id") or uuid.UUID(int=0)))
    if there.int:  # brokers before 2.8 give topics no ids
        there = base64.urlsafe_b64encode(there.bytes).decode().rstrip("=")
        if there != topic_id:
            sys.exit(
                f"{name} is another topic now (id {there}), and not that of the certificate (id {topic_id})"
            )


def read(options, partition, start, end):
    """The committed records of ``[start, end)`` of a partition by their offsets; and the batches around them."""
    consumer = KafkaConsumer(
        group_id=None, enable_auto_commit=False, isolation_level="read_committed", **options
    )
    try:
        consumer.assign([partition])
        first = consumer.beginning_offsets([partition])[partition]
        last = min(end, consumer.end_offsets([partition])[partition])
        KEPT.clear()
        records, until = {}, time.monotonic() + WAIT_S
        consumer.seek(partition, max(start, first))
        while consumer.position(partition) < last:
            for record in consumer.poll(1000).get(partition, ()):
                records[record.offset] = record
            if time.monotonic() > until:
                sys.exit(f"{partition} could not be read to {last} within {WAIT_S} seconds")
        return records, dict(sorted(KEPT.items()))
    finally:
        consumer.close()


def find(ranges, place):
    """The range lines with a source offset such as orders-3:120, newest first; names those whose copy was gone."""
    name, _, offset = place.rpartition(":")
    topic, _, partition = name.rpartition("-")
    here = [
        row
        for row in ranges
        if (row["topic"], row["partition"]) == (topic, int(partition))
        and row["start"] <= int(offset) < row["end"]
    ]
    if not here:
        sys.exit(f"the certificate names no range with {place}")
    gone = [row for row in here if row["absent"].get("gone")]
    for row in gone:
        print(f"NOT LOOKED AT: {name_of(row)}: the copy was gone before the certificate was issued")
    kept = [row for row in here if row not in gone]
    if not kept:
        sys.exit(f"the certificate proves nothing of {place}")
    return sorted(kept, key=lambda row: row["ledger_offset"], reverse=True)


def name_of(row):
    """A range, and which copy of it: a topic of the same name may have been there before."""
    return (
        f"{row['topic']}-{row['partition']} [{row['start']}, {row['end']}) in {row['remote_topic']} "
        f"(id {row['remote_topic_id']}), by run {row['run']}"
    )


def segments_of(options, header, row):
    """Where the range's records are on the target, by the ledger there: source, target offset, how many."""
    ledger = TopicPartition(f"ferry-ledger.{header['source']['alias']}.internal", 0)
    at = row["ledger_offset"]
    records, _ = read(options, ledger, at, at + 1)
    if at not in records:
        sys.exit(f"{ledger.topic} has no offset {at}")
    for one in json.loads(records[at].value)["ranges"]:
        if all(one[name] == row[name] for name in ("topic", "partition", "start", "end")):
            return one["segments"]
    sys.exit(f"{ledger.topic} says nothing of the range at its offset {at}")


def choose(options, header, rows, offset):
    """Of what was copied twice the last; a backfill's range may have passed over the record. And its segments."""
    found = []
    for row in rows:
        segments = segments_of(options, header, row)
        if any(source <= offset < source + count for source, _, count in segments):
            return row, segments
        found.append((row, segments))
    return found[0]


def digest(batches, segments):
    """The digest of the batches that lie in the segments."""
    state = xxhash.xxh3_128()
    for base, batch in batches.items():
        if not any(target <= base < target + count for _, target, count in segments):
            continue
        (attributes,) = struct.unpack_from(">h", batch, 21)
        (first_timestamp,) = struct.unpack_from(">q", batch, 27)
        (count,) = struct.unpack_from(">i", batch, 57)
        if attributes & 0x20:
            continue  # a control record
        payload = batch[HEADER_BYTES:]
        state.update(struct.pack(">biqi", attributes & 15, count, first_timestamp, len(payload)))
        state.update(payload)
    return state.hexdigest()


def content(record, *, times):
    """What must be the same of a record on both sides."""
    return record.key, record.value, list(record.headers), record.timestamp if times else None


def compare(here, there, segments):
    """What differs between the records of both sides, a sentence each; and how many were compared."""
    faults, compared = [], 0
    # 1 is LogAppendTime: the target has set the time.
    times = all(record.timestamp_type == 0 for record in there.values())
    for source, target, count in segments:
        for at in range(count):
            sent, held = here.get(source + at), there.get(target + at)
            if sent and held:
                compared += 1
                if content(sent, times=times) != content(held, times=times):
                    faults.append(f"source offset {source + at} is another record at {target + at}")
    return faults, compared


def main():
    """Check the certificate, read the range, print what is found, and return the exit status."""
    parser = argparse.ArgumentParser(usage=__doc__)
    for name in ("key", "file", "place"):
        parser.add_argument(name)
    parser.add_argument("--target", required=True)
    parser.add_argument("--source")
    parser.add_argument("--consumer")
    asked = parser.parse_args()
    more = json.loads(Path(asked.consumer).read_text()) if asked.consumer else {}
    header, _, faults, _ = check(Path(asked.file), public_keys(Path(asked.key).read_bytes()))
    lines = Path(asked.file).read_bytes().removesuffix(b"\n").split(b"\n")[1:]
    rows = find(
        [json.loads(line) for line in lines if not line.startswith(b'{"signature"')], asked.place
    )
    target = more | {"bootstrap_servers": asked.target}
    row, segments = choose(target, header, rows, int(asked.place.rpartition(":")[2]))
    require_topic(target, row["remote_topic"], row["remote_topic_id"])
    if not segments:
        sys.exit("the range has no record on the target: there is nothing to read back")
    if not row["read_back"]:
        sys.exit("the certificate had read no record of the range back: it proves nothing of them")
    begin = min(start for _, start, _ in segments)
    end = max(start + count for _, start, count in segments)
    there, batches = read(target, TopicPartition(row["remote_topic"], row["partition"]), begin, end)
    found = digest(batches, segments)
    # A batch may begin before the log's start: the records before that are not counted.
    places = [(start, start + count) for _, start, count in segments]
    records = sum(any(start <= at < end for start, end in places) for at in there)
    if records != row["read_back"]:
        faults.append(f"the target has {records} of its {row['read_back']} records")
    elif found != row["digest"] and row["compared"]:
        faults.append(f"the target's batches have the digest {found}, and not {row['digest']}")
    print(f"target: {records} records, digest {found}")
    if asked.source:
        options = more | {"bootstrap_servers": asked.source}
        require_topic(options, row["topic"], row["topic_id"])
        source = TopicPartition(row["topic"], row["partition"])
        here, _ = read(options, source, row["start"], row["end"])
        others, compared = compare(here, there, segments)
        faults += others[:10]
        print(
            f"source: {compared} of {row['copied']} records compared with the target's, one by one"
        )
    print(f"{name_of(row)}: {'; '.join(faults) or 'holds'}")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
