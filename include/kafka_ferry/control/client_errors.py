"""confluent-kafka's exceptions, as errors of ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from confluent_kafka import KafkaError, KafkaException

from kafka_ferry.errors import AccessDenied, BrokerError, ClusterUnreachable, FerryError
from kafka_ferry.model.rights import Right, advice_on
from kafka_ferry.printable import excerpt
from kafka_ferry.wire.error_codes import is_transient

_UNREACHABLE: Final = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TIMED_OUT,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT_QUEUE,
    }
)
# librdkafka's errors for partitions whose broker has just restarted, for those of a topic that the broker
# does not know yet, and for requests to a bootstrap server whose connection ends because metadata replaces it.
_TRANSIENT: Final = frozenset(
    {KafkaError._NOENT, KafkaError._UNKNOWN_PARTITION, KafkaError._DESTROY_BROKER}
)
_ADVICE: Final = {
    KafkaError.TOPIC_EXCEPTION: "No two topics of a cluster may have names that differ only in '.' and '_', nor names "
    "that Kafka does not allow: topics.rename gives a remote topic another name.",
    KafkaError.INVALID_REPLICATION_FACTOR: "Set replication.factor to at most the number of the cluster's live "
    "brokers, or start more of them.",
}
_DENIED: Final = frozenset(
    {
        KafkaError._AUTHENTICATION,
        KafkaError._SSL,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }
)


@contextmanager
def as_ours(alias: str, doing: str, *needed: Right) -> Iterator[None]:
    """Raise confluent-kafka's exceptions in the body as ``as_ferry_error`` translates them."""
    try:
        yield
    except KafkaException as raised:
        raise as_ferry_error(raised, alias, doing, *needed) from raised
    except RuntimeError as raised:
        # The client's own: a broker has answered for other things than it was asked for.
        message = f"{alias}, while {doing}: an answer to something else ({excerpt(str(raised))})."
        raise ClusterUnreachable(message) from raised


def as_ferry_error(raised: KafkaException, alias: str, doing: str, *needed: Right) -> FerryError:
    """The error for one of confluent-kafka's.

    Args:
        raised: the exception.
        alias: the cluster's alias.
        doing: the operation, to follow "while".
        needed: the rights that it needs, of which a broker may say that one is missing.
    """
    error = raised.args[0]
    message = f"{alias}, while {doing}: {excerpt(error.str(), 2_000)} ({error.name()})."
    if error.code() in _UNREACHABLE:
        return ClusterUnreachable(
            message,
            advice="Check its bootstrap.servers and security.protocol, and that its brokers run.",
        )
    if error.code() in _DENIED:
        advice = advice_on(error.code(), needed)
        return AccessDenied(message, advice=advice or "Check the login.")
    return BrokerError(
        message,
        code=error.code(),
        name=error.name(),
        transient=error.retriable() or is_transient(error.code()) or error.code() in _TRANSIENT,
        advice=_ADVICE.get(error.code(), ""),
    )
