"""Which client quotas a run sets or deletes on the target. Pure.

The rules, for each quota that the source has or that the flow has set:

=================================  ==================  =============================================
the target's value                 the source's value  action
=================================  ==================  =============================================
is the source's                    any or none         nothing
is the flow's own, or never set    another             is set
is the flow's own                  none                is deleted
was set or deleted by another      another             is drift: reported, and kept or set as on the
client                                                 source by ``on.config.drift``
was set by another client          none                nothing: it is not the flow's, or no longer
any                                infinite or NaN     is reported, and kept: no plan and no ledger
                                                       holds such a number
infinite or NaN                    another             is reported, and kept
=================================  ==================  =============================================
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from kafka_ferry.config import Flow
from kafka_ferry.config.types.principal_mapping import PrincipalRules, principal_rules
from kafka_ferry.model.changes import (
    Applied,
    Entity,
    QuotaChange,
    QuotaEnd,
    Quotas,
    amount,
    quota_name,
)
from kafka_ferry.model.cluster_state import Access
from kafka_ferry.model.remarks import Note

_NEVER_SET: Final = frozenset({None})


def quota_steps(
    flow: Flow, access: Access, applied: Applied
) -> Iterator[QuotaChange | QuotaEnd | Note]:
    """The quotas to set or to delete on the target, those that are no longer the flow's, and notes on drift."""
    if access.source_quotas is None or access.target_quotas is None:
        return
    wanted = _on_target(access.source_quotas, principal_rules(flow.acls_principals))
    for what in sorted(wanted.keys() | applied.quotas.keys(), key=repr):
        value, now = wanted.get(what), access.target_quotas.get(what)
        change = QuotaChange(*what, value, before=now)
        if value is None and now not in applied.quotas.get(what, (now,)):
            yield QuotaEnd(*what)
        if value == now:
            continue
        if value is not None and not all(map(math.isfinite, (value, now or 0))):
            yield _endless(flow, change)
            continue
        if now in applied.quotas.get(what, _NEVER_SET):
            yield change
        elif value is not None:
            yield _drift(flow, change)
            if flow.on_config_drift == "overwrite":
                yield change


def _drift(flow: Flow, change: QuotaChange) -> Note:
    has = f"has {amount(change.before)}" if change.before is not None else "has none any more"
    wanted = amount(change.value or 0)
    becomes = "stays" if flow.on_config_drift == "keep" else "is set as on the source"
    return Note(
        "",
        f"{quota_name(change.entity, change.key)}: {flow.source.alias} has {wanted}, "
        f"{flow.target.alias} {has}, changed by another client. It {becomes} (on.config.drift).",
    )


def _endless(flow: Flow, change: QuotaChange) -> Note:
    source, target = (
        f"{alias} has {'none' if value is None else value}"
        for alias, value in (
            (flow.source.alias, change.value),
            (flow.target.alias, change.before),
        )
    )
    return Note(
        "",
        f"{quota_name(change.entity, change.key)}: {source}, {target}, which stays: quotas without a limit are not "
        "synced.",
    )


def _on_target(quotas: Quotas, rules: PrincipalRules) -> dict[tuple[Entity, str], float]:
    """The quotas with the target's user names, without those that no rule matches."""
    return {
        (mapped, key): value
        for (entity, key), value in quotas.items()
        if (mapped := _map_entity(entity, rules))
    }


def _map_entity(entity: Entity, rules: PrincipalRules) -> Entity | None:
    parts: list[tuple[str, str | None]] = []
    for kind, name in entity:
        mapped = rules.user_of(name) if kind == "user" and name is not None else name
        if mapped is None and name is not None:
            return None
        parts.append((kind, mapped))
    return tuple(parts)
