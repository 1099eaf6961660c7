"""What was last committed for groups, from the ledger's ``groups`` entries.

Where thousands of groups move in every run, these entries soon are most of a ledger. So their result is
stored next to the table from time to time, and only later entries are read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_ferry.ledger.record import GroupsEntry, SyncedOffset
from kafka_ferry.state import StateFolder

Synced = dict[str, dict[tuple[str, int], SyncedOffset]]
"""By group, then by remote topic's id and partition."""

DAMAGE: Final = (pa.ArrowException, OSError)
"""Arrow's exceptions for a file that is not a table, or is truncated."""
_ALWAYS_ALLOWED: Final = 1_000_000
_VALUES_A_BYTE: Final = 64
_ALWAYS_ALLOWED_BYTES: Final = 64 * 1024 * 1024
_BYTES_A_BYTE: Final = 200
_ENCODINGS: Final = frozenset({"PLAIN", "RLE", "BIT_PACKED"})
_SUFFIX: Final = ".synced"
_NAME: Final = re.compile(rf"[0-9]{{20}}{re.escape(_SUFFIX)}")
_SCHEMA: Final = pa.schema(
    [
        ("group", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("source", pa.int64()),
        ("target", pa.int64()),
        ("source_cluster_id", pa.string()),
        ("source_topic_id", pa.string()),
        ("at", pa.int64()),
        ("refuted", pa.bool_()),
    ]
)


def fold_synced(synced: Synced, entries: Iterable[str]) -> None:
    """Bring ``synced`` up to date with later entries, each as JSON, in ledger order."""
    for text in entries:
        entry = GroupsEntry.model_validate_json(text)
        for group, topics in entry.synced.items():
            known = synced.setdefault(group, {})
            for topic, partitions in topics.items():
                of_entry = entry.source_cluster_id, entry.source_topic_ids.get(topic, ""), entry.at
                for number, offset in partitions.items():
                    known[topic, number] = _offset(
                        offset.source, offset.target, *of_entry, refuted=offset.refuted
                    )


def stored_end(folder: StateFolder) -> int:
    """The ledger offset up to which all entries are in the stored file, 0 without one."""
    name = stored_name(folder)
    return int(name.removesuffix(_SUFFIX)) if name else 0


def stored_name(folder: StateFolder) -> str:
    """The file that holds it, "" if there is none."""
    return max(_names(folder), default="")


def stored_synced(folder: StateFolder) -> tuple[int, Synced]:
    """The stored content, and the ledger offset up to which it has all entries.

    Raises:
        pa.ArrowException, OSError: if it is damaged.
    """
    while end := stored_end(folder):
        content = folder.read(_name(end))
        # Another run of the flow may have replaced it since it was listed.
        if content is not None:
            return end, _read_synced(content)
    return 0, {}


def store_synced(folder: StateFolder, end: int, synced: Synced) -> None:
    """Store the result of all entries before the ledger offset ``end``, replacing the earlier file."""
    earlier = _names(folder)
    rows = [
        (
            group,
            topic,
            number,
            offset.source,
            offset.target,
            offset.source_cluster_id,
            offset.source_topic_id,
            offset.at,
            offset.refuted,
        )
        for group, offsets in synced.items()
        for (topic, number), offset in offsets.items()
    ]
    columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in _SCHEMA]
    sink = pa.BufferOutputStream()
    write_own_table(pa.table(columns, schema=_SCHEMA), sink, compression="zstd")
    folder.write(_name(end), sink.getvalue().to_pybytes())
    folder.delete(name for name in earlier if name != _name(end))


def write_own_table(rows: pa.Table, sink: pa.NativeFile, *, compression: str) -> None:
    """Write a Parquet file that ``require_own_file`` takes.

    Without dictionaries: compression finds what repeats, in less time and fewer bytes.
    """
    pq.write_table(
        rows, sink, compression=compression, use_dictionary=False, write_page_checksum=True
    )


def require_own_file(metadata: pq.FileMetaData, size: int, schema: pa.Schema) -> None:
    """Check that a Parquet file may be a run's: its columns, and no more in them than its bytes can hold.

    A value that is repeated takes next to no bytes, and a file of 16 kB would take gigabytes when it is read. What
    runs have written has offsets, and digests, that do not repeat, and nothing that refers to values elsewhere.

    Raises:
        pa.ArrowInvalid: no run of this release has written it.
    """
    if metadata.schema.to_arrow_schema() != schema:
        raise pa.ArrowInvalid("columns that this release does not write")
    columns = [
        group.column(number)
        for group in map(metadata.row_group, range(metadata.num_row_groups))
        for number in range(group.num_columns)
    ]
    if any(column.has_dictionary_page or {*column.encodings} - _ENCODINGS for column in columns):
        raise pa.ArrowInvalid("encodings that this release does not write")
    values = sum(column.num_values for column in columns)
    content = sum(column.total_uncompressed_size for column in columns)
    if values > _ALWAYS_ALLOWED + _VALUES_A_BYTE * size:
        raise pa.ArrowInvalid(f"{values:,} values in {size:,} bytes, which no run has written")
    if content > _ALWAYS_ALLOWED_BYTES + _BYTES_A_BYTE * size:
        raise pa.ArrowInvalid(f"{content:,} bytes in {size:,}, which no run has written")


def _read_synced(content: bytes) -> Synced:
    synced: Synced = {}
    file = pa.BufferReader(content)
    require_own_file(pq.read_metadata(file), len(content), _SCHEMA)
    rows = pq.read_table(file, page_checksum_verification=True)
    columns = rows.to_pydict().values()
    for group, topic, number, *fields, refuted in zip(*columns, strict=True):
        offset = _offset(*fields, refuted=refuted)
        synced.setdefault(group, {})[topic, number] = offset
    return synced


def _offset(
    source: int, target: int, cluster: str, topic: str, at: int, *, refuted: bool
) -> SyncedOffset:
    # Both numbers were checked, and there may be millions.
    return SyncedOffset.model_construct(
        source=source,
        target=target,
        source_cluster_id=cluster,
        source_topic_id=topic,
        at=at,
        refuted=refuted,
    )


def _names(folder: StateFolder) -> list[str]:
    return [name for name in folder.names(_SUFFIX) if _NAME.fullmatch(name)]


def _name(end: int) -> str:
    return f"{end:020d}{_SUFFIX}"
