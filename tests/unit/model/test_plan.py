"""What a plan would change, and what it says of itself."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from kafka_ferry.model import (
    AdvisedAcl,
    Creation,
    Estimate,
    Growth,
    Note,
    OffsetsChoice,
    Plan,
    Range,
    Refusal,
    Risk,
    RunOptions,
    Skipped,
    Window,
)
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
from kafka_ferry.model.removals import Excess, OffsetDeletion
from kafka_ferry.model.schemas import (
    SchemaRegistration,
    SchemaVersion,
    SubjectSetting,
    TranslatedIds,
)
from tests.support.runs.reports import changed

AT = 1_000_000
PLAN = Plan("primary->backup", "run-1", AT, "A", "B")
RANGE = Range("orders", 0, 5, 9, "I", "primary.orders", 3)
ACL = Acl("TOPIC", "primary.orders", "LITERAL", "User:anna", "*", "READ", "ALLOW")
GONE = Retirement("old", "primary.old", "id", AT - 10, AT)
DRIFT = Drift("orders", "primary.orders", "retention.ms", "7", "5", False)

KEYS = (
    *(
        "flow",
        "run",
        "at",
        "source_cluster_id",
        "target_cluster_id",
        "heartbeats",
        "ledger_end",
        "file",
        "isolation_level",
        "options",
    ),
    *("ranges", "pins", "shards", "estimates", "choices", "rules"),
    *("creations", "growths", "config_changes", "set_configs", "drifts", "misplacements"),
    *("retirements", "acl_changes", "relied_on", "quota_changes", "ended_quotas", "user_changes"),
    "advised_acls",
    *("schema_registrations", "subject_settings", "translated_ids", "schema_ids_digest"),
    *("offset_deletions", "excesses", "emptied"),
    *("skipped", "refused", "notes", "risks", "unapplied"),
)
CHANGES: list[tuple[dict[str, Any], str]] = [
    ({"creations": (Creation("primary.orders", 3, 1, {}),)}, "topics_to_create"),
    ({"growths": (Growth("primary.orders", 4),)}, "topics_to_grow"),
    (
        {"config_changes": (ConfigChange("orders", "primary.orders", "retention.ms", "7", "5"),)},
        "configs_to_change",
    ),
    ({"retirements": (GONE,)}, "topics_to_delete"),
    ({"acl_changes": (AclChange(ACL, "revoke"),)}, "acls_to_change"),
    ({"quota_changes": (QuotaChange((("user", None),), "k", 1.0, None),)}, "quotas_to_change"),
    (
        {
            "schema_registrations": (
                SchemaRegistration(SchemaVersion("orders-value", 2), "primary.orders-value"),
            )
        },
        "schemas_to_register",
    ),
    (
        {"subject_settings": (SubjectSetting("primary.orders-value", "mode", "READONLY", ""),)},
        "settings_of_subjects_to_change",
    ),
    ({"rules": (RuleChange("orders", 1, "now", "before"),)}, "transform_rules_to_change"),
    (
        {"offset_deletions": (OffsetDeletion("billing", "primary.orders", (0, 2)),)},
        "groups_to_delete_offsets_of",
    ),
    ({"user_changes": (UserChange("anna", "SCRAM-SHA-512", 4096, "create"),)}, "users_to_change"),
]
OTHER_DIFFERENCES: list[tuple[dict[str, Any], str]] = [
    ({"ranges": (RANGE,)}, "partitions_to_copy"),
    ({"ranges": (replace(RANGE, start=9, log_start=9),)}, "partitions_to_copy"),
    ({"refused": (Refusal("old", "it was recreated.", "Rename it."),)}, "refused"),
]
NOTHING: list[dict[str, Any]] = [
    {},
    {"ranges": (replace(RANGE, start=9),)},
    {"ranges": (replace(RANGE, start=0, end=0, log_start=0),)},
    {"skipped": (Skipped("mm2-offsets.internal", "internal"),)},
    {"notes": (Note("orders", "odd."),)},
    {"rules": (RuleChange("orders", 1, "now"),)},
    {"choices": (OffsetsChoice("orders", "primary.orders", True, "offsets: preserved."),)},
    {"advised_acls": (AdvisedAcl("primary.orders", "User:ferry", "WRITE", "ALLOW"),)},
    {"drifts": (DRIFT,)},
    {"misplacements": (Misplacement("orders", "primary.orders", {"r1": 1}, {7: ("r2",)}),)},
    {"retirements": (replace(GONE, due=AT + 1),)},
    {"translated_ids": (TranslatedIds("orders", "value 12"),), "schema_ids_digest": "ab"},
    {"risks": (Risk("orders", 0, 1, 4, "it may go.", "Hurry."),)},
    {"excesses": (Excess("ACL", ("one", "another"), 3, 1),)},
    {"estimates": (Estimate("orders", 0, 4, None),)},
]


@pytest.mark.parametrize(("what", "kind"), CHANGES, ids=[kind for _, kind in CHANGES])
def test_what_changes_the_target_beside_records_is_a_change_and_a_difference(
    what: dict[str, Any], kind: str
) -> None:
    plan = changed(PLAN, **what)
    assert plan.changes == plan.differences == {kind: 1}


@pytest.mark.parametrize(("what", "kind"), OTHER_DIFFERENCES)
def test_records_and_refusals_are_differences_and_change_nothing_else(
    what: dict[str, Any], kind: str
) -> None:
    plan = changed(PLAN, **what)
    assert (plan.changes, plan.differences) == ({}, {kind: 1})


@pytest.mark.parametrize("what", NOTHING, ids=lambda what: next(iter(what), "nothing"))
def test_what_a_run_only_says_or_refreshes_is_no_difference(what: dict[str, Any]) -> None:
    assert changed(PLAN, **what).differences == {}


def test_a_plan_is_stored_flat_as_programs_and_earlier_releases_know_it() -> None:
    plan = replace(PLAN, options=RunOptions(topics=("orders",), window=Window(1, 2)))
    for what, _ in CHANGES + OTHER_DIFFERENCES:
        plan = changed(plan, **what)
    for what in NOTHING[4:]:
        plan = changed(plan, **what)
    stored = json.loads(plan.to_json())
    assert sorted(stored) == sorted(KEYS)
    assert stored["options"]["window"] == {"since_ms": 1, "until_ms": 2}
    assert stored["misplacements"][0]["racks"] == {"7": ["r2"]}
    assert Plan.from_json(plan.to_json()) == plan


def test_a_plan_of_an_earlier_release_is_read_without_what_it_did_not_store() -> None:
    older = {"flow": "primary->backup", "run": "run-1", "at": AT}
    older |= {"source_cluster_id": "A", "target_cluster_id": "B"}
    refused = {"topic": "old", "partition": None, "reason": "gone.", "advice": "Rename it."}
    plan = Plan.from_json(json.dumps(older | {"refused": [refused], "retried": 3}))
    assert plan == changed(PLAN, refused=(Refusal("old", "gone.", "Rename it."),))


def test_a_risk_names_its_worst_partition_and_how_many_there_are() -> None:
    risk = Risk("orders", 7, 3, 400, "offsets [1, 300) may be deleted.", "Hurry.")
    assert str(risk) == (
        "orders-7: offsets [1, 300) may be deleted. So in 3 of its partitions. Hurry."
    )
    assert "partitions" not in str(replace(risk, partitions=1))
