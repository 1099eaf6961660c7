"""How a flow copies: its writers, their transactions, and how offsets are kept."""

from __future__ import annotations

from typing import Annotated, Final, Literal, get_args

from pydantic import Field

from kafka_ferry.config.options.base import Options
from kafka_ferry.config.types.durations import Milliseconds
from kafka_ferry.config.types.per_topic import PerTopic, per_topic, per_topic_choice
from kafka_ferry.config.types.values import KIB, MIB, Bytes, Number, whole_number

IsolationLevelName = Literal["read_committed", "read_uncommitted"]
OffsetsMode = Literal["translated", "preserved", "auto"]
MirrorStart = Literal["log-start"] | int

_FIFTEEN_MINUTES_MS: Final = 15 * 60 * 1000  # the brokers' transaction.max.timeout.ms
_INT32_MAX: Final = 2**31 - 1
_INT64_MAX: Final = 2**63 - 1
_START: Final = {
    "anyOf": [
        {"type": "integer", "minimum": 0, "maximum": _INT64_MAX},
        {"type": "string", "pattern": "^(log-start|[0-9]+)$"},
    ]
}


def _as_start(value: object) -> MirrorStart:
    if value == "log-start":
        return "log-start"
    offset = whole_number(value, least=0, most=_INT64_MAX)
    if offset is None:
        raise ValueError("must be log-start or an offset")
    return offset


class CopyOptions(Options):
    """The options of a flow about its writers, what they read at a time, and the offsets of their records."""

    writers: Number = Field(
        default=32,
        ge=1,
        le=1000,
        description="Transactional producers that divide the target's partitions among themselves, "
        "and so the maximum number of tasks that copy at a time.",
    )
    transaction_max_bytes: Bytes = Field(
        default=64 * MIB,
        gt=0,
        description="A writer ends its transaction after this many bytes. Where that takes long, because "
        "the target is far away, it ends later: after twelve times as long as the last end took.",
    )
    transaction_max_ms: Milliseconds = Field(
        default=10_000,
        gt=0,
        lt=_FIFTEEN_MINUTES_MS,
        description="A writer ends its transaction after this many milliseconds; read_committed "
        "consumers of the target wait at most that long.",
    )
    partition_wait_ms: Milliseconds = Field(
        default=60_000,
        gt=0,
        lt=_FIFTEEN_MINUTES_MS,
        description="How long a run waits for a partition without a leader or with too few in-sync "
        "replicas, and for a coordinator that moves, before it reports the partition as failed, in "
        "milliseconds. The writer's other partitions are copied meanwhile. What a broker reads from remote storage "
        "has five times as long.",
    )
    fetch_max_bytes: Bytes = Field(
        default=8 * MIB,
        gt=0,
        le=_INT32_MAX,
        description="The maximum size that one fetch request to the source asks for, in bytes. A source that "
        "answers within 2 ms is asked for 4 MiB at most.",
    )
    isolation_level: IsolationLevelName = Field(
        default="read_committed",
        description="Which of the source's records are copied: those of committed transactions, "
        "or with read_uncommitted also those of open and aborted ones.",
    )
    join_batches_below: Bytes = Field(
        default=32 * KIB,
        ge=0,
        le=_INT32_MAX,
        description="Neighbouring batches of the source that are smaller than this are joined into "
        "large ones, in bytes; 0 leaves every batch as it is.",
    )
    offsets: Annotated[
        PerTopic[OffsetsMode], per_topic_choice("translated", get_args(OffsetsMode))
    ] = Field(
        default=PerTopic("translated"),
        description="How a topic's offsets are kept: translated, in any topic of the target, with a "
        "map of the offsets in the ledger; or preserved, in a topic of the flow's own, where each "
        "record has the offset that it has on the source. With auto, a remote topic that was never "
        "written to is preserved unless its source is mostly gaps or compacted, and any other "
        "translated. What was chosen stays for as long as the remote topic exists. One value, or "
        "a mapping from topics (names or Java regular expressions) to values, of which the first "
        "that matches counts; in properties files, pattern:value, pattern:value.",
    )
    offsets_start: Annotated[PerTopic[MirrorStart], per_topic("log-start", _as_start, _START)] = (
        Field(
            default=PerTopic("log-start"),
            description="Where the mirror of a topic with preserved offsets begins: at the start of the "
            "source's log, or at an offset; with 0, the offsets that the source no longer has are gaps. "
            "One value or a mapping, as for offsets.",
        )
    )
    fill: Literal["auto", "transactions", "markers"] = Field(
        default="auto",
        description="How offsets without a record are filled where offsets are preserved: by "
        "WriteTxnMarkers requests, which need CLUSTER_ACTION on the target, by empty transactions, "
        "which are slower and not safe when leaders move, or (auto) by the former where the "
        "flow has that permission.",
    )
    fill_max_ms: Milliseconds = Field(
        default=600_000,
        ge=0,
        description="The maximum expected time for filling one topic's offsets without a record in "
        "one run, in milliseconds.",
    )
