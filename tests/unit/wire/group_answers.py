"""A broker that tells of one group, and answers of that kind with errors in them."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin.groups import (
    DescribeGroupsRequest,
    ListGroupsRequest,
)
from kafka.protocol.consumer import OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest

from kafka_ferry.model.groups import Committed
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.wire.messages import (
    AlterShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequest,
)

from .scripted import HOST, Kind, ScriptedBroker, sample

# The samples of ``scripted`` are of these.
GROUP = "orders"
PLACE = TopicPartition("orders", 1)
OFFSETS = {GROUP: {PLACE: Committed(1)}}

METADATA, COORDINATOR = Kind(MetadataRequest, 12), Kind(FindCoordinatorRequest, 4)
LISTED, DESCRIBED = Kind(ListGroupsRequest, 5), Kind(DescribeGroupsRequest, 5)
FETCHED, COMMITTED = Kind(OffsetFetchRequest, 8), Kind(OffsetCommitRequest, 9)
FORGOTTEN = Kind(OffsetDeleteRequest, 0)
STARTS = Kind(DescribeShareGroupOffsetsRequest, 0)
ALTERED = Kind(AlterShareGroupOffsetsRequest, 0)
STARTS_DELETED = Kind(DeleteShareGroupOffsetsRequest, 0)
SPOKEN = [METADATA, COORDINATOR, LISTED, DESCRIBED, FETCHED, COMMITTED, FORGOTTEN]
SPOKEN += [STARTS, ALTERED, STARTS_DELETED]


def truth(broker: ScriptedBroker, kind: Kind) -> bytes:
    """An answer that says: this broker, number 1, has everything."""
    response = kind.response[None]
    here = {"node_id": 1, "host": HOST, "port": broker.port}
    given: dict[str, Any] = {}
    if kind == METADATA:
        given["brokers"] = [sample(response.MetadataResponseBroker, kind.version, **here)]
    elif kind == COORDINATOR:
        given["coordinators"] = [sample(response.Coordinator, kind.version, **here)]
    elif kind == LISTED:
        given["groups"] = [sample(response.ListedGroup, 5, group_type="Share")]
    return bytes(sample(response, kind.version, **given).encode(version=kind.version))


def failing(kind: Kind, code: int, field: str = "error_code") -> bytes:
    """The sample answer with an error in its deepest entries that have one."""
    message = sample(kind.response[None], kind.version)
    _fail(message, code, field)
    return bytes(message.encode(version=kind.version))


def _fail(message: Any, code: int, field: str) -> bool:
    names = {it.name: it for it in message.fields.values()}
    deeper = [
        _fail(entry, code, field)
        for name, it in names.items()
        if it.is_struct_array()
        for entry in getattr(message, name) or ()
    ]
    if not any(deeper) and field in names:
        setattr(message, field, code)
        return True
    return any(deeper)
