"""The replication policies, under the module name that users' own classes already import."""

from kafka_ferry.plan.topics.replication_policy import (
    DefaultReplicationPolicy,
    IdentityReplicationPolicy,
    ReplicationPolicy,
)

__all__ = ["DefaultReplicationPolicy", "IdentityReplicationPolicy", "ReplicationPolicy"]
