"""Reads both clusters' ACLs, quotas and SCRAM users."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from kafka_ferry.config import Flow
from kafka_ferry.config.files.password_files import read_passwords
from kafka_ferry.control import ClusterControl
from kafka_ferry.control.access import AccessControl
from kafka_ferry.errors import (
    AccessDenied,
    BrokerError,
    ClusterUnreachable,
    ConfigError,
    FerryError,
)
from kafka_ferry.ledger.record import is_ledger_topic, source_of_ledger
from kafka_ferry.model.cluster_state import Access
from kafka_ferry.model.rights import Right, how_to_grant
from kafka_ferry.wire.any_broker import TooOld
from kafka_ferry.wire.error_codes import SECURITY_DISABLED

_T = TypeVar("_T")


def discover_access(flow: Flow, source_cluster_id: str) -> Access:
    """Read both clusters' ACLs, quotas and users, as far as the flow syncs them; what cannot be read is a note.

    Args:
        flow: the flow.
        source_cluster_id: the source's cluster id, by the rest of the plan.

    Raises:
        ClusterUnreachable: if one of them does not answer, or the source is another cluster by now.
    """
    looking = _Looking(flow, source_cluster_id)
    access = Access()
    if flow.sync_topic_acls_enabled:
        rules = looking.at_both("ACLs", ("DESCRIBE", "ALTER"), AccessControl.acls)
        access = replace(access, source_acls=rules[0], target_acls=rules[1])
        names = frozenset(ClusterControl(flow.target).topic_names())
        other_sources = _other_sources(flow, names)
        access = replace(access, target_topics=names, other_sources=other_sources)
    if flow.sync_client_quotas_enabled:
        quotas = looking.at_both(
            "client quotas", ("DESCRIBE_CONFIGS", "ALTER_CONFIGS"), AccessControl.quotas
        )
        access = replace(access, source_quotas=quotas[0], target_quotas=quotas[1])
    if flow.sync_scram_users_enabled:
        users = looking.at_both("SCRAM users", ("DESCRIBE", "ALTER"), AccessControl.users)
        access = replace(access, source_users=users[0], target_users=users[1])
        if users[0] and users[1] is not None and not users[0].keys() <= users[1].keys():
            access = replace(access, passwords=looking.for_passwords())
    return replace(access, notes=tuple(looking.notes))


def _other_sources(flow: Flow, names: Iterable[str]) -> frozenset[str]:
    """The aliases of the other sources of the target, by their ledgers among its topics."""
    aliases = {source_of_ledger(name) for name in names if is_ledger_topic(name)}
    return frozenset(aliases - {flow.source.alias})


@dataclass
class _Looking:
    """Collects notes on what could not be read."""

    flow: Flow
    source_cluster_id: str
    notes: list[str] = field(default_factory=list)

    def at_both(
        self, what: str, rights: tuple[str, str], look: Callable[[AccessControl], _T]
    ) -> tuple[_T, _T] | tuple[None, None]:
        """What ``look`` gives for the source and the target; None twice if one of them does not show it.

        Args:
            what: what is read.
            rights: what syncing it needs on the source's cluster and on the target's.
            look: reads it.
        """
        acls = []
        for cluster, right in zip((self.flow.source, self.flow.target), rights, strict=True):
            try:
                with AccessControl(cluster) as access:
                    acls.append(look(access))
                    if cluster == self.flow.source:
                        self._require_same(access)
            except FerryError as error:
                if error.transient:
                    raise
                self.notes.append(_why_not(cluster.alias, what, right, error))
                return None, None
        return acls[0], acls[1]

    def _require_same(self, source: AccessControl) -> None:
        """What these connections did not see is missing on the cluster that they lead to."""
        cluster_id = source.cluster_id()
        if cluster_id != self.source_cluster_id:
            raise ClusterUnreachable(
                f"{self.flow.source.alias} was the cluster {self.source_cluster_id} when the plan was begun, and "
                f"is {cluster_id} now."
            )

    def for_passwords(self) -> frozenset[str] | None:
        """The users whose passwords are known; None if their file cannot be read."""
        try:
            return frozenset(read_passwords(self.flow))
        except ConfigError as error:
            self.notes.append(str(error))
            return None


def _why_not(alias: str, what: str, right: str, error: FerryError) -> str:
    if isinstance(error, BrokerError) and error.code == SECURITY_DISABLED:
        return f"{alias} has no authorizer: {what} are not synced."
    if isinstance(error, AccessDenied):
        return (
            f"{alias} does not let the flow see its {what}, which are not synced. "
            f"{how_to_grant(Right.cluster(right))} Or switch this sync off."
        )
    if isinstance(error, TooOld):
        return f"The brokers of {alias} are too old to be asked about {what}, which are not synced."
    return f"The {what} of {alias} are not synced, since they cannot be read. {error}"
