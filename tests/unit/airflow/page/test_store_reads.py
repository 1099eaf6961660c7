"""Who reads a state store for a page is never kept longer than the deadline, whatever the store does."""

from __future__ import annotations

import threading
from time import monotonic

import pytest

from kafka_ferry_airflow.page.store_reads import StoreReads, StoreSilent

STORE = "s3://bucket/ferry?secret_key=do-not-show"


def test_what_a_store_answers_is_what_the_reader_gets() -> None:
    reads = StoreReads(5)
    assert reads.read(STORE, lambda: 17) == 17
    for error in (FileNotFoundError("x"), TimeoutError("the store's own")):

        def fail(error: Exception = error) -> None:
            raise error

        with pytest.raises(type(error), match=str(error)):
            reads.read(STORE, fail)
    assert reads.read(STORE, lambda: 18) == 18


def test_a_silent_store_is_named_and_others_are_read() -> None:
    reads, answer = StoreReads(0.2), threading.Event()
    began = monotonic()
    waits = [reads.start(STORE, answer.wait) for _ in range(3)]
    for wait in waits:
        with pytest.raises(StoreSilent, match="s3://bucket/ferry does not answer") as silent:
            wait()
        assert "do-not-show" not in str(silent.value)
    assert monotonic() - began < 2

    assert reads.read("/other", lambda: "there") == "there"
    began = monotonic()
    for _ in range(100):
        with pytest.raises(StoreSilent):
            reads.read(STORE, lambda: "asked")
    assert monotonic() - began < 0.2  # at once, and without a hundred threads

    answer.set()
    until = monotonic() + 5
    while monotonic() < until:
        try:
            assert reads.read(STORE, lambda: "again") == "again"
        except StoreSilent:
            continue
        return
    raise AssertionError("A store that answers again is not read again.")


def test_many_readers_of_a_slow_store_do_not_take_all_threads() -> None:
    reads, answer = StoreReads(5), threading.Event()
    before = threading.active_count()
    waits = [reads.start(STORE, answer.wait) for _ in range(50)]
    assert threading.active_count() - before < 30
    answer.set()
    assert any(wait() for wait in waits[:1])


def test_a_read_that_computes_on_a_busy_machine_is_not_the_stores_silence() -> None:
    def compute() -> int:
        until, found = monotonic() + 1.5, 0
        while monotonic() < until:
            found += 1
        return found

    assert StoreReads(0.5).read(STORE, compute) > 0


def test_a_read_that_would_end_its_process_is_an_error_for_its_reader() -> None:
    def end() -> None:
        raise SystemExit(9)

    with pytest.raises(RuntimeError, match="SystemExit in a read of a store"):
        StoreReads(5).read(STORE, end)
