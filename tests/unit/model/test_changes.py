"""How a plan and a report tell what changes on the target."""

from __future__ import annotations

import pytest

from kafka_ferry.model.changes import (
    Acl,
    AclChange,
    ConfigChange,
    Drift,
    Misplacement,
    QuotaChange,
    Retirement,
    RuleChange,
    UserChange,
)

READ = Acl("TOPIC", "eu.orders", "LITERAL", "User:anna", "*", "READ", "ALLOW")
BY_PREFIX = Acl("TRANSACTIONAL_ID", "app-", "PREFIXED", "User:anna", "10.0.0.1", "DESCRIBE", "DENY")
ANNA = (("user", "anna"),)
DRIFT = ("orders", "eu.orders", "retention.ms")
DAY = 24 * 3_600_000


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            ConfigChange("orders", "eu.orders", "retention.ms", "5", None),
            "eu.orders: set retention.ms=5",
        ),
        (
            ConfigChange("orders", "eu.orders", "retention.ms", "5", "7"),
            "eu.orders: set retention.ms=5 (it was 7)",
        ),
        (
            ConfigChange("orders", "eu.orders", "retention.ms", None, "7"),
            "eu.orders: unset retention.ms (it was 7)",
        ),
        (
            Drift(*DRIFT, wanted="5", found="7", overwritten=False),
            "eu.orders has retention.ms=7, which this flow has not set; by the source it should be 5: "
            "kept.",
        ),
        (
            Drift(*DRIFT, wanted=None, found=None, overwritten=True),
            "eu.orders no longer has retention.ms, which this flow had set; by the source it should be "
            "the target's default: overwritten.",
        ),
        (RuleChange("orders", 2, "ab12"), "records of orders go through rule 2 (ab12)"),
        (
            RuleChange("orders", 2, "ab12", before=""),
            "records of orders go through rule 2 (ab12) from now on; earlier ones stayed as they are",
        ),
        (
            RuleChange("orders", 0, "", before="ab12"),
            "records of orders stay as they are from now on; earlier ones went through rule ab12",
        ),
        (AclChange(READ, "grant"), "grant ALLOW READ on the topic eu.orders to User:anna"),
        (
            AclChange(BY_PREFIX, "revoke"),
            "revoke DENY DESCRIBE on the transactional id with the prefix app- to User:anna from 10.0.0.1",
        ),
        (
            QuotaChange(ANNA, "producer_byte_rate", 10_485_760.0, None),
            "set producer_byte_rate of the user anna to 10,485,760",
        ),
        (
            QuotaChange((("client-id", "app"), ("user", None)), "request_percentage", 0.5, 2.0),
            "set request_percentage of the client-id app and every user without one to 0.5 (it was 2)",
        ),
        (
            QuotaChange(ANNA, "producer_byte_rate", None, 5.0),
            "delete producer_byte_rate of the user anna (it was 5)",
        ),
        (
            UserChange("anna", "SCRAM-SHA-512", 4096, "create"),
            "create the SCRAM-SHA-512 user anna",
        ),
        (
            Retirement("orders", "eu.orders", "id", since=0, due=7 * DAY),
            "eu.orders: orders is gone from the source since 1970-01-01 00:00 UTC; deleted by the first "
            "run from 1970-01-08 00:00 UTC on.",
        ),
    ],
)
def test_a_change_is_a_sentence(change: object, sentence: str) -> None:
    assert str(change) == sentence


def test_replicas_on_other_racks_are_told_for_a_few_partitions() -> None:
    misplaced = Misplacement(
        "orders", "eu.orders", {"a": 2, "b": 1}, dict.fromkeys(range(7), ("a", "no rack"))
    )
    assert misplaced.sentences[0] == "partition 0 is on a, no rack"
    assert misplaced.sentences[-1] == "and so on for 2 more"
    assert "topics.replica.placement says (a: 2, b: 1): partition 0" in str(misplaced)


def test_a_remote_topic_is_deleted_from_its_time_on() -> None:
    retired = Retirement("orders", "eu.orders", "id", since=0, due=DAY)
    assert [retired.is_due(at) for at in (DAY - 1, DAY, DAY + 1)] == [False, True, True]
