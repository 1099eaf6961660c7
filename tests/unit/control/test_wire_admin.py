"""What answers of brokers over the data plane's connections become."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka.admin import ConfigResource, ResourceType

from kafka_ferry.control.wire_admin import WireAdmin

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
