"""The files of a Structured Streaming query's checkpoint that hold offsets of Spark's Kafka source. Pure.

``offsets`` has a file for each batch that was planned, ``commits`` one for each that was finished, and
``sources`` where each source began. A batch's file is a version, a line of metadata, and one line for
each source: where the batch ends, which is where the next one begins. Spark continues from the newest of
them, and reads a batch without a commit again, up to exactly the planned ends. Formats:
Spark's ``OffsetSeqLog`` (versions 1 and 2), ``CommitLog`` and ``KafkaSourceOffset``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from kafka_ferry.as_json import read_json
from kafka_ferry.errors import CheckpointRefused
from kafka_ferry.model.ranges import TopicPartition

OFFSETS: Final = "offsets"
COMMITS: Final = "commits"
SOURCES: Final = "sources"
STATE: Final = "state"
METADATA: Final = "metadata"
NO_OFFSET: Final = "-"
# Java reads other digits and longer numbers too; no topic has such a partition.
_PARTITION: Final = re.compile("[0-9]{1,10}")

# Spark's content for a batch that ended without a watermark.
_FIRST_COMMIT: Final = b'v1\n{"nextBatchWatermarkMs":0}'
# It begins with a zero byte, which Spark 2.1 needed.
_INITIAL: Final = b"\0v1\n"


@dataclass(frozen=True, slots=True)
class SourceEnd:
    """One source's line in a batch.

    Attributes:
        key: what precedes the offset: nothing in version 1, the source's id and a colon in version 2.
        text: the offset in its stored form.
    """

    key: str
    text: str

    def __str__(self) -> str:
        return f"{self.key}{self.text}"

    @property
    def is_empty(self) -> bool:
        """Whether the source has no offset yet."""
        return self.text == NO_OFFSET


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """A file of ``offsets``.

    Attributes:
        head: its first two lines: version and metadata, which stay unchanged.
        ends: where each source's part of the batch ends, in their order.
    """

    head: tuple[str, str]
    ends: tuple[SourceEnd, ...]

    @classmethod
    def of(cls, name: str, content: bytes) -> MicroBatch:
        """The content of the file ``name``.

        Raises:
            CheckpointRefused: if its version is unknown, or it is not such a file.
        """
        version, *rest = content.decode(errors="replace").rstrip("\n").split("\n")
        if version not in ("v1", "v2") or len(rest) < 2:
            raise CheckpointRefused(
                [f"{name} is not a batch of version 1 or 2: it begins with {version!r}."]
            )
        ends = [SourceEnd("", line) for line in rest[1:]]
        if version == "v2":
            split = [line.partition(":") for line in rest[1:]]
            ends = [SourceEnd(f"{source}:", text) for source, _, text in split]
        return cls((version, rest[0]), tuple(ends))

    def sources(self) -> Iterator[tuple[str, SourceEnd]]:
        """Each source's part, with the name of the file that says where the source began."""
        for number, end in enumerate(self.ends):
            yield f"{SOURCES}/{end.key.rstrip(':') or number}/0", end

    def __bytes__(self) -> bytes:
        return "\n".join([*self.head, *map(str, self.ends)]).encode()


@dataclass(frozen=True, slots=True)
class Numbers:
    """Which batches of a checkpoint matter.

    Attributes:
        committed: the newest one that was finished; None if none was.
        unfinished: the one that was planned after it and not finished, if there is one.
        before: the one before the newest, which Spark also requires; None if it is gone.
    """

    committed: int | None
    unfinished: int | None
    before: int | None

    @classmethod
    def of(cls, offsets: Iterable[str], commits: Iterable[str]) -> Numbers:
        """The numbers by the names of the files in ``offsets`` and ``commits``; other names do not count.

        Raises:
            CheckpointRefused: if there is no batch, or it is unclear what was committed.
        """
        planned, finished = _numbers(offsets), _numbers(commits)
        if not planned:
            raise CheckpointRefused(["it holds no batch: there are no offsets to translate."])
        committed = max(finished & planned, default=None)
        if finished and (committed is None or max(finished) > committed):
            raise CheckpointRefused(
                [f"batch {max(finished)} is committed, and its file in offsets is gone."]
            )
        open_ = sorted(n for n in planned if committed is None or n > committed)
        if len(open_) > 1:
            listed = ", ".join(map(str, open_))
            raise CheckpointRefused(
                [f"batches {listed} are not committed, as with asynchronous progress tracking."]
            )
        newest = max(planned)
        before = newest - 1 if newest - 1 in planned else None
        return cls(committed, open_[0] if open_ else None, before)

    @property
    def newest(self) -> int:
        """The newest batch, finished or not."""
        newest = self.committed if self.unfinished is None else self.unfinished
        assert newest is not None
        return newest

    @property
    def planned(self) -> tuple[int, ...]:
        """The files of ``offsets`` that are needed, ascending."""
        wanted = {self.before, self.committed, self.unfinished}
        return tuple(sorted(number for number in wanted if number is not None))


@dataclass(frozen=True)
class SparkCheckpoint:
    """The content of a checkpoint.

    Attributes:
        numbers: its batches that matter.
        batches: their content, by number.
        commits: their files in ``commits``, by number.
        initial: where each source began, by the file's name below the checkpoint.
        metadata: the file with the query's id.
        stateful: whether the query keeps state between batches.
        of_a_flow: whether it is a checkpoint of a Kafka Ferry flow.
    """

    numbers: Numbers
    batches: Mapping[int, MicroBatch]
    commits: Mapping[int, bytes]
    initial: Mapping[str, Mapping[TopicPartition, int] | None]
    metadata: bytes | None = None
    stateful: bool = False
    of_a_flow: bool = False

    @property
    def commit(self) -> bytes:
        """The content of a further commit: that of the newest one, or of Spark's first one."""
        committed = self.numbers.committed
        return _FIRST_COMMIT if committed is None else self.commits[committed]


def kafka_offsets(text: str) -> dict[TopicPartition, int] | None:
    """The offsets in a line such as ``{"orders":{"0":123}}``; None if another source has written it."""
    try:
        topics = read_json(text)
    except ValueError:
        return None
    if not isinstance(topics, dict) or not all(map(_is_partitions, topics.values())):
        return None
    return {
        TopicPartition(topic, int(number)): offset
        for topic, partitions in topics.items()
        for number, offset in partitions.items()
    }


def kafka_text(offsets: Mapping[TopicPartition, int]) -> str:
    """The line that Spark's Kafka source writes for ``offsets``."""
    topics: dict[str, dict[str, int]] = {}
    for partition, offset in sorted(offsets.items()):
        topics.setdefault(partition.topic, {})[str(partition.partition)] = offset
    return json.dumps(topics, separators=(",", ":"), ensure_ascii=False)


def initial_offsets(content: bytes) -> dict[TopicPartition, int] | None:
    """Where a Kafka source began, by its file in ``sources``; None if another source has written it."""
    text = content.lstrip(b"\0").decode(errors="replace")
    return kafka_offsets(text.partition("\n")[2] if text.startswith("v") else text)


def initial_content(offsets: Mapping[TopicPartition, int]) -> bytes:
    """The file in ``sources`` of a Kafka source that began at ``offsets``."""
    return _INITIAL + kafka_text(offsets).encode()


def _is_partitions(partitions: object) -> bool:
    return isinstance(partitions, dict) and all(
        _PARTITION.fullmatch(number) and type(offset) is int
        for number, offset in partitions.items()
    )


def _numbers(names: Iterable[str]) -> set[int]:
    return {int(name) for name in names if name.isdecimal()}
