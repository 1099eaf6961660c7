"""Kafka's signed varints (``org.apache.kafka.common.utils.ByteUtils``): zigzag, 7 bits to a byte.

Bits of the last byte for which a number has no room are dropped, as brokers and Java's clients drop them: a record
with such a number is accepted and read.
"""

from __future__ import annotations

from typing import Final

from kafka_ferry.batches.record_format.header import MalformedBatch

VARINT_BYTES: Final = 5
"""The most that a number of 32 bits has."""
_VARLONG_BYTES: Final = 10
_BITS_32: Final = 2**32 - 1
_BITS_64: Final = 2**64 - 1
_INT64: Final = 2**63


def encode_varint(value: int) -> bytes:
    """The bytes of ``value``, a number of 64 bits."""
    if not -_INT64 <= value < _INT64:
        raise MalformedBatch(f"{value}, which 64 bits do not hold")
    raw = value << 1 ^ value >> 63
    encoded = bytearray()
    while raw > 0x7F:
        encoded.append(raw & 0x7F | 0x80)
        raw >>= 7
    encoded.append(raw)
    return bytes(encoded)


def decode_varint(plain: bytes, at: int) -> tuple[int, int]:
    """The number of 32 bits at byte ``at``, such as a length, and where the next byte is.

    Raises:
        MalformedBatch: if the bytes end before, or it does not end.
    """
    # Most numbers have one byte or two, and a loop takes several times as long.
    if at + 1 < len(plain):
        raw = plain[at]
        if raw < 0x80:
            return raw >> 1 ^ -(raw & 1), at + 1
        second = plain[at + 1]
        if second < 0x80:
            raw = raw & 0x7F | second << 7
            return raw >> 1 ^ -(raw & 1), at + 2
    return _decode(plain, at, VARINT_BYTES, _BITS_32)


def decode_varlong(plain: bytes, at: int) -> tuple[int, int]:
    """The number of 64 bits at byte ``at``, such as a time, and where the next byte is.

    Raises:
        MalformedBatch: as ``decode_varint``.
    """
    return _decode(plain, at, _VARLONG_BYTES, _BITS_64)


def _decode(plain: bytes, at: int, most: int, bits: int) -> tuple[int, int]:
    raw = 0
    for place, byte in enumerate(plain[at : at + most]):
        raw |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            raw &= bits
            return raw >> 1 ^ -(raw & 1), at + place + 1
    raise MalformedBatch(f"no number at byte {at}")


SMALL: Final = tuple(encode_varint(value) for value in range(2**14))
"""The bytes of small numbers, so that the records of a batch need not make them."""
