"""The list of rights: what it has for which options, and that the docs have the same."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_ferry.runs.rights import NEEDS, needed_rights, rights_page
from tests import PROJECT
from tests.unit.plan.builders import a_flow

PAGE = PROJECT / "docs" / "reference" / "rights.md"

FEW: dict[str, Any] = {
    "topics": ["orders"],
    "sync_topic_acls_enabled": False,
    "emit_checkpoints_enabled": False,
    "emit_heartbeats_enabled": False,
    "sync_topic_configs_enabled": False,
}
WITH_FEW = {
    "source: READ on the topic orders",
    "source: DESCRIBE_CONFIGS on the topic orders",
    "source: DESCRIBE on the cluster",
    "source: DESCRIBE on groups with the prefix ferry.",
    "source: READ on topics with the prefix ferry-ledger.",
    "target: CREATE on the topic primary.orders",
    "target: READ on the topic primary.orders",
    "target: WRITE on the topic primary.orders",
    "target: ALTER on the topic primary.orders",
    "target: DESCRIBE_CONFIGS on the topic primary.orders",
    "target: CREATE on the topic ferry-ledger.primary.internal",
    "target: READ on the topic ferry-ledger.primary.internal",
    "target: WRITE on the topic ferry-ledger.primary.internal",
    "target: READ on the group ferry.primary->backup",
    "target: WRITE on transactional ids with the prefix ferry.primary->backup.",
}


def rights(**options: Any) -> set[str]:
    needed = needed_rights(a_flow(**FEW | options))
    found = [f"{it.side}: {it.right}" for it in needed]
    assert len(found) == len(set(found))
    return set(found)


def test_the_page_in_the_docs_is_as_make_docs_writes_it() -> None:
    assert PAGE.read_text() == rights_page()


def test_a_flow_that_only_copies_needs_few() -> None:
    assert rights() == WITH_FEW


@pytest.mark.parametrize(
    ("options", "more", "fewer"),
    [
        (
            {"sync_topic_configs_enabled": True},
            {"target: ALTER_CONFIGS on the topic primary.orders"},
            # Implied by the one above.
            {"target: DESCRIBE_CONFIGS on the topic primary.orders"},
        ),
        (
            {"sync_group_offsets_enabled": True, "groups": ["billing"]},
            {"source: DESCRIBE on the group billing", "target: READ on the group billing"},
            set(),
        ),
        (
            {"topics_start": {"orders": "group=billing"}},
            {"source: DESCRIBE on the group billing"},
            set(),
        ),
        (
            {"emit_offset_syncs_enabled": True},
            {
                "source: CREATE on the topic mm2-offset-syncs.backup.internal",
                "source: READ on the topic mm2-offset-syncs.backup.internal",
                "source: WRITE on the topic mm2-offset-syncs.backup.internal",
            },
            set(),
        ),
        ({"offsets": "preserved"}, {"target: DELETE on the topic primary.orders"}, set()),
        (
            {"offsets": "auto", "fill": "markers"},
            {
                "target: DELETE on the topic primary.orders",
                "target: CLUSTER_ACTION on the cluster",
            },
            set(),
        ),
        ({"fill": "markers"}, set(), set()),
        (
            {"on_foreign_records": "adopt"},
            {
                "target: READ on topics with the prefix ferry-ledger.",
                "target: DESCRIBE on the cluster",
                "target: DESCRIBE on groups with the prefix ferry.",
            },
            {"target: READ on the topic ferry-ledger.primary.internal"},
        ),
        (
            {"on_source_topic_deleted": "retire", "sync_topic_acls_enabled": True},
            {
                "target: DELETE on the topic primary.orders",
                "target: DESCRIBE on groups with the prefix ferry.",
                "target: ALTER on the cluster",
            },
            set(),
        ),
        (
            {"sync_client_quotas_enabled": True},
            {
                "source: DESCRIBE_CONFIGS on the cluster",
                "target: ALTER_CONFIGS on the cluster",
            },
            set(),
        ),
        (
            {"on_rejected_record": "dead-letter", "dead_letter_topic": "rejected"},
            {f"target: {it} on the topic rejected" for it in ("CREATE", "READ", "WRITE")},
            set(),
        ),
    ],
    ids=lambda it: ",".join(it) if isinstance(it, dict) else "",
)
def test_an_option_needs_what_it_uses(
    options: dict[str, Any], more: set[str], fewer: set[str]
) -> None:
    assert rights(**options) == (WITH_FEW | more) - fewer


def test_every_line_of_the_list_says_what_for_and_when() -> None:
    always = {(side, it.on) for side, needs in NEEDS.items() for it in needs if not it.when}
    assert len(always) == 8
    assert all(it.why.startswith("to ") for needs in NEEDS.values() for it in needs)
