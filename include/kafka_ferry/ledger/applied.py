"""What a flow has applied so far, from its ``applied`` entries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from kafka_ferry.ledger.record import AppliedEntry
from kafka_ferry.model.changes import Acl, Applied, Created, Entity, QuotaChange

_POLICY: Final = "cleanup.policy"


def fold_applied(entries: Iterable[str]) -> Applied:
    """All entries combined; the newest one about an object counts.

    Args:
        entries: each as JSON, in ledger order.
    """
    configs: dict[str, dict[str, str]] = {}
    pending: dict[str, dict[str, str | None]] = {}
    creations: dict[str, dict[str, str] | None] = {}
    sources: dict[str, str] = {}
    created_for: dict[Created, str] = {}
    acls: set[Acl] = set()
    quotas: dict[tuple[Entity, str], frozenset[float | None]] = {}
    users: set[tuple[str, str]] = set()
    missed: dict[str, int] = {}
    compacted_until: dict[str, int] = {}
    for text in entries:
        entry = AppliedEntry.model_validate_json(text)
        configs |= entry.configs
        pending |= {key: {} for key in entry.configs} | entry.pending
        creations |= entry.creations
        if entry.source_cluster_id:
            sources |= dict.fromkeys(entry.configs, entry.source_cluster_id)
        created_for |= dict.fromkeys(_creations(entry), entry.source_cluster_id)
        for rule in entry.acls:
            (acls.add if rule.change == "grant" else acls.discard)(rule.acl)
        for quota in entry.quotas:
            _fold_quota(quotas, quota)
        for user in entry.users:
            (users.add if user.change == "create" else users.discard)((user.user, user.mechanism))
        missed |= entry.missed
        compacted_until |= dict.fromkeys(_compacted(entry), entry.at)
    missed = {topic_id: since for topic_id, since in missed.items() if since}
    return Applied(
        configs=configs,
        pending={topic_id: before for topic_id, before in pending.items() if before},
        creations={name: sets for name, sets in creations.items() if sets is not None},
        sources=sources,
        created_for={
            what: cluster
            for what, cluster in created_for.items()
            if cluster and (what in acls or what in quotas or what in users)
        },
        acls=frozenset(acls),
        quotas=quotas,
        users=frozenset(users),
        missed=missed,
        compacted_until=compacted_until,
    )


def _compacted(entry: AppliedEntry) -> Iterator[str]:
    """The ids of the remote topics whose logs were compacted up to then, or are from then on."""
    for topic_id, configs in entry.configs.items():
        before = entry.pending.get(topic_id, {}).get(_POLICY)
        if "compact" in f"{configs.get(_POLICY)},{before}":
            yield topic_id


def _creations(entry: AppliedEntry) -> Iterator[Created]:
    """What the run of an entry is about to create, other than topics."""
    yield from (change.acl for change in entry.acls if change.change == "grant")
    # An entry with the same value twice confirms an earlier one, which another cluster may have asked for.
    yield from (
        (change.entity, change.key)
        for change in entry.quotas
        if change.value not in (None, change.before)
    )
    yield from (
        (change.user, change.mechanism) for change in entry.users if change.change == "create"
    )


def _fold_quota(
    quotas: dict[tuple[Entity, str], frozenset[float | None]], change: QuotaChange
) -> None:
    """Apply a change that is about to be made, or was made: then both of its values are the same."""
    what = change.entity, change.key
    ours = quotas.pop(what, frozenset({None})) & {change.before} | {change.value}
    if ours != {None}:
        quotas[what] = ours
