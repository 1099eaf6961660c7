"""Broker error codes as errors of ours: terminal, transient, or a sign that another run took over."""

from __future__ import annotations

from typing import Final

from kafka import errors as kafka_errors

from kafka_ferry.errors import AccessDenied, BrokerError, Fenced, FerryError
from kafka_ferry.model.rights import Right, advice_on

UNKNOWN_SERVER_ERROR: Final = -1
NONE: Final = 0
OFFSET_OUT_OF_RANGE: Final = 1
UNKNOWN_TOPIC_OR_PARTITION: Final = 3
LEADER_NOT_AVAILABLE: Final = 5
MESSAGE_TOO_LARGE: Final = 10
OFFSET_METADATA_TOO_LARGE: Final = 12
RECORD_LIST_TOO_LARGE: Final = 18
NOT_ENOUGH_REPLICAS: Final = 19
UNKNOWN_MEMBER_ID: Final = 25
INVALID_COMMIT_OFFSET_SIZE: Final = 28
TOPIC_AUTHORIZATION_FAILED: Final = 29
GROUP_AUTHORIZATION_FAILED: Final = 30
CLUSTER_AUTHORIZATION_FAILED: Final = 31
INVALID_TIMESTAMP: Final = 32
NOT_CONTROLLER: Final = 41
POLICY_VIOLATION: Final = 44
OUT_OF_ORDER_SEQUENCE_NUMBER: Final = 45
INVALID_PRODUCER_ID_MAPPING: Final = 49
INVALID_TRANSACTION_TIMEOUT: Final = 50
CONCURRENT_TRANSACTIONS: Final = 51
TRANSACTION_COORDINATOR_FENCED: Final = 52
SECURITY_DISABLED: Final = 54
OPERATION_NOT_ATTEMPTED: Final = 55
NON_EMPTY_GROUP: Final = 68
GROUP_ID_NOT_FOUND: Final = 69
GROUP_SUBSCRIBED_TO_TOPIC: Final = 86
INVALID_RECORD: Final = 87
UNSTABLE_OFFSET_COMMIT: Final = 88
THROTTLED: Final = 89  # THROTTLING_QUOTA_EXCEEDED
INCONSISTENT_TOPIC_ID: Final = 103

_FENCED: Final = frozenset({47, 90})  # INVALID_PRODUCER_EPOCH, PRODUCER_FENCED
_DENIED: Final = frozenset({29, 30, 31, 53, 58})  # topic, group, cluster, transactional id, SASL

# Normal for a while, although Kafka does not call all of them retriable: a coordinator that loads or
# moves (14, 15, 16), markers still being written (51), a leader that moves (3, 5, 6, 74, 75), a
# request that was too slow for the broker (7), too few in-sync replicas before the write (19) or
# after it (20), a controller that moves (41), a full disk (56), offsets of an open transaction (88),
# a topic id that is not yet known or that another topic has (100, 103: new metadata says which).
_TRANSIENT: Final = frozenset(
    {3, 5, 6, 7, 8, 9, 13, 14, 15, 16, 19, 20, 41, 51, 56, 72, 74, 75, 78, 88, 89, 100, 103}
)


# Where kafka-python's names are older than Kafka's.
_NAMES: Final = {
    -1: "UNKNOWN_SERVER_ERROR",
    6: "NOT_LEADER_OR_FOLLOWER",
    10: "MESSAGE_TOO_LARGE",
    17: "INVALID_TOPIC_EXCEPTION",
}


# kafka-python's, for codes that it does not know.
_NO_NAME: Final = "UNKNOWN"

# What to do where the request itself gives no other advice.
_ADVICE: Final = {
    MESSAGE_TOO_LARGE: "Raise max.message.bytes of the topic, or message.max.bytes of its brokers.",
    INVALID_TIMESTAMP: "Its time is further from that of the broker than message.timestamp.before.max.ms or "
    "message.timestamp.after.max.ms of the topic allow: compare the clocks of this machine and of the brokers.",
    INVALID_PRODUCER_ID_MAPPING: "The brokers no longer know this producer: have they lost __transaction_state? What "
    "was committed stays; start the run again.",
    CONCURRENT_TRANSACTIONS: "Its last transaction has not ended: has each partition a leader, and enough replicas in "
    "sync? If that stays so, see CONCURRENT_TRANSACTIONS in docs/operations.md.",
}


def error_name(code: int) -> str:
    """The name of ``code`` in ``org.apache.kafka.common.protocol.Errors``."""
    known = getattr(kafka_errors.for_code(code), "message", _NO_NAME)
    return _NAMES.get(code) or (f"error {code}" if known == _NO_NAME else str(known))


def is_definite(code: int) -> bool:
    """Whether it says that the request has had no effect, or which.

    A broker gives ``UNKNOWN_SERVER_ERROR`` where it does not know itself, and a later release may have other codes.
    """
    return code >= NONE and error_name(code) != f"error {code}"


def is_transient(code: int) -> bool:
    """Whether the same request may succeed after a back-off and with new metadata."""
    return code in _TRANSIENT


def is_transient_read(code: int) -> bool:
    """``is_transient`` of Fetch and ListOffsets: remote storage that fails for a while is an unknown error.

    Java's consumer asks again after it too (``FetchCollector``, ``OffsetFetcherUtils``).
    """
    return code == UNKNOWN_SERVER_ERROR or is_transient(code)


def read_fault(code: int, doing: str, topic: str) -> FerryError:
    """The error for a broker's ``code`` to Fetch or ListOffsets of ``topic``; see ``fault``."""
    if code == UNKNOWN_SERVER_ERROR:
        return BrokerError(
            f"{doing}: {error_name(code)} ({code}).",
            code=code,
            name=error_name(code),
            transient=True,
            advice="The broker's log says why; remote storage that fails is one reason.",
        )
    return fault(code, doing, Right.topic("READ", topic))


def fault(code: int, doing: str, *needed: Right, advice: str = "") -> FerryError:
    """The error for a broker's ``code``.

    Args:
        code: Kafka's error code, not 0.
        doing: the request, with topic and partition where there is one.
        needed: the rights that the request needs, of which the broker may say that one is missing.
        advice: what to do about it; where a right is missing, what else may help.
    """
    name = error_name(code)
    if code in _FENCED:
        return Fenced(f"{doing}: another run took over ({name}).")
    if code in _DENIED:
        parts = (advice_on(code, needed), advice)
        return AccessDenied(
            f"{doing}: {name}.", advice=" ".join(filter(None, parts)) or "Check the login."
        )
    return BrokerError(
        f"{doing}: {name} ({code}).",
        code=code,
        name=name,
        transient=is_transient(code),
        advice=advice or _ADVICE.get(code, ""),
    )
