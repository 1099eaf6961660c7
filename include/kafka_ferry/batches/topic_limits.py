"""What a target topic accepts unchanged, by its configs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import regex

from kafka_ferry.batches.record_format.codecs import GZIP, LZ4, NONE, SNAPPY, ZSTD
from kafka_ferry.errors import FerryError

JOIN_BELOW: Final = 32 * 1024
_JOIN_UP_TO: Final = 1_000_000
_MAX_MESSAGE_BYTES: Final = 1024 * 1024 + 12
_FOREVER_MS: Final = 2**63 - 1
_HOUR_MS: Final = 60 * 60 * 1000
_NO_TIMESTAMP: Final = -1
_NUMBER: Final = regex.compile(r"-?[0-9]{1,19}")
LIMITING_CONFIGS: Final = (
    "max.message.bytes",
    "compression.type",
    "cleanup.policy",
    "message.timestamp.type",
    "message.timestamp.before.max.ms",
    "message.timestamp.after.max.ms",
    "min.insync.replicas",
)
"""The configs of a topic that ``TopicLimits.of_topic`` needs."""
# compression.type: "producer" pins none of them.
_CODECS: Final = {"uncompressed": NONE, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}


@dataclass(frozen=True, slots=True)
class TopicLimits:
    """The limits of a target topic; the defaults are Kafka's.

    Attributes:
        max_batch_bytes: the largest batch (``max.message.bytes``).
        codec: the codec that its broker would compress everything with, None where each batch
            keeps its producer's.
        keys_required: whether it refuses records without a key, being compacted.
        before_max_ms: how much older than now a timestamp may be.
        after_max_ms: how much newer than now a timestamp may be.
        min_insync_replicas: so many replicas must be in sync, or it accepts nothing; where it has
            fewer replicas, all of them.
        join_below: neighbouring batches smaller than so many bytes are joined; 0 for none.
        join_up_to: joined batches have at most so many bytes before they are compressed.
        offsets_kept: whether records keep their source offsets there, so that each batch must
            hold records at offsets in a row.
    """

    max_batch_bytes: int = _MAX_MESSAGE_BYTES
    codec: int | None = None
    keys_required: bool = False
    before_max_ms: int = _FOREVER_MS
    after_max_ms: int = _HOUR_MS
    min_insync_replicas: int = 1
    join_below: int = JOIN_BELOW
    join_up_to: int = _JOIN_UP_TO
    offsets_kept: bool = False

    @classmethod
    def of_topic(
        cls,
        configs: Mapping[str, str],
        *,
        join_below: int = JOIN_BELOW,
        offsets_kept: bool = False,
    ) -> TopicLimits:
        """The limits of a topic.

        Args:
            configs: its effective ``LIMITING_CONFIGS``; Kafka's defaults stand in for missing ones.
            join_below: as the attribute.
            offsets_kept: as the attribute.
        """
        latest = _HOUR_MS
        if configs.get("message.timestamp.type") == "LogAppendTime":
            # The broker sets the time itself, and ignores the producer's.
            configs = {name: value for name, value in configs.items() if "timestamp" not in name}
            latest = _FOREVER_MS
        return cls(
            max_batch_bytes=config_number(configs, "max.message.bytes", _MAX_MESSAGE_BYTES),
            codec=_CODECS.get(configs.get("compression.type", "producer")),
            keys_required="compact" in configs.get("cleanup.policy", "delete"),
            before_max_ms=config_number(configs, "message.timestamp.before.max.ms", _FOREVER_MS),
            after_max_ms=config_number(configs, "message.timestamp.after.max.ms", latest),
            min_insync_replicas=config_number(configs, "min.insync.replicas", 1),
            join_below=join_below,
            offsets_kept=offsets_kept,
        )

    @property
    def join_limit(self) -> int:
        """The most bytes, before they are compressed, of a joined batch."""
        return min(self.join_up_to, self.max_batch_bytes)

    def codec_for(self, codec: int) -> int:
        """The codec with which a batch of ``codec`` is stored."""
        return codec if self.codec is None else self.codec

    def takes(self, timestamp: int, now_ms: int) -> bool:
        """Whether a record of that time is taken now (``LogValidator.validateTimestamp``)."""
        if timestamp == _NO_TIMESTAMP:
            return True
        return now_ms - self.before_max_ms <= timestamp <= now_ms + self.after_max_ms


def config_number(configs: Mapping[str, str], name: str, default: int) -> int:
    """A topic's config that is a number of 64 bits, as a broker tells it.

    Raises:
        FerryError: it is none.
    """
    value = configs.get(name)
    if value is None:
        return default
    if not _NUMBER.fullmatch(value) or not -(2**63) <= int(value) < 2**63:
        raise FerryError(f"A broker says that the config {name} of a topic is {value!r:.100}.")
    return int(value)
