from types import SimpleNamespace

import pytest

from kafka_ferry.errors import AccessDenied, ClusterUnreachable, Fenced, FerryError
from kafka_ferry.retry import (
    at_most,
    back_off_s,
    is_over,
    limit_since,
    retry,
    retry_calls,
    retry_each,
    retry_for,
    silence_s,
)

AWAY = ClusterUnreachable("The cluster is away.")


@pytest.fixture(autouse=True)
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """No test really waits; the clock moves all the same."""
    waits: list[float] = []
    monkeypatch.setattr("tenacity.nap.time", SimpleNamespace(sleep=waits.append))
    clock = SimpleNamespace(monotonic=lambda: 1_000 + sum(waits))
    monkeypatch.setattr("tenacity.time", clock)
    monkeypatch.setattr("kafka_ferry.retry.time", clock)
    return waits


class Call:
    """Raises some errors, one after the other, and then gives an answer."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.times = 0

    def __call__(self) -> str:
        self.times += 1
        if self.errors:
            raise self.errors.pop(0)
        return "answer"


def test_a_call_that_succeeds_is_made_once(slept: list[float]) -> None:
    call = Call()
    assert retry(call) == "answer"
    assert (call.times, slept) == (1, [])


@pytest.mark.parametrize("failures", [1, 2, 20])
def test_a_transient_error_is_tried_again(failures: int, slept: list[float]) -> None:
    call = Call(*[AWAY] * failures)
    assert retry(call) == "answer"
    assert call.times == failures + 1
    assert len(slept) == failures
    assert all(0 <= seconds <= 2 for seconds in slept)


@pytest.mark.parametrize(
    "error",
    [
        FerryError("No."),
        Fenced("Another run took over."),
        AccessDenied("No right."),
        ValueError("a bug"),
        TimeoutError("not one of ours"),
    ],
)
def test_any_other_error_is_final(error: Exception, slept: list[float]) -> None:
    call = Call(AWAY, error)
    with pytest.raises(type(error)) as caught:
        retry(call)
    assert caught.value is error
    assert (call.times, len(slept)) == (2, 1)


def test_retrying_ends_after_a_minute_with_the_last_error(slept: list[float]) -> None:
    last = ClusterUnreachable("Still away.")

    def call() -> None:
        raise last if sum(slept) > 50 else AWAY

    with pytest.raises(ClusterUnreachable) as caught:
        retry(call)
    assert caught.value is last
    assert 55 < sum(slept) < 65


def test_retrying_may_be_told_how_long_to_last(slept: list[float]) -> None:
    def call() -> None:
        raise AWAY

    with retry_for(10), pytest.raises(ClusterUnreachable):
        retry(call)
    assert 7 < sum(slept) < 12
    slept.clear()
    with pytest.raises(ClusterUnreachable):
        retry(call)
    assert sum(slept) > 55


def test_the_first_tries_come_quickly(slept: list[float]) -> None:
    retry(Call(*[AWAY] * 3))
    assert sum(slept) <= 0.02 + 0.04 + 0.08


def test_a_retried_function_takes_and_gives_what_it_did() -> None:
    tries = []

    @retry_calls
    def add(one: int, *, other: int) -> int:
        """Adds."""
        tries.append((one, other))
        if len(tries) < 3:
            raise AWAY
        return one + other

    assert add(1, other=2) == 3
    assert tries == [(1, 2)] * 3
    assert (add.__name__, add.__doc__) == ("add", "Adds.")


def test_every_call_of_a_retried_function_has_its_own_minute(slept: list[float]) -> None:
    @retry_calls
    def away() -> None:
        raise AWAY

    spent = []
    for _ in range(2):
        before = sum(slept)
        with pytest.raises(ClusterUnreachable):
            away()
        spent.append(sum(slept) - before)
    assert all(seconds > 55 for seconds in spent)


def test_calls_of_a_step_share_its_time_and_one_that_succeeds_gives_it_back(
    slept: list[float],
) -> None:
    def away() -> None:
        raise AWAY

    with retry_for(10):
        for _ in range(5):
            with pytest.raises(ClusterUnreachable):
                retry(away)
        assert 8 < sum(slept) < 12
        assert (at_most(15), at_most(3)) == (5, 3)
        assert retry(Call()) == "answer"
        assert at_most(15) == 10
        with pytest.raises(ClusterUnreachable):
            retry(away)
    assert 18 < sum(slept) < 24


def test_calls_within_one_that_fails_do_not_prolong_its_time(slept: list[float]) -> None:
    def away() -> None:
        retry(Call())
        raise AWAY

    with retry_for(10), pytest.raises(ClusterUnreachable):
        retry(away)
    assert 8 < sum(slept) < 12


def test_a_part_of_what_fails_has_what_is_left_even_if_some_of_it_succeeds(
    slept: list[float],
) -> None:
    def away() -> None:
        raise AWAY

    with retry_for(10), limit_since(1_000 - 7):
        assert retry(Call(AWAY)) == "answer"
        with pytest.raises(ClusterUnreachable):
            retry(away)
    assert 1 < sum(slept) < 5
    with retry_for(10), limit_since(None):
        assert at_most(15) == 10


def test_time_that_is_spent_leaves_one_try_until_a_call_succeeds(slept: list[float]) -> None:
    call = Call(AWAY)
    with retry_for(10, spent=True):
        with pytest.raises(ClusterUnreachable):
            retry(call)
        assert (call.times, slept) == (1, [])
        assert retry(Call()) == "answer"
        assert retry(Call(AWAY)) == "answer"


def test_only_what_failed_for_a_while_is_asked_again(slept: list[float]) -> None:
    denied = AccessDenied("No right.")
    rounds = [{"a": 1, "b": AWAY, "c": AWAY, "d": denied}, {"b": 2, "c": AWAY}, {"c": 3}]
    asked: list[list[str]] = []

    def ask(names: list[str]) -> dict[str, int | FerryError]:
        asked.append(list(names))
        return dict(rounds[len(asked) - 1])

    answers = retry_each(["a", "b", "c", "d"], ask)

    assert answers == {"a": 1, "b": 2, "c": 3, "d": denied}
    assert asked == [["a", "b", "c", "d"], ["b", "c"], ["c"]]
    assert len(slept) == 2


def test_what_fails_to_the_end_has_its_last_error(slept: list[float]) -> None:
    assert retry_each(["a", "b"], lambda names: dict.fromkeys(names, AWAY)) == {
        "a": AWAY,
        "b": AWAY,
    }
    assert 58 <= sum(slept) <= 62


@pytest.mark.parametrize(
    ("spent_s", "limit_s", "expected"),
    [
        (0, 60, False),
        (58, 60, False),
        (58.6, 60, True),
        (14, 15, True),
        (0.8, 1, False),
        (1, 1, True),
    ],
)
def test_a_time_is_over_a_moment_before_its_end(
    spent_s: float, limit_s: float, expected: bool
) -> None:
    assert is_over(spent_s, limit_s) == expected


def test_nothing_to_ask_about_is_not_asked() -> None:
    def ask(_: list[str]) -> dict[str, int]:
        raise AssertionError

    assert retry_each([], ask) == {}


def test_an_error_of_all_is_waited_out_and_then_raised(slept: list[float]) -> None:
    call = Call(*[AWAY] * 3)
    assert retry_each(["a"], lambda names: dict.fromkeys(names, call())) == {"a": "answer"}
    assert len(slept) == 3
    fenced = Call(Fenced("Another run took over."))
    with pytest.raises(Fenced):
        retry_each(["a"], lambda names: dict.fromkeys(names, fenced()))


@pytest.mark.parametrize(
    ("failures", "pause"), [(1, 0.1), (2, 0.2), (3, 0.4), (5, 1.0), (10_000, 1.0)]
)
def test_pauses_double_up_to_the_longest(failures: int, pause: float) -> None:
    assert back_off_s(failures, 1.0) == pause


def test_only_while_a_person_waits_a_broker_is_not_heeded_for_longer_than_a_call_may_take() -> None:
    assert silence_s(600) == 600
    with retry_for(15):
        assert silence_s(600) == 600
    with retry_for(15, is_waited_for=True):
        assert (silence_s(600), silence_s(3)) == (15, 3)
        # Whatever time a part of it has of its own.
        with retry_for(10):
            assert silence_s(600) == 10
        with limit_since(995):
            assert silence_s(600) == 10
    assert silence_s(600) == 600
