"""The rules that a topic with preserved offsets should have."""

from __future__ import annotations

import pytest

from kafka_ferry.config import Flow
from kafka_ferry.model.plan import OffsetsChoice
from kafka_ferry.plan.access.acls import advised_acls
from tests.unit.plan.builders import a_flow, a_flow_that_logs_in

KEPT = OffsetsChoice("orders", "primary.orders", True, "offsets: preserved.")
TRANSLATED = OffsetsChoice("payments", "primary.payments", False, "offsets: translated.")


@pytest.mark.parametrize(
    ("flow", "principal"),
    [(a_flow_that_logs_in(), "User:ferry"), (a_flow(), "the flow's principal")],
    ids=["by name", "by certificate, or by nothing"],
)
def test_only_the_flow_writes_where_offsets_are_preserved(flow: Flow, principal: str) -> None:
    said = [str(acl) for acl in advised_acls(flow, [KEPT, TRANSLATED])]
    assert said == [
        *(
            f"ALLOW {operation} on primary.orders to {principal}"
            for operation in ("WRITE", "DELETE", "ALTER", "DESCRIBE_CONFIGS", "ALTER_CONFIGS")
        ),
        "ALLOW READ on primary.orders to User:*",
        "ALLOW DESCRIBE on primary.orders to User:*",
    ]
