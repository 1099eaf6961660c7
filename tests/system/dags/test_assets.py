"""What the assets of mirrored topics say when they are updated."""
# Airflow reads its environment when it is imported.
# ruff: noqa: PLC0415

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kafka_ferry.config import Flow, load_flow
from kafka_ferry.model import Window
from kafka_ferry.runs.verify.verified_topics import TopicProof

TEN_MS = 1_795_255_200_000  # 2026-11-21 10:00 UTC
ORDERS = TopicProof("orders", "eu.orders", 10, 999, TEN_MS, {1: 7, 0: 5})
CLICKS = TopicProof("clicks", "eu.clicks", complete_until=TEN_MS)


@pytest.fixture
def flow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Flow:
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    file = tmp_path / "flow.yaml"
    file.write_text(
        "source: {alias: eu, bootstrap.servers: 'a:1'}\n"
        "target: {alias: us, bootstrap.servers: 'b:1'}\n"
    )
    return load_flow(file)


def told(flow: Flow, *proofs: TopicProof) -> dict[str, dict[str, Any]]:
    """By asset, what a task that announces these would send to Airflow."""
    from airflow.sdk.execution_time.context import OutletEventAccessors

    from kafka_ferry_airflow.monitoring.assets import add_asset_events, flow_alias

    events = OutletEventAccessors()
    count = add_asset_events(flow, "run-2", proofs, events)
    sent = events[flow_alias(flow)].asset_alias_events
    assert len(sent) == count
    for event in sent:
        assert event.dest_asset_key.uri == f"kafka://{event.dest_asset_key.name}"
    return {event.dest_asset_key.name: event.extra for event in sent}


def test_a_topic_that_is_proved_says_until_when_it_is_complete(flow: Flow) -> None:
    assert told(flow, ORDERS)["us/eu.orders"] == {
        "flow": "eu->us",
        "run": "run-2",
        "topic": "orders",
        "records": 10,
        "bytes": 999,
        "complete_until": "2026-11-21T10:00:00.000+00:00",
        "ends": {"0": 5, "1": 7},
    }


def test_a_topic_of_which_there_was_nothing_new_is_complete_too_unless_only_copies_are_told(
    flow: Flow,
) -> None:
    assert told(flow, ORDERS, CLICKS).keys() == {"us/eu.orders", "us/eu.clicks"}
    only_copied = flow.model_copy(update={"asset_events": "copied"})
    assert told(only_copied, ORDERS, CLICKS).keys() == {"us/eu.orders"}


def test_a_backfill_says_its_window_and_not_that_anything_is_complete(flow: Flow) -> None:
    proof = replace(ORDERS, window=Window(TEN_MS, TEN_MS + 3_600_000), complete_until=0)
    extra = told(flow, proof)["us/eu.orders"]

    assert "complete_until" not in extra
    assert extra["backfill"] == {
        "since": "2026-11-21T10:00:00.000+00:00",
        "until": "2026-11-21T11:00:00.000+00:00",
    }


def test_the_ends_of_very_many_partitions_are_left_out(flow: Flow) -> None:
    many = replace(ORDERS, ends=dict.fromkeys(range(1001), 1))

    assert "ends" not in told(flow, many)["us/eu.orders"]
