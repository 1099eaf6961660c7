"""ACLs, read and changed (KIP-140, KIP-290).

Not through librdkafka, which treats a refusal to show them (``CLUSTER_AUTHORIZATION_FAILED``,
``SECURITY_DISABLED``) as a cluster without any: a comparison with that would delete ACLs that should
stay. It also lacks names for newer operations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from kafka.protocol.admin.acl import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest

from kafka_ferry.batched import batched
from kafka_ferry.errors import ClusterUnreachable, FerryError
from kafka_ferry.model.changes import Acl
from kafka_ferry.model.rights import Right
from kafka_ferry.wire.any_broker import ask
from kafka_ferry.wire.cluster import WireCluster
from kafka_ferry.wire.error_codes import fault

_RULES_AT_ONCE: Final = 500
_ANY: Final = 1
# The first version with prefixed ACLs (Kafka 2.0).
_VERSION: Final = 1

# org.apache.kafka.common.resource.ResourceType, of which a cluster's ACLs are synced
_RESOURCES: Final = {"TOPIC": 2, "GROUP": 3, "CLUSTER": 4, "TRANSACTIONAL_ID": 5}
# org.apache.kafka.common.resource.PatternType
_PATTERNS: Final = {"LITERAL": 3, "PREFIXED": 4}
# org.apache.kafka.common.acl.AclPermissionType
_PERMISSIONS: Final = {"DENY": 2, "ALLOW": 3}
# org.apache.kafka.common.acl.AclOperation
_OPERATIONS: Final = {
    "ALL": 2,
    "READ": 3,
    "WRITE": 4,
    "CREATE": 5,
    "DELETE": 6,
    "ALTER": 7,
    "DESCRIBE": 8,
    "CLUSTER_ACTION": 9,
    "DESCRIBE_CONFIGS": 10,
    "ALTER_CONFIGS": 11,
    "IDEMPOTENT_WRITE": 12,
    "CREATE_TOKENS": 13,
    "DESCRIBE_TOKENS": 14,
    "TWO_PHASE_COMMIT": 15,
}
_UNKNOWN: Final = "UNKNOWN"


def describe_acls(cluster: WireCluster) -> frozenset[Acl]:
    """All ACLs on topics, groups, transactional ids and the cluster.

    Values unknown to Kafka Ferry are ``UNKNOWN`` in them.

    Raises:
        AccessDenied: without DESCRIBE on the cluster.
        BrokerError: ``SECURITY_DISABLED`` without an authorizer, or any other error of a broker.
        TooOld: if brokers are of a release before 2.0.
        ClusterUnreachable: if no broker answers.
    """
    every = DescribeAclsRequest(
        resource_type_filter=_ANY,
        resource_name_filter=None,
        pattern_type_filter=_ANY,
        principal_filter=None,
        host_filter=None,
        operation=_ANY,
        permission_type=_ANY,
    )
    answer = ask(cluster, every, version=_VERSION)
    if answer.error_code:
        doing = f"Reading the ACLs of {cluster.alias}"
        raise fault(answer.error_code, doing, Right.cluster("DESCRIBE"))
    names = {code: name for name, code in _RESOURCES.items()}
    return frozenset(
        Acl(
            names[resource.resource_type],
            resource.resource_name,
            _name(_PATTERNS, resource.pattern_type),
            acl.principal,
            acl.host,
            _name(_OPERATIONS, acl.operation),
            _name(_PERMISSIONS, acl.permission_type),
        )
        for resource in answer.resources
        if resource.resource_type in names
        for acl in resource.acls
    )


def create_acls(cluster: WireCluster, acls: Iterable[Acl]) -> dict[Acl, FerryError]:
    """Create ACLs; existing ones stay.

    Returns:
        An error for each that a broker refused, without ALTER on the cluster for all.

    Raises:
        TooOld: if brokers are of a release before 2.0.
        ClusterUnreachable: if no broker answers.
    """
    return _change(
        cluster,
        acls,
        "creating",
        _creation,
        lambda answer: [[result] for result in answer.results],
    )


def delete_acls(cluster: WireCluster, acls: Iterable[Acl]) -> dict[Acl, FerryError]:
    """Delete these ACLs and no others.

    Returns:
        An error for each that a broker refused, without ALTER on the cluster for all.

    Raises:
        TooOld: if brokers are of a release before 2.0.
        ClusterUnreachable: if no broker answers.
    """
    return _change(
        cluster,
        acls,
        "deleting",
        _deletion,
        lambda answer: [[result, *result.matching_acls] for result in answer.filter_results],
    )


def _change(
    cluster: WireCluster,
    acls: Iterable[Acl],
    doing: str,
    request: Callable[[Sequence[Acl]], Any],
    results: Callable[[Any], Sequence[Sequence[Any]]],
) -> dict[Acl, FerryError]:
    """Send requests about ACLs; ``results`` are those of each in an answer, in the order of the request."""
    errors: dict[Acl, FerryError] = {}
    for some in batched(acls, _RULES_AT_ONCE):
        answers = results(ask(cluster, request(some), version=_VERSION))
        if len(some) != len(answers):
            message = f"{cluster.alias} did not answer for each of {len(some)} ACLs."
            raise ClusterUnreachable(message)
        for acl, answer in zip(some, answers, strict=True):
            for result in answer:
                if result.error_code:
                    what = f"{cluster.alias}, while {doing} the ACL {acl}"
                    advice, needed = result.error_message or "", Right.cluster("ALTER")
                    errors[acl] = fault(result.error_code, what, needed, advice=advice)
    return errors


def _creation(acls: Sequence[Acl]) -> CreateAclsRequest:
    return CreateAclsRequest(
        creations=[
            CreateAclsRequest.AclCreation(
                resource_type=_RESOURCES[acl.resource_type],
                resource_name=acl.name,
                resource_pattern_type=_PATTERNS[acl.pattern_type],
                principal=acl.principal,
                host=acl.host,
                operation=_OPERATIONS[acl.operation],
                permission_type=_PERMISSIONS[acl.permission],
            )
            for acl in acls
        ]
    )


def _deletion(acls: Sequence[Acl]) -> DeleteAclsRequest:
    return DeleteAclsRequest(
        filters=[
            DeleteAclsRequest.DeleteAclsFilter(
                resource_type_filter=_RESOURCES[acl.resource_type],
                resource_name_filter=acl.name,
                pattern_type_filter=_PATTERNS[acl.pattern_type],
                principal_filter=acl.principal,
                host_filter=acl.host,
                operation=_OPERATIONS[acl.operation],
                permission_type=_PERMISSIONS[acl.permission],
            )
            for acl in acls
        ]
    )


def _name(names: dict[str, int], code: int) -> str:
    return next((name for name, known in names.items() if known == code), _UNKNOWN)
