"""What answers of brokers over the data plane's connections become."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import TopicCollection
from confluent_kafka.admin import ConfigResource, NewPartitions, NewTopic, ResourceType

from kafka_ferry.control.wire_admin import WireAdmin
from kafka_ferry.errors import ClusterUnreachable

ASKED = ConfigResource(ResourceType.TOPIC, "orders")


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> WireAdmin:
    """The broker answers about the topic that was named, and about another one."""

    def about(name: str) -> Any:
        return SimpleNamespace(resource_name=name, error_code=0, error_message=None, configs=[])

    both = [about("orders"), about("another")]
    answer = SimpleNamespace(results=both, responses=both)
    wire = SimpleNamespace(ask_any=lambda *_: answer)
    monkeypatch.setattr(WireAdmin, "_connect", lambda _: nullcontext(wire))
    monkeypatch.setattr(WireAdmin, "_change", lambda *_: answer)
    return WireAdmin("primary", {})


def test_a_topic_that_was_not_asked_about_is_left_out(admin: WireAdmin) -> None:
    assert admin.describe_configs([ASKED]).keys() == {ASKED}
    assert admin.incremental_alter_configs([ASKED]).keys() == {ASKED}


@pytest.mark.parametrize(
    "ask",
    [
        lambda admin: admin.describe_topics(TopicCollection(["orders"])),
        lambda admin: admin.describe_configs([ASKED]),
        lambda admin: admin.incremental_alter_configs([ASKED]),
        lambda admin: admin.create_topics(
            [NewTopic("orders", 1, 1, config={})], operation_timeout=1
        ),
        lambda admin: admin.create_partitions([NewPartitions("orders", 2)], operation_timeout=1),
        lambda admin: admin.delete_topics(["orders"], operation_timeout=1),
    ],
)
def test_a_topic_without_an_answer_is_neither_changed_nor_gone(
    monkeypatch: pytest.MonkeyPatch, ask: Callable[[WireAdmin], Any]
) -> None:
    answer = SimpleNamespace(results=[], responses=[], topics=[])
    wire = SimpleNamespace(ask_any=lambda *_, **__: answer)
    monkeypatch.setattr(WireAdmin, "_connect", lambda _: nullcontext(wire))
    monkeypatch.setattr(WireAdmin, "_change", lambda *_: answer)
    with pytest.raises(ClusterUnreachable, match="primary did not answer for orders"):
        ask(WireAdmin("primary", {}))
