import pickle
from collections import Counter
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from kafka_ferry.config import Flow
from kafka_ferry.config.files.mm2_keys import KEYS
from kafka_ferry.config.flow import OPTIONS, names_of
from kafka_ferry.config.options.on_events import PolicyOptions
from kafka_ferry.config.options.sync import SyncOptions

from .builders import a_cluster, a_flow

MIB = 1024 * 1024


def test_a_flow_that_sets_nothing_has_mirrormaker_2s_defaults_and_ours() -> None:
    flow = a_flow()
    assert flow.topics == (".*",)
    assert flow.topics_exclude[:3] == (r"mm2.*\.internal", r".*\.replica", "__.*")
    assert flow.replication_policy_class == "DefaultReplicationPolicy"
    assert flow.replication_policy_separator == "."
    assert (flow.replication_factor, flow.writers, flow.retries) == (2, 32, 2)
    assert (flow.transaction_max_bytes, flow.transaction_max_ms) == (64 * MIB, 10_000)
    assert flow.fetch_max_bytes == 8 * MIB
    assert (flow.schedule, flow.start_date, flow.catchup) == ("@hourly", date(2026, 1, 1), False)
    assert (flow.enabled, flow.file, flow.ignored) == (True, "", ())


def test_a_flow_goes_on_only_where_it_is_told_to() -> None:
    assert a_flow().model_dump(include=set(PolicyOptions.model_fields)) == {
        "on_source_truncation": "fail",
        "on_source_topic_deleted": "keep",
        "on_source_topic_recreated": "fail",
        "on_source_divergence": "fail",
        "on_target_topic_lost": "fail",
        "on_position_moved": "fail",
        "on_foreign_records": "fail",
        "on_returned_records": "skip",
        "on_config_drift": "keep",
        "on_source_start_moved": "follow",
        "on_fill_limit": "fail",
        "on_rejected_record": "fail",
        "dead_letter_topic": None,
    }


def test_what_is_synced_by_default_is_what_mirrormaker_2_syncs() -> None:
    flow = a_flow()
    assert flow.model_dump(
        include=set(SyncOptions.model_fields) - {"config_properties_exclude"}
    ) == {
        "topics_rename": {},
        "heartbeats_replication_enabled": False,
        "replication_policy_internal_topic_separator_enabled": True,
        "auto_offset_reset": "earliest",
        "sync_topic_configs_enabled": True,
        "use_defaults_from": "target",
        "sync_topic_acls_enabled": True,
        "acls_mode": "read-only",
        "acls_principals": (),
        "acls_own_principals": (),
        "sync_client_quotas_enabled": False,
        "sync_scram_users_enabled": False,
        "scram_passwords_file": None,
        "approval": "never",
        "removals_max": 0.1,
        "partitions_max": 200_000,
        "removals_cluster_id": None,
        "retire_after_ms": 7 * 24 * 60 * 60 * 1000,
        "admin_timeout_ms": 60_000,
    }
    # MirrorMaker 2 4.3.1 means the topic's configs and names the brokers'.
    theirs = KEYS["config.properties.exclude"].default.split(", ")
    ours = {"message.timestamp.before.max.ms", "message.timestamp.after.max.ms"}
    assert set(flow.config_properties_exclude) == {*theirs, *ours}


def test_records_are_copied_committed_and_small_batches_joined_unless_told_otherwise() -> None:
    flow = a_flow()
    assert (flow.isolation_level, flow.join_batches_below) == ("read_committed", 32 * 1024)
    flow = a_flow(isolation_level="read_uncommitted", join_batches_below=0)
    assert (flow.isolation_level, flow.join_batches_below) == ("read_uncommitted", 0)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (None, "ferry-dead-letter.eu.west.internal"),
        ("", "ferry-dead-letter.eu.west.internal"),
        ("rejected.by-us", "rejected.by-us"),
        ("ferry-dead-letter.all.internal", "ferry-dead-letter.all.internal"),
    ],
)
def test_dead_letters_go_to_a_topic_named_after_the_source_or_as_the_flow_says(
    given: str | None, name: str
) -> None:
    flow = a_flow(source=a_cluster("eu.west"), dead_letter_topic=given)
    assert flow.dead_letter_name == name


def test_our_own_topics_are_not_copied_by_default() -> None:
    topics = a_flow().topic_filter
    assert not topics.matches("ferry-ledger.primary.internal")
    assert not topics.matches("ferry-dead-letter.primary.internal")
    assert topics.matches("orders.internal")


def test_a_flow_is_named_after_its_clusters() -> None:
    flow = a_flow(source=a_cluster("eu.west"), target=a_cluster("us"))
    assert (flow.name, flow.slug) == ("eu.west->us", "eu.west_to_us")


def test_no_two_flows_share_a_slug() -> None:
    aliases = [
        "a",
        "b",
        "to",
        "a_to",
        "to_b",
        "a_to_b",
        "b_to_a",
        "b.1",
        "_",
        "a_to_b.4",
        "a_to_b_to_a.1",
    ]
    slugs = [names_of(source, target)[1] for source in aliases for target in aliases]
    assert len({*slugs}) == len(slugs)
    assert names_of("a_to_b", "c")[1] == "a_to_b_to_c.6"
    assert names_of("a", "b_to_c")[1] == "a_to_b_to_c.1"


def test_an_alias_is_no_longer_than_the_names_that_it_is_a_part_of_allow() -> None:
    longest = a_flow(source=a_cluster("a" * 110), target=a_cluster("b" * 110))
    assert len(f"failover_{longest.slug}") <= 250
    with pytest.raises(ValidationError, match="at most 110 characters"):
        a_cluster("a" * 111)


def test_no_alias_has_a_flow_s_writers_named_as_another_flow_s() -> None:
    with pytest.raises(ValidationError, match=r"must not end in \.preserved"):
        a_cluster("backup.preserved")
    assert a_cluster("preserved").alias == "preserved"


@pytest.mark.parametrize(
    "given",
    ["IdentityReplicationPolicy", "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"],
)
def test_a_policy_has_a_short_and_a_java_name(given: str) -> None:
    assert a_flow(replication_policy_class=given).replication_policy_class == (
        "IdentityReplicationPolicy"
    )


@pytest.mark.parametrize("given", ["company.naming.ByTeam", "naming.ByTeam", "_a._B2"])
def test_a_policy_may_be_a_python_class_by_its_dotted_name(given: str) -> None:
    assert a_flow(replication_policy_class=given).replication_policy_class == given


@pytest.mark.parametrize(
    "given", ["@daily", "@yearly", "0 * * * *", "*/15 8-18 * * MON-FRI", "0 0 L * *"]
)
def test_a_schedule_is_a_cron_expression_or_a_preset(given: str) -> None:
    assert a_flow(schedule=given).schedule == given


@pytest.mark.parametrize("given", [None, ""])
def test_a_flow_may_have_no_schedule(given: str | None) -> None:
    assert a_flow(schedule=given).schedule is None


@pytest.mark.parametrize(
    ("option", "value", "reason"),
    [
        ("topics", ["["], "not a valid regular expression"),
        ("topics_exclude", ["*"], "not a valid regular expression"),
        ("topics", 5, "tuple"),
        ("replication_policy_class", "Custom", "DefaultReplicationPolicy, IdentityRepl"),
        ("replication_policy_class", "org.apache.kafka.Custom", "or a Python class"),
        ("replication_policy_class", "company..Custom", "or a Python class"),
        ("replication_policy_class", "company.3Custom", "or a Python class"),
        ("replication_policy_class", 1, "or a Python class"),
        ("replication_policy_separator", "", "pattern"),
        ("replication_policy_separator", "/", "pattern"),
        ("replication_factor", -2, "greater"),
        ("replication_factor", 0, "at least 1, or -1"),
        ("replication_factor", True, "number"),
        ("writers", 0, "greater"),
        ("writers", 1001, "less"),
        ("transaction_max_bytes", "64MB", "64MiB"),
        ("transaction_max_bytes", 0, "greater"),
        ("transaction_max_bytes", True, "number"),
        ("transaction_max_ms", 0, "greater"),
        ("transaction_max_ms", 900_000, "less"),
        ("partition_wait_ms", 0, "greater"),
        ("partition_wait_ms", 900_000, "less"),
        ("fetch_max_bytes", "2GiB", "less"),
        ("isolation_level", "serializable", "read_committed"),
        ("join_batches_below", -1, "greater"),
        ("join_batches_below", "2GiB", "less"),
        ("on_source_truncation", "adopt", "continue"),
        ("on_source_topic_deleted", "delete", "retire"),
        ("on_config_drift", "wipe", "overwrite"),
        ("auto_offset_reset", "none", "every partition begins somewhere"),
        ("auto_offset_reset", "largest", "'earliest' or 'latest'"),
        ("config_properties_exclude", "[", "not a valid regular expression"),
        ("use_defaults_from", "both", "source"),
        ("acls_mode", "off", "read-only"),
        ("approval", "sometimes", "changes"),
        ("removals_max", 10, "a share from 0 to 1"),
        ("removals_max", -0.1, "greater"),
        ("removals_cluster_id", "", "at least 1"),
        ("retire_after_ms", -1, "greater"),
        ("admin_timeout_ms", 0, "greater"),
        ("on_source_topic_recreated", "continue", "append"),
        ("on_source_divergence", "rewind", "continue"),
        ("on_target_topic_lost", "continue", "recopy"),
        ("on_foreign_records", "continue", "adopt"),
        ("on_rejected_record", "skip", "dead-letter"),
        ("dead_letter_topic", "dead letters", "topic's name"),
        ("dead_letter_topic", "x" * 250, "topic's name"),
        ("dead_letter_topic", "..", "topic's name"),
        ("dead_letter_topic", "__consumer_offsets", "Kafka's own"),
        ("dead_letter_topic", "ferry-ledger.primary.internal", "a flow's ledger"),
        ("dead_letter_topic", "ferry-ledger.other.internal", "a flow's ledger"),
        ("dead_letter_topic", "ferry-certificates.primary.internal", "a flow's ledger"),
        ("schedule", "hourly", "cron"),
        ("schedule", "* * *", "cron"),
        ("start_date", "soon", "date"),
        ("retries", -1, "greater"),
        ("state_dir", "", "1 character"),
        ("target", a_cluster("primary"), "an alias other than"),
        ("nonsense", 1, "not permitted"),
    ],
)
def test_a_wrong_value_is_refused_with_its_reason(option: str, value: Any, reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        a_flow(**{option: value})


def test_the_state_folder_is_below_ferry_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FERRY_HOME", "/srv/ferry")
    assert a_flow().state_path == "/srv/ferry/.ferry"
    assert a_flow(state_dir="state/x").state_path == "/srv/ferry/state/x"
    assert a_flow(state_dir="/var/ferry").state_path == "/var/ferry"


def test_without_ferry_home_the_state_folder_is_beside_the_flows_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("FERRY_HOME", raising=False)
    assert a_flow(file=str(tmp_path / "flow.yaml")).state_path == str(tmp_path / ".ferry")


def test_a_state_folder_in_an_object_store_is_left_as_it_is() -> None:
    assert a_flow(state_dir="s3://bucket/ferry").state_path == "s3://bucket/ferry"


def test_flows_never_show_secrets() -> None:
    flow = a_flow(source=a_cluster("primary", ssl__key__password="hunter2"))
    assert "hunter2" not in f"{flow!r}{flow}{flow.model_dump()}{flow.model_dump_json()}"


def test_flows_are_values_that_travel_between_processes() -> None:
    options = {"topics": ["a"], "topics_rename": {"a": "b"}, "ignored": [("tasks.max", "why")]}
    flow = a_flow(**options)
    assert pickle.loads(pickle.dumps(flow)) == flow
    assert hash(flow) == hash(a_flow(**options))
    assert hash(flow) != hash(a_flow(**options | {"topics_rename": {"a": "c"}}))
    with pytest.raises(ValidationError, match="frozen"):
        flow.writers = 1  # type: ignore[misc]


def test_every_option_is_described_and_written_with_dots() -> None:
    assert all(field.description for field in Flow.model_fields.values())
    assert not [option for option in OPTIONS if "_" in option]
    assert {"topics", "topics.exclude", "state.dir", "enabled"} < set(OPTIONS)


def test_no_validator_of_an_options_class_is_replaced_by_a_namesake() -> None:
    """Pydantic knows validators by their names: one of ``Flow`` would take the place of its base's."""
    found = Counter(
        name
        for kind in Flow.__mro__
        if issubclass(kind, BaseModel)
        for name in (
            *kind.__pydantic_decorators__.field_validators,
            *kind.__pydantic_decorators__.model_validators,
        )
        if name in vars(kind)
    )
    assert [name for name, count in found.items() if count > 1] == []
