from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from kafka_ferry.copy import Limits, Outcome, copy_ranges
from kafka_ferry.copy.copier import Outage
from kafka_ferry.copy.target.writer import StartOver
from kafka_ferry.errors import AccessDenied, BrokerError, ClusterUnreachable, Fenced, FerryError
from kafka_ferry.model import Position, Range
from kafka_ferry.model.results.failures import Failure
from kafka_ferry.model.waits import NO_WAITS

from .fakes import Clock, FakeSource, FakeWriter

ALL_AT_ONCE = Limits(transaction_bytes=10**9, transaction_ms=10**9)
EACH_READ = Limits(transaction_bytes=1, transaction_ms=10**9)


def a_range(topic: str = "orders", start: int = 0, end: int = 40, **more: Any) -> Range:
    return Range(
        **{
            "topic": topic,
            "partition": 0,
            "start": start,
            "end": end,
            "topic_id": f"id of {topic}",
            "remote_topic": f"primary.{topic}",
            "writer": 3,
        }
        | more
    )


ORDERS, PAYMENTS, CLICKS = (a_range(topic) for topic in ("orders", "payments", "clicks"))
ALL = [ORDERS, PAYMENTS, CLICKS]


def position(offset: int, topic: str = "orders") -> Position:
    return Position(offset, f"id of {topic}")


def copied(
    ranges: Sequence[Range], source: FakeSource, writer: FakeWriter, limits: Limits
) -> list[Outcome]:
    """The outcomes without their times."""
    outcomes = copy_ranges(ranges, source, writer, limits)  # type: ignore[arg-type]
    return [replace(outcome, began_at=0, ended_at=0, waits=NO_WAITS) for outcome in outcomes]


def done(*ranges: Range) -> list[Outcome]:
    return [Outcome(range_, range_.end) for range_ in ranges]


def once(error: Exception, number: int) -> Callable[[int], Exception | None]:
    return lambda n: error if n == number else None


def always(error: Exception) -> Callable[[int], Exception | None]:
    return lambda _: error


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("kafka_ferry.copy.copier.time", clock)
    return clock


@pytest.fixture
def source(clock: Clock) -> FakeSource:
    return FakeSource(clock)


# Where it begins


def test_every_range_is_copied_to_its_end_once_and_in_order(source: FakeSource) -> None:
    writer = FakeWriter()
    assert copied(ALL, source, writer, ALL_AT_ONCE) == done(*ALL)
    assert [writer.copied(range_.source) for range_ in ALL] == [(0, 40)] * 3
    assert writer.commits == [{range_.source: 40 for range_ in ALL}]


def test_an_outcome_says_when_its_task_worked(
    source: FakeSource, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def a_second_passes(_: int) -> None:
        clock.now += 1

    monkeypatch.setattr("kafka_ferry.copy.copier.now_ms", lambda: int(clock.now * 1000))
    writer: Any = FakeWriter(on_send=a_second_passes)
    for outcome in copy_ranges(ALL, source, writer, ALL_AT_ONCE):
        assert (outcome.began_at, outcome.ended_at) == (1_000_000, 1_012_000)


def test_outcomes_come_in_the_order_of_the_ranges(source: FakeSource) -> None:
    ranges = [a_range("a", end=40), a_range("b", end=5), a_range("c", end=20)]
    outcomes = copied(ranges, source, FakeWriter(), EACH_READ)
    assert [outcome.range for outcome in outcomes] == ranges


@pytest.mark.parametrize("at", [0, 5, 20, 39])
def test_a_range_goes_on_at_the_targets_position_wherever_the_plan_begins(
    source: FakeSource, at: int
) -> None:
    planned = a_range(start=20)
    writer = FakeWriter(positions={planned.source: position(at)})
    assert copied([planned], source, writer, ALL_AT_ONCE) == done(planned)
    assert source.starts == [{planned.source: at}]
    assert writer.copied(planned.source) == (at, 40)


@pytest.mark.parametrize("at", [40, 41, 500])
def test_a_position_ahead_of_the_plan_is_the_outcome_and_nothing_is_read(
    source: FakeSource, at: int
) -> None:
    writer = FakeWriter(positions={ORDERS.source: position(at)})
    assert copied([ORDERS], source, writer, ALL_AT_ONCE) == [Outcome(ORDERS, at)]
    assert source.starts == [{}]
    assert (writer.commits, writer.refreshed) == ([], {})


def test_the_writer_takes_over_before_anything_is_read(source: FakeSource) -> None:
    writer = FakeWriter(on_take_over=always(Fenced("Another run took over.")))
    copied(ALL, source, writer, ALL_AT_ONCE)
    assert writer.taken_over == [[range_.source for range_ in ALL]]
    assert source.readers == []


def test_a_topic_that_was_recreated_fails_and_the_others_are_copied(source: FakeSource) -> None:
    writer = FakeWriter(positions={ORDERS.source: Position(7, "another id")})
    failed, *others = copied(ALL, source, writer, ALL_AT_ONCE)
    assert others == done(PAYMENTS, CLICKS)
    assert failed.failure
    assert (failed.failure.offset, failed.failure.transient) == (7, False)
    assert "deleted and recreated" in failed.failure.message
    assert writer.copied(ORDERS.source) is None


def test_a_topic_that_was_recreated_begins_at_the_plans_start_where_the_flow_appends_it(
    source: FakeSource,
) -> None:
    recreated = replace(a_range(start=3), replaces="id of the old one")
    writer = FakeWriter(positions={recreated.source: Position(25, "id of the old one")})
    limits = replace(ALL_AT_ONCE, append_recreated=True)
    assert copied([recreated], source, writer, limits) == done(recreated)
    assert writer.copied(recreated.source) == (3, 40)


def test_an_old_plan_sets_no_position_of_a_newer_topic_back(source: FakeSource) -> None:
    planned = replace(a_range(start=3), replaces="id of the first one")
    writer = FakeWriter(positions={planned.source: Position(25, "id of the third one")})
    (failed,) = copied([planned], source, writer, replace(ALL_AT_ONCE, append_recreated=True))
    assert failed.failure
    assert "another run has copied on" in failed.failure.message
    assert writer.positions[planned.source].offset == 25


@pytest.mark.parametrize(
    ("rewind", "epoch", "asked"), [(True, 4, True), (True, -1, False), (False, 4, False)]
)
def test_a_position_beyond_the_plan_is_checked_only_where_it_may_be_set_back(
    source: FakeSource, rewind: bool, epoch: int, asked: bool
) -> None:
    beyond = Position(50, "id of orders", leader_epoch=epoch)
    writer = FakeWriter(positions={ORDERS.source: beyond})
    copied([ORDERS], source, writer, replace(ALL_AT_ONCE, rewind=rewind))
    assert source.starts == [{ORDERS.source: 50} if asked else {}]


def test_a_position_without_a_topic_id_is_taken_as_it_is(source: FakeSource) -> None:
    writer = FakeWriter(positions={ORDERS.source: Position(7)})
    assert copied([ORDERS], source, writer, ALL_AT_ONCE) == done(ORDERS)
    assert writer.copied(ORDERS.source) == (7, 40)


# Refreshing


EMPTY = a_range(start=40, end=40)


@pytest.mark.parametrize(
    ("known", "refreshed"),
    [(position(40), position(40)), (position(50), position(50))],
    ids=["as the target has it", "never back"],
)
def test_an_empty_range_refreshes_its_position(
    source: FakeSource, known: Position, refreshed: Position
) -> None:
    writer = FakeWriter(positions={EMPTY.source: known})
    [outcome] = copied([EMPTY], source, writer, ALL_AT_ONCE)
    assert outcome == Outcome(EMPTY, refreshed.offset)
    assert writer.refreshed == {EMPTY.source: refreshed}
    assert writer.copied(EMPTY.source) is None


def test_an_empty_range_of_a_partition_that_the_target_knows_nothing_of_is_recorded(
    source: FakeSource,
) -> None:
    """The ledger has it then, from which a position that was forgotten is restored."""
    writer = FakeWriter()
    [outcome] = copied([EMPTY], source, writer, ALL_AT_ONCE)
    assert outcome == Outcome(EMPTY, 40)
    assert writer.copied(EMPTY.source) == (40, 40)
    assert writer.refreshed == {}


def test_an_empty_range_that_its_position_has_not_reached_is_copied(source: FakeSource) -> None:
    writer = FakeWriter(positions={EMPTY.source: position(15)})
    assert copied([EMPTY], source, writer, ALL_AT_ONCE) == done(EMPTY)
    assert writer.copied(EMPTY.source) == (15, 40)


def test_a_partition_that_the_writer_does_not_take_is_not_refreshed(source: FakeSource) -> None:
    """Its position would be committed under the id of the topic that has replaced the target's."""
    failure = Failure.of(EMPTY, 40, "the target's topic was recreated.", transient=False)
    writer = FakeWriter(positions={EMPTY.source: position(40)}, not_taken={EMPTY.source: failure})
    assert copied([EMPTY], source, writer, ALL_AT_ONCE) == [Outcome(EMPTY, 40, failure)]
    assert writer.refreshed == {}


def test_a_run_that_only_refreshes_says_that_it_was_fenced(source: FakeSource) -> None:
    writer = FakeWriter(
        positions={EMPTY.source: position(40)}, on_commit=always(Fenced("Another run took over."))
    )
    [outcome] = copied([EMPTY], source, writer, ALL_AT_ONCE)
    assert outcome.failure
    assert outcome.failure.fenced


# Starting over


@pytest.mark.parametrize("number", [0, 1, 5, 11])
@pytest.mark.parametrize("limits", [EACH_READ, Limits(25, 10**9), ALL_AT_ONCE])
@pytest.mark.parametrize("step", ["send", "commit"])
def test_what_is_void_is_written_again_from_what_was_committed(
    source: FakeSource, limits: Limits, step: str, number: int
) -> None:
    writer = FakeWriter(**{f"on_{step}": once(StartOver("An answer was lost."), number)})
    assert copied(ALL, source, writer, limits) == done(*ALL)
    assert [writer.copied(range_.source) for range_ in ALL] == [(0, 40)] * 3
    assert all(reader.closed for reader in source.readers)


def test_it_goes_on_where_the_target_says_it_is(source: FakeSource) -> None:
    """A commit whose answer was lost may have succeeded."""
    writer = FakeWriter()

    def succeeds_unseen(_: int) -> Exception | None:
        writer.on_commit = lambda _: None
        writer.commit()
        return StartOver("The answer was lost.")

    writer.on_commit = succeeds_unseen
    assert copied([ORDERS], source, writer, Limits(20, 10**9)) == done(ORDERS)
    assert source.starts == [{ORDERS.source: 0}, {ORDERS.source: 20}]
    assert writer.copied(ORDERS.source) == (0, 40)


def test_a_range_that_is_done_is_not_read_again(source: FakeSource) -> None:
    short = a_range("short", end=10)
    writer = FakeWriter(on_commit=once(StartOver("An answer was lost."), 4))
    assert copied([short, ORDERS], source, writer, EACH_READ) == done(short, ORDERS)
    assert source.starts == [{short.source: 0, ORDERS.source: 0}, {ORDERS.source: 30}]


def test_it_waits_longer_each_time_and_gives_up_at_last(source: FakeSource, clock: Clock) -> None:
    writer = FakeWriter(on_commit=always(StartOver("The coordinator is away.")))
    outcomes = copied(ALL, source, writer, replace(ALL_AT_ONCE, wait_s=9))
    assert clock.slept == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 2, 2, 2])
    assert len(writer.taken_over) == 9
    for outcome in outcomes:
        assert outcome.position == 0
        assert outcome.failure
        assert (outcome.failure.offset, outcome.failure.transient) == (0, True)
        assert not outcome.failure.fenced
        assert "s and 9 tries: The coordinator is away." in outcome.failure.message


def test_a_take_over_that_has_waited_for_too_long_is_not_tried_again(
    source: FakeSource, clock: Clock
) -> None:
    def waits(_: int) -> Exception:
        clock.now += 60
        return ClusterUnreachable("The coordinator is away.")

    writer = FakeWriter(on_take_over=waits)
    outcomes = copied(ALL, source, writer, replace(ALL_AT_ONCE, wait_s=60))
    assert all(outcome.failure and outcome.failure.transient for outcome in outcomes)
    assert len(writer.taken_over) == 1


def test_a_request_that_was_waited_for_in_vain_counts_from_its_beginning(
    source: FakeSource, clock: Clock
) -> None:
    def waits(_: int) -> Exception:
        clock.now += 14.5
        return StartOver("target (a:1) did not answer within 15 s.")

    for step in ("send", "commit"):
        writer = FakeWriter(**{f"on_{step}": waits})
        began = clock.now
        outcomes = copied(ALL, source, writer, replace(ALL_AT_ONCE, wait_s=15))
        assert all(outcome.failure for outcome in outcomes)
        assert (len(writer.taken_over), clock.now - began) == (1, 14.5)


def test_copies_that_follow_each_other_wait_once_for_a_target_that_is_gone(
    source: FakeSource, clock: Clock
) -> None:
    outage, limits = Outage(), replace(ALL_AT_ONCE, wait_s=9)

    def tries(error: Exception | None) -> int:
        writer = FakeWriter(on_take_over=lambda _: error)
        copy_ranges(ALL, source, writer, limits, outage=outage)  # type: ignore[arg-type]
        return len(writer.taken_over)

    away = ClusterUnreachable("The coordinator is away.")
    assert [tries(away) for _ in range(3)] == [9, 1, 1]
    assert (tries(None), tries(away)) == (1, 9)
    clock.now += 10
    assert tries(away) == 9


def test_what_the_target_lets_wait_comes_after_the_others(source: FakeSource) -> None:
    """And holds none of them back."""
    writer = FakeWriter()

    def lets_wait(number: int) -> Exception | None:
        if number == 0:
            writer.waiting |= {PAYMENTS.source}
            return StartOver("primary.payments-0: LEADER_NOT_AVAILABLE.", excludes=True)
        return None

    writer.on_send = lets_wait
    assert copied(ALL, source, writer, ALL_AT_ONCE) == done(*ALL)
    both = [ORDERS.source, CLICKS.source]
    assert writer.taken_over == [
        [range_.source for range_ in ALL],
        both,
        [PAYMENTS.source],
    ]
    assert writer.commits == [dict.fromkeys(both, 40), {PAYMENTS.source: 40}]


def committed_without_a_leader(writer: FakeWriter) -> Callable[[int], Exception | None]:
    """A partition loses its leader when its only transaction is committed."""

    def lets_wait(_: int) -> None:
        if not writer.commits:
            writer.waiting |= {PAYMENTS.source}

    return lets_wait


def test_what_was_committed_and_is_not_shown_yet_is_looked_at_again(source: FakeSource) -> None:
    writer = FakeWriter()
    writer.on_commit = committed_without_a_leader(writer)

    def keeps_its_position(number: int) -> None:
        if number:
            writer.positions[PAYMENTS.source] = position(40, "payments")

    writer.on_take_over = keeps_its_position
    assert copied(ALL, source, writer, ALL_AT_ONCE) == done(*ALL)
    assert writer.taken_over == [[range_.source for range_ in ALL], [PAYMENTS.source]]
    assert writer.copied(PAYMENTS.source) == (0, 40)


def test_what_was_committed_and_is_never_shown_fails_alone(source: FakeSource) -> None:
    writer = FakeWriter(on_take_over=lambda n: ClusterUnreachable("No leader.") if n else None)
    writer.on_commit = committed_without_a_leader(writer)
    orders, payments, clicks = copied(ALL, source, writer, replace(ALL_AT_ONCE, wait_s=60))
    assert [orders, clicks] == done(ORDERS, CLICKS)
    assert payments.failure and payments.failure.transient
    assert payments.position == 40


def test_a_transaction_begun_again_has_its_whole_time(source: FakeSource) -> None:
    source.silent = [1]
    writer = FakeWriter(on_commit=once(StartOver("An answer was lost."), 0))
    assert copied([ORDERS], source, writer, Limits(10**9, 3_000)) == done(ORDERS)
    first, second = source.readers
    assert first.timeouts == [1.0, 3.0]
    assert second.timeouts[:2] == [1.0, 3.0]


def test_the_time_for_retries_begins_again_whenever_something_was_committed(
    source: FakeSource, clock: Clock
) -> None:
    """Nine failures before each of four commits."""
    writer = FakeWriter(on_commit=lambda n: StartOver("Lost.") if n % 10 != 9 else None)
    assert copied([ORDERS], source, writer, EACH_READ) == done(ORDERS)
    assert len(clock.slept) > 30
    assert writer.copied(ORDERS.source) == (0, 40)


# Ending early


@pytest.mark.parametrize(
    ("error", "transient", "fenced"),
    [
        (Fenced("Another run took over."), False, True),
        (AccessDenied("No right.", advice="Grant it."), False, False),
        (BrokerError("No.", code=87, name="INVALID_RECORD", transient=False), False, False),
    ],
)
@pytest.mark.parametrize("step", ["take_over", "send", "commit"])
def test_an_error_of_the_target_as_a_whole_fails_what_is_unfinished(
    source: FakeSource, step: str, error: FerryError, transient: bool, fenced: bool
) -> None:
    writer = FakeWriter(**{f"on_{step}": always(error)})
    for outcome in copied(ALL, source, writer, ALL_AT_ONCE):
        assert outcome == Outcome(
            outcome.range,
            0,
            Failure.of(outcome.range, 0, error.message, transient, fenced, error.advice),
        )
    assert len(writer.taken_over) == 1
    assert all(reader.closed for reader in source.readers)


@pytest.mark.timeout(30)
def test_what_was_committed_before_a_fence_stays_and_is_no_failure(source: FakeSource) -> None:
    short = a_range("short", end=10)
    fenced = Fenced("Another run took over.")
    writer = FakeWriter(
        on_commit=once(fenced, 3),
        # A writer that tried again would be fenced again, for ever.
        on_take_over=lambda number: fenced if number else None,
    )
    first, second = copied([short, ORDERS], source, writer, EACH_READ)
    assert first == Outcome(short, 10)
    assert second.position == 20
    assert second.failure
    assert (second.failure.offset, second.failure.fenced) == (20, True)
    assert len(writer.taken_over) == 1


def test_a_source_that_cannot_be_read_fails_what_is_unfinished(source: FakeSource) -> None:
    source.breaks = dict.fromkeys(
        range(5, 1000), ClusterUnreachable("No broker of primary answers.")
    )
    writer = FakeWriter()
    outcomes = copied(ALL, source, writer, Limits(30, 10**9))
    assert [outcome.position for outcome in outcomes] == [10, 10, 10]
    for outcome in outcomes:
        assert outcome.failure
        assert outcome.failure.transient
        assert "No broker of primary answers." in outcome.failure.message
        assert writer.copied(outcome.range.source) == (0, 10)
    assert all(reader.closed for reader in source.readers)


def test_a_reader_is_closed_whatever_happens(source: FakeSource) -> None:
    source.breaks = {2: ZeroDivisionError()}
    with pytest.raises(ZeroDivisionError):
        copied(ALL, source, FakeWriter(), ALL_AT_ONCE)
    assert source.readers[0].closed


def test_a_range_that_ends_early_without_a_reason_is_no_success(source: FakeSource) -> None:
    source.stops_short = True
    [outcome] = copied([ORDERS], source, FakeWriter(), ALL_AT_ONCE)
    assert outcome.position == 10
    assert outcome.failure
    assert outcome.failure.transient
    assert "report" in outcome.failure.message


# One range fails, the others go on


@pytest.mark.parametrize("limits", [EACH_READ, ALL_AT_ONCE])
def test_a_range_that_the_target_refuses_keeps_what_was_taken(
    source: FakeSource, limits: Limits
) -> None:
    writer = FakeWriter(refuses={PAYMENTS.source: 20})
    orders, payments, clicks = copied(ALL, source, writer, limits)
    assert [orders, clicks] == done(ORDERS, CLICKS)
    assert payments.position == 20
    assert payments.failure == writer.failures[PAYMENTS.source]
    assert writer.copied(PAYMENTS.source) == (0, 20)
    assert source.readers[0].dropped == {PAYMENTS.source}


@pytest.mark.parametrize("limits", [EACH_READ, ALL_AT_ONCE])
def test_a_range_that_cannot_be_read_on_keeps_what_was_read(
    source: FakeSource, limits: Limits
) -> None:
    failure = Failure.of(PAYMENTS, 20, "its records were deleted.", transient=False)
    source.failures = {PAYMENTS.source: failure}
    writer = FakeWriter()
    orders, payments, clicks = copied(ALL, source, writer, limits)
    assert [orders, clicks] == done(ORDERS, CLICKS)
    assert payments == Outcome(PAYMENTS, 20, failure)
    assert writer.copied(PAYMENTS.source) == (0, 20)


def test_a_range_that_failed_is_left_alone_when_the_others_start_over(source: FakeSource) -> None:
    failure = Failure.of(PAYMENTS, 10, "its records were deleted.", transient=False)
    source.failures = {PAYMENTS.source: failure}
    writer = FakeWriter(on_commit=once(StartOver("An answer was lost."), 0))
    orders, payments, clicks = copied(ALL, source, writer, ALL_AT_ONCE)
    assert [orders, clicks] == done(ORDERS, CLICKS)
    # What had been read of it was void too, and its position says so.
    assert payments == Outcome(PAYMENTS, 0, failure)
    assert writer.copied(PAYMENTS.source) is None
    assert writer.taken_over[1] == [ORDERS.source, CLICKS.source]


def test_all_ranges_may_fail(source: FakeSource) -> None:
    source.failures = {
        range_.source: Failure.of(range_, 0, "gone.", transient=False) for range_ in ALL
    }
    outcomes = copied(ALL, source, FakeWriter(), ALL_AT_ONCE)
    assert [outcome.failure for outcome in outcomes] == list(source.failures.values())


def test_no_ranges_are_no_work(source: FakeSource) -> None:
    assert copied([], source, FakeWriter(), ALL_AT_ONCE) == []


# Committing


def committed_sizes(writer: FakeWriter) -> list[int]:
    """Offsets in each transaction, for one range from 0."""
    ends = [0, *(moved[ORDERS.source] for moved in writer.commits)]
    return [end - start for start, end in pairwise(ends)]


@pytest.mark.parametrize(
    ("limit", "sizes"),
    [(1, [10] * 10), (10, [10] * 10), (11, [20] * 5), (35, [40, 40, 20]), (1_000, [100])],
)
def test_a_transaction_ends_as_soon_as_it_has_its_bytes(
    source: FakeSource, limit: int, sizes: list[int]
) -> None:
    writer = FakeWriter()
    copied([a_range(end=100)], source, writer, Limits(limit, 10**9))
    assert committed_sizes(writer) == sizes


def test_a_transaction_ends_within_what_was_read_at_once(source: FakeSource) -> None:
    source.at_once = 7
    writer = FakeWriter()
    copied([a_range(end=100)], source, writer, Limits(20, 10**9))
    assert committed_sizes(writer) == [20] * 5


def test_a_transaction_ends_when_the_writer_asks_for_it(source: FakeSource) -> None:
    writer = FakeWriter(commit_after=3)
    copied([a_range(end=100)], source, writer, ALL_AT_ONCE)
    # The first of them says where the range begins.
    assert committed_sizes(writer) == [20, 30, 30, 20]


def test_a_transaction_ends_in_time_though_the_source_is_silent(source: FakeSource) -> None:
    source.silent = [2, 4]
    writer = FakeWriter()
    copied([a_range(end=50)], source, writer, Limits(10**9, 3_000))
    assert committed_sizes(writer) == [20, 10, 20]
    # The copier does not wait for the source longer than until the transaction must end.
    assert source.readers[0].timeouts[1:3] == [3.0, 3.0]


def test_a_transaction_ends_in_time_though_the_source_never_is_silent(
    source: FakeSource, clock: Clock
) -> None:
    def a_second_passes(_: int) -> None:
        clock.now += 1

    writer = FakeWriter(on_send=a_second_passes)
    copied([a_range(end=100)], source, writer, Limits(10**9, 3_000))
    assert committed_sizes(writer) == [30, 30, 30, 10]


def test_a_source_that_is_silent_from_the_start_opens_no_transaction(
    source: FakeSource, clock: Clock
) -> None:
    source.silent = range(20)
    writer = FakeWriter()
    assert copied([ORDERS], source, writer, Limits(10**9, 3_000)) == done(ORDERS)
    assert committed_sizes(writer) == [40]
    assert clock.now > 1_000 + 10


def test_what_it_waited_for_is_told_with_each_range(source: FakeSource, clock: Clock) -> None:
    source.silent = {1}
    writer = FakeWriter(round_trip_s=0.2)
    limits = Limits(ALL_AT_ONCE.transaction_bytes, transaction_ms=3_000)

    (outcome,) = copy_ranges([ORDERS], source, writer, limits)  # type: ignore[arg-type]

    assert outcome.waits.source_s == 3
    assert outcome.waits.task_s == outcome.waits.source_s
    assert outcome.waits.target_round_trip_s == 0.2


def test_each_transaction_is_told_what_was_waited_for_since_the_last(
    source: FakeSource, clock: Clock
) -> None:
    def a_second_passes(_: int) -> None:
        clock.now += 1

    writer = FakeWriter(on_send=a_second_passes)
    copied([a_range(end=100)], source, writer, Limits(10**9, 3_000))
    assert [waits.target_s for waits in writer.waits] == [3, 3, 3, 1]
    assert [waits.task_s for waits in writer.waits] == [3, 3, 3, 1]
