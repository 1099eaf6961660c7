"""ACLs, client quotas and SCRAM users of a cluster.

Over the data plane's connections: librdkafka has no requests for quotas, and its others are unreliable
without the necessary permissions (``wire.access.acls``, ``wire.access.scram_users``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import ExitStack
from typing import Any, Self

from kafka_ferry.config import Cluster
from kafka_ferry.errors import ClusterUnreachable, FerryError
from kafka_ferry.model.changes import Acl, Entity, QuotaChange, Quotas, UserChange, Users
from kafka_ferry.retry import retry, retry_calls
from kafka_ferry.wire import connect
from kafka_ferry.wire.access.acls import create_acls, delete_acls, describe_acls
from kafka_ferry.wire.access.quotas import alter_quotas, describe_quotas
from kafka_ferry.wire.access.scram_users import change_user, describe_users


class AccessControl:
    """Reads and changes a cluster's ACLs, quotas and users; must be closed.

    Args:
        cluster: the cluster from the flow's config.

    Every method retries for a minute. Every one raises ``ClusterUnreachable`` if no broker answers in
    time, and ``TooOld`` if brokers do not support such requests; those that read raise ``AccessDenied``
    without permission, and ``BrokerError`` for any other error of a broker.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._connections = ExitStack()
        self._wire = self._connections.enter_context(connect(cluster, "admin"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: Any) -> None:
        self._connections.__exit__(*raised)

    def cluster_id(self) -> str:
        """The id of the cluster that these very connections lead to."""
        return retry(self._wire.cluster_id)

    def acls(self) -> frozenset[Acl]:
        """All ACLs on topics, groups, transactional ids and the cluster; needs DESCRIBE on the latter."""
        return retry(lambda: describe_acls(self._wire))

    def grant(self, acls: Iterable[Acl]) -> dict[Acl, FerryError]:
        """Create ACLs; returns an error for each that could not be created; needs ALTER on the cluster."""
        listed = list(acls)
        return retry(lambda: create_acls(self._wire, listed))

    def revoke(self, acls: Iterable[Acl]) -> dict[Acl, FerryError]:
        """Delete ACLs; returns an error for each that could not be deleted; needs ALTER on the cluster."""
        listed = list(acls)
        return retry(lambda: delete_acls(self._wire, listed))

    @retry_calls
    def see_acls(self, granted: AbstractSet[Acl], gone: AbstractSet[Acl]) -> None:
        """Wait until the cluster shows what was changed: brokers learn of it a moment later."""
        shown = describe_acls(self._wire) if granted or gone else granted
        if not granted <= shown or gone & shown:
            raise self._not_yet("ACLs")

    def quotas(self) -> Quotas:
        """All client quotas; needs DESCRIBE_CONFIGS on the cluster."""
        return retry(lambda: describe_quotas(self._wire))

    def change_quotas(self, changes: Iterable[QuotaChange]) -> dict[QuotaChange, FerryError]:
        """Set client quotas, or delete them; returns an error for each that could not be changed.

        Needs ALTER_CONFIGS on the cluster.
        """
        listed = list(changes)
        return retry(lambda: alter_quotas(self._wire, listed)) if listed else {}

    @retry_calls
    def see_quotas(self, values: Mapping[tuple[Entity, str], float | None]) -> None:
        """Wait until the cluster shows what was changed."""
        shown = describe_quotas(self._wire) if values else {}
        if any(shown.get(what) != value for what, value in values.items()):
            raise self._not_yet("client quotas")

    def users(self) -> Users:
        """The SCRAM credentials; needs DESCRIBE on the cluster."""
        return retry(lambda: describe_users(self._wire))

    def change_users(
        self, changes: Iterable[UserChange], passwords: Mapping[str, str]
    ) -> dict[UserChange, FerryError]:
        """Create SCRAM credentials, or delete them; returns an error for each that could not be changed.

        Needs ALTER on the cluster.

        Args:
            changes: what to do.
            passwords: by user, of those to create.
        """
        errors: dict[UserChange, FerryError] = {}
        for change in changes:
            error = self._change_user(change, passwords)
            if error:
                errors[change] = error
        return errors

    @retry_calls
    def see_users(self, created: Sequence[UserChange], gone: Sequence[UserChange]) -> None:
        """Wait until the cluster shows the created and deleted users."""
        shown = describe_users(self._wire) if created or gone else {}
        missing = [change for change in created if (change.user, change.mechanism) not in shown]
        if missing or any((change.user, change.mechanism) in shown for change in gone):
            raise self._not_yet("SCRAM users")

    def _not_yet(self, what: str) -> ClusterUnreachable:
        return ClusterUnreachable(f"{self._wire.alias} does not show its new {what} yet.")

    def _change_user(self, change: UserChange, passwords: Mapping[str, str]) -> FerryError | None:
        password = passwords.get(change.user, "")
        return retry(lambda: change_user(self._wire, change, password))
