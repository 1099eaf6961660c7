"""Which SCRAM users a run creates or deletes on the target. Pure.

Kafka stores salted hashes instead of passwords, and does not return even those: a user can only be
created with a password from a file.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafka_ferry.config import Flow
from kafka_ferry.config.types.principal_mapping import principal_rules
from kafka_ferry.model.changes import Applied, UserChange
from kafka_ferry.model.cluster_state import Access
from kafka_ferry.model.remarks import Note
from kafka_ferry.plan.access.acls import own_principals


def user_steps(flow: Flow, access: Access, applied: Applied) -> Iterator[UserChange | Note]:
    """The SCRAM users to create on the target or to delete there, and those whose passwords are missing."""
    if access.source_users is None or access.target_users is None:
        return
    rules = principal_rules(flow.acls_principals)
    wanted = {
        (mapped, mechanism): iterations
        for (user, mechanism), iterations in access.source_users.items()
        if (mapped := rules.user_of(user)) is not None
    }
    missing = sorted(wanted.keys() - access.target_users.keys())
    for user, mechanism in missing:
        if access.passwords is None or user in access.passwords:
            yield UserChange(user, mechanism, wanted[user, mechanism], "create")
    unknown = {user for user, _ in missing} - (access.passwords or set())
    if unknown and access.passwords is not None:
        yield Note(
            "",
            f"SCRAM users of {flow.source.alias} that {flow.target.alias} does not have: "
            f"{', '.join(sorted(unknown))}. Kafka does not return passwords: put theirs into "
            "scram.passwords.file, or create them by hand.",
        )
    own = own_principals(flow)
    for user, mechanism in sorted((applied.users - wanted.keys()) & access.target_users.keys()):
        # Whatever the source says: the flow must not lock itself out.
        if f"User:{user}" not in own:
            iterations = access.target_users[user, mechanism]
            yield UserChange(user, mechanism, iterations, "delete")
