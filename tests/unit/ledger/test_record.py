import json
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from kafka_ferry.ledger import CopiedRange, decode, encode, ledger_topic
from kafka_ferry.ledger.record import Entry, LedgerError
from kafka_ferry.model.changes import Acl, AclChange, QuotaChange, UserChange
from kafka_ferry.model.positions import ProducerState

from .entries import (
    FLOW,
    NOW,
    a_backfill,
    a_copied_range,
    a_release,
    a_run,
    a_transaction,
    a_verification,
    an_applied,
)

WHERE = "ferry-ledger.primary.internal offset 12"
FULL = a_copied_range(
    10,
    50,
    reasons={"aborted": 3, "control": 1},
    rebuilt={"offset gaps": 2},
    segments=((10, 110, 5), (20, 115, 2**40)),
)

ANNA = Acl("TOPIC", "primary.orders", "LITERAL", "User:anna", "*", "READ", "ALLOW")
APPLIED = an_applied(
    configs={"id": {"retention.ms": "5"}},
    pending={"id": {"retention.ms": None}},
    creations={"primary.orders": {"flush.ms": "1"}, "primary.others": None},
    source_cluster_id="S",
    acls=(AclChange(ANNA, "grant"),),
    quotas=(QuotaChange((("user", None), ("client-id", "a")), "producer_byte_rate", 9.5, None),),
    users=(UserChange("anna", "SCRAM-SHA-256", 4096, "create"),),
    missed={"id": NOW},
)

ENTRIES = [
    a_run(),
    a_transaction(),
    a_transaction(FULL, a_copied_range(topic="täglich", partition=7), writer=31),
    a_verification(2**40),
    a_release("primary.orders", "primary.täglich"),
    an_applied(),
    APPLIED,
    a_backfill(FULL),
]


def test_a_ledger_is_named_after_the_source() -> None:
    assert ledger_topic("eu.west") == "ferry-ledger.eu.west.internal"


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.type)
def test_an_entry_is_read_as_it_was_written(entry: Entry) -> None:
    key, value = encode(entry)
    assert key == FLOW.encode()
    assert decode(value, at=WHERE) == entry
    assert type(decode(value, at=WHERE)) is type(entry)


def test_a_transaction_of_this_release_looks_like_this() -> None:
    """Fixed: ledgers hold such records."""
    _, value = encode(a_transaction(FULL))
    assert json.loads(value) == {
        "version": 1,
        "type": "transaction",
        "flow": FLOW,
        "run": "run-1",
        "at": NOW,
        "writer": 2,
        "waits": {
            "task_s": 0.0,
            "source_s": 0.0,
            "target_s": 0.0,
            "limit_s": 0.0,
            "source_round_trip_s": 0.0,
            "target_round_trip_s": 0.0,
        },
        "ranges": [
            {
                "topic": "orders",
                "topic_id": "id of orders",
                "partition": 0,
                "remote_topic": "primary.orders",
                "remote_topic_id": "id of primary.orders",
                "start": 10,
                "end": 50,
                "records": 40,
                "bytes": 4000,
                "batches": 1,
                "reasons": {"aborted": 3, "control": 1},
                "rebuilt": {"offset gaps": 2},
                "segments": [[10, 110, 5], [20, 115, 2**40]],
                "digest": "10-50",
                "lost": [],
                "leader_epoch": -1,
                "epochs": [],
                "rewound_from": -1,
                "preserved": False,
                "producer": None,
                "adopted": 0,
                "origins": [],
                "begin": "",
                "transform": "",
                "schema_ids": "",
                "compared": [],
                "remote_epoch": -1,
                "letters": [],
                "rule_counts": {},
                "last_crc": -1,
            }
        ],
    }


def test_a_backfill_of_this_release_looks_like_a_transaction_with_a_window() -> None:
    backfill = json.loads(encode(a_backfill(FULL))[1])
    transaction = json.loads(encode(a_transaction(FULL))[1])
    window = {"since": NOW - 1_000, "until": NOW}
    named = {"type": "backfill", "run": "backfill-1"}
    assert backfill == {**transaction, **window, **named}


def test_runs_and_verifications_of_this_release_look_like_this() -> None:
    common = {"version": 1, "flow": FLOW, "run": "run-1", "at": NOW}
    run = {"type": "run", "writers": 4, "assignment": "", "file": "", "topics": ""}
    run["isolation_level"] = ""
    assert json.loads(encode(a_run())[1]) == common | run
    assert json.loads(encode(a_verification(9))[1]) == {
        **common,
        "type": "verification",
        "through": 9,
        "ranges": 3,
        "records": 30,
        "again": [],
        "accepted": [],
        "failed": [],
        "gone": [],
    }


def test_a_release_of_this_release_looks_like_this() -> None:
    assert json.loads(encode(a_release("primary.orders"))[1]) == {
        "version": 1,
        "type": "release",
        "flow": FLOW,
        "run": "repair-1",
        "at": NOW,
        "remote_topics": [
            {"remote_topic": "primary.orders", "remote_topic_id": "id of primary.orders"}
        ],
    }


def test_what_was_applied_looks_like_this() -> None:
    assert json.loads(encode(APPLIED)[1]) == {
        "version": 1,
        "type": "applied",
        "flow": FLOW,
        "run": "run-1",
        "at": NOW,
        "configs": {"id": {"retention.ms": "5"}},
        "pending": {"id": {"retention.ms": None}},
        "creations": {"primary.orders": {"flush.ms": "1"}, "primary.others": None},
        "source_cluster_id": "S",
        "acls": [
            {
                "acl": {
                    "resource_type": "TOPIC",
                    "name": "primary.orders",
                    "pattern_type": "LITERAL",
                    "principal": "User:anna",
                    "host": "*",
                    "operation": "READ",
                    "permission": "ALLOW",
                },
                "change": "grant",
            }
        ],
        "quotas": [
            {
                "entity": [["user", None], ["client-id", "a"]],
                "key": "producer_byte_rate",
                "value": 9.5,
                "before": None,
            }
        ],
        "users": [
            {
                "user": "anna",
                "mechanism": "SCRAM-SHA-256",
                "iterations": 4096,
                "change": "create",
            }
        ],
        "missed": {"id": NOW},
    }


def stored(entry: Entry, **changes: Any) -> bytes:
    return json.dumps(json.loads(encode(entry)[1]) | changes).encode()


def without(entry: Entry, key: str) -> bytes:
    fields = json.loads(encode(entry)[1])
    del fields[key]
    return json.dumps(fields).encode()


def of_range(**changes: Any) -> bytes:
    fields = json.loads(encode(a_transaction(FULL))[1])
    fields["ranges"][0] |= changes
    return json.dumps(fields).encode()


@pytest.mark.parametrize(
    ("value", "names"),
    [
        (stored(a_run(), version=2), "run.version"),
        (stored(a_transaction(FULL), version=2), "transaction.version"),
        (stored(a_run(), version=0), "run.version"),
        (stored(a_run(), type="pruning"), "pruning"),
        (without(a_run(), "type"), "type"),
        (without(a_run(), "writers"), "run.writers"),
        (without(a_run(), "flow"), "run.flow"),
        (stored(a_run(), writers=0), "run.writers"),
        (stored(a_run(), at="yesterday"), "run.at"),
        (stored(a_verification(1), through=-1), "verification.through"),
        (stored(a_transaction(), ranges=None), "transaction.ranges"),
        (without(a_release(), "remote_topics"), "release.remote_topics"),
        (stored(an_applied(), configs={"id": {"a": 1}}), "applied.configs.id.a"),
        (stored(an_applied(), missed={"id": -1}), "applied.missed.id"),
        (stored(an_applied(), users=[{"user": "anna"}]), "applied.users.0"),
        (
            # Not one topic of that name, but all of unknown id.
            stored(a_release(), remote_topics=[{"remote_topic": "a", "remote_topic_id": ""}]),
            "release.remote_topics.0.remote_topic_id",
        ),
        (of_range(partition=-1), "transaction.ranges.0.partition"),
        (of_range(start=-1), "transaction.ranges.0.start"),
        (of_range(records="many"), "transaction.ranges.0.records"),
        (of_range(reasons={"aborted": None}), "transaction.ranges.0.reasons.aborted"),
        (of_range(segments=[[1, 2]]), "transaction.ranges.0.segments.0"),
        (of_range(segments=[[10, 2**63 - 1, 5]]), "transaction.ranges.0.segments: "),
        (of_range(letters=[[10, 2**63 - 5, 5]]), "transaction.ranges.0.letters: "),
        (of_range(epochs=[[0, 2**63, 1]]), "transaction.ranges.0.epochs: "),
        (of_range(producer=asdict(ProducerState(1, 1, 2**31))), "transaction.ranges.0.producer: "),
        (b"", "EOF"),
        (b"null", "object"),
        (b"[]", "object"),
        (b"{}", "type"),
        (b"not json", "JSON"),
        (b"\xff\xfe", "JSON"),
        (b"[" * 100_000, "recursion"),
        (encode(a_run())[1][:-1], "EOF"),
    ],
)
def test_what_is_no_entry_says_where_it_is_and_what_is_wrong(value: bytes, names: str) -> None:
    with pytest.raises(LedgerError) as caught:
        decode(value, at=WHERE)
    assert caught.value.message.startswith(f"{WHERE}: not a ledger record of version 1: ")
    assert names in caught.value.message
    assert "newer release" in caught.value.advice
    assert not caught.value.transient


def test_of_ranges_that_are_none_only_the_first_is_told() -> None:
    """All of a record of 900 KB would take gigabytes."""
    value = b'{"type": "transaction", "ranges": [' + b",".join([b"{}"] * 1000) + b"]}"
    with pytest.raises(LedgerError, match=r"transaction\.flow: Field required") as caught:
        decode(value, at=WHERE)
    assert isinstance(caught.value.__context__, ValidationError)
    assert caught.value.__context__.error_count() < 30


def test_a_record_without_a_value_is_no_entry() -> None:
    """A tombstone of another client: ``message.value()`` is None then."""
    with pytest.raises(LedgerError, match="offset 12"):
        decode(None, at=WHERE)  # type: ignore[arg-type]


@given(st.binary() | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(repr))
def test_no_value_is_another_error(value: bytes | str) -> None:
    with pytest.raises(LedgerError):
        decode(value if isinstance(value, bytes) else value.encode(), at=WHERE)


def test_a_newer_release_may_say_more_in_the_same_version() -> None:
    assert decode(stored(a_run(), host="a"), at=WHERE) == a_run()


def test_what_an_entry_says_does_not_change() -> None:
    with pytest.raises(ValueError, match="frozen"):
        FULL.start = 0  # type: ignore[misc]


def test_a_range_without_gaps_may_leave_out_what_is_empty() -> None:
    fields = json.loads(FULL.model_dump_json())
    for key in ("reasons", "rebuilt", "segments"):
        del fields[key]
    bare = CopiedRange.model_validate(fields)
    assert (bare.reasons, bare.rebuilt, bare.segments) == ({}, {}, ())
