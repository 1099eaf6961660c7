"""ACLs, quotas and SCRAM users of brokers, written shortly, set and read past Kafka Ferry."""

from __future__ import annotations

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from kafka_ferry.model.changes import Acl, Entity, QuotaChange
from kafka_ferry.wire import WireCluster
from kafka_ferry.wire.access.quotas import alter_quotas, describe_quotas
from kafka_sandbox.cluster import KafkaCluster
from tests.support.waiting import wait_until

_CLUSTER = "CLUSTER"
_EVERY = AclBindingFilter(
    ResourceType.ANY,
    None,
    ResourcePatternType.ANY,
    None,
    None,
    AclOperation.ANY,
    AclPermissionType.ANY,
)


def an_acl(text: str) -> Acl:
    """An ACL written as ``[prefixed] resource name: principal permission operation [from host]``."""
    resource, rest = text.split(": ")
    *prefixed, resource_type, name = resource.split()
    principal, permission, operation, *host = rest.split()
    return Acl(
        resource_type.upper(),
        name,
        "PREFIXED" if prefixed else "LITERAL",
        f"User:{principal}",
        host[1] if host else "*",
        operation,
        permission,
    )


def some_acls(*texts: str) -> frozenset[Acl]:
    """Some ACLs."""
    return frozenset(map(an_acl, texts))


def allow(broker: KafkaCluster, *texts: str) -> None:
    """Creates ACLs; returns when the broker has heard of them."""
    _create(broker, *texts)
    wait_until(lambda: some_acls(*texts) <= acls_of(broker))


def deny(broker: KafkaCluster, resource: str, operation: str, principal: str = "ANONYMOUS") -> None:
    """Takes one right to a resource away and leaves all others; returns when the broker has heard of it."""
    allow(broker, f"{resource}: {principal} ALLOW ALL")
    denial = f"{resource}: {principal} DENY {operation}"
    _create(broker, denial)

    def heard() -> bool:
        # Who may not describe the cluster is shown no ACLs at all.
        shown = acls_of(broker)
        return not shown or an_acl(denial) in shown

    wait_until(heard)


def forget(broker: KafkaCluster, *texts: str) -> None:
    """Deletes ACLs; returns when the broker has heard of it."""
    filters = [AclBindingFilter(*_binding(an_acl(text))._to_tuple()) for text in texts]
    client = _client(broker)
    for future in client.delete_acls(filters).values():
        future.result()
    wait_until(lambda: not some_acls(*texts) & acls_of(broker))


def acls_of(broker: KafkaCluster) -> frozenset[Acl]:
    """All ACLs that a broker has."""
    client = _client(broker)
    return frozenset(
        Acl(
            _CLUSTER if it.restype is ResourceType.BROKER else it.restype.name,
            it.name,
            it.resource_pattern_type.name,
            it.principal,
            it.host,
            it.operation.name,
            it.permission_type.name,
        )
        for it in client.describe_acls(_EVERY).result()
    )


def set_quota(broker: KafkaCluster, entity: Entity, key: str, value: float | None) -> None:
    """Sets or deletes a quota; returns when the broker has heard of it."""
    with _wire(broker) as cluster:
        assert not alter_quotas(cluster, [QuotaChange(entity, key, value, None)])
    wait_until(lambda: quotas_of(broker).get((entity, key)) == value)


def quotas_of(broker: KafkaCluster) -> dict[tuple[Entity, str], float]:
    """All quotas that a broker has."""
    with _wire(broker) as cluster:
        return describe_quotas(cluster)


def add_user(broker: KafkaCluster, user: str, password: str, iterations: int = 4096) -> None:
    """Creates a SCRAM-SHA-512 user; returns when the broker has heard of it."""
    made = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, iterations)
    alteration = UserScramCredentialUpsertion(user, made, password.encode())
    client = _client(broker)
    client.alter_user_scram_credentials([alteration])[user].result()
    wait_until(lambda: user in users_of(broker))


def remove_user(broker: KafkaCluster, user: str) -> None:
    """Deletes a SCRAM-SHA-512 user; returns when the broker has heard of it."""
    alteration = UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_512)
    client = _client(broker)
    client.alter_user_scram_credentials([alteration])[user].result()
    wait_until(lambda: user not in users_of(broker))


def users_of(broker: KafkaCluster) -> dict[str, int]:
    """The iterations of a broker's SCRAM-SHA-512 users."""
    client = _client(broker)
    described = client.describe_user_scram_credentials().result()
    return {
        name: info.iterations
        for name, user in described.items()
        for info in user.scram_credential_infos
        if info.mechanism is ScramMechanism.SCRAM_SHA_512
    }


def _client(broker: KafkaCluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap})


def _wire(broker: KafkaCluster) -> WireCluster:
    return WireCluster("broker", {"bootstrap_servers": broker.bootstrap.split(",")})


def _create(broker: KafkaCluster, *texts: str) -> None:
    client = _client(broker)
    for future in client.create_acls([_binding(an_acl(text)) for text in texts]).values():
        future.result()


def _binding(acl: Acl) -> AclBinding:
    kind = "BROKER" if acl.resource_type == _CLUSTER else acl.resource_type
    return AclBinding(
        ResourceType[kind],
        acl.name,
        ResourcePatternType[acl.pattern_type],
        acl.principal,
        acl.host,
        AclOperation[acl.operation],
        AclPermissionType[acl.permission],
    )
