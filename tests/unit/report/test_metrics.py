"""What a report comes to as metrics, and that dashboard, alerts and docs name no others."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, get_args

import pytest
import yaml

from kafka_ferry.batches import Reason
from kafka_ferry.groups.moves import Action
from kafka_ferry.report.catalogue import METRICS, page
from kafka_ferry.report.measures import NOT_MEASURED, Measures
from kafka_ferry.report.metrics import samples
from kafka_ferry.report.run_report import State
from kafka_ferry.verify import Verdict
from tests import PROJECT
from tests.support.runs.reports import A_FAILURE, A_REFUSAL, changed

from .reports import CLICKS_0, REPORT

DOCS = PROJECT / "docs"
FLOW = {"source": "eu", "target": "us"}
ORDERS = FLOW | {"topic": "eu.orders"}


def value(name: str, detail: Any = "partition", report: Any = REPORT, **tags: str) -> float | None:
    """The one sample of that name and tags; None where there is none."""
    found = [
        sample.value
        for sample in samples(report, detail)
        if sample.name == name and sample.tags == FLOW | tags
    ]
    assert len(found) < 2
    return found[0] if found else None


def of_orders(name: str, partition: int = 0) -> float | None:
    return value(name, topic="eu.orders", partition=str(partition))


def test_a_partition_has_the_twelve_metrics_of_mirrormaker_2() -> None:
    assert {
        name: of_orders(name)
        for name, metric in METRICS.items()
        if metric.original and metric.scope == "partition"
    } == {
        "record-count": 1_000,
        "record-rate": 45.0,
        "record-age-ms": 20,
        "record-age-ms-min": 10,
        "record-age-ms-max": 500,
        "record-age-ms-avg": 100.0,
        "byte-count": 64_000,
        "byte-rate": 2_250.0,
        "replication-latency-ms": 50,
        "replication-latency-ms-min": 40,
        "replication-latency-ms-max": 530,
        "replication-latency-ms-avg": 130.0,
    }


def test_a_partition_says_how_far_it_is_behind_proved_and_incomplete() -> None:
    assert of_orders("records-behind") == 5
    assert of_orders("seconds-behind") == 2.5
    assert of_orders("partition-verified-until-seconds") == 1_700_000_000
    tags = {"topic": "eu.orders", "partition": "0"}
    assert value("offsets-without-record", **tags, reason="aborted") == 7
    assert value("offsets-without-record", **tags, reason="lost") == 3


def test_what_could_not_be_measured_is_not_there() -> None:
    for name in ("records-behind", "seconds-behind", "record-age-ms-avg"):
        assert value(name, topic="eu.clicks", partition="0") is None
    assert value("partition-verified-until-seconds", topic="eu.clicks", partition="0") is None


def test_a_partition_that_lost_nothing_says_so() -> None:
    assert value("offsets-without-record", topic="eu.clicks", partition="0", reason="lost") == 0


def test_each_group_has_its_own_checkpoint_latency() -> None:
    """MirrorMaker 2 has one sensor for all of them."""
    billing = {"group": "billing", "topic": "eu.orders", "partition": "0"}
    other = replace(
        REPORT.groups.groups[0], at=1_900, group=replace(REPORT.groups.groups[0].group, name="b")
    )
    report = changed(REPORT, groups=replace(REPORT.groups, groups=(*REPORT.groups.groups, other)))
    for suffix in ("", "-min", "-max", "-avg"):
        name = f"checkpoint-latency-ms{suffix}"
        assert value(name, report=report, **billing) == 900
        assert value(name, report=report, **billing | {"group": "b"}) == 100


def test_a_group_without_an_answer_has_no_latency_and_still_has_a_lag() -> None:
    search = {"group": "search", "topic": "eu.clicks", "partition": "0"}
    assert value("checkpoint-latency-ms-max", **search) is None
    assert value("group-records-behind", **search) == 99


def test_the_flow_says_what_was_done_with_offsets_of_groups() -> None:
    assert {action: value("group-offsets", action=action) for action in get_args(Action)} == {
        "shown": 0,
        "written": 2,
        "unchanged": 0,
        "held": 1,
        "refused": 0,
        "deleted": 0,
    }


def test_metrics_of_a_topic_add_its_partitions_up() -> None:
    assert value("record-count", "topic", topic="eu.orders") == 1_200
    assert value("byte-rate", "topic", topic="eu.orders") == 2_500
    assert value("record-age-ms-min", "topic", topic="eu.orders") == 5
    assert value("record-age-ms-max", "topic", topic="eu.orders") == 900
    assert value("record-age-ms-avg", "topic", topic="eu.orders") == 100
    assert value("records-behind", "topic", topic="eu.orders") == 5
    assert value("seconds-behind", "topic", topic="eu.orders") == 2.5
    assert value("partition-verified-until-seconds", "topic", topic="eu.orders") == 1_600_000_000
    assert value("offsets-without-record", "topic", topic="eu.orders", reason="aborted") == 8
    assert value("group-records-behind", "topic", group="billing", topic="eu.orders") == 40


def test_metrics_of_a_flow_add_its_topics_up_and_keep_its_groups_apart() -> None:
    assert value("record-count", "flow") == 1_240
    assert value("group-records-behind", "flow", group="billing") == 40
    # Of one partition nothing is proved, so of the flow nothing is.
    assert value("partition-verified-until-seconds", "flow") is None


@pytest.mark.parametrize("detail", ["partition", "topic", "flow"])
def test_no_two_samples_have_the_same_name_and_tags(detail: Any) -> None:
    found = [
        (sample.name, tuple(sorted(sample.tags.items()))) for sample in samples(REPORT, detail)
    ]
    assert len(found) == len(set(found))


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({}, "verified"),
        ({"failures": (A_FAILURE,)}, "failed"),
        ({"verdict": None}, "not verified"),
        ({"verdict": Verdict(success=False, failures=("x", "y"))}, "incomplete"),
        ({"unapplied": ("x",)}, "not applied"),
        ({"group_failures": ("x",)}, "groups not synced"),
        ({"measures": replace(REPORT.measures, flow_state="incomplete")}, "incomplete"),
        ({"measures": Measures(flow_state="not applied"), "failures": (A_FAILURE,)}, "failed"),
        ({"measures": Measures(flow_state="of another release")}, "verified"),
    ],
)
def test_exactly_one_state_is_true(changes: dict[str, Any], state: str) -> None:
    report = changed(REPORT, **changes)
    states = {name: value("run-state", report=report, state=name) for name in get_args(State)}
    assert states == {name: float(name == state) for name in get_args(State)}


def test_what_went_wrong_is_counted_by_kind() -> None:
    report = changed(
        REPORT,
        failures=(A_FAILURE,),
        refused=(A_REFUSAL, A_REFUSAL),
        unapplied=("a", "b", "c"),
        group_failures=("a",) * 4,
        verdict=Verdict(success=False, failures=("a",) * 5),
    )

    def problems(report: Any) -> dict[str, float]:
        return {s.tags["kind"]: s.value for s in samples(report) if s.name == "run-problems"}

    assert problems(report) == {
        "failed": 1,
        "refused": 2,
        "unproved": 5,
        "unapplied": 3,
        "groups": 4,
    }
    assert set(problems(REPORT).values()) == {0}
    assert problems(changed(REPORT, verdict=Verdict(success=False)))["unproved"] == 1
    assert problems(changed(REPORT, verdict=None))["unproved"] == 1


def test_the_run_says_when_how_long_and_how_much() -> None:
    assert value("run-planned-seconds") == 5.0
    assert value("run-finished-seconds") == 9.0
    assert value("run-duration-seconds") == 3.5
    assert value("run-step-seconds", step="mirror") == 3.0
    assert (value("run-records"), value("run-bytes"), value("run-partitions")) == (100, 5_000, 3)
    assert value("run-offsets-without-record", reason="dead-lettered") == 2
    assert value("run-offsets-without-record", reason="lost") == 0
    assert value("run-rebuilt-batches", reason="offset gaps") == 2
    assert value("verified-until-seconds") == 1_600_000_000


def test_a_run_that_was_not_measured_still_has_the_metrics_of_its_run() -> None:
    report = changed(REPORT, measures=NOT_MEASURED, groups=None)
    names = {sample.name for sample in samples(report)}
    assert "run-records" in names
    assert "record-count" not in names


def test_a_rate_over_no_time_is_none() -> None:
    measures = replace(REPORT.measures, copying_seconds=0.0, partitions=(CLICKS_0,))
    report = changed(REPORT, measures=measures)
    assert value("record-rate", report=report, topic="eu.clicks", partition="0") == 0


def test_every_metric_is_told_and_with_its_tags() -> None:
    told = {(sample.name, tuple(sorted(sample.tags))) for sample in samples(REPORT)}
    assert told == {(name, tuple(sorted(metric.tags))) for name, metric in METRICS.items()}


def test_the_page_in_the_docs_is_as_make_docs_writes_it() -> None:
    assert (DOCS / "reference" / "metrics.md").read_text() == page()


# --- dashboard and alerts

DASHBOARD = json.loads((PROJECT / "include" / "grafana" / "kafka-ferry.json").read_text())
ALERTS = yaml.safe_load((PROJECT / "include" / "alerts" / "kafka-ferry.yaml").read_text())
RULES = [rule for group in ALERTS["groups"] for rule in group["rules"]]
IN_PROMETHEUS = {metric.prometheus_name: metric for metric in METRICS.values()}
VALUES = {
    "reason": {str(reason) for reason in Reason},
    "state": set(get_args(State)),
    "action": set(get_args(Action)),
    "kind": {s.tags["kind"] for s in samples(REPORT) if s.name == "run-problems"},
}
# A name that is no word of the language, and after it what selects among its series.
_METRIC = re.compile(r"\b([a-z]+_[a-z_]+)\b(?!\()(?:\{([^}]*)\})?")


def expressions() -> Iterator[tuple[str, str]]:
    """Every PromQL text of dashboard and alerts, with where it stands."""
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["query"]["query"]
    for annotation in DASHBOARD["annotations"]["list"]:
        yield annotation["name"], annotation["expr"]
    for rule in RULES:
        yield rule["alert"], rule["expr"]


def without_texts(expression: str) -> str:
    return re.sub(r'"[^"]*"', '""', expression)


def test_every_metric_and_tag_that_is_asked_for_exists() -> None:
    for where, expression in expressions():
        asked = _METRIC.findall(expression)
        assert asked, f"{where} asks for no metric"
        tags: set[str] = set()
        for name, selected in asked:
            assert name in IN_PROMETHEUS, f"{where}: there is no metric {name}"
            own = set(IN_PROMETHEUS[name].tags)
            for tag, wanted in re.findall(r'(\w+)=~?"([^"]*)"', selected):
                assert tag in own, f"{where}: {name} has no tag {tag}"
                if not wanted.startswith("$"):
                    values = set(wanted.split("|"))
                    assert values <= VALUES[tag], f"{where}: {tag} is never {wanted}"
            tags |= own
        grouped = re.findall(r"\b(?:by|on) \(([^)]*)\)", expression)
        assert {tag.strip() for listed in grouped for tag in listed.split(",")} <= tags, where


def test_every_expression_closes_what_it_opens() -> None:
    for where, expression in expressions():
        open_ones: list[str] = []
        for character in without_texts(expression):
            if character in "([{":
                open_ones.append({"(": ")", "[": "]", "{": "}"}[character])
            elif character in ")]}":
                assert open_ones and open_ones.pop() == character, where
        assert not open_ones, where


def test_a_wrong_name_would_be_noticed() -> None:
    assert _METRIC.findall('sum by (topic) (kafka_ferry_bytes{a="b"}) > x_y') == [
        ("kafka_ferry_bytes", 'a="b"'),
        ("x_y", ""),
    ]


def test_every_panel_has_a_place_of_its_own_and_says_what_it_shows() -> None:
    places: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & places, panel["title"]
        assert max(x for x, _ in cells) < 24
        places |= cells
        assert panel["type"] == "row" or panel["description"].endswith(".")
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_every_alert_has_the_shape_of_prometheus_rules(rule: dict[str, Any]) -> None:
    assert rule.keys() - {"for"} == {"alert", "expr", "labels", "annotations"}
    assert re.fullmatch(r"KafkaFerry[A-Za-z]+", rule["alert"])
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert re.fullmatch(r"\d+[smhd]", rule.get("for", "0s"))
    assert rule["annotations"].keys() == {"summary", "description", "runbook"}
    texts = " ".join(rule["annotations"].values())
    kept = set(re.findall(r"\b(?:by|on) \(([^)]*)\)", rule["expr"])[0:1])
    labels = set(", ".join(kept).split(", ")) if kept else {"source", "target"}
    assert set(re.findall(r"\$labels\.(\w+)", texts)) <= labels | {"source", "target"}


def test_the_file_of_alerts_is_one_group_of_rules_with_names_of_their_own() -> None:
    assert ALERTS.keys() == {"groups"}
    assert [group.keys() for group in ALERTS["groups"]] == [{"name", "rules"}]
    assert len({rule["alert"] for rule in RULES}) == len(RULES)


def test_every_alert_has_a_runbook_and_every_runbook_an_alert() -> None:
    text = (DOCS / "metrics.md").read_text()
    sections = dict(re.findall(r"^### (KafkaFerry\w+)\n(.*?)(?=^##|\Z)", text, re.M | re.S))
    assert sections.keys() == {rule["alert"] for rule in RULES}
    for rule in RULES:
        assert rule["annotations"]["runbook"] == f"docs/metrics.md#{rule['alert'].lower()}"
        assert len(sections[rule["alert"]].split()) > 25


def test_the_docs_name_no_metric_that_is_not_there() -> None:
    text = (DOCS / "metrics.md").read_text()
    assert set(re.findall(r"`(kafka_ferry_\w+)`", text)) <= IN_PROMETHEUS.keys()
    written = re.findall(r"`([a-z]+(?:-[a-z]+)*-(?:ms|seconds|behind|count|batches))`", text)
    assert len(set(written)) > 5
    assert set(written) <= METRICS.keys()
