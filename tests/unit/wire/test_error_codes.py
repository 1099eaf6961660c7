"""The table by Kafka's own numbers (``org.apache.kafka.common.protocol.Errors``)."""

import pytest
from kafka import errors as kafka_errors

from kafka_ferry.errors import AccessDenied, BrokerError, Fenced
from kafka_ferry.model.rights import Right, how_to_grant
from kafka_ferry.wire.error_codes import error_name, fault, is_definite, is_transient

FENCED = {47: "INVALID_PRODUCER_EPOCH", 90: "PRODUCER_FENCED"}
DENIED = {
    29: "TOPIC_AUTHORIZATION_FAILED",
    30: "GROUP_AUTHORIZATION_FAILED",
    31: "CLUSTER_AUTHORIZATION_FAILED",
    53: "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    58: "SASL_AUTHENTICATION_FAILED",
}
TRANSIENT = {
    3: "UNKNOWN_TOPIC_OR_PARTITION",
    5: "LEADER_NOT_AVAILABLE",
    6: "NOT_LEADER_OR_FOLLOWER",
    7: "REQUEST_TIMED_OUT",
    8: "BROKER_NOT_AVAILABLE",
    9: "REPLICA_NOT_AVAILABLE",
    13: "NETWORK_EXCEPTION",
    14: "COORDINATOR_LOAD_IN_PROGRESS",
    15: "COORDINATOR_NOT_AVAILABLE",
    16: "NOT_COORDINATOR",
    19: "NOT_ENOUGH_REPLICAS",
    20: "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    41: "NOT_CONTROLLER",
    51: "CONCURRENT_TRANSACTIONS",
    56: "KAFKA_STORAGE_ERROR",
    72: "LISTENER_NOT_FOUND",
    74: "FENCED_LEADER_EPOCH",
    75: "UNKNOWN_LEADER_EPOCH",
    78: "OFFSET_NOT_AVAILABLE",
    88: "UNSTABLE_OFFSET_COMMIT",
    89: "THROTTLING_QUOTA_EXCEEDED",
    100: "UNKNOWN_TOPIC_ID",
    103: "INCONSISTENT_TOPIC_ID",
}
FINAL = {
    -1: "UNKNOWN_SERVER_ERROR",
    1: "OFFSET_OUT_OF_RANGE",
    2: "CORRUPT_MESSAGE",
    10: "MESSAGE_TOO_LARGE",
    17: "INVALID_TOPIC_EXCEPTION",
    18: "RECORD_LIST_TOO_LARGE",
    32: "INVALID_TIMESTAMP",
    35: "UNSUPPORTED_VERSION",
    43: "UNSUPPORTED_FOR_MESSAGE_FORMAT",
    44: "POLICY_VIOLATION",
    45: "OUT_OF_ORDER_SEQUENCE_NUMBER",
    48: "INVALID_TXN_STATE",
    50: "INVALID_TRANSACTION_TIMEOUT",
    79: "MEMBER_ID_REQUIRED",
    87: "INVALID_RECORD",
    120: "TRANSACTION_ABORTABLE",
}


def table(*parts: dict[int, str]) -> pytest.MarkDecorator:
    rows = {code: name for part in parts for code, name in part.items()}
    return pytest.mark.parametrize(("code", "name"), rows.items(), ids=rows.values())


@table(FENCED, DENIED, TRANSIENT, FINAL)
def test_an_error_has_kafkas_name(code: int, name: str) -> None:
    assert error_name(code) == name
    assert name in fault(code, "Writing orders-0").message


@table(FENCED)
def test_a_fence_means_that_another_run_took_over(code: int, name: str) -> None:
    error = fault(code, "Writing orders-0")
    assert isinstance(error, Fenced)
    assert error.message == f"Writing orders-0: another run took over ({name})."
    assert not error.transient


TOPIC, GROUP = Right.topic("WRITE", "orders"), Right.group("READ", "ferry.a->b")
CLUSTER, WRITER = Right.cluster("ALTER"), Right.transactional_id("WRITE", "ferry.a->b.0")


@table(DENIED)
def test_a_missing_right_is_final_and_comes_with_advice(code: int, name: str) -> None:
    error = fault(code, "Writing orders-0")
    assert isinstance(error, AccessDenied)
    assert error.message == f"Writing orders-0: {name}."
    assert error.advice == "Check the login."
    assert not error.transient
    assert fault(code, "Writing", advice="Ask Anna.").advice == "Ask Anna."


@pytest.mark.parametrize(("code", "right"), [(29, TOPIC), (30, GROUP), (31, CLUSTER), (53, WRITER)])
def test_of_the_rights_that_a_request_needs_the_missing_one_is_named(
    code: int, right: Right
) -> None:
    error = fault(code, "Committing", TOPIC, GROUP, CLUSTER, WRITER, advice="Ask Anna.")
    assert error.advice == f"{how_to_grant(right)} Ask Anna."
    assert fault(58, "Logging in", TOPIC).advice == "Check the login."


@table(TRANSIENT)
def test_what_brokers_do_for_a_while_goes_away(code: int, name: str) -> None:
    assert is_transient(code)
    error = fault(code, "Reading orders-0", advice="Wait.")
    assert isinstance(error, BrokerError)
    assert (error.code, error.name, error.transient, error.advice) == (code, name, True, "Wait.")
    assert error.message == f"Reading orders-0: {name} ({code})."


@table(FINAL)
def test_anything_else_is_final(code: int, name: str) -> None:
    assert not is_transient(code)
    error = fault(code, "Reading orders-0")
    assert isinstance(error, BrokerError)
    assert (error.code, error.name, error.transient) == (code, name, False)
    assert bool(error.advice) == (code in {10, 32, 49})


def test_no_error_is_transient_but_those_in_the_table() -> None:
    assert {code for code in range(-1, 200) if is_transient(code)} == set(TRANSIENT)


def test_whatever_else_is_transient_here_is_so_for_kafka_python_too() -> None:
    """But one, whose name says it: a broker that is not available may be so again."""
    final_there = {code for code in TRANSIENT if not kafka_errors.for_code(code).retriable}
    assert final_there == {8}


@pytest.mark.parametrize("code", [128, 999, 32_767])
def test_a_code_that_is_not_known_yet_is_final_and_keeps_its_number(code: int) -> None:
    error = fault(code, "Reading orders-0")
    assert isinstance(error, BrokerError)
    assert (error.code, error.transient) == (code, False)
    assert f"({code})" in error.message


@pytest.mark.parametrize(
    ("code", "advice"),
    [(10, "max.message.bytes"), (32, "compare the clocks"), (49, "start the run again")],
)
def test_what_a_person_can_do_about_a_refusal_is_said_wherever_it_comes_up(
    code: int, advice: str
) -> None:
    assert advice in fault(code, "Writing to a ledger").advice
    assert fault(code, "Writing to a ledger", advice="Ask Anna.").advice == "Ask Anna."


@pytest.mark.parametrize(
    ("code", "name", "expected"),
    [
        (0, "NO_ERROR", True),
        (10, "MESSAGE_TOO_LARGE", True),
        (-1, "UNKNOWN_SERVER_ERROR", False),
        (9999, "error 9999", False),
        (-32768, "error -32768", False),
    ],
)
def test_a_code_that_says_nothing_of_the_request_is_not_definite(
    code: int, name: str, expected: bool
) -> None:
    assert (error_name(code), is_definite(code)) == (name, expected)
