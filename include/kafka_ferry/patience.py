"""Trying again for a while: what brokers say while they start, elect leaders or load coordinators."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from typing import Final, ParamSpec, TypeVar

from tenacity import (
    Retrying,
    before_sleep_log,
    retry_if_exception,
    stop_after_delay,
    wait_random_exponential,
)

from kafka_ferry.errors import FerryError

log = logging.getLogger(__name__)

_T = TypeVar("_T")
_P = ParamSpec("_P")
_PATIENCE_S: Final = 60


def patiently(do: Callable[[], _T]) -> _T:
    """Call ``do`` until it succeeds, for up to a minute, as long as its errors are transient."""
    retrying = Retrying(
        retry=retry_if_exception(lambda error: isinstance(error, FerryError) and error.transient),
        wait=wait_random_exponential(multiplier=0.02, max=2),
        stop=stop_after_delay(_PATIENCE_S),
        before_sleep=before_sleep_log(log, logging.DEBUG),
        reraise=True,
    )
    return retrying(do)


def patient(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Make every call of ``function`` a patient one; it must be safe to repeat."""

    @wraps(function)
    def tried_again(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        return patiently(lambda: function(*args, **kwargs))

    return tried_again
