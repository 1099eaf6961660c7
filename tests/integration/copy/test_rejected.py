"""Records that the target cannot take: named and left, or moved to the dead letter topic; never skipped."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest

from kafka_ferry.batches import Reason
from kafka_ferry.config import Flow
from kafka_ferry.copy import copier
from kafka_ferry.copy.target.writer_settings import WriterSettings
from kafka_ferry.errors import VerificationFailed
from kafka_ferry.runs import Run
from kafka_sandbox.cluster import KafkaCluster
from tests.support.records.builders import (
    ConsumedRecord,
    Record,
    create_topic,
    delete_topic,
    produce,
    read_all,
    recreate_topic,
    set_config,
)
from tests.support.runs.flows import content, copy_now, failures, ledger_rows, remote
from tests.support.runs.pair import Pair
from tests.support.runs.proof import NO_SPARK, prove, verified

pytestmark = pytest.mark.usefixtures("without_spark")

HOUR_MS = 3_600_000
FUTURE = int(time.time() * 1000) + 5 * HOUR_MS


@dataclass(frozen=True)
class Case:
    """Records of which the target does not take some.

    Attributes:
        source: configs of the topic on the source.
        target: configs of the remote topic.
        bad: a record that the target does not take.
        error: what its broker says.
    """

    name: str
    bad: Record
    error: str
    source: dict[str, str] = field(default_factory=dict)
    target: dict[str, str] = field(default_factory=dict)


CASES = [
    Case(
        "too large",
        Record(
            key=b"large",
            value=random.Random(1).randbytes(20_000),
            headers=(("h", b"1"), ("h", None)),
        ),
        "MESSAGE_TOO_LARGE",
        target={"max_message_bytes": "10000"},
    ),
    Case(
        "no key in a compacted topic",
        Record(value=b"no key", headers=(("name", b"x"),)),
        "INVALID_RECORD",
        target={"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "1"},
    ),
    Case(
        "from the future",
        Record(key=b"k", value=b"tomorrow", timestamp=FUTURE),
        "INVALID_TIMESTAMP",
        source={"message_timestamp_after_max_ms": str(24 * HOUR_MS)},
    ),
    Case(
        "from long ago",
        Record(key=b"k", value=b"1970", timestamp=5),
        "INVALID_TIMESTAMP",
        target={"message_timestamp_before_max_ms": str(HOUR_MS)},
    ),
]
cases = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def good(number: int, partition: int) -> list[Record]:
    return [Record(b"key", b"%d-%d" % (number, i), partition=partition) for i in range(10)]


def prepare(case: Case, topic: str, pair: Pair, flow: Flow) -> None:
    """Two partitions; partition 0 has the bad record among others in the third of five batches."""
    create_topic(pair.primary.bootstrap, topic, partitions=2, **case.source)
    create_topic(pair.backup.bootstrap, remote(flow, topic), partitions=2, **case.target)
    for number in range(5):
        records = good(number, 0)
        if number == 2:
            bad = Record(case.bad.key, case.bad.value, case.bad.headers, case.bad.timestamp, 0)
            records[4:4] = [bad]
        pair.produce(topic, records, compression="lz4")
        pair.produce(topic, good(number, 1))


@cases
def test_by_default_the_partition_stops_before_it_and_the_others_go_on(
    case: Case, pair: Pair
) -> None:
    """MirrorMaker 2 situation 6: there the task fails with all its partitions, or drops the record."""
    topic = pair.unique("refused")
    flow = pair.flow([topic], writers=1)
    prepare(case, topic, pair, flow)

    (problem,) = failures(copy_now(flow))

    assert f"{topic}-0 -> {remote(flow, topic)}-0 stopped at offset" in problem
    assert case.error in problem
    have = content(pair.copied(flow, topic))
    want = content(read_all(pair.primary.bootstrap, topic))
    assert have[1] == want[1]
    assert have[0] == want[0][: len(have[0])]
    assert len(have[0]) <= 24


@cases
@pytest.mark.parametrize("joined", [True, False])
@pytest.mark.short("True-too large", "False-no key in a compacted topic", "True-from long ago")
def test_as_a_dead_letter_it_leaves_the_others_in_order(
    joined: bool, case: Case, pair: Pair
) -> None:
    topic = pair.unique("letters")
    flow = dead_letter_flow(pair, topic, joined=joined)
    prepare(case, topic, pair, flow)

    assert failures(copy_now(flow)) == []
    assert copy_now(flow, "run-2") == []

    want = read_all(pair.primary.bootstrap, topic)
    have = content(pair.copied(flow, topic))
    bad = [record for record in want[0] if record.value == case.bad.value]
    assert len(bad) == 1
    assert have[1] == content(want)[1]
    assert have[0] == content({0: [record for record in want[0] if record not in bad]})[0]
    check_letters(flow, pair.backup, topic, bad, case.error)
    rows = [row for row in ledger_rows(flow) if row["partition"] == 0]
    assert sum(row["reasons"].get("dead-lettered", 0) for row in rows) == 1
    assert sum(row["records"] for row in rows) == 50


def dead_letter_flow(pair: Pair, topic: str, *, joined: bool, **more: object) -> Flow:
    options = {"on_rejected_record": "dead-letter", "writers": 1} | more
    if not joined:
        options["join_batches_below"] = 0
    return pair.flow([topic], **options)


def check_letters(
    flow: Flow, backup: KafkaCluster, topic: str, bad: Sequence[ConsumedRecord], error: str
) -> None:
    letters = read_all(backup.bootstrap, flow.dead_letter_name)[0]
    assert len(letters) == len(bad)
    for letter, record in zip(letters, bad, strict=True):
        own, about = letter.headers[: len(record.headers)], letter.headers[len(record.headers) :]
        assert (letter.key, letter.value, own) == (record.key, record.value, record.headers)
        assert letter.timestamp == record.timestamp
        told = {name: (value or b"").decode() for name, value in about}
        assert told["ferry.topic"] == topic
        assert told["ferry.partition"] == "0"
        assert told["ferry.offset"] == str(record.offset)
        assert error in told["ferry.error"]


def test_a_topic_full_of_them_is_sorted_out_in_one_run(pair: Pair) -> None:
    topic = pair.unique("many")
    flow = dead_letter_flow(pair, topic, joined=True, transaction_max_bytes=20_000)
    create_topic(pair.primary.bootstrap, topic)
    create_topic(pair.backup.bootstrap, remote(flow, topic), cleanup_policy="compact")
    for number in range(200):
        records = [
            Record(None if (number + i) % 3 == 0 else b"%d" % i, b"%d-%d" % (number, i) * 20)
            for i in range(10)
        ]
        pair.produce(topic, records)

    assert failures(copy_now(flow)) == []

    source = read_all(pair.primary.bootstrap, topic)[0]
    check_letters(
        flow,
        pair.backup,
        topic,
        [record for record in source if record.key is None],
        "INVALID_RECORD",
    )
    rows = ledger_rows(flow)
    assert sum(row["reasons"].get("dead-lettered", 0) for row in rows) == 667
    assert sum(row["records"] for row in rows) == 1333


def test_a_dead_letter_topic_that_does_not_take_it_either_fails_its_partition_only(
    pair: Pair,
) -> None:
    topic = pair.unique("nowhere")
    flow = dead_letter_flow(pair, topic, joined=True)
    case = CASES[0]
    prepare(case, topic, pair, flow)
    create_topic(pair.backup.bootstrap, flow.dead_letter_name, max_message_bytes="10000")

    (problem,) = failures(copy_now(flow))

    assert f"{topic}-0" in problem
    assert flow.dead_letter_name in problem
    assert "MESSAGE_TOO_LARGE" in problem
    assert len(pair.copied(flow, topic)[1]) == 50
    assert read_all(pair.backup.bootstrap, flow.dead_letter_name)[0] == []

    set_config(pair.backup, flow.dead_letter_name, "max.message.bytes", "2000000")
    assert failures(copy_now(flow, "run-2")) == []
    assert len(read_all(pair.backup.bootstrap, flow.dead_letter_name)[0]) == 1
    assert len(pair.copied(flow, topic)[0]) == 50


def test_a_dead_letter_after_a_batch_that_is_refused_is_written_once(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a rule sets records aside, and what the target rejects fails its partition."""
    topic = pair.unique("refused-before")
    flow = pair.flow([topic], on_rejected_record="dead-letter")
    prepare(CASES[0], topic, pair, flow)
    of, take = WriterSettings.of, copier._Copy._take
    monkeypatch.setattr(
        WriterSettings,
        "of",
        lambda *given, **more: replace(of(*given, **more), takes_rejected=False),
    )
    monkeypatch.setattr(
        copier._Copy,
        "_take",
        lambda self, read: take(self, replace(read, set_aside={40: "by a rule"})),
    )

    def letters() -> list[bytes | None]:
        read = read_all(pair.backup.bootstrap, flow.dead_letter_name)[0]
        return sorted(dict(letter.headers)["ferry.partition"] for letter in read)

    for run in ("run-1", "run-2"):
        (problem,) = failures(copy_now(flow, run))
        assert "MESSAGE_TOO_LARGE" in problem
        assert letters() == [b"1"]
    set_config(pair.backup, remote(flow, topic), "max.message.bytes", "1000000")
    assert failures(copy_now(flow, "run-3")) == []
    assert letters() == [b"0", b"1"]


def test_a_batch_larger_than_the_target_takes_is_split(pair: Pair) -> None:
    topic = pair.unique("split")
    flow = pair.flow([topic])
    create_topic(pair.primary.bootstrap, topic)
    create_topic(pair.backup.bootstrap, remote(flow, topic), max_message_bytes="5000")
    records = [Record(b"%d" % i, bytes((i * j) % 251 for j in range(700))) for i in range(400)]
    for compression in ("none", "zstd"):
        pair.produce(topic, records, compression=compression)

    assert failures(copy_now(flow)) == []

    pair.assert_same(flow, topic)
    assert sum(row["rebuilt"].get("too large for the target", 0) for row in ledger_rows(flow)) > 0


def lose_all(pair: Pair, flow: Flow) -> None:
    delete_topic(pair.backup, flow.dead_letter_name)


def put_another_there(pair: Pair, flow: Flow) -> None:
    recreate_topic(pair.backup, flow.dead_letter_name)
    produce(pair.backup.bootstrap, flow.dead_letter_name, [Record(value=b"foreign")] * 3)


def with_a_letter(pair: Pair) -> Flow:
    """A flow that has copied all but one record, which is in the dead letter topic."""
    topic = pair.unique("letters")
    flow = dead_letter_flow(pair, topic, joined=True)
    prepare(CASES[0], topic, pair, flow)
    assert failures(copy_now(flow)) == []
    return flow


@pytest.mark.parametrize("lose", [lose_all, put_another_there])
@pytest.mark.short("lose_all")
def test_a_dead_letter_that_is_not_there_fails_the_proof_since_it_is_nowhere_else(
    lose: Callable[[Pair, Flow], None], pair: Pair
) -> None:
    flow = with_a_letter(pair)
    lose(pair, flow)
    with pytest.raises(VerificationFailed, match=r"1 record of letters.* not there"):
        verified(flow, "run-1")


def test_a_dead_letter_is_read_back_once_and_may_be_deleted_then(pair: Pair) -> None:
    flow = with_a_letter(pair)
    report = verified(flow, "run-1")
    assert sum(row.ledger.reasons[Reason.DEAD_LETTERED] for row in report.proof.ranges) == 1

    delete_topic(pair.backup, flow.dead_letter_name)
    prove(flow, "run-2")
    Run(flow, "run-2").verify(NO_SPARK, everything=True)
