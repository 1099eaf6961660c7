"""A broker that answers with given bytes, and answers to change them."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, Self

import pytest
from hypothesis import strategies as st
from kafka.protocol.admin import DeleteRecordsRequest
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
from kafka.protocol.metadata import ApiVersionsRequest, FindCoordinatorRequest, MetadataRequest
from kafka.protocol.producer import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ProduceRequest,
    TxnOffsetCommitRequest,
    WriteTxnMarkersRequest,
)
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from kafka_ferry.wire import Connection
from kafka_ferry.wire.connections import connection

HOST = "127.0.0.1"
_API_VERSIONS = 18


class Asked(NamedTuple):
    """The head of a request."""

    api_key: int
    version: int
    correlation_id: int


class Kind(NamedTuple):
    """A request that is spoken here, in its version, and whether its response's header has tags."""

    request: Any
    version: int

    def __str__(self) -> str:
        return f"{self.request.name.removesuffix('Request')} v{self.version}"

    @property
    def response(self) -> Any:
        """The response's class, of the version."""
        return self.make_request().header.get_response_class()

    @property
    def is_flexible(self) -> bool:
        """Whether the response's header has tagged fields (KIP-482)."""
        return bool(self.request is not ApiVersionsRequest) and bool(
            self.request.flexible_version_q(self.version)
        )

    def make_request(self) -> Any:
        """A request with something in every field."""
        request = sample(self.request, self.version)
        request.with_header()
        return request

    def answer(self) -> bytes:
        """The body of an answer with something in every field and two of everything."""
        body: bytes = sample(self.response[None], self.version).encode(version=self.version)
        return body


METADATA = Kind(MetadataRequest, 12)
KINDS = [
    Kind(ApiVersionsRequest, 3),
    METADATA,
    Kind(FetchRequest, 12),
    Kind(FetchRequest, 13),
    Kind(ProduceRequest, 9),
    Kind(FindCoordinatorRequest, 3),
    Kind(InitProducerIdRequest, 3),
    Kind(AddPartitionsToTxnRequest, 3),
    Kind(AddOffsetsToTxnRequest, 3),
    Kind(TxnOffsetCommitRequest, 3),
    Kind(OffsetFetchRequest, 7),
    Kind(EndTxnRequest, 3),
    Kind(ListOffsetsRequest, 5),
    Kind(OffsetForLeaderEpochRequest, 4),
    Kind(SaslHandshakeRequest, 1),
    Kind(SaslAuthenticateRequest, 2),
    Kind(DescribeTransactionsRequest, 0),
    Kind(DescribeProducersRequest, 0),
    Kind(DeleteRecordsRequest, 2),
    Kind(WriteTxnMarkersRequest, 1),
]

_SAMPLES: Mapping[str, Any] = {
    "string": "orders",
    "bytes": b"r=abc,s=QQ==,i=4096",
    "records": b"x" * 100,
    "uuid": "4d36f8a2-5d0f-4b0e-9a53-8c4b1cbb0a11",
    "bool": False,
    "bitfield": {1, 3},
}


def sample(message: Any, version: int, **given: Any) -> Any:
    """A message with something in every field, two entries in every array, and ``given``."""
    fields = {
        field.name: _sample(field, version)
        for field in message.fields.values()
        if field.for_version_q(version) and field.name not in given
    }
    return message(version=version, **fields, **given)


def _sample(field: Any, version: int) -> Any:
    if field.is_struct():
        return sample(field.data_class, version)
    if field.is_struct_array():
        return [sample(field.data_class, version), sample(field.data_class, version)]
    kind = field.type_str.removeprefix("[]")
    # No error, and no waiting.
    number = 0 if field.name.endswith("error_code") or field.name == "throttle_time_ms" else 1
    value = _SAMPLES.get(kind, number)
    return [value, value] if field.is_array() else value


def framed(asked: Asked, body: bytes, *, flexible: bool) -> bytes:
    """A response as it is on the wire."""
    rest = struct.pack(">i", asked.correlation_id) + b"\0" * flexible + body
    return struct.pack(">i", len(rest)) + rest


class ScriptedBroker:
    """Listens on a free port; answers ApiVersions truthfully and all else with ``answer``.

    Args:
        versions: gives another answer to ApiVersions.

    Attributes:
        answer: gives the bytes to send for a request, as they are to be on the wire.
        hang_up: whether to close the connection after an answer.
    """

    def __init__(self, versions: Callable[[Asked], bytes] | None = None) -> None:
        self._versions = versions or (lambda asked: framed(asked, VERSIONS, flexible=False))
        self.answer: Callable[[Asked], bytes] = lambda _: b""
        self.hang_up = True
        self._server = socket.create_server((HOST, 0))
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.getsockname()[1])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Listen no more, and close every connection."""
        with contextlib.suppress(OSError):
            # A thread that waits for a connection would still be given the next one.
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self.drop()

    def drop(self) -> None:
        """Close every connection."""
        while self._open:
            self._open.pop().close()

    def connect(self, **settings: object) -> Connection:
        """A connection to it."""
        return Connection(HOST, self.port, {"request_timeout_ms": 2000} | settings)

    def speak(self, answers: Mapping[Kind, bytes]) -> None:
        """Answer with these bodies; hang up on whatever else is asked."""
        by_key = {(kind.request.API_KEY, kind.version): kind for kind in answers}

        def answer(asked: Asked) -> bytes:
            kind = by_key.get((asked.api_key, asked.version))
            if kind is None:
                return b""
            return framed(asked, answers[kind], flexible=kind.is_flexible)

        self.answer, self.hang_up = answer, False

    def _accept(self) -> None:
        try:
            while True:
                accepted, _ = self._server.accept()
                self._open.append(accepted)
                threading.Thread(target=self._serve, args=(accepted,), daemon=True).start()
        except OSError:
            return  # closed

    def _serve(self, accepted: socket.socket) -> None:
        with accepted, accepted.makefile("rb") as requests:
            try:
                while len(size := requests.read(4)) == 4:
                    request = requests.read(int.from_bytes(size, "big"))
                    asked = Asked(*struct.unpack_from(">hhi", request))
                    first = asked.api_key == _API_VERSIONS
                    answer = self._versions(asked) if first else self.answer(asked)
                    accepted.sendall(answer)
                    if not answer or (self.hang_up and not first):
                        return
            except OSError:
                return  # the other side has closed


def metadata(
    brokers: Mapping[int, ScriptedBroker],
    controller: int = 1,
    topics: Sequence[Any] = (),
    cluster_id: str = "orders",
) -> bytes:
    """An answer that says where the brokers are, which is the controller, and of these topics."""
    response, version = METADATA.response[None], METADATA.version
    entries = [
        sample(response.MetadataResponseBroker, version, node_id=node, host=HOST, port=broker.port)
        for node, broker in brokers.items()
    ]
    answer = sample(
        response,
        version,
        brokers=entries,
        controller_id=controller,
        topics=topics,
        cluster_id=cluster_id,
    )
    encoded: bytes = answer.encode(version=version)
    return encoded


def led(topic: str, leader: int, epoch: int, *, topic_id: int = 1) -> Any:
    """What an answer to Metadata says of a topic of one partition."""
    kind, version = METADATA.response[None].MetadataResponseTopic, METADATA.version
    partition = sample(
        kind.MetadataResponsePartition,
        version,
        partition_index=0,
        leader_id=leader,
        leader_epoch=epoch,
    )
    id_ = uuid.UUID(int=topic_id)
    return sample(kind, version, name=topic, topic_id=id_, partitions=[partition])


def versions(newest: Mapping[int, int]) -> bytes:
    """An answer to ApiVersions: the newest version of each request that is spoken, by its key."""
    response = KINDS[0].response[None]
    spoken = [
        response.ApiVersion(version=3, api_key=key, min_version=0, max_version=version)
        for key, version in newest.items()
    ]
    body: bytes = response(version=3, error_code=0, throttle_time_ms=0, api_keys=spoken).encode()
    return body


def speaking(newest: Mapping[int, int]) -> ScriptedBroker:
    """A broker that knows these requests, by their keys, up to these versions."""
    said = versions(newest)

    def answer(asked: Asked) -> bytes:
        return framed(asked, said, flexible=False)

    return ScriptedBroker(answer)


def reach_only(places: Collection[tuple[str, int]], patch: pytest.MonkeyPatch) -> None:
    """Look up no address of a broker whose name was mutated, and no silence last."""
    connect = connection.socket.create_connection

    def only_there(address: tuple[str, int], timeout: float) -> Any:
        if address not in places:
            raise OSError(f"{address} is not here")
        return connect(address, timeout)

    patch.setattr(connection.socket, "create_connection", only_there)
    patch.setattr(connection, "_LONGEST_QUIET_S", 0.01)


def named(value: object) -> str | None:
    """The id of a case's part; a function's own one would be another in each process."""
    return None if callable(value) else str(value)


VERSIONS = versions({kind.request.API_KEY: kind.version for kind in KINDS})

# Counts and lengths that no broker means: as a signed number of 1, 2, 4 bytes, as a varint, endless.
_ABSURD = st.sampled_from(
    [
        b"\xff",
        b"\x80",
        b"\x7f",
        b"\xff\xfe",
        b"\x7f\xff",
        b"\x7f\xff\xff\xff",
        b"\xff\xff\xff\xff",
        b"\xff\xff\xff\xfe",
        b"\x80\0\0\0",
        b"\xff\xff\xff\xff\x0f",
        b"\xff\xff\xff\xff\x7f",
        b"\x80\x80\x80\x80\x00",
        b"\xff" * 200,
        b"\0" * 200,
    ]
)
_OF_BYTES = st.binary(min_size=1, max_size=8) | _ABSURD


def mutations() -> st.SearchStrategy[list[tuple[str, float, bytes]]]:
    """Changes to make to bytes: what, where (as a part of the length), with which bytes."""
    what = st.sampled_from(["overwrite", "overwrite", "insert", "cut", "end"])
    where = st.floats(0, 1, exclude_max=True)
    return st.lists(st.tuples(what, where, _OF_BYTES), min_size=1, max_size=4)


def mutated(body: bytes, changes: list[tuple[str, float, bytes]]) -> bytes:
    """``body`` with these changes."""
    for what, where, new in changes:
        at = int(where * len(body))
        if what == "overwrite":
            body = body[:at] + new + body[at + len(new) :]
        elif what == "insert":
            body = body[:at] + new + body[at:]
        elif what == "cut":
            body = body[:at] + body[at + len(new) :]
        else:
            body = body[:at]
    return body
