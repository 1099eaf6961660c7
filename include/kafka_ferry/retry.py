"""Retries of transient errors: what brokers answer while they start, elect leaders or load coordinators."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from typing import Final, ParamSpec, TypeVar

from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception,
    wait_random_exponential,
)

from kafka_ferry.errors import FerryError

log = logging.getLogger(__name__)

_T = TypeVar("_T")
_K = TypeVar("_K")
_P = ParamSpec("_P")
RETRY_S: Final = 60
# A request may take so long at least: one that follows failed ones, since the cluster may have come back, and
# any other, since librdkafka tries again what it does a second later.
_LEAST_S: Final = 5.0
# A request is given up a moment before its time is over, and another try would only wait again.
_MOMENT_S: Final = 1.5
_LARGEST_MOMENT: Final = 0.1
# Coordinators load and leaders move within a few seconds: what takes longer is logged.
_SILENT_S: Final = 3


@dataclass(slots=True)
class _RetryTime:
    """How long calls are tried again.

    Attributes:
        limit_s: how long, in seconds, from the beginning of the first call that failed.
        failing_since: the time of that beginning; None while the last call has succeeded.
        before: when something began to fail that these calls are a part of; None where nothing has.
        is_waited_for: whether a person waits for the calls.
    """

    limit_s: float
    failing_since: float | None = None
    before: float | None = None
    is_waited_for: bool = False

    @property
    def left_s(self) -> float:
        """The seconds that are left; all of them while nothing fails."""
        if self.failing_since is None:
            return self.limit_s
        return self.limit_s - (time.monotonic() - self.failing_since)

    def call(self, do: Callable[[], _T], began: float) -> _T:
        """Call ``do`` once, and note whether it failed for a while.

        Args:
            do: the call.
            began: when it was first tried: calls within it that succeed do not end its time.
        """
        try:
            result = do()
        except FerryError as error:
            if error.transient:
                self.failing_since = min(began, self.failing_since or began)
            raise
        self.failing_since = self.before
        return result


_shared: ContextVar[_RetryTime | None] = ContextVar("retry_time", default=None)


@contextmanager
def retry_for(
    seconds: float, *, spent: bool = False, is_waited_for: bool = False
) -> Iterator[None]:
    """Let all retried calls in the body share one limit in seconds, instead of a minute for each.

    The time begins with the first call that fails, and a call that succeeds ends it. So a cluster that is gone
    costs the time once, however many calls ask it; after that, each is made once.

    Args:
        seconds: how long.
        spent: whether calls before have failed for that long already.
        is_waited_for: whether a person waits for the calls: see ``silence_s``.
    """
    outer = _shared.get()
    is_waited_for |= outer is not None and outer.is_waited_for
    since = time.monotonic() - seconds if spent else None
    token = _shared.set(_RetryTime(seconds, since, is_waited_for=is_waited_for))
    try:
        yield
    finally:
        _shared.reset(token)


@contextmanager
def limit_since(began: float | None) -> Iterator[None]:
    """Let the calls in the body have what is left of their shared time since something began to fail.

    Args:
        began: when that was (``time.monotonic``); None where nothing has failed.
    """
    outer = _shared.get()
    if outer is None or began is None:
        yield
        return
    token = _shared.set(_RetryTime(outer.limit_s, began, began, outer.is_waited_for))
    try:
        yield
    finally:
        _shared.reset(token)


def at_most(seconds: float) -> float:
    """How long a single request may take: ``seconds``, or less where the retry time ends before."""
    shared = _shared.get()
    if shared is None:
        return seconds
    return min(seconds, max(shared.left_s, _LEAST_S))


def silence_s(seconds: float) -> float:
    """How long to be silent where a broker asks for ``seconds``: so long, and while a person waits, as ``at_most``."""
    shared = _shared.get()
    return at_most(seconds) if shared and shared.is_waited_for else seconds


def is_over(spent_s: float, limit_s: float) -> bool:
    """Whether so little of a time is left that nothing is to be tried again.

    Args:
        spent_s: how long it has failed, in seconds.
        limit_s: how long it may fail.
    """
    return limit_s - spent_s <= min(_MOMENT_S, _LARGEST_MOMENT * limit_s)


def back_off_s(failures: int, longest_s: float) -> float:
    """The pause in seconds after a number of failures in a row: 0.1 s after the first, then twice as long each time."""
    return min(math.ldexp(0.05, min(failures, 10)), longest_s)


def retry(do: Callable[[], _T]) -> _T:
    """Call ``do`` until it succeeds, for up to a minute, as long as its errors are transient.

    ``retry_for`` sets another time, which all calls within it share.
    """
    retry_time = _shared.get() or _RetryTime(RETRY_S)
    retrying = Retrying(
        retry=retry_if_exception(_is_transient),
        wait=wait_random_exponential(multiplier=0.02, max=2),
        stop=lambda _: is_over(retry_time.limit_s - retry_time.left_s, retry_time.limit_s),
        before_sleep=_tell_once(),
        reraise=True,
    )
    result: _T = retrying(retry_time.call, do, time.monotonic())
    return result


def retry_each(keys: Iterable[_K], ask: Callable[[list[_K]], Mapping[_K, _T]]) -> dict[_K, _T]:
    """Ask about many keys, and again about those that got a transient error.

    Args:
        keys: the keys.
        ask: asks once about some of them; gives an answer for each, which may be an error.

    Returns:
        An answer for each key; it is the last error where the retry time ran out.

    Raises:
        FerryError: what ``ask`` raises, as in ``retry``.
    """
    answers: dict[_K, _T] = {}
    left = list(keys)

    def ask_again() -> None:
        answers.update(ask(left))
        left[:] = [key for key in left if _is_transient(answers[key])]
        for key in left:
            raise _Unsettled(str(answers[key]))

    with suppress(_Unsettled):
        if left:
            retry(ask_again)
    return answers


class _Unsettled(FerryError):
    """Some answers may change in a while."""

    transient = True


def _is_transient(answer: object) -> bool:
    return isinstance(answer, FerryError) and answer.transient


def _tell_once() -> Callable[[RetryCallState], None]:
    has_told = False

    def tell(state: RetryCallState) -> None:
        nonlocal has_told
        error = state.outcome.exception() if state.outcome else None
        if not has_told and (state.seconds_since_start or 0) > _SILENT_S:
            log.warning("Still trying: %s", error)
            has_told = True

    return tell


def retry_calls(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Retry every call of ``function``, which must be safe to repeat."""

    @wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        return retry(lambda: function(*args, **kwargs))

    return call
