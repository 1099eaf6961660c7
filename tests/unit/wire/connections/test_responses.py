"""What a broker sent is a response or an error, at once and in little memory."""

import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_ferry.wire.connections.responses import decode_response
from tests.unit.wire.scripted import KINDS, Kind, mutated, mutations, sample

MIB = 1024 * 1024
of_each_kind = pytest.mark.parametrize("kind", KINDS, ids=str)
METADATA, FETCH, LIST_OFFSETS = KINDS[1], KINDS[3], KINDS[12]


def decode(kind: Kind, body: bytes) -> object:
    return decode_response(kind.response[None], kind.version, memoryview(body))


def refusal(kind: Kind, body: bytes) -> str:
    with pytest.raises(Exception) as caught:
        decode(kind, body)
    return repr(caught.value)


@of_each_kind
def test_it_says_what_kafka_pythons_own_decoder_reads(kind: Kind) -> None:
    assert repr(decode(kind, kind.answer())) == repr(kind.response.decode(kind.answer()))


@of_each_kind
def test_a_response_that_was_cut_off_anywhere_is_none(kind: Kind) -> None:
    body = kind.answer()
    for end in range(len(body)):
        refusal(kind, body[:end])


@of_each_kind
def test_a_response_with_more_after_it_is_none(kind: Kind) -> None:
    assert "1 bytes after its end" in refusal(kind, kind.answer() + b"\0")


@given(st.sampled_from(KINDS), mutations())
def test_whatever_is_wrong_is_found_at_once_and_in_little_memory(
    kind: Kind, changes: list[tuple[str, float, bytes]]
) -> None:
    body = mutated(kind.answer(), changes)
    tracemalloc.start()
    began = time.monotonic()
    try:
        decode(kind, body)
    except Exception as error:
        assert not isinstance(error, MemoryError | RecursionError)
    finally:
        took, (_, peak) = time.monotonic() - began, tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert took < 2
    assert peak < 8 * MIB


def test_an_endless_number_is_not_read_to_its_end() -> None:
    """In kafka-python's compiled decoder this takes an hour: each byte makes the number longer."""
    began = time.monotonic()
    refusal(METADATA, bytes(4) + b"\xff" * 10 * MIB)
    assert time.monotonic() - began < 1


def test_two_thousand_million_entries_end_with_the_bytes() -> None:
    refusal(LIST_OFFSETS, bytes(4) + b"\x7f\xff\xff\xff" + b"\0\0" + bytes(4))


def test_millions_of_tiny_entries_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic without name and partitions is 26 bytes, and many times as much as objects."""
    monkeypatch.setattr("kafka_ferry.wire.connections.responses._MAX_FIELDS", 50_000)
    topic = sample(METADATA.response[None].MetadataResponseTopic, METADATA.version, partitions=[])
    response = METADATA.response[None]
    body = sample(response, METADATA.version, topics=[topic] * 10_000).encode(
        version=METADATA.version
    )
    assert "more than 50000 fields" in refusal(METADATA, body)


AUTHENTICATE = KINDS[15]


def test_records_shorter_than_announced_are_none() -> None:
    body = bytearray(FETCH.answer())
    at = body.index(b"x" * 100)
    assert body[at - 1] == 101
    body[at - 1 : at] = b"\xff\x7f"
    assert "where" in refusal(FETCH, bytes(body))


def test_null_is_refused_where_kafka_has_none() -> None:
    """The reader of a response may loop over every array."""
    response = KINDS[1].response[None]
    body = sample(response, METADATA.version, brokers=None).encode(version=METADATA.version)
    assert "brokers is null" in refusal(METADATA, body)


def test_null_in_an_array_of_names_is_refused() -> None:
    assert "mechanisms is null" in refusal(KINDS[14], b"\0\0" + b"\0\0\0\1" + b"\xff\xff")


def test_of_a_brokers_sentence_no_more_is_kept_than_people_read() -> None:
    """It would go into logs, reports and messages, and a hostile one may have 256 MiB."""
    said = sample(AUTHENTICATE.response[None], 2, error_message="no " * 10 * MIB)
    found = decode(AUTHENTICATE, said.encode(version=2))
    assert len(found.error_message) <= 2_000  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "has_room"), [("x" * 32_767, True), ("x" * 32_768, False), ("\u20ac" * 11_000, False)]
)
def test_a_text_is_no_longer_than_one_that_a_request_can_name(name: str, has_room: bool) -> None:
    """In a compact string a broker can give a group or topic any length; other requests have 16 bits for it."""
    topic = sample(METADATA.response[None].MetadataResponseTopic, METADATA.version, name=name)
    body = sample(METADATA.response[None], METADATA.version, topics=[topic]).encode(
        version=METADATA.version
    )
    if has_room:
        decode(METADATA, body)
    else:
        assert "name has more than 32,767 bytes" in refusal(METADATA, body)


def test_null_is_read_where_kafka_has_it() -> None:
    response = FETCH.response[None]
    topic = response.FetchableTopicResponse
    empty = sample(topic.PartitionData, FETCH.version, records=None, aborted_transactions=None)
    given = [sample(topic, FETCH.version, partitions=[empty])]
    body = sample(response, FETCH.version, responses=given).encode(version=FETCH.version)
    assert decode(FETCH, body).responses[0].partitions[0].records is None  # type: ignore[attr-defined]


def test_operations_that_were_not_asked_for_are_no_null() -> None:
    """Metadata says -2147483648 there, which kafka-python shows as None."""
    response = METADATA.response[None]
    topic = sample(response.MetadataResponseTopic, METADATA.version, authorized_operations=None)
    body = sample(response, METADATA.version, topics=[topic]).encode(version=METADATA.version)
    decode(METADATA, body)


def test_a_broker_that_knows_no_such_versions_request_says_so_in_the_oldest_version() -> None:
    """KIP-511: error 35 and version 0, whatever was asked."""
    answer = decode(KINDS[0], b"\0\x23" + b"\0\0\0\1" + b"\0\x12\0\0\0\2")
    assert answer.error_code == 35  # type: ignore[attr-defined]
