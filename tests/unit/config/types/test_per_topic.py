import pickle
from pathlib import Path

import pytest

from kafka_ferry.config import Flow, load_flow, load_flows
from kafka_ferry.config.types.per_topic import PerTopic
from kafka_ferry.errors import ConfigError
from tests.unit.config.builders import a_flow, properties_file, yaml_file

RULES = PerTopic("translated", (("orders", "preserved"), (r"pay\..*", "auto"), ("o.*", "auto")))


@pytest.mark.parametrize(
    ("topic", "value"),
    [
        ("orders", "preserved"),
        ("orders2", "auto"),
        ("pay.eu", "auto"),
        ("my.pay.eu", "translated"),
        ("", "translated"),
    ],
)
def test_the_first_pattern_that_matches_the_whole_name_counts(topic: str, value: str) -> None:
    assert RULES.of(topic) == value
    assert RULES.explicit_value(topic) == (None if value == "translated" else value)


def test_one_value_is_that_of_every_topic() -> None:
    flow = a_flow(offsets="preserved", offsets_start=0)
    assert (flow.offsets.of("orders"), flow.offsets.explicit_value("x")) == (
        "preserved",
        "preserved",
    )
    assert flow.offsets_start.of("orders") == 0


def test_what_no_file_says_is_the_default_and_nothing_said() -> None:
    flow = a_flow()
    assert (flow.offsets.of("orders"), flow.offsets.explicit_value("orders")) == (
        "translated",
        None,
    )
    assert flow.offsets_start.of("orders") == "log-start"
    assert (flow.fill, flow.fill_max_ms) == ("auto", 600_000)


def test_yaml_has_a_value_or_a_mapping(tmp_path: Path) -> None:
    more = """
offsets: {orders: preserved, 'pay\\..*': auto, 'o.*': auto}
offsets.start: {orders: 0, 'p.*': log-start, x: "17"}
fill: markers
fill.max.ms: 5
"""
    flow = load_flow(yaml_file(tmp_path, more))
    assert flow.offsets == RULES
    assert [flow.offsets_start.of(topic) for topic in ("orders", "pay", "x", "y")] == [
        *(0, "log-start", 17, "log-start"),
    ]
    assert (flow.fill, flow.fill_max_ms) == ("markers", 5)
    assert load_flow(yaml_file(tmp_path, "offsets: auto")).offsets.of("any") == "auto"


def test_properties_have_a_value_or_patterns_with_values_in_any_scope(tmp_path: Path) -> None:
    def the_flow(more: str) -> Flow:
        (flow,) = load_flows(properties_file(tmp_path, more))
        return flow

    flow = the_flow(
        "offsets = auto\n"
        "primary->backup.offsets = orders:preserved, pay\\\\..*:auto ,o.*:auto\n"
        "primary->backup.offsets.start = (?:a):5, orders: log-start\n"
        "primary->backup.fill = markers\n"
    )
    assert flow.offsets == RULES
    assert flow.offsets_start == PerTopic("log-start", (("(?:a)", 5), ("orders", "log-start")))
    assert flow.fill == "markers"
    assert the_flow("offsets = auto").offsets.of("any") == "auto"
    assert the_flow("primary->backup.offsets.start = 12").offsets_start.of("any") == 12


@pytest.mark.parametrize(
    ("line", "key", "reason"),
    [
        ("offsets = same", "offsets", "must be one of translated, preserved, auto"),
        ("offsets = a:preserved, b:same", "offsets", "'b' must be one of translated, preserved"),
        (
            "offsets = a:preserved, auto",
            "offsets",
            "'a' must be one of translated, preserved, auto",
        ),
        ("offsets = *:auto", "offsets", "'*' is not a valid regular expression"),
        ("offsets.start = -1", "offsets.start", "must be log-start or an offset"),
        ("offsets.start = a:1.5", "offsets.start", "'a' must be log-start or an offset"),
        ("offsets.start = 9223372036854775808", "offsets.start", "must be log-start or an offset"),
        ("fill = both", "fill", "must be 'auto', 'transactions' or 'markers'"),
        ("fill.max.ms = -1", "fill.max.ms", "must be at least 0, and not '-1'"),
        ("on.fill.limit = stop", "on.fill.limit", "must be 'fail' or 'translate'"),
    ],
)
def test_a_wrong_value_is_named_with_file_and_key(
    tmp_path: Path, line: str, key: str, reason: str
) -> None:
    file = properties_file(tmp_path, f"primary->backup.{line}")
    with pytest.raises(ConfigError) as caught:
        load_flows(file)
    assert (caught.value.file, caught.value.key) == (str(file), f"primary->backup.{key}")
    assert reason in str(caught.value)


@pytest.mark.parametrize("value", ["yes", "[preserved]", "{orders: 1}", "{1: preserved}", ""])
def test_yaml_that_is_no_such_value_is_refused(tmp_path: Path, value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_flow(yaml_file(tmp_path, f"offsets: {value}"))
    assert caught.value.key == "offsets"


def test_a_flow_with_rules_travels_between_processes_and_into_json() -> None:
    flow = a_flow(offsets={"orders": "preserved"}, offsets_start=7)
    assert pickle.loads(pickle.dumps(flow)) == flow
    dumped = flow.model_dump(mode="json")
    assert (dumped["offsets"], dumped["offsets_start"]) == ({"orders": "preserved"}, {".*": 7})
