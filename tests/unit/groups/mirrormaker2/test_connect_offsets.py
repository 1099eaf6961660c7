"""Connect's stored offsets are read as MirrorMaker 2 writes them, and written so that it finds them."""

from __future__ import annotations

import pytest

from kafka_ferry.groups.mirrormaker2.connect_offsets import (
    ConnectOffset,
    key_of,
    newest,
    offset_of,
    offsets_topic,
    partition_of,
    value_of,
    worker_group,
)
from kafka_ferry.model import TopicPartition

ORDERS = TopicPartition("orders", 0)
# As a MirrorMaker 2 of Kafka 4.3.1 has written it.
KEY = b'["MirrorSourceConnector",{"cluster":"primary","partition":0,"topic":"orders"}]'


def test_a_key_and_a_value_have_the_bytes_that_connect_gives_them() -> None:
    assert key_of(ORDERS, "primary") == KEY
    assert value_of(500) == b'{"offset":499}'
    assert value_of(0) is None, "MirrorMaker 2 begins at the start without an offset"


@pytest.mark.parametrize(
    "key", [KEY, b'["mine", {"topic": "orders", "partition": 0, "cluster": "primary"}]']
)
def test_a_key_is_known_whatever_its_connector_and_the_order_of_its_members(key: bytes) -> None:
    assert partition_of(key, "primary") == ORDERS
    assert partition_of(key, "another") is None


@pytest.mark.parametrize(
    "key",
    [
        b"",
        b"orders",
        b"{}",
        b'["MirrorSourceConnector"]',
        b'["MirrorHeartbeatConnector",{"sourceClusterAlias":"primary"}]',
        b'["x",{"cluster":"primary","partition":"0","topic":"orders"}]',
        b'["x",{"cluster":"primary","partition":0,"topic":7}]',
        b"\xff\xfe",
        b"[" * 100_000,
        b'["x",{"cluster":"primary","partition":true,"topic":"orders"}]',
        b'["x",{"cluster":"primary","partition":-1,"topic":"orders"}]',
        b'["x",{"cluster":"primary","partition":2147483648,"topic":"orders"}]',
    ],
)
def test_what_is_no_key_of_a_source_partition_is_passed_over(key: bytes) -> None:
    assert partition_of(key, "primary") is None


@pytest.mark.parametrize(
    ("value", "copied"),
    [
        (b'{"offset":41}', 41),
        (b'{"offset":null}', None),
        (b"null", None),
        (None, None),
        (b"{", None),
        (b"[" * 100_000, None),
        (b'{"offset":true}', None),
        (b'{"offset":9223372036854775806}', 2**63 - 2),
        (b'{"offset":9223372036854775807}', None),
    ],
)
def test_a_value_without_an_offset_is_none(value: bytes | None, copied: int | None) -> None:
    assert offset_of(value) == copied


def test_of_several_connectors_the_one_that_wrote_last_counts() -> None:
    stored = [
        ConnectOffset(ORDERS, 10, b"a", at=5),
        ConnectOffset(ORDERS, 7, b"b", at=6),
        ConnectOffset(TopicPartition("orders", 1), None, b"c", at=1),
    ]
    found = newest(stored)
    assert found[ORDERS].next == 8
    assert found[TopicPartition("orders", 1)].next is None


def test_names_are_those_of_its_dedicated_mode() -> None:
    assert offsets_topic("primary") == "mm2-offsets.primary.internal"
    assert worker_group("primary") == "primary-mm2"
