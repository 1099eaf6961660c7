"""Decodes the requests to a scripted cluster, and encodes its answers, with kafka-python's protocol classes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from kafka.protocol.admin import (
    DescribeConfigsRequest,
    DescribeLogDirsRequest,
    ListGroupsRequest,
)
from kafka.protocol.admin.transactions import (
    DescribeProducersRequest,
    DescribeTransactionsRequest,
)
from kafka.protocol.consumer import (
    FetchRequest,
    ListOffsetsRequest,
    OffsetFetchRequest,
    OffsetForLeaderEpochRequest,
)
from kafka.protocol.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FindCoordinatorRequest,
    MetadataRequest,
)
from kafka.protocol.producer import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ProduceRequest,
    TxnOffsetCommitRequest,
)

from kafka_sandbox.scripted import logs, metadata, transactions
from kafka_sandbox.scripted.content import ReceivedRequest, ScriptedContent

# Before the versions that name topics by their ids alone, and those of the second transaction protocol.
_NEWEST: Final = {
    ProduceRequest: 9,
    FetchRequest: 13,
    ListOffsetsRequest: 8,
    MetadataRequest: 12,
    OffsetFetchRequest: 8,
    FindCoordinatorRequest: 4,
    InitProducerIdRequest: 4,
    AddPartitionsToTxnRequest: 3,
    AddOffsetsToTxnRequest: 3,
    EndTxnRequest: 3,
    TxnOffsetCommitRequest: 3,
    DescribeLogDirsRequest: 4,
}


def _api_versions(_content: ScriptedContent, _request: ReceivedRequest) -> Any:
    return ApiVersionsResponse(
        api_keys=[
            ApiVersionsResponse.ApiVersion(
                api_key=key,
                min_version=0,
                max_version=_NEWEST.get(request_class, request_class.max_version),
            )
            for key, request_class in REQUESTS.items()
        ]
    )


_ANSWERS: Final[Mapping[Any, Callable[[ScriptedContent, ReceivedRequest], Any]]] = {
    ApiVersionsRequest: _api_versions,
    MetadataRequest: metadata.metadata,
    FindCoordinatorRequest: metadata.coordinator,
    DescribeConfigsRequest: metadata.configs,
    ListOffsetsRequest: logs.offsets,
    OffsetForLeaderEpochRequest: logs.epochs,
    DescribeLogDirsRequest: logs.sizes,
    FetchRequest: logs.fetch,
    ProduceRequest: logs.produce,
    DescribeProducersRequest: logs.producers,
    ListGroupsRequest: transactions.groups,
    OffsetFetchRequest: transactions.committed,
    InitProducerIdRequest: transactions.producer,
    AddPartitionsToTxnRequest: transactions.add_partitions,
    AddOffsetsToTxnRequest: transactions.add_group,
    TxnOffsetCommitRequest: transactions.commit,
    EndTxnRequest: transactions.end,
    DescribeTransactionsRequest: transactions.transactions,
}
REQUESTS: Final = {request_class.API_KEY: request_class for request_class in _ANSWERS}
"""The requests that are answered, by their keys."""
# Their answers are the same until something is written.
_LASTING: Final = frozenset(
    {
        ApiVersionsRequest,
        MetadataRequest,
        DescribeConfigsRequest,
        ListOffsetsRequest,
        OffsetForLeaderEpochRequest,
        DescribeLogDirsRequest,
        DescribeProducersRequest,
    }
)
_WRITING: Final = frozenset({ProduceRequest, EndTxnRequest})


class Answers:
    """Computes answers, and repeats those that nothing has changed.

    Args:
        content: what the cluster holds.
    """

    def __init__(self, content: ScriptedContent) -> None:
        self._content = content
        self._known: dict[tuple[int, int, int, bytes], bytes] = {}

    def to(self, node: int, request_class: Any, version: int, body: memoryview) -> bytes:
        """The body of the broker ``node``'s answer to a request."""
        if request_class in _WRITING:
            self._known.clear()
        if request_class not in _LASTING:
            return self._computed(node, request_class, version, body)
        asked = node, request_class.API_KEY, version, bytes(body)
        if asked not in self._known:
            self._known[asked] = self._computed(node, request_class, version, body)
        return self._known[asked]

    def _computed(self, node: int, request_class: Any, version: int, body: memoryview) -> bytes:
        message = request_class.decode(body, version=version)
        answer = _ANSWERS[request_class](self._content, ReceivedRequest(message, version, node))
        return bytes(answer.encode(version=version))
