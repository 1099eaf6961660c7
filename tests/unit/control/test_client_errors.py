"""Which of confluent-kafka's errors may go away by themselves."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from kafka_ferry.control.client_errors import as_ferry_error, as_ours
from kafka_ferry.errors import AccessDenied, BrokerError, ClusterUnreachable, FerryError


@pytest.mark.parametrize(
    ("code", "kind", "transient"),
    [
        (KafkaError._TRANSPORT, ClusterUnreachable, True),
        (KafkaError._AUTHENTICATION, AccessDenied, False),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, AccessDenied, False),
        (KafkaError.NOT_CONTROLLER, BrokerError, True),
        (KafkaError._DESTROY_BROKER, BrokerError, True),
        (KafkaError._NOENT, BrokerError, True),
        (KafkaError.INVALID_REPLICATION_FACTOR, BrokerError, False),
    ],
)
def test_an_error_names_cluster_and_work(
    code: int, kind: type[FerryError], transient: bool
) -> None:
    error = as_ferry_error(KafkaException(KafkaError(code)), "backup", "creating topics")

    assert type(error) is kind
    assert error.transient == transient
    assert str(error).startswith("backup, while creating topics: ")


@pytest.mark.parametrize(
    ("code", "option"),
    [
        (KafkaError.TOPIC_EXCEPTION, "topics.rename"),
        (KafkaError.INVALID_REPLICATION_FACTOR, "replication.factor"),
    ],
)
def test_a_final_refusal_says_what_to_change(code: int, option: str) -> None:
    error = as_ferry_error(KafkaException(KafkaError(code)), "backup", "creating the topic a.b")

    assert option in error.advice


def test_an_answer_to_something_else_names_the_cluster() -> None:
    """confluent-kafka says so itself, where a broker leaves out a topic that it was asked for."""
    with (
        pytest.raises(ClusterUnreachable, match=r"^backup, while describing topics: "),
        as_ours("backup", "describing topics"),
    ):
        raise RuntimeError("Results length 0 is different from future-map length 1")
