"""What a flow's file says of topics that the flow does not copy."""

from typing import Any

import pytest

from kafka_ferry.plan.topics.topic_filter import select
from kafka_ferry.plan.topics.unused_options import unused_options, unused_registries
from tests.unit.config import builders
from tests.unit.plan.builders import a_flow


def notes(**options: Any) -> list[str]:
    flow = a_flow(**options)
    return [*map(str, unused_options(flow, select(flow, ["orders", "payments", "__own"], {}, "T")))]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("offsets", "preserved"),
        ("offsets_start", 0),
        ("topics_start", "latest"),
        ("topics_configs", {"retention.ms": 1}),
        ("topics_partitions", 3),
        ("topics_replication_factor", 1),
        ("topics_replica_placement", {"r1": 1}),
    ],
)
def test_a_pattern_that_none_of_the_flows_topics_matches_is_named(option: str, value: Any) -> None:
    named = option.replace("_", ".")
    assert notes(**{option: {"ordres": value, "pay.*": value}}) == [
        f"{named} has 'ordres', which none of the flow's topics matches. Did you mean 'orders'?"
    ]
    if not isinstance(value, dict):
        assert notes(**{option: value}) == []
    assert notes(topics="orders", **{option: {"payments": value}}) != []


def test_so_is_a_topic_that_is_renamed_or_transformed_in_vain() -> None:
    assert notes(topics_rename={"ordres": "a", "orders": "b"}) == [
        "topics.rename has 'ordres', which is none of the flow's topics. Did you mean 'orders'?"
    ]
    assert notes(transform=[{"topics": ["orders", "ordres"], "where": "true"}]) == [
        "transform has 'ordres', which none of the flow's topics matches. Did you mean 'orders'?"
    ]
    (note,) = notes(transform=[{"topics": ["payment"], "where": "true"}])
    assert note.endswith("Did you mean 'payments'? payments is copied unchanged.")
    (note,) = notes(transform=[{"topics": ["x"], "where": "true"}])
    assert note.endswith("which none of the flow's topics matches.")


def test_a_topic_that_is_named_and_left_out_is_a_note_with_the_reason() -> None:
    assert notes(topics=["orders", "__own"]) == [
        "__own: topics names it, and it is not copied: an internal topic of Kafka or of a mirror."
    ]
    (note,) = notes(topics=["orders", "payments"], topics_exclude=["pay.*"])
    assert note == "payments: topics names it, and it is not copied: excluded by 'pay.*'."
    assert notes() == []


REGISTRY = {"schema__registry__url": "http://registry"}


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"source": builders.a_cluster("primary", **REGISTRY)}, "primary"),
        ({"target": builders.a_cluster("backup", **REGISTRY)}, "backup"),
        (
            {it: builders.a_cluster(it, **REGISTRY) for it in ("source", "target")},
            "source and target",
        ),
    ],
)
def test_a_registry_that_nothing_asks_is_named(options: dict[str, Any], named: str) -> None:
    (note,) = map(str, unused_registries(builders.a_flow(**options)))
    assert note.startswith(
        f"schema.registry of {named} has no effect, since sync.schemas is not set"
    )
    assert not [*unused_registries(builders.a_flow(**options, sync_schemas="none"))]


def test_a_registry_is_asked_by_rules_of_the_source_and_by_mirrored_schemas() -> None:
    both = {it: builders.a_cluster(it, **REGISTRY) for it in ("source", "target")}
    assert not [*unused_registries(builders.a_flow(**both, sync_schemas="translate-ids"))]
    rule = {"topics": ["orders"], "format": {"value": "avro"}, "where": "value.x = 1"}
    (note,) = map(str, unused_registries(builders.a_flow(**both, transform=[rule])))
    assert note.startswith("schema.registry of target has")
    only_source = builders.a_flow(source=both["source"], transform=[rule])
    assert not [*unused_registries(only_source)]


def test_options_about_schemas_that_are_not_mirrored_are_named() -> None:
    flow = builders.a_flow(schemas_subjects=["x"], schemas_ids_in="value", on_unknown_schema="pass")
    assert [*map(str, unused_registries(flow))] == [
        f"{it} has no effect without sync.schemas."
        for it in ("schemas.subjects", "schemas.ids.in", "on.unknown.schema")
    ]
