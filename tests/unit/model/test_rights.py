"""Rights: what implies what, and the commands that grant them."""

from __future__ import annotations

import pytest

from kafka_ferry.model.rights import Right, advice_on, grant_commands, how_to_grant

ORDERS = Right.topic("READ", "orders")
PREFIX = Right("TOPIC", "ord", "READ", prefixed=True)
EVERY = Right.topic("READ", "*")


@pytest.mark.parametrize(
    ("right", "other", "implied"),
    [
        (ORDERS, ORDERS, True),
        (ORDERS, Right.topic("DESCRIBE", "orders"), True),
        (Right.topic("ALTER", "orders"), Right.topic("DESCRIBE", "orders"), True),
        (Right.topic("ALTER_CONFIGS", "orders"), Right.topic("DESCRIBE_CONFIGS", "orders"), True),
        (Right.topic("CREATE", "orders"), Right.topic("DESCRIBE", "orders"), False),
        (Right.topic("DESCRIBE", "orders"), ORDERS, False),
        (ORDERS, Right.topic("WRITE", "orders"), False),
        (ORDERS, Right.group("READ", "orders"), False),
        (ORDERS, PREFIX, False),
        (ORDERS, Right("TOPIC", "orders", "READ", prefixed=True), False),
        (PREFIX, ORDERS, True),
        (PREFIX, Right("TOPIC", "orders", "READ", prefixed=True), True),
        (PREFIX, EVERY, False),
        (PREFIX, Right.topic("READ", "payments"), False),
        (EVERY, PREFIX, True),
        (EVERY, ORDERS, True),
    ],
    ids=lambda it: str(it) if isinstance(it, Right) else it,
)
def test_a_right_implies_what_an_authorizer_takes_it_for(
    right: Right, other: Right, implied: bool
) -> None:
    assert right.implies(other) is implied


def test_there_is_one_command_for_each_resource_and_a_shell_reads_it() -> None:
    rights = [
        Right.group("READ", "ferry.a->b"),
        Right.topic("WRITE", "orders"),
        ORDERS,
        Right.cluster("ALTER"),
        Right("TRANSACTIONAL_ID", "ferry.a->b.", "WRITE", prefixed=True),
    ]
    begin = "kafka-acls.sh --bootstrap-server b:1 --command-config admin.properties --add"
    begin += " --allow-principal User:ferry --operation"
    commands = grant_commands(
        rights, principal="User:ferry", bootstrap="b:1", config="admin.properties"
    )
    assert list(commands) == [
        f"{begin} Alter --cluster",
        f"{begin} Read --group 'ferry.a->b'",
        f"{begin} Read --operation Write --topic orders",
        f"{begin} Write --transactional-id 'ferry.a->b.' --resource-pattern-type prefixed",
    ]


def test_advice_names_operation_resource_and_command() -> None:
    assert how_to_grant(ORDERS, Right.cluster("ALTER")) == (
        "Grant READ on the topic orders and ALTER on the cluster: "
        "`kafka-acls.sh --bootstrap-server BROKER --add --allow-principal User:NAME --operation Alter "
        "--cluster` and `kafka-acls.sh --bootstrap-server BROKER --add --allow-principal User:NAME "
        "--operation Read --topic orders`."
    )
    assert how_to_grant(PREFIX).startswith("Grant READ on topics with the prefix ord: ")
    assert how_to_grant(EVERY).startswith("Grant READ on all topics: ")


def test_of_another_error_there_is_nothing_to_grant() -> None:
    assert advice_on(29, [ORDERS, Right.group("READ", "g")]) == how_to_grant(ORDERS)
    assert advice_on(30, [ORDERS]) == ""
    assert advice_on(3, [ORDERS]) == ""
