"""Retries of transient errors: what brokers answer while they start, elect leaders or load coordinators."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import wraps
from typing import Final, ParamSpec, TypeVar

from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception,
    stop_after_delay,
    wait_random_exponential,
)

from kafka_ferry.errors import FerryError

log = logging.getLogger(__name__)

_T = TypeVar("_T")
_K = TypeVar("_K")
_P = ParamSpec("_P")
RETRY_S: Final = 60
_limit_s: ContextVar[float | None] = ContextVar("retry_s", default=None)
# Coordinators load and leaders move within a few seconds: what takes longer is logged.
_SILENT_S: Final = 3


@contextmanager
def retry_for(seconds: float) -> Iterator[None]:
    """Let every retried call in the body take so many seconds, instead of a minute."""
    token = _limit_s.set(seconds)
    try:
        yield
    finally:
        _limit_s.reset(token)


def at_most(seconds: float) -> float:
    """How long a single request may take: ``seconds``, or less where the retry time ends before."""
    limit_s = _limit_s.get()
    return seconds if limit_s is None else min(seconds, limit_s)


def retry(do: Callable[[], _T]) -> _T:
    """Call ``do`` until it succeeds, for up to a minute, as long as its errors are transient.

    ``retry_for`` sets another time.
    """
    limit_s = _limit_s.get()
    retrying = Retrying(
        retry=retry_if_exception(_is_transient),
        wait=wait_random_exponential(multiplier=0.02, max=2),
        stop=stop_after_delay(RETRY_S if limit_s is None else limit_s),
        before_sleep=_tell_once(),
        reraise=True,
    )
    return retrying(do)


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
    told = False

    def tell(state: RetryCallState) -> None:
        nonlocal told
        error = state.outcome.exception() if state.outcome else None
        if not told and (state.seconds_since_start or 0) > _SILENT_S:
            log.warning("Still trying: %s", error)
            told = True

    return tell


def retried(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Retry every call of ``function``, which must be safe to repeat."""

    @wraps(function)
    def tried_again(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        return retry(lambda: function(*args, **kwargs))

    return tried_again
