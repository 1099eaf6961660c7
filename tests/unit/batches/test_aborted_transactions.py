import random
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_ferry.batches import (
    AbortedTransaction,
    AbortFilter,
    MalformedBatch,
    TransactionFates,
    split_batches,
)
from kafka_ferry.batches.aborted_transactions import LONGEST_APPEND
from tests.support.examples import examples
from tests.support.records import batches as build
from tests.support.records.batches import a_batch, a_marker, an_empty_batch
from tests.unit.batches.logs import Log, logs


def written_by(producer_id: int, at: int, *, transactional: bool = True) -> bytes:
    return a_batch(2, at=at, producer_id=producer_id, transactional=transactional)


def commit(producer_id: int, at: int) -> bytes:
    return a_marker(at=at, producer_id=producer_id, commit=True)


def abort(producer_id: int, at: int) -> bytes:
    return a_marker(at=at, producer_id=producer_id, commit=False)


def dropped(aborted: list[tuple[int, int]], *log: bytes) -> list[int]:
    """The base offsets of the batches that the filter drops."""
    judge = AbortFilter(AbortedTransaction(*entry) for entry in aborted)
    batches = list(split_batches(b"".join(log)))
    return [batch.header.base_offset for batch in batches if judge.is_aborted(batch)]


@pytest.mark.parametrize(
    ("aborted", "log", "expected"),
    [
        ([], [written_by(1, 0), abort(1, 2)], []),
        ([(1, 0)], [written_by(1, 0), abort(1, 2)], [0]),
        ([(1, 0)], [written_by(1, 0), written_by(1, 2), abort(1, 4)], [0, 2]),
        ([(1, 0)], [written_by(1, 0), written_by(2, 2), abort(1, 4)], [0]),
        ([(1, 0)], [written_by(1, 0), abort(1, 2), written_by(1, 3), commit(1, 5)], [0]),
        ([(1, 3)], [written_by(1, 0), commit(1, 2), written_by(1, 3), abort(1, 5)], [3]),
        (
            [(1, 0), (1, 3)],
            [written_by(1, 0), abort(1, 2), written_by(1, 3), abort(1, 5), written_by(1, 6)],
            [0, 3],
        ),
        (
            [(1, 0), (2, 2)],
            [written_by(1, 0), written_by(2, 2), abort(2, 4), written_by(1, 5), abort(1, 7)],
            [0, 2, 5],
        ),
        ([(1, 0)], [written_by(1, 0, transactional=False), abort(1, 2)], []),
        ([(1, 0)], [written_by(1, 0), commit(2, 2), written_by(1, 3), abort(1, 5)], [0, 3]),
        ([(1, 40)], [written_by(1, 50), abort(1, 52)], [50]),
        ([(1, 1)], [written_by(1, 0), abort(1, 2)], [0]),
        ([(1, 9)], [written_by(1, 0), commit(1, 2)], []),
        ([(1, 0)], [abort(1, 2), written_by(1, 3)], []),
    ],
    ids=[
        "nothing is listed",
        "an aborted transaction",
        "of several batches",
        "beside another producer's",
        "followed by one that is committed",
        "after one that is committed",
        "followed by another aborted one",
        "interleaved with another aborted one",
        "a batch outside of transactions",
        "another producer's marker ends nothing",
        "it began before the response",
        "it begins within the batch",
        "it begins after the response",
        "only its marker is left",
    ],
)
def test_a_batch_is_aborted_from_the_listed_offset_to_its_producers_abort_marker(
    aborted: list[tuple[int, int]], log: list[bytes], expected: list[int]
) -> None:
    assert dropped(aborted, *log) == expected


def test_the_order_of_the_brokers_list_does_not_matter() -> None:
    listed = [(1, 0), (2, 2), (1, 6), (3, 9)]
    log = [
        *(written_by(1, 0), written_by(2, 2), abort(1, 4), abort(2, 5)),
        *(written_by(1, 6), abort(1, 8), written_by(3, 9), abort(3, 11), written_by(1, 12)),
    ]
    shuffled = random.Random(1).sample(listed, len(listed))
    assert shuffled != listed
    assert dropped(shuffled, *log) == dropped(listed, *log) == [0, 2, 6, 9]


def test_a_marker_without_records_ends_no_transaction() -> None:
    """``CompletedFetch.containsAbortMarker``: the cleaner may have emptied the batch."""
    empty = an_empty_batch(at=2, last_offset_delta=0, producer_id=1, attributes=0x30)
    assert dropped([(1, 0)], written_by(1, 0), empty, written_by(1, 3)) == [0, 3]


@pytest.mark.parametrize("payload", [b"", b"\xff" * 20, a_batch(1)[61:]])
def test_a_marker_that_cannot_be_read_is_malformed_where_it_matters(payload: bytes) -> None:
    marker = build.with_payload(abort(1, 2), payload)
    with pytest.raises(
        MalformedBatch, match=r"a batch at offset 2 that cannot be read|a control batch"
    ):
        dropped([(1, 0)], written_by(1, 0), marker)
    assert dropped([(2, 0)], written_by(1, 0), marker) == []


# Lists that lack something


class Reader:
    """Reads response after response, and looks ahead where it has to."""

    def __init__(self, aborted: list[tuple[int, int, int]]) -> None:
        self._aborted = aborted
        self._fates = TransactionFates()
        self.looked_ahead: list[tuple[int, dict[int, int]]] = []

    def aborted_in(self, records: bytes, listed: list[AbortedTransaction]) -> set[int]:
        """The base offsets of a response's batches with records of aborted transactions."""
        batches = list(split_batches(records))

        def judge(aborted: AbortFilter) -> set[int]:
            return {
                it.header.base_offset
                for it in batches
                if aborted.is_aborted(it) and it.header.records
            }

        return self._fates.decide(listed, judge, self._look_ahead)

    def _look_ahead(self, start: int, undecided: Mapping[int, int]) -> dict[int, bool]:
        self.looked_ahead.append((start, dict(undecided)))
        return {
            producer: any(
                other == producer and began <= first < marker
                for other, began, marker in self._aborted
            )
            for producer, first in undecided.items()
        }


@examples(200)
@given(logs(), st.lists(st.integers(1, 4), max_size=6), st.data())
def test_whatever_a_list_lacks_the_markers_tell(
    log: Log, sizes: list[int], data: st.DataObject
) -> None:
    start = data.draw(st.integers(log.start, log.end))
    whole = Reader(log.aborted)
    short = Reader(log.aborted)
    for records, listed in log.responses(start, log.end, sizes):
        left = [entry for entry in listed if data.draw(st.booleans())]
        assert short.aborted_in(records, left) == whole.aborted_in(records, listed)


def test_an_abort_that_is_not_listed_is_seen_by_its_marker_in_the_same_response() -> None:
    log = [
        written_by(1, 0),
        abort(1, 2),
        written_by(1, 3),
        abort(1, 5),
        written_by(2, 6),
        commit(2, 8),
    ]
    reader = Reader([])
    assert reader.aborted_in(b"".join(log), [AbortedTransaction(1, 0)]) == {0, 3}
    assert reader.looked_ahead == []


def test_a_transaction_that_goes_on_after_the_response_is_asked_for_once() -> None:
    reader = Reader([(1, 3, 9)])
    first = [written_by(1, 0), abort(1, 2), written_by(1, 3)]
    assert reader.aborted_in(b"".join(first), [AbortedTransaction(1, 0)]) == {0, 3}
    assert reader.aborted_in(written_by(1, 5), []) == {5}
    assert reader.aborted_in(written_by(1, 7) + abort(1, 9) + written_by(1, 10), []) == {7}
    assert reader.looked_ahead == [(5, {1: 3}), (12, {1: 10})]


def test_what_was_asked_for_counts_also_where_a_later_one_of_its_producer_is_asked_for() -> None:
    reader = Reader([(1, 0, 4), (1, 5, 9)])
    assert reader.aborted_in(written_by(1, 0), []) == {0}
    assert reader.aborted_in(written_by(1, 2) + abort(1, 4) + written_by(1, 5), []) == {2, 5}
    assert reader.looked_ahead == [(2, {1: 0}), (7, {1: 5})]


def test_a_list_is_believed_where_no_abort_of_the_producer_is_near() -> None:
    reader = Reader([])
    reader.aborted_in(a_batch(1, at=0), [])
    far = split_batches(a_batch(1, at=1))
    (batch,) = far
    reader._fates.read(batch.header._replace(length=LONGEST_APPEND))
    assert reader.aborted_in(written_by(1, 2), []) == set()
    assert reader.looked_ahead == []
    # An abort brings the doubt back.
    reader.aborted_in(written_by(1, 4) + abort(1, 6) + written_by(1, 7), [AbortedTransaction(1, 4)])
    assert reader.looked_ahead == [(9, {1: 7})]


def test_a_filter_without_a_reader_believes_the_list() -> None:
    judge = AbortFilter([])
    for batch in split_batches(written_by(1, 0) + abort(1, 2)):
        assert not judge.is_aborted(batch)
    assert (judge.unlisted, judge.undecided) == ([], {})
