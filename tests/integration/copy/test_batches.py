"""Every kind of batch that a source's log can hold is copied, whether it passes, is rebuilt or dropped."""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kafka_ferry.batches import Reason, Rebuilt, split_batches
from kafka_ferry.config import Flow, kafka_python_config
from kafka_ferry.copy import Outcome
from kafka_ferry.runs.takeover.takeover import Takeover
from kafka_ferry.verify.claim import RangeClaim
from kafka_ferry.verify.recount import recount
from kafka_ferry.wire import WireCluster
from kafka_sandbox.broker import Broker
from kafka_sandbox.cluster import KafkaCluster
from tests.support.brokers.segments import (
    an_old_message_set,
    damage,
    has_delete_horizon,
    read_batches,
    write_log,
)
from tests.support.records import batches as log
from tests.support.records.batches import NOW, a_batch, a_marker, an_empty_batch
from tests.support.records.builders import (
    Record,
    begin_transaction,
    create_topic,
    delete_before,
    produce,
    read_all,
)
from tests.support.records.mirror_topics import positions_of_mirrormaker_2
from tests.support.runs.flows import (
    assert_same,
    content,
    copy_now,
    failures,
    ledger_of,
    ledger_rows,
    make_flow,
    remote,
)
from tests.support.runs.pair import Pair
from tests.support.waiting import wait_until

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
JOIN_BELOW = {0: "each alone", 32 * 1024: "small ones joined"}
joining = pytest.mark.parametrize("join_below", JOIN_BELOW, ids=JOIN_BELOW.values())


def total(flow: Flow, column: str, topic: str | None = None) -> dict[str, int]:
    """The ledger's ``reasons`` or ``rebuilt`` of all ranges, or of a topic's, summed."""
    sums: Counter[str] = Counter()
    for row in ledger_rows(flow):
        if topic in (None, row["topic"]):
            sums.update(row[column])
    return dict(sums)


def batches_written(flow: Flow) -> int:
    return sum(row["batches"] for row in ledger_rows(flow))


def assert_proved(flow: Flow) -> None:
    """What a verification would compare is the same: records and digest of every range."""
    ranges = defaultdict(list)
    for entry in ledger_of(flow).ranges(since=0, of_run=""):
        ranges[entry.target].append(entry.copied)
    settings = kafka_python_config(flow.target.client_properties("consumer"))
    with WireCluster(flow.target.alias, settings) as cluster:
        for partition, copied in ranges.items():
            found = recount(cluster, partition, [RangeClaim.of(range_) for range_ in copied])
            assert [(it.records, it.digest) for it in found.ranges] == [
                (range_.records, range_.digest) for range_ in copied
            ]
            assert found.beyond == 0


def small_batch(number: int, records: int = 10) -> list[Record]:
    return [Record(b"%d" % i, b"%d-%d " % (number, i) * 20) for i in range(records)]


# Runs of small batches


@pytest.mark.short("zstd", "none+gzip+snappy+lz4+zstd")
@pytest.mark.parametrize("codecs", [[codec] for codec in CODECS] + [CODECS], ids="+".join)
def test_small_batches_become_large_ones(codecs: list[str], pair: Pair) -> None:
    topic = pair.topic("small")
    for number in range(20):
        compression = codecs[number * len(codecs) // 20]
        pair.produce(topic, small_batch(number), compression=compression)
    flow = pair.flow([topic])

    assert failures(copy_now(flow)) == []

    pair.assert_same(flow, topic)
    assert total(flow, "rebuilt") == {Rebuilt.JOINED: len(read_batches(pair.primary, topic))}
    # Batches of different codecs stay apart; uncompressed ones take that of their neighbours.
    assert batches_written(flow) == max(1, len({*codecs} - {"none"}))
    assert_proved(flow)


def test_small_batches_are_left_as_they_are_where_the_flow_says_so(pair: Pair) -> None:
    topic = pair.topic("small")
    for number in range(20):
        pair.produce(topic, small_batch(number), compression="lz4")
    flow = pair.flow([topic], join_batches_below=0)

    assert failures(copy_now(flow)) == []

    pair.assert_same(flow, topic)
    assert total(flow, "rebuilt") == {}
    assert batches_written(flow) == len(read_batches(pair.primary, topic))


@joining
def test_aborted_transactions_between_small_batches_are_left_out(
    join_below: int, pair: Pair
) -> None:
    """MirrorMaker 2 situation 14: aborted records are mirrored like any others there."""
    topic = pair.topic("aborted")
    for number in range(12):
        writer = [None, topic, f"{topic}-2"][number % 3]
        pair.produce(topic, small_batch(number), transactional_id=writer, abort=number % 3 == 2)
    flow = pair.flow([topic], join_batches_below=join_below)

    assert failures(copy_now(flow)) == []

    pair.assert_same(flow, topic)
    assert total(flow, "reasons") == {Reason.ABORTED: 40, Reason.CONTROL: 8}
    stored = split_batches(b"".join(read_batches(pair.primary, topic)))
    writers = [it.header.producer_id for it in stored if not it.header.is_control]
    # On a busy machine a client may send one batch in two.
    _, _, aborting = dict.fromkeys(writers)
    assert batches_written(flow) == (1 if join_below else len(writers) - writers.count(aborting))
    assert_proved(flow)


def test_idempotent_producers_batches_pass(pair: Pair) -> None:
    topic = pair.topic("idempotent")
    for number in range(3):
        pair.produce(topic, small_batch(number), idempotent=True)
    flow = pair.flow([topic], join_batches_below=0)

    assert failures(copy_now(flow)) == []

    pair.assert_same(flow, topic)
    assert total(flow, "rebuilt") == {}


# What the target asks for


@pytest.mark.parametrize("wanted", ["gzip", "snappy", "lz4", "zstd", "uncompressed"])
@joining
def test_a_codec_of_the_remote_topics_own_is_met_before_the_broker_has_to(
    join_below: int, wanted: str, pair: Pair
) -> None:
    topic = pair.unique("pinned")
    flow = pair.flow([topic], join_batches_below=join_below)
    create_topic(pair.primary.bootstrap, topic)
    create_topic(pair.backup.bootstrap, remote(flow, topic), compression_type=wanted)
    for number, codec in enumerate(CODECS):
        pair.produce(topic, small_batch(number), compression=codec)

    assert failures(copy_now(flow)) == []

    pair.assert_same(flow, topic)
    assert_proved(flow)
    name = "none" if wanted == "uncompressed" else wanted
    have = {
        log.header_of(batch)["attributes"] & 7 for batch in data_batches(pair.backup, flow, topic)
    }
    assert have == {log.CODECS[name]}
    if not join_below:
        # Counted, because a producer on a busy machine sends some of its batches in two.
        sent = [
            log.header_of(batch)["attributes"] & 7 for batch in read_batches(pair.primary, topic)
        ]
        others = sum(codec != log.CODECS[name] for codec in sent)
        assert total(flow, "rebuilt") == {Rebuilt.OTHER_CODEC: others}


def data_batches(broker: KafkaCluster, flow: Flow, topic: str) -> list[bytes]:
    return [
        batch
        for batch in read_batches(broker, remote(flow, topic))
        if not log.header_of(batch)["attributes"] & log.CONTROL
    ]


# Where a range begins


@joining
def test_a_log_that_begins_inside_a_batch_is_copied_from_there(join_below: int, pair: Pair) -> None:
    topic = pair.topic("edge")
    for number in range(3):
        pair.produce(topic, small_batch(number), compression="zstd")
    delete_before(pair.primary, topic, 13)
    flow = pair.flow([topic], join_batches_below=join_below)

    assert failures(copy_now(flow)) == []

    pair.assert_same(flow, topic)
    assert total(flow, "rebuilt").get(Rebuilt.RANGE_EDGE, 0) == 1
    assert sum(row["records"] for row in ledger_rows(flow)) == 17
    assert_proved(flow)


# Uncommitted records


def test_uncommitted_records_are_copied_only_by_a_flow_that_asks_for_them(pair: Pair) -> None:
    """MirrorMaker 2 situation 14, the other way round: a flow wants just what MirrorMaker 2 does."""
    topic = pair.topic("uncommitted")
    for number, abort in enumerate([False, True, False]):
        pair.produce(topic, small_batch(number), transactional_id=topic, abort=abort)
    record = Record(b"open", b"open")
    left_open = begin_transaction(pair.primary.bootstrap, pair.unique("open"), topic, record)
    flow = pair.flow([topic], isolation_level="read_uncommitted")

    assert failures(copy_now(flow)) == []

    everything = read_all(pair.primary.bootstrap, topic, isolation="read_uncommitted")
    assert content(pair.copied(flow, topic)) == content(everything)
    assert len(everything[0]) == 31
    assert total(flow, "reasons") == {Reason.CONTROL: 3}
    assert_proved(flow)

    left_open.abort_transaction()
    pair.produce(topic, small_batch(4))
    assert failures(copy_now(flow, "run-2")) == []
    everything = read_all(pair.primary.bootstrap, topic, isolation="read_uncommitted")
    assert content(pair.copied(flow, topic)) == content(everything)


# Logs that no client of today can write


@dataclass(frozen=True)
class Case:
    """A partition's log, and what the ledger says of copying it batch by batch."""

    name: str
    batches: tuple[bytes, ...]
    rebuilt: Mapping[str, int] = field(default_factory=dict)
    reasons: Mapping[str, int] = field(default_factory=dict)


THEN = 1_500_000_000_000
OLD = [
    Record(
        key=None if i % 3 == 0 else b"%d" % i,
        value=None if i % 4 == 1 else b"value %d " % i * 20,
        timestamp=THEN + i * (-1) ** i,
    )
    for i in range(10)
]
HORIZON = log.DELETE_HORIZON
TOMBSTONES = [log.Record(NOW - i, b"%d" % i, None) for i in range(3)]


def old_formats() -> Iterator[Case]:
    newer = a_batch(2, at=20)
    for codec, name in enumerate(["plain", "gzip", "snappy", "lz4"]):
        # Messages that lie side by side, without a codec, are one batch.
        batches = 2 if codec else 1
        for magic in (0, 1):
            sets = [an_old_message_set(magic, OLD, at=at, codec=codec) for at in (0, 10)]
            rebuilt = {Rebuilt.OLD_FORMAT: batches}
            yield Case(f"format v{magic}, {name}", (*sets, newer), rebuilt)
        sets = [an_old_message_set(1, OLD, at=at, codec=codec, append_time=NOW) for at in (0, 10)]
        yield Case(f"format v1, append time, {name}", (*sets, newer), rebuilt)


CASES = [
    *old_formats(),
    Case(
        "negative and very old timestamps",
        tuple(
            a_batch([log.Record(t) for t in (-1, -5, -(2**40), 0, 1, NOW)], at=at, codec=codec)
            for at, codec in ((0, 0), (6, 1), (12, 4))
        ),
    ),
    Case("no timestamps", (a_batch([log.Record(-1), log.Record(-1)]),)),
    Case(
        "batches that the cleaner emptied",
        (
            an_empty_batch(at=0, last_offset_delta=4, producer_id=7000),
            a_batch(5, at=5),
            an_empty_batch(at=10, last_offset_delta=9, producer_id=7000),
            a_batch(5, at=20),
            an_empty_batch(at=25, last_offset_delta=0, producer_id=7001),
        ),
        reasons={Reason.COMPACTED: 16},
    ),
    Case(
        "offsets that the cleaner took",
        (
            a_batch(3, at=2, deltas=[1, 4, 7], last_offset_delta=9),
            a_batch(2, at=20, deltas=[0, 1], codec=4),
            a_batch(1, at=30, deltas=[0], last_offset_delta=5, codec=2),
        ),
        rebuilt={Rebuilt.OFFSET_GAPS: 2},
    ),
    Case(
        "tombstones with a delete horizon",
        tuple(
            a_batch(
                TOMBSTONES,
                at=at,
                base_timestamp=NOW + 86_400_000,
                codec=codec,
                attributes=HORIZON | codec,
            )
            for at, codec in ((0, 0), (3, 3))
        ),
    ),
    Case(
        "transactions that interleave",
        (
            a_batch(2, at=0, producer_id=7100, transactional=True, producer_epoch=0),
            a_batch(2, at=2, producer_id=7200, transactional=True, producer_epoch=0),
            a_batch(2, at=4),
            a_batch(2, at=6, producer_id=7100, transactional=True, producer_epoch=0),
            a_marker(at=8, producer_id=7100, commit=False),
            a_batch(2, at=9, producer_id=7200, transactional=True, producer_epoch=0),
            a_marker(at=11, producer_id=7200, commit=True),
            a_batch(2, at=12, producer_id=7100, transactional=True, producer_epoch=0),
            a_marker(at=14, producer_id=7100, commit=True),
            # A marker of a producer that wrote nothing here.
            a_marker(at=15, producer_id=7300, commit=False),
        ),
        reasons={Reason.ABORTED: 4, Reason.CONTROL: 4},
    ),
]
DAMAGED = ("payload", "header")
# What no checksum covers, in the middle of the log and at its end.
WRONG_EPOCHS = {"copied-epochs": (2, 4), "mirrored-epochs": (4,)}


def topic_of(name: str) -> str:
    return name.replace(" ", "-").replace(",", "")


@pytest.fixture(scope="module")
def by_hand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """A broker with a topic of each case's log, damaged topics of two partitions each, and ones with wrong epochs."""
    broker = Broker(tmp_path_factory.mktemp("by-hand"))
    with broker:
        for case in CASES:
            # Their records are old, and the copies take this setting over.
            create_topic(broker.bootstrap, topic_of(case.name), retention_ms="-1")
        for name in DAMAGED:
            create_topic(broker.bootstrap, name, partitions=2)
            for number in range(5):
                for partition in (0, 1):
                    records = [
                        Record(r.key, r.value, partition=partition) for r in small_batch(number)
                    ]
                    produce(broker.bootstrap, name, records, compression="lz4")
        for name in WRONG_EPOCHS:
            create_topic(broker.bootstrap, name)
            for number in range(5):
                produce(broker.bootstrap, name, small_batch(number))
        broker.stop()
        for case in CASES:
            write_log(broker, topic_of(case.name), case.batches)
        # The third batch: a bit of a record, and the bits that name the codec.
        damage(broker, "payload", number=2, at=-1)
        damage(broker, "header", number=2, at=22)
        for name, numbers in WRONG_EPOCHS.items():
            for number in numbers:
                damage(broker, name, number=number, at=12)
        broker.start().wait_ready()
        yield broker
    broker.wipe()


Copied = tuple[Flow, Sequence[Outcome]]


@pytest.fixture(scope="module")
def copied(
    tmp_path_factory: pytest.TempPathFactory, by_hand: KafkaCluster, backup: KafkaCluster
) -> dict[int, Copied]:
    """All cases' topics, copied in one run by a flow that joins small batches, and by one that does not."""
    flows = {}
    for join_below in JOIN_BELOW:
        folder = tmp_path_factory.mktemp(f"by-hand-{uuid.uuid4().hex[:8]}")
        topics = [topic_of(case.name) for case in CASES]
        flow = make_flow(folder, by_hand, backup, topics, join_batches_below=join_below)
        flows[join_below] = flow, copy_now(flow)
    return flows


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@joining
def test_what_only_an_old_broker_or_the_cleaner_writes_is_copied(
    join_below: int,
    case: Case,
    copied: dict[int, Copied],
    by_hand: KafkaCluster,
    backup: KafkaCluster,
) -> None:
    flow, outcomes = copied[join_below]
    topic = topic_of(case.name)

    assert failures([outcome for outcome in outcomes if outcome.range.topic == topic]) == []

    assert_same(by_hand, topic, backup, remote(flow, topic))
    assert any(read_all(by_hand.bootstrap, topic).values()), "the broker shows nothing of it"
    assert not any(map(has_delete_horizon, read_batches(backup, remote(flow, topic))))
    if case.reasons:
        assert total(flow, "reasons", topic) == case.reasons
    if not join_below:
        assert total(flow, "rebuilt", topic) == case.rebuilt


@joining
def test_what_is_rebuilt_can_be_proved_as_well(join_below: int, copied: dict[int, Copied]) -> None:
    flow, _ = copied[join_below]

    assert_proved(flow)
    assert copy_now(flow, "run-2") == []


@pytest.mark.parametrize("what", DAMAGED)
@joining
def test_a_damaged_batch_is_named_and_nothing_after_it_is_copied(
    join_below: int, what: str, folder: Path, by_hand: KafkaCluster, backup: KafkaCluster
) -> None:
    flow = make_flow(folder, by_hand, backup, [what], join_batches_below=join_below, writers=1)

    (problem,) = failures(copy_now(flow))

    assert problem.startswith(f"{what}-0 -> {remote(flow, what)}-0 stopped at offset 20: ")
    assert "CRC" in problem
    have = read_all(backup.bootstrap, remote(flow, what))
    want = [record.value for number in range(5) for record in small_batch(number)]
    assert [record.value for record in have[0]] == want[:20]
    assert [record.value for record in have[1]] == want
    assert len(failures(copy_now(flow, "run-2"))) == 1


# The cleaner at work


def test_a_leader_epoch_that_the_log_has_never_reached_stops_no_run(
    folder: Path, by_hand: KafkaCluster, backup: KafkaCluster
) -> None:
    topic = "copied-epochs"
    flow = make_flow(folder, by_hand, backup, [topic])
    assert failures(copy_now(flow)) == []
    assert [row["leader_epoch"] for row in ledger_rows(flow)] == [-1]

    produce(by_hand.bootstrap, topic, small_batch(5))

    assert failures(copy_now(flow, "run-2")) == []
    assert_same(by_hand, topic, backup, remote(flow, topic))


def test_a_leader_epoch_that_the_log_has_never_reached_stops_no_run_after_a_takeover(
    folder: Path, by_hand: KafkaCluster, backup: KafkaCluster
) -> None:
    topic = "mirrored-epochs"
    flow = make_flow(folder, by_hand, backup, [topic])
    (records,) = read_all(by_hand.bootstrap, topic).values()
    create_topic(backup.bootstrap, remote(flow, topic))
    mirrored = [Record(it.key, it.value, it.headers, it.timestamp) for it in records]
    produce(backup.bootstrap, remote(flow, topic), mirrored)
    positions_of_mirrormaker_2(backup, flow, {topic: records[-1].offset})
    (taken,) = Takeover(flow, settle_s=0.1).from_mirrormaker2()
    assert taken.state == "taken over", taken

    produce(by_hand.bootstrap, topic, small_batch(5))

    assert failures(copy_now(flow, "run-2")) == []
    assert_same(by_hand, topic, backup, remote(flow, topic))


@joining
def test_tombstones_of_a_compacted_topic_are_copied_without_their_deadline(
    join_below: int, pair: Pair
) -> None:
    """MirrorMaker 2 situation 11: tombstones reach the target while the source still has them."""
    topic = pair.unique("tombstones")
    compacting = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.01"}
    create_topic(pair.primary.bootstrap, topic, segment_ms="1", **compacting)
    flow = pair.flow([topic], join_batches_below=join_below)
    pair.produce(topic, [Record(b"%d" % i, b"first") for i in range(6)])
    assert failures(copy_now(flow)) == []
    pair.produce(topic, [Record(b"%d" % i, None) for i in range(4)])
    pair.produce(topic, [Record(b"last", b"last")])
    wait_until(lambda: any(map(has_delete_horizon, read_batches(pair.primary, topic))))

    assert failures(copy_now(flow, "run-2")) == []

    have = {r.key: r.value for r in pair.copied(flow, topic)[0]}
    source = {r.key: r.value for r in read_all(pair.primary.bootstrap, topic)[0]}
    assert have == source
    assert [key for key, value in have.items() if value is None] == [b"0", b"1", b"2", b"3"]
