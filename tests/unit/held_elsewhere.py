"""Modules without a unit test of their own, by the test that holds them.

Borders (a thin call to Kafka, Spark or Airflow) are held by tests against the real thing; parts of one
subject by the unit test of the whole. ``test_layout`` keeps the table: what has a test of its own, is gone or
is new does not fit it.
"""

from __future__ import annotations

from typing import Final

AIRFLOW: Final = "kafka_ferry_airflow"

HELD_BY: Final[dict[str, str]] = {
    # One subject, one test.
    "unit/airflow/test_flow_files.py": f"{AIRFLOW}: project",
    "unit/airflow/test_provider.py": f"{AIRFLOW}: plugin; {AIRFLOW}/dags: bundle",
    "unit/audit/comparison/test_across_partitions.py": "audit/comparison: unordered",
    "unit/audit/comparison/test_unmatched.py": "audit/comparison: alignment altered entries",
    "unit/audit/test_outcome_file.py": "audit: outcome",
    "unit/audit/test_result.py": "report: audit_page; runs/audit: output",
    "unit/batches/test_returned_records.py": "batches: batch_filter",
    "unit/cli/commands/test_init.py": "cli/commands: check",
    "unit/cli/commands/test_mirror_maker.py": "cli: mm1_options",
    "unit/cli/test_entry.py": "cli: plan_view; cli/commands: plan",
    "unit/config/client/test_assertion.py": "config/client: login_values",
    "unit/config/client/test_cluster.py": "config: cluster_problems",
    "unit/config/client/test_keystores.py": "config/client: pem",
    "unit/config/client/test_translate.py": "config/client: property_names",
    "unit/config/files/test_mm1_properties.py": "config/files: mm1_keys",
    "unit/config/files/test_mm2_properties.py": "config/files: mm2_flows",
    "unit/config/files/test_yaml_file.py": "config/files: yaml_document",
    "unit/config/test_flow.py": "config/options: backfill base copy groups on_events sync",
    "unit/config/test_permissions.py": "config: flow_permissions",
    "unit/config/types/test_java_regex.py": "config/types: java_classes java_tokens",
    "unit/copy/source/test_schema_ids.py": "copy/source: changed",
    "unit/copy/source/test_transformed.py": "copy/source: record_errors",
    "unit/copy/target/produce/test_verdicts.py": "copy: outcome; copy/target: dead_letters",
    "unit/copy/target/produce/test_pipeline.py": "copy/target/produce: partition_queue",
    "unit/copy/test_rate_limit.py": "model: rate",
    "unit/groups/alignment/test_align.py": "groups/alignment: aligned_runs record_digests walk",
    "unit/groups/spark/test_rewrite.py": "groups/spark: placement",
    "unit/ledger/test_fuzz.py": "ledger: rows",
    "unit/ledger/test_record.py": "ledger: copied_range",
    "unit/ledger/test_table.py": "ledger: claims proofs",
    "unit/oauth/test_tokens.py": "oauth: token_endpoint",
    "unit/plan/backfill/test_make_plan.py": "plan/backfill: topic_backfill",
    "unit/plan/offsets/test_log_check.py": "plan/offsets: producer_sequence",
    "unit/plan/test_make_plan.py": "plan: partition_steps",
    "unit/plan/test_removals.py": "model: removals",
    "unit/plan/topics/test_refusals.py": "model: topic_pair",
    "unit/report/test_metrics.py": "report: catalogue",
    "unit/report/test_page.py": "report: templates",
    "unit/report/test_plan_text.py": "model: remarks",
    "unit/report/test_run_report.py": "batches: rule_counts",
    "unit/runs/publish/test_measures.py": "report: measures",
    "unit/runs/publish/test_publish.py": "runs/state: flow_state run_context",
    "unit/runs/state/test_run_folder.py": "copy: outcome_files",
    "unit/runs/test_growth.py": "wire/partitions: by_leader log_dirs; wire/transactions: open_transactions",
    "unit/runs/test_run.py": "runs: run_plan; runs/state: ended_steps",
    "unit/runs/test_views.py": "runs/state: file_cache",
    "unit/runs/verify/test_verify.py": "runs/verify: recount target_rows",
    "unit/schemas/fields/test_avro.py": "schemas/fields: avro_decimals avro_unions",
    "unit/schemas/fields/test_avro_walk.py": "schemas/fields: limits",
    "unit/schemas/fields/test_records.py": "schemas/fields: record_schema",
    "unit/schemas/test_registry.py": "schemas: answers",
    "unit/spark/test_checkpoint.py": "runs/plan: moved_checkpoint",
    "unit/test_state.py": ": local_files",
    "unit/transform/test_apply.py": "transform: changer field_format",
    "unit/transform/test_columns.py": "transform: record_limits",
    "unit/transform/test_functions.py": "spark: packed_changes; transform: secrets",
    "unit/spark/test_class_archive.py": "spark: rehearsal",
    "unit/spark/test_properties.py": "spark/security: private_sockets",
    "unit/spark/security/test_serialized_flow.py": "spark/security: flow_key",
    "integration/runs/test_strangers.py": "spark/security: callbacks",
    "unit/verify/checks/test_check.py": "verify/checks: partitions ranges sentences warnings",
    "unit/verify/expectations/test_data_docs.py": "verify/expectations: offline_page",
    "unit/verify/expectations/test_judge.py": "verify/checks: decisive; verify/expectations: evaluation tables",
    "unit/verify/expectations/test_user_expectations.py": "verify/expectations: user_files",
    "unit/verify/test_reconciliation.py": "verify: incarnations",
    "unit/wire/access/test_answers.py": "wire: any_broker; wire/access: acls quotas scram_users",
    "unit/wire/connections/test_connection.py": "wire/connections: versions",
    "unit/wire/groups/test_groups.py": "wire/groups: coordinators offsets share_groups",
    "unit/wire/test_answers.py": "wire: produce; wire/connections: questions; wire/partitions: ends list_offsets; "
    "wire/transactions: committed_offsets markers producer",
    "unit/wire/test_cluster.py": "wire: partition_leader pool; wire/connections: brokers",
    # Borders: real brokers, Spark and the command line.
    "integration/sync_topics/test_access.py": "control: access",
    "integration/verify/test_append_missing.py": "runs/repair: append_missing audit_findings "
    "consequences held_records",
    "integration/verify/test_audit.py": "audit: compare wire_log; cli/commands/proof: audit; "
    "runs/audit: audit folder plan request topics",
    "integration/verify/test_audit_runs.py": "runs/audit: scheduled; spark: audit",
    "integration/runs/test_backfill.py": "copy/target: backfill_progress; "
    "runs/plan: backfill; runs/provenance: appended; runs/verify: backfill_duplicates; wire/partitions: times",
    "integration/copy/test_batches.py": "verify: recount",
    "integration/verify/test_certificates.py": "cli/commands/proof: certificate; "
    "runs/publish: certify; runs/state: file_digests",
    "integration/verify/test_ledger_authors.py": "runs/provenance: authors",
    "integration/runs/test_cli.py": "cli/commands: lag",
    "integration/copy/test_copy.py": "control: positions; copy: task; "
    "copy/source: fetcher prefetch reader; "
    "copy/target: position_commit progress record_writer transaction transaction_members transactional_writer "
    "translated writer writer_settings; "
    "wire/partitions: fetch",
    "integration/copy/test_distance.py": "copy/source: fetch_pipeline; wire/partitions: partition_log scan",
    "integration/sync_groups/test_emitting.py": "runs/sync_groups: mm2_topics; "
    "runs/provenance: heartbeats; "
    "wire/transactions: exclusive_writer",
    "integration/topologies/test_failover.py": "cli/commands: failback failover; "
    "runs/failover: failback failover; runs/sync_groups: hidden_groups home_routes; "
    "wire/partitions: first_record",
    "integration/sync_groups/test_groups.py": "runs/sync_groups: commit_offsets delete_offsets "
    "group_states stale_offsets sync",
    "integration/runs/test_judging.py": "runs/verify: verdict",
    "integration/connections/test_kept_connections.py": "control: admin",
    "integration/connections/test_kerberos.py": "wire/connections: kerberos",
    "integration/verify/test_ledger_topic.py": "runs/repair: ledger_records",
    "integration/runs/test_metrics.py": "runs/publish: lag partition_lag prometheus; "
    f"{AIRFLOW}/monitoring: metrics",
    "integration/situations/test_lag.py": "runs/publish: copied_logs",
    "unit/runs/failover/test_unread_letters.py": "runs/failover: readers",
    "integration/situations/test_source.py": "runs/provenance: diverged_epochs",
    "integration/situations/test_log_ends.py": "runs/provenance: log_ends log_mismatches own_producers; "
    "runs/verify: read_back; wire/partitions: at_offset",
    "integration/situations/test_target.py": "runs/sync_topics: other_ledgers",
    "integration/situations/test_one_file.py": "runs/state: one_file",
    "integration/runs/test_plan_diff.py": "runs/plan: discover log_sizes remote_records",
    "integration/preserved/test_copy.py": "copy/target/preserved: gap_filler records",
    "integration/preserved/test_crash.py": "copy/target/preserved: adoption uncommitted_tail",
    "integration/preserved/test_proof.py": "copy/target/preserved: log_starts",
    "integration/verify/test_repair.py": "cli: repair_options; runs/repair: give_up",
    "integration/sync_topics/test_replica_placement.py": "control: replica_assignment",
    "integration/sync_topics/test_tiered_configs.py": "runs/plan: tiered_storage",
    "integration/sync_topics/test_retire.py": "runs/sync_topics: delete_topics records_of_others retire",
    "integration/topologies/test_returned.py": "runs/provenance: opposite_flow",
    "integration/transforms/test_rules_evaluated_again.py": "spark/transforms: evaluate_again; "
    "verify/transforms: rule_evaluation",
    "integration/transforms/test_schema_registry.py": "copy/source: registry_formats; model: schemas; "
    "schemas: registered",
    "integration/transforms/test_repeatable_functions.py": "spark/transforms: repeatable",
    "integration/transforms/test_rule_expressions.py": "spark/transforms: like_patterns "
    "regular_expressions slow_texts trees",
    "integration/copy/test_settlement.py": "copy/target: all_writers",
    "integration/situations/test_plan.py": "wire/partitions: held_back",
    "integration/runs/test_spark_run.py": "cli/commands: run; cli/commands/proof: verify; runs: job; "
    "spark: query recount",
    "integration/situations/test_writers.py": "copy/target: claims ledger_recovery",
    "integration/topologies/test_takeover_from_mirrormaker.py": "cli/commands: takeover; "
    "model: takeover; runs/takeover: align hand_back liveness mirrored_offsets "
    "record_digests takeover; groups/mirrormaker2: stored_offsets",
    "integration/sync_topics/test_topic_configs.py": "runs/sync_topics: apply config_failures "
    "siblings topic_configs",
    "integration/copy/test_topic_records.py": "control: topic_records wire_records",
    "integration/topologies/test_topologies.py": "runs/provenance: rival_flows selection shared_topics upstream_flows",
    "integration/transforms/test_transforms.py": "copy: record_changes; "
    "spark/transforms: arrow_rows expressions job query relay rule_plan",
    "integration/sync_groups/test_translate_cli.py": "runs/sync_groups: translate",
    "integration/copy/test_replicas.py": "wire/partitions: lookahead",
    "integration/verify/test_verified_again.py": "runs/failover: unread_losses; runs/repair: findings; "
    "runs/verify: again proof_ages",
    "integration/runs/test_where.py": "cli/commands/proof: where",
    "integration/connections/test_silent_brokers.py": "runs/state: step_time; wire: silent_brokers",
    "integration/connections/test_wire_admin.py": "wire: topic_configs",
    # Borders: Airflow.
    "system/runs/test_approval.py": f"{AIRFLOW}/dags: approval",
    "system/dags/test_assets.py": f"{AIRFLOW}/monitoring: assets",
    "system/runs/test_channels.py": f"{AIRFLOW}/monitoring: channels",
    "system/dags/test_connections.py": f"{AIRFLOW}: connections",
    "system/dags/test_dags.py": f"{AIRFLOW}: factory pools; "
    f"{AIRFLOW}/dags: audits failover plans steps tasks timetables",
    "system/dags/test_lineage.py": f"{AIRFLOW}/monitoring: lineage",
    "system/dags/test_links.py": f"{AIRFLOW}: links",
    "system/runs/test_notify_task.py": f"{AIRFLOW}: notify_task",
    "system/pages/test_page.py": f"{AIRFLOW}/page: access app",
    "system/dags/test_params.py": f"{AIRFLOW}/dags: params",
    "system/dags/test_plan_text.py": f"{AIRFLOW}/dags: plan_text",
    "system/runs/test_airflow_run.py": f"{AIRFLOW}/dags: empty_runs",
    "system/runs/test_preload.py": f"{AIRFLOW}: preload",
    "system/runs/test_process_guard.py": f"{AIRFLOW}: process_guard",
    "system/spark/test_submit.py": f"{AIRFLOW}: operators",
}
"""By test below ``tests/``: folders of the library, each with its modules."""

OF_SEVERAL: Final = {
    "test_docs.py",
    "test_layout.py",
    "batches/test_offsets_kept.py",
    "config/files/test_mm2_logins.py",
    "ledger/test_fuzz.py",
    "report/test_evil_names.py",
    "runs/test_growth.py",
    "wire/access/test_answers.py",
    "wire/test_answers.py",
}
"""Unit tests below ``tests/unit`` that are of several modules together, and called after what they say."""

OUTSIDE: Final = {"benchmarks", "ci", "deploy", "sandbox"}
"""Folders of unit tests of what is not in the library."""
