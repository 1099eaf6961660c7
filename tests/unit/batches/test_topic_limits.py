import pytest

from kafka_ferry.batches import TopicLimits
from kafka_ferry.errors import FerryError
from tests.support.records.batches import NOW

HOUR = 3_600_000


def test_a_topic_without_configs_takes_what_kafkas_defaults_let_it_take() -> None:
    assert TopicLimits.of_topic({}) == TopicLimits()
    assert TopicLimits().after_max_ms == HOUR


def test_a_topics_configs_say_what_it_takes() -> None:
    configs = {
        "max.message.bytes": "2000000",
        "compression.type": "zstd",
        "cleanup.policy": "compact,delete",
        "message.timestamp.before.max.ms": "1000",
        "message.timestamp.after.max.ms": "2000",
        "retention.ms": "5",
    }
    assert TopicLimits.of_topic(configs, join_below=7, offsets_kept=True) == TopicLimits(
        max_batch_bytes=2_000_000,
        codec=4,
        keys_required=True,
        before_max_ms=1_000,
        after_max_ms=2_000,
        join_below=7,
        offsets_kept=True,
    )


@pytest.mark.parametrize(
    ("name", "codec"),
    [("producer", None), ("uncompressed", 0), ("gzip", 1), ("snappy", 2), ("lz4", 3), ("zstd", 4)],
)
def test_a_topic_keeps_its_producers_codecs_or_pins_one(name: str, codec: int | None) -> None:
    topic_limits = TopicLimits.of_topic({"compression.type": name})
    assert topic_limits.codec == codec
    assert topic_limits.codec_for(2) == (2 if codec is None else codec)


@pytest.mark.parametrize(
    ("timestamp", "taken"),
    [
        (NOW, True),
        (NOW - 1_000, True),
        (NOW - 1_001, False),
        (NOW + 2_000, True),
        (NOW + 2_001, False),
        (-1, True),
        (-2, False),
    ],
)
def test_a_timestamp_is_taken_within_the_bounds_and_where_there_is_none(
    timestamp: int, taken: bool
) -> None:
    assert TopicLimits(before_max_ms=1_000, after_max_ms=2_000).takes(timestamp, NOW) is taken


def test_any_past_is_taken_by_default() -> None:
    assert TopicLimits().takes(-(2**41), NOW)


def test_a_topic_that_stamps_records_itself_takes_any_time() -> None:
    configs = {
        "message.timestamp.type": "LogAppendTime",
        "message.timestamp.before.max.ms": "1",
        "message.timestamp.after.max.ms": "1",
    }
    topic_limits = TopicLimits.of_topic(configs)
    assert topic_limits.takes(0, NOW)
    assert topic_limits.takes(NOW * 2, NOW)


def test_no_more_is_joined_than_a_batch_may_hold() -> None:
    assert TopicLimits(max_batch_bytes=100).join_limit == 100
    assert TopicLimits(join_up_to=50).join_limit == 50


@pytest.mark.parametrize("told", ["", "many", "1_0", " 1", "1e3", "9" * 5000, str(2**63), "\u0661"])
def test_a_config_that_is_no_number_is_told_by_name(told: str) -> None:
    with pytest.raises(FerryError, match=r"the config max\.message\.bytes of a topic is"):
        TopicLimits.of_topic({"max.message.bytes": told})
