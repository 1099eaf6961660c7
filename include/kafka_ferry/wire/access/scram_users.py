"""SCRAM users (KIP-554), read, created and deleted.

Not through librdkafka: a refusal to show them corrupts its memory and crashes the process.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import Final

from kafka.protocol.admin.users import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
)

from kafka_ferry.errors import ClusterUnreachable, FerryError
from kafka_ferry.model.changes import UserChange
from kafka_ferry.model.rights import Right
from kafka_ferry.wire.any_broker import ask
from kafka_ferry.wire.cluster import WireCluster
from kafka_ferry.wire.error_codes import fault

# org.apache.kafka.clients.admin.ScramMechanism
_MECHANISMS: Final = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
_HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_SALT_BYTES: Final = 32


def describe_users(cluster: WireCluster) -> dict[tuple[str, str], int]:
    """The SCRAM credentials of a cluster: the iterations, by user and mechanism.

    Raises:
        AccessDenied: without DESCRIBE on the cluster.
        TooOld: if brokers are of a release before 2.7.
        FerryError: for any other error of a broker, or if none answers.
    """
    # Not null for all users: a broker 4.3 that refuses such a request never answers it.
    answer = ask(cluster, DescribeUserScramCredentialsRequest(users=[]))
    if answer.error_code:
        doing = f"Reading the SCRAM users of {cluster.alias}"
        raise fault(answer.error_code, doing, Right.cluster("DESCRIBE"))
    names = {code: name for name, code in _MECHANISMS.items()}
    return {
        (result.user, names[info.mechanism]): max(info.iterations, 0)
        for result in answer.results
        for info in result.credential_infos
        if info.mechanism in names
    }


def change_user(cluster: WireCluster, change: UserChange, password: str) -> FerryError | None:
    """Create a SCRAM credential with ``password``, or delete one.

    Returns:
        The broker's error, such as that ALTER on the cluster is missing; None without one.

    Raises:
        TooOld: if brokers are of a release before 2.7.
        ClusterUnreachable: if no broker answers.
    """
    request = AlterUserScramCredentialsRequest(
        deletions=[_deletion(change)] if change.change == "delete" else [],
        upsertions=[_upsertion(change, password)] if change.change == "create" else [],
    )
    answer = ask(cluster, request, of_controller=True)
    answers = {result.user: result for result in answer.results}
    if change.user not in answers:
        raise ClusterUnreachable(f"{cluster.alias} did not answer for the user {change.user}.")
    result = answers[change.user]
    if not result.error_code:
        return None
    doing = f"{cluster.alias}, trying to {change}"
    message = result.error_message or ""
    return fault(result.error_code, doing, Right.cluster("ALTER"), advice=message)


def _deletion(change: UserChange) -> AlterUserScramCredentialsRequest.ScramCredentialDeletion:
    return AlterUserScramCredentialsRequest.ScramCredentialDeletion(
        name=change.user, mechanism=_MECHANISMS[change.mechanism]
    )


def _upsertion(
    change: UserChange, password: str
) -> AlterUserScramCredentialsRequest.ScramCredentialUpsertion:
    salt = secrets.token_bytes(_SALT_BYTES)
    # RFC 5802's Hi(); Kafka does not prepare passwords beyond UTF-8 (``ScramFormatter.normalize``).
    salted = hashlib.pbkdf2_hmac(
        _HASHES[change.mechanism], password.encode(), salt, change.iterations
    )
    return AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
        name=change.user,
        mechanism=_MECHANISMS[change.mechanism],
        iterations=change.iterations,
        salt=salt,
        salted_password=salted,
    )
