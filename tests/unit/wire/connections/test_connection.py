"""A connection gives responses or errors of ours, whatever comes over the wire."""

import contextlib
import gc
import socket
import struct
import threading
import time
from collections.abc import Iterator

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_ferry.errors import AccessDenied, ClusterUnreachable, FerryError
from kafka_ferry.retry import retry_for
from kafka_ferry.wire import Connection
from tests.unit.wire.scripted import (
    HOST,
    KINDS,
    Asked,
    Kind,
    ScriptedBroker,
    framed,
    mutated,
    mutations,
    sample,
)

MIB = 1024 * 1024
ASKED = KINDS[1:]
METADATA = KINDS[1]
LOGIN = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "SCRAM-SHA-256",
    "sasl_plain_username": "ferry",
    "sasl_plain_password": "secret",
}
HANDSHAKE, AUTHENTICATE = KINDS[14:16]


@pytest.fixture(scope="module")
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as broker:
        yield broker


@pytest.fixture
def connection(broker: ScriptedBroker) -> Iterator[Connection]:
    broker.hang_up = True
    connection = broker.connect()
    yield connection
    connection.close()


def as_sent(wire: bytes) -> str:
    """What a connection makes of these bytes as an answer."""
    with ScriptedBroker() as broker:
        broker.answer = lambda _: wire
        connection = broker.connect()
        with pytest.raises(ClusterUnreachable) as caught:
            connection.call(METADATA.make_request())
        assert connection.closed
        connection.close()
    return str(caught.value)


@pytest.mark.parametrize("kind", ASKED, ids=str)
def test_an_answer_of_each_kind_is_read(broker: ScriptedBroker, kind: Kind) -> None:
    broker.speak({kind: kind.answer()})
    connection = broker.connect()
    request = kind.make_request()
    assert repr(connection.call(request)) == repr(kind.response.decode(kind.answer()))
    connection.close()


def test_a_response_class_that_kafka_python_has_lost_is_known(broker: ScriptedBroker) -> None:
    """As after two threads were the first to await a version's responses, both at once."""
    request, answer = METADATA.make_request(), METADATA.answer()
    versions = request.header.get_response_class()[None]
    del versions._VERSIONS[METADATA.version]
    gc.collect()
    with pytest.raises(ReferenceError):
        request.header.get_response_class()
    broker.answer = lambda asked: framed(asked, answer, flexible=True)
    try:
        assert broker.connect().call(request).name == "MetadataResponse"
    finally:
        versions[METADATA.version]


@pytest.mark.parametrize("size", [-(2**31), -1, 0, 3, 256 * MIB + 1, 2**31 - 1])
def test_a_size_that_no_response_has_is_refused(size: int) -> None:
    assert f"a response of {size} bytes" in as_sent(struct.pack(">i", size) + bytes(100))


def test_what_a_broken_response_holds_is_not_repeated(broker: ScriptedBroker) -> None:
    """The error of a text that is none has all of its bytes."""
    said = b"\0\x3a" + b"\x81\x80\x80\x05" + b"\xff" * 10 * MIB + b"\1" + bytes(8) + b"\0"
    broker.speak({HANDSHAKE: HANDSHAKE.answer(), AUTHENTICATE: said})
    with pytest.raises(ClusterUnreachable, match="UnicodeDecodeError") as caught:
        broker.connect(**LOGIN)
    assert len(str(caught.value)) < 1_000


def test_less_than_announced_is_no_response() -> None:
    assert "closed by the broker" in as_sent(struct.pack(">i", 1000) + bytes(999))


def test_an_answer_to_another_request_is_not_taken_for_this_one() -> None:
    wire = framed(Asked(3, 12, 77), METADATA.answer(), flexible=True)
    assert "an answer to request 77 instead of 2" in as_sent(wire)


def test_tags_in_a_header_are_refused() -> None:
    wire = struct.pack(">ii", 8, 2) + b"\1\0\0\0"
    assert "tagged fields in the header" in as_sent(wire)


def test_a_broker_that_stops_in_the_middle_is_given_up(broker: ScriptedBroker) -> None:
    broker.answer, broker.hang_up = lambda _: struct.pack(">i", 1000) + bytes(10), False
    connection = broker.connect(request_timeout_ms=300)
    with pytest.raises(ClusterUnreachable, match=r"did not answer within 0\.3 s"):
        connection.call(METADATA.make_request())
    connection.close()


def test_a_broker_that_sends_a_byte_now_and_then_is_given_up() -> None:
    """The time is that of the answer, not of each piece of it."""
    ours, theirs = socket.socketpair()
    ended = threading.Event()

    def drip() -> None:
        with contextlib.suppress(OSError):
            theirs.sendall(struct.pack(">i", 1000))
            while not ended.wait(0.05):
                theirs.send(b"x")

    with ScriptedBroker() as broker, ours, theirs:
        connection = broker.connect(request_timeout_ms=500)
        connection._socket, kept = ours, connection._socket
        ours.settimeout(0.5)
        dripping = threading.Thread(target=drip)
        dripping.start()
        began = time.monotonic()
        with pytest.raises(ClusterUnreachable, match=r"did not answer within 0\.5 s"):
            connection.call(METADATA.make_request())
        assert time.monotonic() - began < 3
        ended.set()
        dripping.join()
        kept.close()
        connection.close()


def test_what_was_only_announced_takes_no_memory(broker: ScriptedBroker) -> None:
    broker.answer, broker.hang_up = lambda _: struct.pack(">i", 250 * MIB) + bytes(10), False
    connection = broker.connect(request_timeout_ms=1000)
    process = psutil.Process()
    before = process.memory_info().rss
    seen: list[int] = []
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.05):
            seen.append(process.memory_info().rss)

    watcher = threading.Thread(target=watch)
    watcher.start()
    with pytest.raises(ClusterUnreachable):
        connection.call(METADATA.make_request())
    done.set()
    watcher.join()
    connection.close()
    assert max(seen) - before < 40 * MIB


def test_a_large_response_is_read_whole(broker: ScriptedBroker) -> None:
    """Above 32 MiB the buffer is another one."""
    fetch = KINDS[3]
    response = fetch.response[None]
    topic = response.FetchableTopicResponse
    part = sample(topic.PartitionData, fetch.version, records=bytes(range(256)) * 160_000)
    given = [sample(topic, fetch.version, partitions=[part])]
    body = sample(response, fetch.version, responses=given).encode(version=fetch.version)
    broker.speak({fetch: body})
    connection = broker.connect()
    answer = connection.call(fetch.make_request())
    assert answer.responses[0].partitions[0].records == bytes(range(256)) * 160_000
    connection.close()


def test_no_request_waits_for_weeks(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Quotas hold a client up for minutes (KIP-219); 2,147,483,647 ms are a mistake."""
    monkeypatch.setattr("kafka_ferry.wire.connections.connection._LONGEST_QUIET_S", 0.3)
    body = b"\x7f\xff\xff\xff" + METADATA.answer()[4:]
    broker.speak({METADATA: body})
    connection = broker.connect()
    connection.call(METADATA.make_request())
    began = time.monotonic()
    connection.call(METADATA.make_request())
    assert 0.2 < time.monotonic() - began < 2
    connection.close()


def test_a_broker_that_asks_for_long_silence_does_not_hold_up_a_person(
    broker: ScriptedBroker,
) -> None:
    broker.speak({METADATA: b"\x7f\xff\xff\xff" + METADATA.answer()[4:]})
    connection = broker.connect()
    began = time.monotonic()
    with retry_for(7, is_waited_for=True):
        connection.call(METADATA.make_request())
        with pytest.raises(ClusterUnreachable, match=r"asks for \d+ s without a request"):
            connection.call(METADATA.make_request())
    assert time.monotonic() - began < 5
    connection.close()


@given(st.sampled_from(ASKED), mutations(), st.booleans())
def test_no_answer_is_another_error_or_a_hang(
    broker: ScriptedBroker,
    kind: Kind,
    changes: list[tuple[str, float, bytes]],
    of_frame: bool,
) -> None:
    def answer(asked: Asked) -> bytes:
        if of_frame:
            return mutated(framed(asked, kind.answer(), flexible=kind.is_flexible), changes)
        return framed(asked, mutated(kind.answer(), changes), flexible=kind.is_flexible)

    broker.answer, broker.hang_up = answer, True
    connection = broker.connect()
    began = time.monotonic()
    try:
        connection.call(kind.make_request())
    except FerryError as error:
        assert error.message
        assert connection.closed
    assert time.monotonic() - began < 2
    connection.close()


@pytest.mark.parametrize(
    ("host", "port"), [("a" * 70, 9092), ("a..b", 9092), ("a\0b", 9092), (HOST, 99_999), (HOST, -1)]
)
def test_an_address_that_is_none_is_not_reached(host: str, port: int) -> None:
    with pytest.raises(ClusterUnreachable):
        Connection(host, port, {})


@given(changes=mutations())
def test_no_list_of_versions_is_another_error(changes: list[tuple[str, float, bytes]]) -> None:
    def versions(asked: Asked) -> bytes:
        return framed(asked, mutated(KINDS[0].answer(), changes), flexible=False)

    with ScriptedBroker(versions=versions) as broker, pytest.MonkeyPatch.context() as patch:
        # It may have come to ask for ten minutes of silence, too.
        patch.setattr("kafka_ferry.wire.connections.connection._LONGEST_QUIET_S", 0.0)
        try:
            connection = broker.connect()
            connection.send(METADATA.make_request())
            connection.close()
        except FerryError as error:
            assert error.message


def test_a_request_that_the_broker_does_not_know_is_named() -> None:
    body = sample(KINDS[0].response[None], 3, api_keys=[]).encode(version=3)
    with ScriptedBroker(versions=lambda asked: framed(asked, body, flexible=False)) as broker:
        connection = broker.connect()
        with pytest.raises(FerryError, match="does not know the request Metadata"):
            connection.send(METADATA.request(topics=[]))
        connection.close()


def test_a_version_below_zero_is_not_spoken() -> None:
    response = KINDS[0].response[None]
    entry = sample(response.ApiVersion, 3, api_key=3, min_version=-5, max_version=-2)
    body = sample(response, 3, api_keys=[entry]).encode(version=3)
    with ScriptedBroker(versions=lambda asked: framed(asked, body, flexible=False)) as broker:
        connection = broker.connect()
        with pytest.raises(FerryError, match="supports Metadata v-5 to v-2"):
            connection.send(METADATA.request(topics=[]))
        connection.close()


@given(st.binary() | st.sampled_from([b"r=,s=,i=1", b"i=9999999999", b"v=e30=", b"r,s,i"]))
def test_no_login_message_is_another_error(broker: ScriptedBroker, message: bytes) -> None:
    broker.speak(
        {
            HANDSHAKE: HANDSHAKE.answer(),
            AUTHENTICATE: sample(AUTHENTICATE.response[None], 2, auth_bytes=message).encode(
                version=2
            ),
        }
    )
    with pytest.raises(AccessDenied, match="SCRAM-SHA-256"):
        broker.connect(**LOGIN)


@given(st.sampled_from([HANDSHAKE, AUTHENTICATE]), mutations())
def test_no_login_is_another_error(
    broker: ScriptedBroker, kind: Kind, changes: list[tuple[str, float, bytes]]
) -> None:
    answers = {each: each.answer() for each in (HANDSHAKE, AUTHENTICATE)}
    broker.speak(answers | {kind: mutated(kind.answer(), changes)})
    with pytest.raises(FerryError):
        broker.connect(**LOGIN)


@pytest.mark.parametrize(
    ("iterations", "asked"), [(1, True), (4095, True), (4096, False), (10**9, True)]
)
def test_a_login_with_few_iterations_is_refused(
    broker: ScriptedBroker, iterations: int, asked: bool
) -> None:
    """As Java's client does: the proof of a password would be as good as the password."""
    message = f"r=nonce,s=c2FsdA==,i={iterations}".encode()
    answer = sample(AUTHENTICATE.response[None], 2, auth_bytes=message).encode(version=2)
    broker.speak({HANDSHAKE: HANDSHAKE.answer(), AUTHENTICATE: answer})
    with pytest.raises(AccessDenied) as caught:
        broker.connect(**LOGIN)
    assert ("the minimum is 4096" in str(caught.value)) is asked
