"""What a plan says of a cluster that does not show who may do what."""

from __future__ import annotations

import pytest

from kafka_ferry.errors import AccessDenied, BrokerError, FerryError
from kafka_ferry.model.rights import Right, how_to_grant
from kafka_ferry.runs.plan.acls import _why_not
from kafka_ferry.wire.any_broker import TooOld
from kafka_ferry.wire.error_codes import SECURITY_DISABLED, fault


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            fault(SECURITY_DISABLED, "Reading"),
            "primary has no authorizer: ACLs are not synced.",
        ),
        (
            AccessDenied("No."),
            "primary does not let the flow see its ACLs, which are not synced. "
            f"{how_to_grant(Right.cluster('DESCRIBE'))} Or switch this sync off.",
        ),
        (
            TooOld("No."),
            "The brokers of primary are too old to be asked about ACLs, which are not synced.",
        ),
        (
            BrokerError("It said 1.", code=1, name="X", transient=False),
            "The ACLs of primary are not synced, since they cannot be read. It said 1.",
        ),
    ],
    ids=lambda it: type(it).__name__,
)
def test_whatever_a_cluster_says_against_it_is_a_note(error: FerryError, said: str) -> None:
    assert _why_not("primary", "ACLs", "DESCRIBE", error) == said
