"""Which version of a request is sent to a broker: the newest that both sides speak."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kafka_ferry.errors import FerryError

SPOKEN: Final[dict[str, int]] = {
    "Produce": 9,
    "Fetch": 13,
    "ListOffsets": 8,
    "Metadata": 12,
    "OffsetFetch": 8,
    "OffsetCommit": 9,
    "OffsetDelete": 0,
    "ListGroups": 5,
    "DescribeGroups": 5,
    "DescribeShareGroupOffsets": 0,
    "AlterShareGroupOffsets": 0,
    "DeleteShareGroupOffsets": 0,
    "OffsetForLeaderEpoch": 4,
    "FindCoordinator": 4,
    "InitProducerId": 3,
    "AddPartitionsToTxn": 3,
    "AddOffsetsToTxn": 3,
    "EndTxn": 3,
    "TxnOffsetCommit": 3,
    "SaslHandshake": 1,
    "SaslAuthenticate": 2,
    "ApiVersions": 3,
    "DeleteRecords": 2,
    "WriteTxnMarkers": 1,
    "DescribeProducers": 0,
    "DescribeTransactions": 0,
    "ListTransactions": 0,
    "DescribeAcls": 3,
    "CreateAcls": 3,
    "DeleteAcls": 3,
    "DescribeUserScramCredentials": 0,
    "AlterUserScramCredentials": 0,
    "DescribeClientQuotas": 1,
    "AlterClientQuotas": 1,
    "DescribeLogDirs": 3,
    "DescribeConfigs": 4,
    "IncrementalAlterConfigs": 1,
    "CreateTopics": 5,
    "CreatePartitions": 3,
    "DeleteTopics": 5,
}
"""The newest version of each request that this package supports: pass-through writing needs Produce below 12,
which would start the broker's second transaction protocol."""


def version_to_send(request: Any, offered: Mapping[int, tuple[int, int]], address: str) -> int:
    """The newest version of ``request`` that both sides speak.

    Args:
        request: the message.
        offered: the oldest and the newest version that the broker supports, by the request's key.
        address: the broker, for messages.

    Raises:
        FerryError: if there is none.
    """
    name = request.name.removesuffix("Request")
    if request.API_KEY not in offered:
        raise FerryError(
            f"{address} does not know the request {name}, which Kafka Ferry needs here.",
            advice="Is it a broker of Kafka's? docs/compatibility.md says what others lack.",
        )
    oldest, newest = offered[request.API_KEY]
    version = min(SPOKEN[name], newest)
    if version < max(oldest, 0):
        raise FerryError(
            f"{address} supports {name} v{oldest} to v{newest}; Kafka Ferry, up to v{SPOKEN[name]}."
        )
    return version
