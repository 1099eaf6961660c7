"""What becomes of a range, and of the open transaction, by what the target answers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from kafka_ferry.batches import ConvertedBatch, TopicLimits, split_batches
from kafka_ferry.copy.target.dead_letters import ABOUT_RECORDS, advice_on_records
from kafka_ferry.copy.target.produce.partition_queue import Outgoing, PartitionQueue
from kafka_ferry.copy.target.produce.pipeline import Answer
from kafka_ferry.copy.target.produce.verdicts import Verdicts
from kafka_ferry.errors import AccessDenied, Fenced
from kafka_ferry.model import Range, TopicPartition
from tests.support.records.batches import a_batch, with_payload
from tests.unit.copy.fakes import Clock

RANGE = Range("orders", 0, 0, 100, "id", "primary.orders", 3)
LETTERS = TopicPartition("letters", 0)
NO_LIMITS = TopicLimits()
TOO_LARGE, INVALID_RECORD, NOT_LEADER, OUT_OF_ORDER, FENCED, DENIED = 10, 87, 6, 45, 90, 29
UNKNOWN_TOPIC = 3


def a_converted_batch(records: int = 4, start: int = 0, *, readable: bool = True) -> ConvertedBatch:
    encoded = a_batch(records, at=start)
    if not readable:
        encoded = with_payload(encoded, b"no records")
    (batch,) = split_batches(encoded)
    return ConvertedBatch(start, start + records, batch, ((start, records),))


def a_queue() -> PartitionQueue:
    return PartitionQueue(1, RANGE, "remote id")


def refused(code: int, *records: int, words: str = "") -> Answer:
    return Answer(code, -1, words, records)


def judge(
    verdicts: Verdicts,
    answer: Answer,
    converted: ConvertedBatch | None = None,
    queue: PartitionQueue | None = None,
) -> None:
    verdicts.judge(queue or a_queue(), Outgoing(converted or a_converted_batch(), RANGE), answer)


def sent(
    verdicts: Verdicts, converted: ConvertedBatch, limits: TopicLimits = NO_LIMITS
) -> list[tuple[int, int, Sequence[int]]]:
    """Each piece that may be sent, with the offsets that go to the dead letter topic."""
    return [
        (piece.start, piece.end, [record.offset for record, _ in letters])
        for piece, letters in verdicts.sort_out(RANGE, converted, limits)
    ]


@pytest.mark.parametrize("letter", [39, 40, 50])
def test_a_dead_letter_after_a_refused_batch_is_in_no_transaction(letter: int) -> None:
    """The next run writes it, once the batch before it is accepted."""
    verdicts = Verdicts(LETTERS, takes_rejected=False)
    verdicts.set_aside(RANGE, -1, {letter: "why"})
    judge(verdicts, refused(TOO_LARGE), a_converted_batch(start=40))
    assert bool(verdicts.void) == (letter >= 40)
    assert verdicts.void is None or verdicts.void.excludes
    verdicts.write_again([RANGE])
    assert [at for *_, letters in sent(verdicts, a_converted_batch(60)) for at in letters] == [
        at for at in [letter] if at < 40
    ]


@pytest.mark.parametrize(
    ("second", "is_void"), [(104, False), (200, False), (103, True), (0, True)]
)
def test_a_batch_stored_before_the_one_before_it_voids_the_transaction(
    second: int, *, is_void: bool
) -> None:
    """A log that was truncated in between holds the second one in the place of the first."""
    verdicts, queue = Verdicts(None), a_queue()
    for start, base_offset in ((0, 100), (4, second)):
        judge(verdicts, Answer(0, base_offset, "", ()), a_converted_batch(start=start), queue)
    assert bool(verdicts.void) == is_void
    assert not is_void or "its log has lost records" in str(verdicts.void)


def test_an_offset_that_no_log_has_voids_the_transaction() -> None:
    """In the ledger, its end would be no number that a table has room for."""
    verdicts = Verdicts(None)
    judge(verdicts, Answer(0, 2**63 - 1, "", ()))
    assert "which no log has" in str(verdicts.void)


def test_a_refused_batch_stops_its_range_before_it_and_leaves_the_transaction() -> None:
    verdicts = Verdicts(None)
    judge(verdicts, refused(TOO_LARGE), a_converted_batch(start=40))
    failure = verdicts.failures[RANGE.source]
    assert (failure.offset, failure.transient) == (40, False)
    assert re.search(r"\[40, 44\), \d+ bytes: MESSAGE_TOO_LARGE", failure.message)
    assert verdicts.void is None


@pytest.mark.parametrize("code", [-1, -32768, 9999])
def test_what_a_code_of_no_meaning_is_given_for_may_be_in_the_transaction(code: int) -> None:
    verdicts = Verdicts(None)
    judge(verdicts, refused(code), a_converted_batch(start=40))
    assert verdicts.failures[RANGE.source].offset == 40
    assert verdicts.void is not None
    assert verdicts.void.excludes


def test_what_is_written_again_ends_at_the_refused_offset_even_within_a_batch() -> None:
    verdicts = Verdicts(None)
    judge(verdicts, refused(TOO_LARGE), a_converted_batch(start=40))
    verdicts.write_again([RANGE])
    assert verdicts.failures == {}
    assert sent(verdicts, a_converted_batch(10, 30)) == [(30, 40, [])]
    assert sent(verdicts, a_converted_batch(10, 38)) == [(38, 40, [])]
    assert sent(verdicts, a_converted_batch(10, 40)) == []
    assert RANGE.source in verdicts.failures


def test_a_batch_accepted_after_a_refused_one_makes_the_transaction_void() -> None:
    verdicts, queue = Verdicts(None), a_queue()
    judge(verdicts, refused(TOO_LARGE), a_converted_batch(start=40), queue)
    judge(verdicts, refused(OUT_OF_ORDER), a_converted_batch(start=44), queue)
    assert verdicts.void is None
    judge(verdicts, Answer(0, 7, "", ()), a_converted_batch(start=48), queue)
    assert verdicts.void is not None
    assert verdicts.void.excludes


def test_records_that_the_broker_names_go_to_the_dead_letter_topic() -> None:
    verdicts = Verdicts(LETTERS)
    judge(verdicts, refused(INVALID_RECORD, 1, 3, words="no"), a_converted_batch(start=40))
    assert verdicts.failures == {}
    assert verdicts.void is not None
    assert verdicts.void.excludes
    assert sent(verdicts, a_converted_batch(10, 38)) == [(38, 48, [41, 43])]


def test_what_was_refused_says_nothing_of_another_branch_of_the_source() -> None:
    verdicts = Verdicts(LETTERS)
    old = replace(a_converted_batch(4), leader_epoch=3)
    judge(verdicts, refused(INVALID_RECORD, 1), old)
    assert sent(verdicts, old) == [(0, 4, [1])]
    assert sent(verdicts, replace(old, leader_epoch=4)) == [(0, 4, [])]


def test_a_batch_is_divided_until_one_record_is_left() -> None:
    verdicts = Verdicts(LETTERS)
    judge(verdicts, refused(TOO_LARGE), a_converted_batch(4))
    assert sent(verdicts, a_converted_batch(4)) == [(0, 2, []), (2, 4, [])]
    judge(verdicts, refused(TOO_LARGE), a_converted_batch(2, 2))
    judge(verdicts, refused(TOO_LARGE), a_converted_batch(1, 3))
    assert sent(verdicts, a_converted_batch(4)) == [(0, 2, []), (2, 3, []), (3, 4, [3])]


@pytest.mark.parametrize("code", [TOO_LARGE, INVALID_RECORD])
def test_a_batch_that_cannot_be_opened_to_find_the_record_fails_its_range(code: int) -> None:
    verdicts = Verdicts(LETTERS)
    judge(verdicts, refused(code), a_converted_batch(4, 40, readable=False))
    failure = verdicts.failures[RANGE.source]
    assert failure.offset == 40
    assert "cannot be read" in failure.message


def test_an_unreadable_batch_after_a_rejected_record_fails_its_range() -> None:
    verdicts = Verdicts(LETTERS)
    judge(verdicts, refused(INVALID_RECORD, 0), a_converted_batch(start=40))
    assert sent(verdicts, a_converted_batch(4, 44, readable=False)) == []
    assert verdicts.failures[RANGE.source].offset == 44


def test_a_refused_dead_letter_stops_the_range_that_it_was_written_for() -> None:
    verdicts = Verdicts(LETTERS)
    letters = PartitionQueue(1, None, "id of letters")
    judge(verdicts, refused(TOO_LARGE), a_converted_batch(1, 40), letters)
    assert sent(verdicts, a_converted_batch(10, 38)) == [(38, 40, [])]
    assert "letters-0 refused its dead letter" in verdicts.failures[RANGE.source].message


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("kafka_ferry.copy.target.produce.verdicts.time", clock)
    return clock


def test_a_partition_without_a_leader_waits_and_fails_when_it_has_waited_for_too_long(
    clock: Clock,
) -> None:
    verdicts = Verdicts(None, wait_s=60)
    for _ in range(6):
        verdicts.write_again([RANGE])
        assert verdicts.waiting == set()
        judge(verdicts, refused(NOT_LEADER))
        assert verdicts.void is not None
        assert verdicts.void.excludes
        assert verdicts.waiting == {RANGE.source}
        assert verdicts.failures == {}
        clock.now += 10
    judge(verdicts, refused(NOT_LEADER))
    assert verdicts.failures[RANGE.source].transient
    assert "NOT_LEADER" in verdicts.failures[RANGE.source].message


def test_a_topic_that_brokers_know_nothing_of_is_waited_for_shortly(clock: Clock) -> None:
    verdicts = Verdicts(None, wait_s=60)
    judge(verdicts, refused(UNKNOWN_TOPIC))
    clock.now += 5
    judge(verdicts, refused(UNKNOWN_TOPIC))
    assert "UNKNOWN_TOPIC_OR_PARTITION" in verdicts.failures[RANGE.source].message


def test_a_committed_transaction_ends_the_waiting_of_those_in_it(clock: Clock) -> None:
    verdicts = Verdicts(None, wait_s=60)
    for _ in range(12):
        judge(verdicts, refused(NOT_LEADER))
        clock.now += 40
        verdicts.after_commit({RANGE.source: 0})
    assert verdicts.failures == {}


def test_a_void_counts_as_a_try_if_anything_in_it_does() -> None:
    verdicts = Verdicts(LETTERS)
    judge(verdicts, refused(INVALID_RECORD, 0))
    other = Outgoing(a_converted_batch(), replace(RANGE, partition=1))
    verdicts.judge(PartitionQueue(2, other.range, "remote id"), other, refused(OUT_OF_ORDER))
    assert verdicts.void is not None
    assert not verdicts.void.excludes


@pytest.mark.parametrize("of_letters", [False, True])
def test_what_comes_after_a_rejected_batch_is_out_of_order_and_does_not_count_as_a_try(
    of_letters: bool,
) -> None:
    """Each try learns of more records, however many there are."""
    verdicts, queue = Verdicts(LETTERS), a_queue()
    judge(verdicts, refused(TOO_LARGE), a_converted_batch(1), queue)
    after = PartitionQueue(1, None, "id of letters") if of_letters else queue
    judge(verdicts, refused(OUT_OF_ORDER), a_converted_batch(start=1), after)
    assert verdicts.void is not None
    assert verdicts.void.excludes != of_letters
    verdicts.void = None
    verdicts.write_again([RANGE])
    judge(verdicts, refused(OUT_OF_ORDER), a_converted_batch(start=1), queue)
    assert verdicts.void is not None
    assert not verdicts.void.excludes


@pytest.mark.parametrize(("codec", "rejected"), [(None, [9]), (1, [])])
def test_once_a_record_was_too_large_others_like_it_are_not_sent(
    codec: int | None, rejected: list[int]
) -> None:
    """Where the broker compresses again, only it knows how large they are."""
    verdicts = Verdicts(LETTERS)
    limits = TopicLimits(max_batch_bytes=70, codec=codec)
    assert sent(verdicts, a_converted_batch(1, 9), limits) == [(9, 10, [])]
    judge(verdicts, refused(TOO_LARGE), a_converted_batch(1))
    assert sent(verdicts, a_converted_batch(1, 9), limits) == [(9, 10, rejected)]
    assert sent(verdicts, a_converted_batch(2, 10), limits) == [(10, 12, [])]
    assert sent(verdicts, a_converted_batch(1, 9)) == [(9, 10, [])]


@pytest.mark.parametrize(("code", "error"), [(FENCED, Fenced), (DENIED, AccessDenied)])
def test_what_concerns_all_ranges_is_raised(code: int, error: type[Exception]) -> None:
    with pytest.raises(error):
        judge(Verdicts(LETTERS), refused(code))


@pytest.mark.parametrize("code", sorted(ABOUT_RECORDS))
def test_a_refusal_of_records_says_what_to_change(code: int) -> None:
    assert advice_on_records(code).endswith(", or set on.rejected.record to dead-letter.")
    assert not advice_on_records(-1)
