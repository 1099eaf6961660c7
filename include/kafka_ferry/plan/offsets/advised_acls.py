"""The ACLs that a topic with preserved offsets should have; only shown, never set by the flow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from kafka_ferry.config.client.jaas import login_name
from kafka_ferry.model.plan import AdvisedAcl, OffsetsChoice

if TYPE_CHECKING:
    from kafka_ferry.config import Flow

# One foreign record would take the offset of one of the source's. Where a topic has rules, Kafka denies
# what they do not allow: so these cover all that the flow itself does there, and readers.
_OF_THE_FLOW: Final = ("WRITE", "DELETE", "ALTER", "DESCRIBE_CONFIGS", "ALTER_CONFIGS")
_OF_EVERYBODY: Final = ("READ", "DESCRIBE")


def advised_acls(flow: Flow, choices: Iterable[OffsetsChoice]) -> Iterator[AdvisedAcl]:
    """The rules for each remote topic whose offsets are preserved: only the flow writes."""
    name = login_name(flow.target.client_properties("producer"))
    principal = f"User:{name}" if name else "the flow's principal"
    for choice in choices:
        if choice.preserved:
            for operation in _OF_THE_FLOW:
                yield AdvisedAcl(choice.remote_topic, principal, operation, "ALLOW")
            for operation in _OF_EVERYBODY:
                yield AdvisedAcl(choice.remote_topic, "User:*", operation, "ALLOW")
