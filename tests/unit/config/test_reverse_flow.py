"""The reverse flow of a flow."""

from __future__ import annotations

from pathlib import Path
from time import process_time

import pytest

from kafka_ferry.config import load_flow, load_flows
from kafka_ferry.config.reverse_flow import load_reverse_flow, reverse_flow
from kafka_ferry.errors import ConfigError
from kafka_ferry.plan.topics.missing import missing_topics
from kafka_ferry.plan.topics.topic_filter import select

ONE = """
source: {alias: a, bootstrap.servers: "a:9092"}
target: {alias: b, bootstrap.servers: "b:9092"}
topics: [orders, bills]
topics.rename: {bills: "b.bills"}
offsets: preserved
auto.offset.reset: latest
topics.start: {orders: group=billing}
transform: [{topics: [orders], where: value.test is null}]
topics.configs: {orders: {retention.ms: 1h, cleanup.policy: compact}}
writers: 7
"""
BOTH = """
clusters = a, b
a.bootstrap.servers = a:9092
b.bootstrap.servers = b:9092
a->b.enabled = true
b->a.enabled = true
b->a.writers = 3
b->a.sync.group.offsets.enabled = true
b.consumer.auto.offset.reset = latest
"""


@pytest.fixture
def one(tmp_path: Path) -> Path:
    file = tmp_path / "one.yaml"
    file.write_text(ONE)
    return file


def test_it_is_the_same_flow_turned_round(one: Path) -> None:
    back = reverse_flow(load_flow(one))
    assert (back.name, back.slug, back.writers) == ("b->a", "b_to_a", 7)
    assert back.target.client_properties("admin")["bootstrap.servers"] == "a:9092"
    assert back.schedule is None


def test_names_are_taken_back(one: Path) -> None:
    back = reverse_flow(load_flow(one))
    assert back.topics_rename == {"b.bills": "bills"}
    wanted = back.topic_filter
    assert [name for name in ("orders", "b.bills", "bxbills") if wanted.matches(name)] == [
        "orders",
        "b.bills",
    ]


def test_it_refuses_no_name_that_nobody_has_written_to_on_the_target(one: Path) -> None:
    back = reverse_flow(load_flow(one))
    nothing = select(back, ["a.orders"], {}, "T")
    assert not [*missing_topics(back, frozenset(["a.orders"]), (), nothing)]


def test_it_writes_to_topics_of_the_target_and_brings_nothing_back(one: Path) -> None:
    back = reverse_flow(load_flow(one))
    assert (back.on_returned_records, back.on_foreign_records) == ("leave-out", "adopt")
    assert back.offsets.of("orders") == "translated"


def test_it_begins_at_the_start_and_leaves_the_originals_configs_alone(one: Path) -> None:
    """Else what was written before its first run is left out, and the originals lose records as the copies do."""
    back = reverse_flow(load_flow(one))
    assert (back.auto_offset_reset, back.topics_start.rules) == ("earliest", ())
    assert not back.sync_topic_configs_enabled
    assert back.configs_of("orders") == {}


def test_what_the_source_lacks_comes_back_as_it_was_written(one: Path) -> None:
    """A rule is about what the target may see, and the source would have masked records, and not all, for good."""
    assert reverse_flow(load_flow(one)).transform == ()


def test_aborted_records_can_be_told_from_committed_ones(tmp_path: Path) -> None:
    file = tmp_path / "uncommitted.yaml"
    file.write_text(ONE.replace("offsets: preserved", "isolation.level: read_uncommitted"))
    assert reverse_flow(load_flow(file)).isolation_level == "read_committed"


def test_a_flow_of_the_file_is_taken_before_one_that_is_made(tmp_path: Path) -> None:
    file = tmp_path / "both.properties"
    file.write_text(BOTH)
    back = load_reverse_flow(file, load_flow(file, "a->b"))
    assert (back.name, back.writers, back.on_returned_records) == ("b->a", 3, "leave-out")
    assert (back.auto_offset_reset, back.sync_topic_configs_enabled) == ("earliest", False)
    # A failback moves them once, after the reverse flow's run.
    assert not back.sync_group_offsets_enabled


def test_an_opposite_flow_that_is_not_enabled_does_not_count(tmp_path: Path) -> None:
    file = tmp_path / "one.properties"
    file.write_text(BOTH.replace("b->a.enabled = true", "b->a.enabled = false"))
    back = load_reverse_flow(file, load_flow(file, "a->b"))
    assert (back.name, back.writers) == ("b->a", 32)


def test_an_opposite_flow_that_is_wrong_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "both.properties"
    file.write_text(BOTH.replace("writers = 3", "writers = few"))
    with pytest.raises(ConfigError, match=r"b->a\.writers"):
        load_reverse_flow(file, load_flow(file, "a->b"))


def test_many_reverse_flows_of_a_file_take_seconds(tmp_path: Path) -> None:
    # Airflow makes a failback's DAG of each.
    others = [f"c{number}" for number in range(300)]
    file = tmp_path / "many.properties"
    brokers = [f"{alias}.bootstrap.servers = {alias}:9092" for alias in ("hub", *others)]
    enabled = [f"hub->{alias}.enabled = true" for alias in others]
    file.write_text("\n".join([f"clusters = hub, {', '.join(others)}", *brokers, *enabled]))
    flows = load_flows(file)

    began = process_time()
    names = [load_reverse_flow(file, flow).name for flow in flows]
    assert process_time() - began < 20
    assert names == [f"{alias}->hub" for alias in others]
