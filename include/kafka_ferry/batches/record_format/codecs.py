"""Compressing and decompressing the records of a batch, in bounded memory.

kafka-python's decoders decode everything at once, so a few kilobytes could need any amount of memory;
these yield chunk after chunk. Where several streams follow each other, they read what the Java client
reads: all gzip members, zstd frames and xerial streams, but only the first lz4 frame.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Final

import lz4.frame
import snappy
import xxhash
import zstandard
from kafka import codec as kafka_codec

from kafka_ferry.batches.record_format.header import MalformedBatch

NONE: Final = 0
GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4

MAX_PLAIN_BYTES: Final = 512 * 1024 * 1024
"""No broker accepts a request of more than 100 MiB (``socket.request.max.bytes``); five times that
leaves room for text, while two such batches still fit into a small task's memory."""

OPENED_AT_ONCE: Final = 32 * 1024 * 1024
"""The most plain bytes of a batch that are in memory at a time where its records change; a larger one is divided.
Some kilobytes that a producer has compressed may have ``MAX_PLAIN_BYTES``."""

_GZIP_WINDOW: Final = 31  # zlib's number for "with gzip's header"
_GZIP_LEVEL: Final = 6  # Java's default; kafka-python's 9 takes three times as long for one percent
_XERIAL_MAGIC: Final = b"\x82SNAPPY\0"
_XERIAL_HEADER_BYTES: Final = 16
# A copy of 64 bytes takes 3 or more, so no content can expand by more than this.
_SNAPPY_MAX_RATIO: Final = 64
_ZSTD_MAX_WINDOW: Final = 128 * 1024 * 1024
_CHUNK: Final = 1024 * 1024
_PACKED_CHUNK: Final = 64 * 1024
_GZIP_MEMBER: Final = b"\x1f\x8b\x08"
# A header and a trailer: java.util.zip.GZIPInputStream ignores fewer bytes than these after a member.
_GZIP_LEAST: Final = 18
_GZIP_HEADER: Final = _GZIP_MEMBER + b"\0\0\0\0\0\0\xff"
_GZIP_CHECKSUM: Final = 0x02
_GZIP_EXTRA: Final = 0x04
_GZIP_TEXTS: Final = (0x08, 0x10)  # a name and a comment
_GZIP_RESERVED: Final = 0xE0
_LZ4_FLAGS: Final = 4
_LZ4_HEADER_BYTES: Final = 7
_LZ4_DICTIONARY: Final = 0x01
_LZ4_CHECKSUM: Final = 0x04
_LZ4_SIZE: Final = 0x08
_LZ4_SIZE_BYTES: Final = 8
_SIZE_BYTES: Final = 4


class TooLarge(MalformedBatch):
    """Records with more bytes than their reader accepts."""


def compress(plain: bytes | bytearray, codec: int) -> bytes:
    """``plain`` as a producer would compress it; ``codec`` is 0 to 4, as in a batch's attributes."""
    return _COMPRESS[codec](plain)


def compress_tightly(plain: bytes, codec: int) -> bytes:
    """The same in fewer bytes, and some times as long: a producer may have chosen a higher level than ``compress``."""
    return _COMPRESS_TIGHTLY.get(codec, _COMPRESS[codec])(plain)


def decompress(packed: bytes, codec: int, limit: int = MAX_PLAIN_BYTES) -> bytes:
    """Decompress ``packed``.

    Args:
        packed: the bytes after a batch's header.
        codec: as in the batch's attributes.
        limit: the maximum number of plain bytes of a batch.

    Raises:
        MalformedBatch: if it is not of that codec, is truncated or would become larger than ``limit``.
    """
    if codec == NONE:
        return packed
    chunks, size = [], 0
    for chunk in decompress_chunks(packed, codec, limit):
        size += len(chunk)
        if size > limit:
            raise TooLarge(f"more than {limit} bytes in {len(packed)} compressed ones")
        chunks.append(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def decompress_chunks(packed: bytes, codec: int, limit: int = MAX_PLAIN_BYTES) -> Iterator[bytes]:
    """Decompress ``packed`` in chunks of about a mebibyte; snappy in its blocks.

    Args:
        packed: as in ``decompress``.
        codec: as in ``decompress``.
        limit: the maximum size of a snappy block, which is not divided.

    Raises:
        MalformedBatch: as in ``decompress``; the chunks before stay correct.
    """
    if codec == NONE:
        yield packed
        return
    if codec not in _DECOMPRESS:
        raise MalformedBatch(f"the codec {codec}, which Kafka does not have")
    try:
        yield from _DECOMPRESS[codec](packed, limit)
    except MalformedBatch:
        raise
    except Exception as error:  # each library has its own errors
        raise MalformedBatch(f"records that cannot be decompressed: {error}") from error


def _gzip(packed: bytes, limit: int) -> Iterator[bytes]:
    at, step = 0, min(_CHUNK, limit + 1)
    # java.util.zip.GZIPInputStream takes what begins like no member for the end.
    while not at or (len(packed) - at >= _GZIP_LEAST and packed.startswith(_GZIP_MEMBER, at)):
        stream = zlib.decompressobj(_GZIP_WINDOW)
        if any(flags & _GZIP_RESERVED for flags in packed[at + 3 : at + 4]):
            # Java ignores these flags, and zlib refuses them.
            stream.decompress(_GZIP_HEADER)
            at = _after_gzip_header(packed, at)
        # What lies after a member is copied with its last piece: of small ones, as little.
        size = 256
        while not stream.eof:
            if at >= len(packed):
                raise MalformedBatch("a gzip stream that is cut off")
            piece = packed[at : at + size]
            at, size = at + len(piece), min(4 * size, _PACKED_CHUNK)
            chunk = stream.decompress(piece, step)
            yield chunk
            # After a full chunk more may wait, in zlib or before it.
            while len(chunk) == step and not stream.eof:
                chunk = stream.decompress(stream.unconsumed_tail, step)
                yield chunk
        at -= len(stream.unused_data)


def _after_gzip_header(packed: bytes, at: int) -> int:
    """Where the header of the gzip member at byte ``at`` ends."""
    flags = packed[at + 3]
    at += len(_GZIP_HEADER)
    if flags & _GZIP_EXTRA:
        at += 2 + int.from_bytes(packed[at : at + 2], "little")
    for text in _GZIP_TEXTS:
        if flags & text:
            at = packed.index(b"\0", at) + 1
    return at + 2 if flags & _GZIP_CHECKSUM else at


def _lz4(packed: bytes, limit: int) -> Iterator[bytes]:
    step = min(_CHUNK, limit + 1)  # the library allocates so many bytes at once
    stream = lz4.frame.LZ4FrameDecompressor()
    chunk = stream.decompress(_unchecked_lz4(packed), step)
    yield chunk
    while not stream.eof:
        if not chunk and stream.needs_input:
            raise MalformedBatch("an lz4 frame that is cut off")
        chunk = stream.decompress(b"", step)
        yield chunk


def _unchecked_lz4(packed: bytes) -> bytes:
    """A frame without its content's size and checksum: Java compares neither, and brokers take any."""
    flags = packed[_LZ4_FLAGS] if len(packed) >= _LZ4_HEADER_BYTES else 0
    if not flags & (_LZ4_CHECKSUM | _LZ4_SIZE) or flags & _LZ4_DICTIONARY:
        return packed
    end = _LZ4_HEADER_BYTES + (_LZ4_SIZE_BYTES if flags & _LZ4_SIZE else 0)
    descriptor = packed[_LZ4_FLAGS : end - 1]
    if packed[end - 1 : end] != _lz4_checksum(descriptor):
        return packed
    plainer = bytes([flags & ~(_LZ4_CHECKSUM | _LZ4_SIZE), descriptor[1]])
    return b"".join((packed[:_LZ4_FLAGS], plainer, _lz4_checksum(plainer), packed[end:]))


def _lz4_checksum(descriptor: bytes) -> bytes:
    return bytes([xxhash.xxh32_intdigest(descriptor) >> 8 & 0xFF])


def _zstd(packed: bytes, limit: int) -> Iterator[bytes]:
    step = min(_CHUNK, limit + 1, max(16 * 1024, 8 * len(packed)))
    decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_MAX_WINDOW)
    with decompressor.stream_reader(packed, read_across_frames=True) as stream:
        while chunk := stream.read(step):
            yield chunk


def _snappy(packed: bytes, limit: int) -> Iterator[bytes]:
    """Java and most clients write xerial's blocks, librdkafka writes one raw block."""
    if not packed.startswith(_XERIAL_MAGIC):
        yield _snappy_block(packed, limit)
        return
    at = 0
    # Less than a size after the last block is not looked at (org.xerial.snappy.SnappyInputStream).
    while at + _SIZE_BYTES <= len(packed):
        if packed.startswith(_XERIAL_MAGIC, at):
            at += _XERIAL_HEADER_BYTES
            if at > len(packed):
                raise MalformedBatch("a snappy stream whose header is cut off")
            continue
        size = int.from_bytes(packed[at : at + _SIZE_BYTES], "big", signed=True)
        at += _SIZE_BYTES
        if not 0 < size <= len(packed) - at:
            raise MalformedBatch(f"a snappy block of {size} bytes")
        yield _snappy_block(packed[at : at + size], limit)
        at += size


def _snappy_block(block: bytes, limit: int) -> bytes:
    promised = 0
    for place, byte in enumerate(block[:5]):
        promised |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            break
    if promised > min(limit, _SNAPPY_MAX_RATIO * len(block)):
        kind = TooLarge if promised > limit else MalformedBatch
        raise kind(f"a snappy block of {len(block)} bytes that promises {promised}")
    return bytes(snappy.decompress(block))


_COMPRESS: Final[dict[int, Callable[[bytes | bytearray], bytes]]] = {
    NONE: bytes,
    GZIP: lambda plain: zlib.compress(plain, _GZIP_LEVEL, _GZIP_WINDOW),
    SNAPPY: kafka_codec.snappy_encode,
    LZ4: kafka_codec.lz4_encode,
    # The library gives bytes in the room for all plain ones, which they keep as long as they live.
    ZSTD: lambda plain: bytes(memoryview(kafka_codec.zstd_encode(plain))),
}


def _zstd_tightly(plain: bytes | bytearray) -> bytes:
    # Higher levels take ten times as long for some percent; what repeats is found as far back as readers look.
    parameters = zstandard.ZstdCompressionParameters.from_level(
        9, source_size=len(plain), window_log=_ZSTD_MAX_WINDOW.bit_length() - 1, enable_ldm=True
    )
    return zstandard.ZstdCompressor(compression_params=parameters).compress(plain)


_COMPRESS_TIGHTLY: Final[dict[int, Callable[[bytes | bytearray], bytes]]] = {
    GZIP: lambda plain: zlib.compress(plain, 9, _GZIP_WINDOW),
    LZ4: lambda plain: lz4.frame.compress(plain, compression_level=12, block_linked=False),
    ZSTD: _zstd_tightly,
}
_DECOMPRESS: Final[dict[int, Callable[[bytes, int], Iterator[bytes]]]] = {
    GZIP: _gzip,
    SNAPPY: _snappy,
    LZ4: _lz4,
    ZSTD: _zstd,
}
