"""Answers about ACLs, quotas and SCRAM users: silence and refusals are never an empty list."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.admin.acl import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest
from kafka.protocol.admin.client_quotas import (
    AlterClientQuotasRequest,
    DescribeClientQuotasRequest,
)
from kafka.protocol.admin.users import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
)

from kafka_ferry.errors import AccessDenied, BrokerError, ClusterUnreachable, FerryError
from kafka_ferry.model.changes import QuotaChange, UserChange
from kafka_ferry.wire import WireCluster
from kafka_ferry.wire.access.acls import create_acls, delete_acls, describe_acls
from kafka_ferry.wire.access.quotas import alter_quotas, describe_quotas
from kafka_ferry.wire.access.scram_users import change_user, describe_users
from kafka_ferry.wire.any_broker import TooOld
from kafka_ferry.wire.error_codes import SECURITY_DISABLED
from tests.support.brokers.access import an_acl
from tests.unit.wire.scripted import (
    HOST,
    METADATA,
    Kind,
    ScriptedBroker,
    metadata,
    mutated,
    mutations,
    named,
    sample,
    speaking,
)

ACLS = [an_acl("topic a: anna ALLOW READ"), an_acl("topic b: anna ALLOW READ")]
# Two entities, of which the samples have one.
QUOTAS = [
    QuotaChange((("orders", "orders"), ("orders", "orders")), "rate", 5.0, None),
    QuotaChange((("user", "anna"),), "rate", 5.0, None),
]
USER = UserChange("anna", "SCRAM-SHA-512", 4096, "create")

Call = Callable[[WireCluster], object]
DESCRIBED, QUOTAS_DESCRIBED, USERS_DESCRIBED, CREATED, DELETED, ALTERED, CHANGED = (
    Kind(DescribeAclsRequest, 3),
    Kind(DescribeClientQuotasRequest, 1),
    Kind(DescribeUserScramCredentialsRequest, 0),
    Kind(CreateAclsRequest, 3),
    Kind(DeleteAclsRequest, 3),
    Kind(AlterClientQuotasRequest, 1),
    Kind(AlterUserScramCredentialsRequest, 0),
)
LOOKING: list[tuple[Kind, Call]] = [
    (DESCRIBED, describe_acls),
    (QUOTAS_DESCRIBED, describe_quotas),
    (USERS_DESCRIBED, describe_users),
]
CHANGING: list[tuple[Kind, Call]] = [
    (CREATED, lambda cluster: create_acls(cluster, ACLS)),
    (DELETED, lambda cluster: delete_acls(cluster, ACLS)),
    (ALTERED, lambda cluster: alter_quotas(cluster, QUOTAS)),
    (CHANGED, lambda cluster: change_user(cluster, USER, "secret")),
]
CALLS = LOOKING + CHANGING


@pytest.fixture(scope="module")
def broker() -> Iterator[ScriptedBroker]:
    known = [METADATA, *(kind for kind, _ in CALLS)]
    with speaking({kind.request.API_KEY: kind.version for kind in known}) as broker:
        yield broker


def calling(broker: ScriptedBroker, call: Call, kind: Kind, said: bytes) -> Any:
    broker.drop()
    broker.speak({METADATA: metadata({1: broker}), kind: said})
    settings = {"bootstrap_servers": [f"{HOST}:{broker.port}"], "request_timeout_ms": 2000}
    with WireCluster("backup", settings) as cluster:
        return call(cluster)


@given(st.sampled_from(CALLS), mutations())
def test_no_answer_is_another_error_or_a_hang(
    broker: ScriptedBroker, asked: tuple[Kind, Call], changes: list[tuple[str, float, bytes]]
) -> None:
    kind, call = asked
    began = time.monotonic()
    try:
        calling(broker, call, kind, mutated(kind.answer(), changes))
    except FerryError as error:
        assert error.message
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(("kind", "call"), LOOKING, ids=named)
@pytest.mark.parametrize(("code", "error"), [(31, AccessDenied), (SECURITY_DISABLED, BrokerError)])
def test_a_refusal_to_show_something_is_not_that_there_is_nothing(
    broker: ScriptedBroker, kind: Kind, call: Call, code: int, error: type[FerryError]
) -> None:
    nothing = {name: [] for name in ("resources", "entries", "results") if name in _fields(kind)}
    refused = sample(kind.response[None], kind.version, error_code=code, **nothing)
    with pytest.raises(error):
        calling(broker, call, kind, refused.encode(version=kind.version))


def _fields(kind: Kind) -> set[str]:
    return {field.name for field in kind.response[None].fields.values()}


@pytest.mark.parametrize(
    ("kind", "field", "call"),
    [
        (kind, field, call)
        for (kind, call), field in zip(
            CHANGING, ["results", "filter_results", "entries", "results"], strict=True
        )
    ],
    ids=named,
)
def test_silence_is_no_success(broker: ScriptedBroker, kind: Kind, field: str, call: Call) -> None:
    silent = sample(kind.response[None], kind.version)
    setattr(silent, field, getattr(silent, field)[:1])
    with pytest.raises(ClusterUnreachable, match="did not answer for"):
        calling(broker, call, kind, silent.encode(version=kind.version))


def test_each_acl_that_is_refused_is_told_with_the_brokers_words(broker: ScriptedBroker) -> None:
    answer = sample(CREATED.response[None], CREATED.version)
    answer.results[1].error_code, answer.results[1].error_message = 42, "no such host"
    errors = calling(broker, CHANGING[0][1], CREATED, answer.encode(version=CREATED.version))
    assert list(errors) == ACLS[1:]
    assert "ALLOW READ on the topic b to User:anna" in str(errors[ACLS[1]])
    assert "no such host" in str(errors[ACLS[1]])


def test_an_acl_that_was_found_and_could_not_be_deleted_is_told(broker: ScriptedBroker) -> None:
    answer = sample(DELETED.response[None], DELETED.version)
    answer.filter_results[0].matching_acls[1].error_code = 42
    errors = calling(broker, CHANGING[1][1], DELETED, answer.encode(version=DELETED.version))
    assert list(errors) == ACLS[:1]


@pytest.mark.parametrize(("kind", "call"), CALLS, ids=named)
def test_an_old_broker_is_told_apart(kind: Kind, call: Call) -> None:
    # Kafka 1.1: ACLs, but none by prefix.
    old = {kind.request.API_KEY: 0 for kind in (DESCRIBED, CREATED, DELETED)}
    old[METADATA.request.API_KEY] = METADATA.version
    with speaking(old) as broker, pytest.raises(TooOld, match="too old"):
        calling(broker, call, kind, b"")


@pytest.mark.parametrize("number", [0, 2])
def test_a_quota_of_nobody_or_of_two_users_at_once_is_none(
    broker: ScriptedBroker, number: int
) -> None:
    answer = sample(QUOTAS_DESCRIBED.response[None], QUOTAS_DESCRIBED.version)
    answer.error_code = 0
    for entry in answer.entries:
        entry.entity = entry.entity[:number]
    with pytest.raises(FerryError, match="together have a quota"):
        calling(broker, describe_quotas, QUOTAS_DESCRIBED, answer.encode(version=1))


def test_names_that_are_not_known_are_unknown(broker: ScriptedBroker) -> None:
    answer = sample(DESCRIBED.response[None], DESCRIBED.version)
    for resource in answer.resources:
        resource.resource_type, resource.pattern_type = 2, 3
        for acl in resource.acls:
            acl.operation, acl.permission_type = 99, 3
    answer.resources[1].resource_type = 7  # of users
    (only,) = calling(broker, describe_acls, DESCRIBED, answer.encode(version=3))
    assert (only.resource_type, only.operation, only.permission) == ("TOPIC", "UNKNOWN", "ALLOW")
