"""Changes of many topics, in requests that a controller takes.

A KRaft controller refuses a request that makes more than 10,000 records (``QuorumController``,
``MAX_RECORDS_PER_USER_OP``) as a whole, with POLICY_VIOLATION: what a request is worth is estimated, and what
is refused nevertheless is asked for again in halves.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from kafka_ferry.batched import batched_by_weight
from kafka_ferry.errors import BrokerError, FerryError
from kafka_ferry.retry import retry_each
from kafka_ferry.wire.error_codes import MESSAGE_TOO_LARGE, POLICY_VIOLATION

# A topic is a record, and so are each of its partitions and configs; brokers may add some of their own.
_RECORDS_AT_ONCE: Final = 5_000
_TOO_MUCH: Final = frozenset({POLICY_VIOLATION, MESSAGE_TOO_LARGE})


def ask_in_portions(
    records: Mapping[str, int], ask: Callable[[list[str]], dict[str, FerryError]]
) -> dict[str, FerryError]:
    """Ask for changes of topics, some at a time, and again where an error is transient.

    Args:
        records: the topics, with about how many records the controller makes of each one's change.
        ask: makes the changes of some, and returns an error for each topic that was refused. What an earlier
            request may have done without an answer is no error to it.

    Returns:
        An error for each topic that is refused also when it is asked for alone, or for another reason.
    """
    errors: dict[str, FerryError] = {}
    waiting = deque(batched_by_weight(records, _RECORDS_AT_ONCE))

    def ask_once(some: list[str]) -> dict[str, FerryError | None]:
        return dict.fromkeys(some) | ask(some)

    while waiting:
        some = waiting.popleft()
        new_errors = {name: error for name, error in retry_each(some, ask_once).items() if error}
        refused = [name for name in some if _is_too_much(new_errors.get(name))]
        if len(some) > 1 and refused:
            half = (len(refused) + 1) // 2
            waiting.extendleft(part for part in (refused[half:], refused[:half]) if part)
            new_errors = {
                name: error for name, error in new_errors.items() if not _is_too_much(error)
            }
        errors |= new_errors
    return errors


def _is_too_much(error: FerryError | None) -> bool:
    return isinstance(error, BrokerError) and error.code in _TOO_MUCH
