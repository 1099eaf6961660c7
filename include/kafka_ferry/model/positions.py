"""Where a partition's copying continues, and the metadata of that offset in the flow's group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from pydantic import ValidationError

from kafka_ferry.as_json import reader_of
from kafka_ferry.model.rights import Right

_GROUPS: Final = "ferry."
_MOST_DIGITS: Final = 9

SEE_POSITIONS: Final = Right("GROUP", _GROUPS, "DESCRIBE", prefixed=True)
"""The right to see the positions of all flows into a cluster."""


@dataclass(frozen=True, slots=True)
class ProducerState:
    """The producer of a partition with preserved offsets, and its next sequence number.

    Sequence numbers count the records that it ever wrote to the partition, and wrap at 2^31
    (``DefaultRecordBatch.incrementSequence``).

    Attributes:
        producer_id: its id on the target.
        epoch: its epoch, which never changes: with another one its sequences would start over.
        sequence: of the next record.
        unfilled_to: while the offsets before the mirror's start are being filled, that start; -1
            from the first copied range on.
    """

    producer_id: int
    epoch: int
    sequence: int
    unfilled_to: int = -1


@dataclass(frozen=True, slots=True)
class PositionMetadata:
    """A position's metadata, as JSON.

    Attributes:
        topic_id: the source topic's id: a position in another topic of the same name does not count.
        remote_topic_id: the same for the target's topic.
        run: the run that committed it.
        at: when, in milliseconds since 1970.
        producer: of a partition with preserved offsets; None elsewhere.
        origins: the ids of all clusters that the topic's records came through, the source's too.
    """

    topic_id: str
    remote_topic_id: str
    run: str
    at: int
    producer: ProducerState | None = None
    origins: tuple[str, ...] = ()
    v: Literal[1] = 1

    def encode(self) -> str:
        """The JSON text."""
        return _METADATA.dump_json(self).decode()

    @classmethod
    def decode(cls, text: str) -> PositionMetadata | None:
        """Reads what ``encode`` wrote; None for anything else."""
        try:
            return _METADATA.validate_json(text)
        except ValidationError:
            return None


_METADATA: Final = reader_of(PositionMetadata)


@dataclass(frozen=True, slots=True)
class Position:
    """The next source offset of a partition.

    Attributes:
        offset: the source offset.
        topic_id: of the source topic that the offset belongs to; "" where that is not known.
        remote_topic_id: of the target topic that everything before it is in; "" where not known.
        at: when it was committed, in milliseconds since 1970; 0 where not known.
        origin: read from the flow's group, or recovered from the ledger because the group lost it.
        leader_epoch: the source's leader epoch of the last batch before ``offset`` (KIP-101): a
            log that was truncated below ``offset`` has another one there; where no batch was read just before it, as
            ``ConvertedBatch`` has it; -1 where not known.
        producer: of a partition with preserved offsets, as of ``offset``; None elsewhere.
        origins: the ids of all clusters that the topic's records came through, as far as known.
    """

    offset: int
    topic_id: str = ""
    remote_topic_id: str = ""
    at: int = 0
    origin: Literal["group", "ledger"] = "group"
    leader_epoch: int = -1
    producer: ProducerState | None = None
    origins: tuple[str, ...] = ()


def is_of_topics(position: Position, topic_id: str, remote_topic_id: str) -> bool:
    """Whether ``position`` is one of exactly these topics, as far as it says."""
    return position.topic_id in ("", topic_id) and position.remote_topic_id in ("", remote_topic_id)


def position_group(flow: str) -> str:
    """The group on the target that holds a flow's positions."""
    return f"{_GROUPS}{flow}"


def transactional_id(flow: str, number: int, *, preserved: bool = False) -> str:
    """The transactional id of the flow's writer ``number``, of the kind that preserves offsets or not."""
    return f"ferry.{flow}.{'preserved.' if preserved else ''}{number}"


def is_writers_id(flow: str, name: str, *, preserved: bool = False) -> bool:
    """Whether a transactional id is that of a writer of the flow, however many it has, of that kind.

    Any client may choose its own: Python raises ``ValueError`` for a number of more than 4,300 digits.
    """
    number = name.rpartition(".")[2]
    is_number = number.isdecimal() and len(number) <= _MOST_DIGITS
    return is_number and name == transactional_id(flow, int(number), preserved=preserved)


def is_position_group(group: str) -> bool:
    """Whether a group holds the positions of a flow into its cluster, by its name."""
    return group.startswith(_GROUPS) and "->" in group


def flow_of(group: str) -> str:
    """The name of the flow whose positions are in ``group``."""
    return group.removeprefix(_GROUPS)


def position_of(offset: int, metadata: str, leader_epoch: int = -1) -> Position:
    """The position that was committed as ``offset`` with ``metadata`` and ``leader_epoch``."""
    known = PositionMetadata.decode(metadata)
    if known is None:
        return Position(offset, leader_epoch=leader_epoch)
    return Position(
        offset,
        known.topic_id,
        known.remote_topic_id,
        known.at,
        leader_epoch=leader_epoch,
        producer=known.producer,
        origins=known.origins,
    )
