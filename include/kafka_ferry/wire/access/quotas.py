"""Client quotas (KIP-546), for which librdkafka has no requests."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import Any, Final

from kafka.protocol.admin.client_quotas import (
    AlterClientQuotasRequest,
    DescribeClientQuotasRequest,
)

from kafka_ferry.errors import ClusterUnreachable, FerryError
from kafka_ferry.model.changes import Entity, QuotaChange, quota_name
from kafka_ferry.model.rights import Right
from kafka_ferry.printable import excerpt
from kafka_ferry.wire.any_broker import ask
from kafka_ferry.wire.cluster import WireCluster
from kafka_ferry.wire.error_codes import fault

_Entry = AlterClientQuotasRequest.EntryData
_Entity = AlterClientQuotasRequest.EntryData.EntityData
_TO_ALTER: Final = Right.cluster("ALTER_CONFIGS")
_Op = AlterClientQuotasRequest.EntryData.OpData


def describe_quotas(cluster: WireCluster) -> dict[tuple[Entity, str], float]:
    """All client quotas of a cluster.

    Raises:
        AccessDenied: without DESCRIBE_CONFIGS on the cluster.
        TooOld: if brokers are of a release before 2.6.
        ClusterUnreachable: if no broker answers.
        FerryError: if one answers with a quota of nobody, or of two users at once.
    """
    # A filter without components matches everything (``ClientQuotaFilter.all``).
    answer = ask(cluster, DescribeClientQuotasRequest(components=[], strict=False))
    if answer.error_code:
        doing = f"Reading the client quotas of {cluster.alias}"
        raise fault(answer.error_code, doing, Right.cluster("DESCRIBE_CONFIGS"))
    for entry in answer.entries or ():
        kinds = [part.entity_type for part in entry.entity]
        if not kinds or len(kinds) > len(set(kinds)):
            raise FerryError(
                f"A broker of {cluster.alias} says that {excerpt(', '.join(kinds)) or 'nobody'} together have a quota."
            )
    return {
        (_entity(entry), value.key): value.value
        for entry in answer.entries or ()
        for value in entry.values
    }


def alter_quotas(
    cluster: WireCluster, changes: Iterable[QuotaChange]
) -> dict[QuotaChange, FerryError]:
    """Set client quotas, or delete those without a value.

    Returns:
        An error for each that a broker refused; the others were changed.

    Raises:
        TooOld: if brokers are of a release before 2.6.
        ClusterUnreachable: if no broker answers.
    """
    by_entity: dict[Entity, list[QuotaChange]] = {}
    for change in changes:
        by_entity.setdefault(change.entity, []).append(change)
    request = AlterClientQuotasRequest(
        entries=[_entry(entity, some) for entity, some in by_entity.items()], validate_only=False
    )
    answer = ask(cluster, request, of_controller=True)
    answers = {_entity(entry): entry for entry in answer.entries}
    errors: dict[QuotaChange, FerryError] = {}
    for entity, some in by_entity.items():
        entry = answers.get(entity)
        for change in some:
            name = quota_name(change.entity, change.key)
            if entry is None:
                raise ClusterUnreachable(f"{cluster.alias} did not answer for {name}.")
            if entry.error_code:
                doing, needed = f"{cluster.alias}, while changing {name}", _TO_ALTER
                advice = entry.error_message or ""
                errors[change] = fault(entry.error_code, doing, needed, advice=advice)
    return errors


def _entry(entity: Entity, changes: Iterable[QuotaChange]) -> Any:
    return _Entry(
        entity=[_Entity(entity_type=kind, entity_name=name) for kind, name in entity],
        ops=[
            _Op(key=change.key, value=change.value or 0.0, remove=change.value is None)
            for change in changes
        ],
    )


def _entity(entry: Any) -> Entity:
    """The entity of an entry, with its parts in a fixed order."""
    parts = sorted(entry.entity, key=attrgetter("entity_type"))
    return tuple((part.entity_type, part.entity_name) for part in parts)
