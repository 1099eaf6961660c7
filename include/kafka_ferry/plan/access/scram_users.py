"""Which SCRAM users a run creates or deletes on the target. Pure.

Kafka stores salted hashes instead of passwords, and does not return even those: a user can only be
created with a password from a file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kafka_ferry.config import Flow
from kafka_ferry.config.types.principal_mapping import principal_rules
from kafka_ferry.model.changes import Applied, UserChange
from kafka_ferry.model.cluster_state import Access
from kafka_ferry.model.remarks import Note
from kafka_ferry.plan.access.acls import own_principals

# org.apache.kafka.controller.ScramControlManager. A client has to compute them, and a source that lies could ask for
# two thousand million.
_ITERATIONS: Final = range(4096, 16384 + 1)


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
        iterations = wanted[user, mechanism]
        if access.passwords is not None and user not in access.passwords:
            continue
        if iterations in _ITERATIONS:
            yield UserChange(user, mechanism, iterations, "create")
        else:
            yield Note(
                "",
                f"The {mechanism} user {user} of {flow.source.alias} has {iterations:,} iterations, and is not "
                f"created: brokers take {_ITERATIONS[0]:,} to {_ITERATIONS[-1]:,}.",
            )
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
