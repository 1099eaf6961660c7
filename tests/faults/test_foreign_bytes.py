"""Whatever bytes stand in a record or an answer: each decoder gives a value or its own error, soon, in bounds."""

from __future__ import annotations

import base64
import gzip
import json
import os
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from tempfile import NamedTemporaryFile
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest import mock

import pytest
from botocore.awsrequest import AWSResponse
from botocore.loaders import Loader
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    pkcs12,
)
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kafka_ferry.batches import (
    AbortFilter,
    MalformedBatch,
    converted_batches,
    is_abort_marker,
    read_records,
    split_batches,
)
from kafka_ferry.batches.record_format.content import read_content
from kafka_ferry.batches.record_format.header import HEADER
from kafka_ferry.batches.record_format.legacy import legacy_batch
from kafka_ferry.certificates.document import CertificateError, read_certificate
from kafka_ferry.certificates.topic import _parts_of_key
from kafka_ferry.config.client.jks import MAGIC
from kafka_ferry.config.client.keystores import key_pair, trusted_certificates
from kafka_ferry.config.client.msk_iam import IamLogin
from kafka_ferry.config.client.pem import PemError, pem_key
from kafka_ferry.errors import AccessDenied, CheckpointRefused, ClusterUnreachable, ConfigError
from kafka_ferry.groups.mirrormaker2.connect_offsets import (
    CONNECTOR,
    key_of,
    offset_of,
    partition_of,
)
from kafka_ferry.groups.mirrormaker2.record_formats import (
    Checkpoint,
    Heartbeat,
    MalformedRecord,
    OffsetSync,
)
from kafka_ferry.groups.spark.checkpoint import MicroBatch, initial_content, initial_offsets
from kafka_ferry.ledger import decode
from kafka_ferry.ledger.record import LedgerError
from kafka_ferry.model import TopicPartition
from kafka_ferry.model.positions import PositionMetadata, position_of
from kafka_ferry.oauth.access_token import claims_of, expiry_of
from kafka_ferry.oauth.msk_token import msk_token
from kafka_ferry.oauth.token_endpoint import _life
from kafka_ferry.schemas.fields.record_schema import NotReadable
from kafka_ferry.schemas.fields.records import RegistryRecords
from kafka_ferry.transform.json_fields import JsonFields, NotAnObject
from kafka_ferry.wire.connections.scram import check_final, iterations_of
from kafka_sandbox.logins.secure import Authority
from tests.support.records.batches import Record, a_batch, a_marker, a_message_set, with_message_crc
from tests.support.servers.registries import MemoryRegistry
from tests.unit.certificates.builders import a_certificate
from tests.unit.ledger.test_fuzz import VALUES
from tests.unit.oauth.test_msk_token import DENIED, GIVEN

pytestmark = pytest.mark.long
# Of processor time: others may use the machine.
LONGEST_S = 2
# To make a case of 100,000 bytes smaller takes minutes.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
MEMORY = 2 * 1024**3
EXAMPLES = 200
ORDERS = TopicPartition("orders", 3)
AVRO, PROTOBUF = 1, 2


class Decoder(NamedTuple):
    """What reads foreign bytes.

    Attributes:
        read: reads them; what it returns is all read.
        samples: bytes as their right writers write them.
        errors: what it may raise.
        examples: how many changes are tried.
    """

    read: Callable[[bytes], object]
    samples: list[bytes]
    errors: tuple[type[Exception], ...] = ()
    examples: int = EXAMPLES


def registry() -> MemoryRegistry:
    """A registry with a schema of each format, which has many types and itself within it."""
    found = MemoryRegistry()
    parts = [
        {"name": "n", "type": "long"},
        {"name": "text", "type": ["null", "string"]},
        {"name": "times", "type": {"type": "array", "items": {"type": "long", "logicalType": "timestamp-millis"}}},
        {"name": "by", "type": {"type": "map", "values": "double"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "next", "type": ["null", "Part"]},
    ]  # fmt: skip
    found.add("avro-value", json.dumps({"type": "record", "name": "Part", "fields": parts}))
    proto = (
        'syntax = "proto3"; import "google/protobuf/timestamp.proto"; message Part { int64 n = 1; string text = 2;'
        "repeated int32 numbers = 3; map<string, double> by = 4; Part next = 5; google.protobuf.Timestamp at = 6; }"
    )
    found.add("protobuf-value", proto, kind="PROTOBUF")
    return found


NAMES = ("n", "text", "times", "by", "price", "next", "numbers", "at")
REGISTRY = registry()
FORMATS = {
    form: RegistryRecords(lambda: REGISTRY, form, NAMES, b"id")  # type: ignore[arg-type]
    for form in ("avro", "protobuf")
}
AVRO_VALUE = b"\0\0\0\0\1\x0a\2\4ab\4\2\4\0\2\2k" + b"\0" * 8 + b"\0\4\1\2\0"
PROTOBUF_VALUE = b"\0\0\0\0\2\0\x08\5\x12\2ab\x1a\2\1\2\x22\x0c\x0a\1k\x11" + b"\0" * 8
PROTOBUF_VALUE += b"\x2a\2\x08\1\x32\4\x08\1\x10\2"


def fields_of(form: str) -> Callable[[bytes], object]:
    """Reads a record's fields, and changes one."""

    def read(content: bytes) -> object:
        text = FORMATS[form].as_json(content)
        changed = FORMATS[form].with_fields(content, {("text",): '"x"'})
        assert text == b"\xff" or json.loads(text) is not None
        return changed

    return read


def json_fields(content: bytes) -> object:
    JsonFields().as_json(content)
    return JsonFields().with_fields(content, {("a", "b"): "1", ("c",): None})


def opened(content: bytes) -> object:
    """All records of all batches, whose checksums are made right: a producer can do that too."""
    batches = [it.with_crc() if it.stored_format == 2 else it for it in split_batches(content)]
    right = b"".join(it.encode() for it in batches)
    for batch in batches:
        if batch.header.is_control and batch.header.records:
            is_abort_marker(batch)
        with suppress(MalformedBatch):
            for record in read_records(batch):
                read_content(record[3])
    converted = converted_batches(right, AbortFilter([]), 0, 2**62)
    return sum(it.end - it.start for it in converted)


def with_length(content: bytes) -> bytes:
    """The bytes with the length that they have, as a first batch."""
    if len(content) < HEADER.size:
        return content
    return content[:8] + (len(content) - 12).to_bytes(4, "big") + content[12:]


def legacy(content: bytes) -> object:
    """Messages, the first of which has the checksum that it needs."""
    return legacy_batch(with_message_crc(content) if len(content) > 16 else content, 0)


def wrapped(content: bytes) -> object:
    """A compressed set of messages."""
    value = gzip.compress(content, 1)
    body = b"\1\1" + bytes(8) + b"\xff" * 4 + len(value).to_bytes(4, "big") + value
    return legacy(b"\0" * 7 + b"\x09" + (len(body) + 4).to_bytes(4, "big") + bytes(4) + body)


def halves(read: Callable[[bytes, bytes], object]) -> Callable[[bytes], object]:
    """Reads a key and a value, between which is a mark."""
    return lambda content: read(*content.partition(b"<|>")[::2])


def certificate(content: bytes) -> object:
    found = read_certificate(content, "serial 1")
    return found.ranges(), found.digest, found.name


KEY = ec.generate_private_key(ec.SECP256R1())
LOCKED_KEY = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"pw"))


def a_store() -> bytes:
    """A PKCS12 store with a key, as libraries write it."""
    kind = PrivateFormat.PKCS12.encryption_builder().kdf_rounds(2_000).hmac_hash(hashes.SHA256())
    return pkcs12.serialize_key_and_certificates(b"a", KEY, None, None, kind.build(b"pw"))


def a_jks() -> bytes:
    """The entries of a JKS store: a key with its certificate, and a trusted one."""
    alias, text = b"\0\1a" + bytes(8), b"\0\5X.509"
    certificate = text + b"\0\0\0\3DER"
    key = b"\0\0\0\4\x30\2\4\0" + b"\0\0\0\1" + certificate
    entries = b"\0\0\0\1" + alias + key + b"\0\0\0\2" + alias + certificate
    return MAGIC + b"\0\0\0\2" + b"\0\0\0\2" + entries + bytes(20)


def key_store(kind: str) -> Callable[[bytes], object]:
    """Reads a key store's and a trust store's file, whose password is known."""

    def read(content: bytes) -> object:
        with NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            said = {"location": file.name, "type": kind, "password": "pw"}
            stores = {f"ssl.{it}.{key}": text for key, text in said.items() for it in STORES}
            if kind == "JKS":
                # Without one, a checksum need not be right.
                del stores["ssl.truststore.password"], stores["ssl.keystore.password"]
            read = []
            for store in (key_pair, trusted_certificates):
                with suppress(ConfigError):
                    read.append(store(stores | {"ssl.key.password": "pw"}, "flow.yaml: primary"))
            return read

    return read


STORES = ("keystore", "truststore")


def role_of(content: bytes) -> object:
    """A token of Amazon MSK for a role, of which STS says this."""

    def answer(_: object, request: Any) -> AWSResponse:
        raw = SimpleNamespace(stream=lambda: iter([content]), read=lambda *_: content)
        return AWSResponse(request.url, 403 if content.startswith(b"<Error") else 200, {}, raw)

    with (
        mock.patch("botocore.httpsession.URLLib3Session.send", answer),
        mock.patch("botocore.session.create_loader", lambda _: AWS_MODELS),
        mock.patch.dict(os.environ, {"AWS_MAX_ATTEMPTS": "1"}),
    ):
        return msk_token(MSK_LOGIN, "flow.yaml: msk")


# Each session reads them again: a tenth of a second.
AWS_MODELS = Loader()
MSK_LOGIN = IamLogin("eu-west-1", role="arn:aws:iam::1:role/ferry", key_id="K", secret_key="s" * 9)
CERTIFICATE = a_certificate()
CHECKPOINT = Checkpoint("billing", ORDERS, 7, 9, "meta")
CLAIMS = json.dumps({"iss": "me", "aud": ["a"], "exp": 1_700_000_000}).encode()


def token(claims: bytes) -> object:
    """A token of these claims."""
    text = f"e30.{base64.urlsafe_b64encode(claims).decode().rstrip('=')}.x"
    return claims_of(text), expiry_of(text)


DECODERS = {
    **{
        f"batches, codec {codec}": Decoder(
            lambda content: opened(with_length(content)),
            [
                a_batch(5, at=10, codec=codec),
                a_batch(3, at=4, codec=codec, transactional=True, producer_id=7, append_time=9),
            ],
            (MalformedBatch,),
        )
        for codec in range(5)
    },
    "batches in a row": Decoder(
        opened,
        [a_batch(2, at=1) + a_batch(3, at=9, codec=4) + a_marker(at=12, producer_id=7, commit=False)],
        (MalformedBatch,),
    ),
    "messages of old formats": Decoder(
        legacy,
        [a_message_set([Record()], at=5, magic=magic, codec=codec) for magic in (0, 1) for codec in (0, 1)],
        (MalformedBatch,),
    ),
    "messages within one": Decoder(
        wrapped, [a_message_set([Record()] * 3, magic=1)], (MalformedBatch,)
    ),
    "contents with headers": Decoder(
        read_content, [b"\6key\x0avalue\4\2a\2b\4cd\1"], (MalformedBatch,)
    ),
    "Avro": Decoder(fields_of("avro"), [AVRO_VALUE], (NotReadable,)),
    "Protobuf": Decoder(fields_of("protobuf"), [PROTOBUF_VALUE], (NotReadable,)),
    "JSON": Decoder(
        json_fields, [b'{"a": {"b": [1, {"c": "x"}]}, "c": 1e5}', b'{"c":null}'], (NotAnObject,)
    ),
    "offset syncs": Decoder(
        halves(OffsetSync.read),
        [OffsetSync(ORDERS, 5, 6).key() + b"<|>" + OffsetSync(ORDERS, 5, 6).value()],
        (MalformedRecord,),
    ),
    "checkpoints": Decoder(
        halves(Checkpoint.read), [CHECKPOINT.key() + b"<|>" + CHECKPOINT.value()], (MalformedRecord,)
    ),
    "heartbeats": Decoder(
        halves(Heartbeat.read),
        [Heartbeat("a", "b", 5).key() + b"<|>" + Heartbeat("a", "b", 5).value()],
        (MalformedRecord,),
    ),
    "keys of Connect's offsets": Decoder(
        lambda content: partition_of(content, "primary"),
        [key_of(ORDERS, "primary"), f'["{CONNECTOR}",{{}}]'.encode()],
    ),
    "values of Connect's offsets": Decoder(offset_of, [b'{"offset":41}']),
    "the ledger": Decoder(lambda it: decode(it, at="offset 1"), VALUES, (LedgerError,)),
    "positions": Decoder(
        lambda it: position_of(7, it.decode(errors="surrogateescape")),
        [PositionMetadata("id", "remote id", "run-1", 1_700_000_000_000).encode().encode()],
    ),
    "certificates": Decoder(certificate, [CERTIFICATE.content()], (CertificateError,)),
    "keys of certificates": Decoder(
        lambda it: _parts_of_key(it, "certificates"), [b"a->b/1/0", b"a->b/12/345"], (CertificateError,)
    ),
    "Spark's batches": Decoder(
        lambda it: list(MicroBatch.of("offsets/1", it).sources()),
        [b'v1\n{"a":1}\n{"orders":{"0":12}}', b'v2\n{}\n0:{"orders":{"0":12}}'],
        (CheckpointRefused,),
    ),
    "Spark's first offsets": Decoder(initial_offsets, [initial_content({ORDERS: 5})]),
    "lives of tokens": Decoder(
        lambda it: _life(claims_of(f"e30.{base64.urlsafe_b64encode(it).decode()}.x").get("exp")),
        [CLAIMS, b'{"exp": "3600"}'],
    ),
    "claims of tokens": Decoder(token, [CLAIMS]),
    "keys in PEM": Decoder(
        lambda it: pem_key(it.decode(errors="replace"), "pw"), [LOCKED_KEY], (PemError,)
    ),
    "stores in PEM": Decoder(key_store("PEM"), [LOCKED_KEY + Authority("a").pem.encode()]),
    "stores of PKCS12": Decoder(key_store("PKCS12"), [a_store()]),
    "stores of JKS": Decoder(key_store("JKS"), [a_jks()]),
    "answers of STS": Decoder(
        role_of,
        [GIVEN.encode(), DENIED.encode()],
        (AccessDenied, ClusterUnreachable, ConfigError),
        # Each one takes a session of botocore's.
        EXAMPLES // 5,
    ),
    "SCRAM's first messages": Decoder(iterations_of, [b"r=abc,s=QUJD,i=4096"], (ValueError,)),
    "SCRAM's last messages": Decoder(check_final, [b"v=QUJD", b"e=no"], (ValueError,)),
}  # fmt: skip

PIECES = st.one_of(
    st.binary(max_size=12),
    st.sampled_from(
        [
            *(number.to_bytes(size, "big") for size in (2, 4, 8) for number in (0, 1, 2 ** (8 * size - 1) - 1)),
            *(b"\xff" * size for size in (1, 2, 4, 8)),
            *(b"\xff" * size + b"\1" for size in (4, 9, 10)),
            b"\x80" * 9 + b"\1", b"<|>", b"\n", b"\0", b"\2\2\2", b"1e999", b"NaN", b"-1", b"9" * 5000,
            b"9" * 400, b"[" * 20_000, b'{"a":' * 10_000, b'"\\ud800"', b"null", b"\xd9\xa1",
        ]
    ),
)  # fmt: skip
CHANGES = st.lists(
    st.tuples(st.floats(0, 1), st.sampled_from([0, 0, 1, 1, 2, 4, 8, 40]), PIECES, st.integers(1, 3)),
    max_size=4,
)  # fmt: skip


def mutant(sample: bytes, changes: list[tuple[float, int, bytes, int]]) -> bytes:
    """The bytes after some cuts and insertions."""
    for where, cut, piece, times in changes:
        at = int(where * len(sample))
        sample = sample[:at] + piece * times + sample[at + cut :]
    return sample


@pytest.fixture(scope="module", autouse=True)
def _little_memory() -> Iterator[None]:
    """What wants more memory fails with a ``MemoryError``, and not the machine with it."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as file:  # noqa: PTH123
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


# One of their samples is a refusal.
REFUSALS = ("SCRAM's first messages", "SCRAM's last messages", "answers of STS")


@pytest.mark.parametrize("name", DECODERS)
def test_samples_are_read(name: str) -> None:
    """Otherwise nothing would be found by changing them."""
    for sample in DECODERS[name].samples:
        with suppress(*DECODERS[name].errors if name in REFUSALS else ()):
            DECODERS[name].read(sample)


@pytest.mark.parametrize("name", DECODERS)
def test_changed_bytes_are_a_value_or_an_error_of_the_decoder(name: str) -> None:
    decoder = DECODERS[name]

    @settings(
        max_examples=decoder.examples,
        deadline=None,
        phases=PHASES,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.sampled_from(decoder.samples), CHANGES)
    def check(sample: bytes, changes: list[tuple[float, int, bytes, int]]) -> None:
        began = time.process_time()
        with suppress(*decoder.errors):
            decoder.read(mutant(sample, changes))
        assert time.process_time() - began < LONGEST_S

    check()
