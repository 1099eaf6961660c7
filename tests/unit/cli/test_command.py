"""Help says what a person types, and has no style where none is wanted."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_ferry.config import load_flow
from kafka_ferry.model import Plan, RunOptions, Window
from kafka_ferry.runs.state.run_context import RunContext
from kafka_sandbox.network.proxied import ProxyAddress
from tests.support.runs.command_line import ferry
from tests.support.runs.flows import write_flow


def test_help_has_no_words_of_python() -> None:
    said = "".join(
        ferry(*call, "--help").stdout for call in (["plan"], ["lag"], ["certificate", "list"])
    )
    assert "--json" in said
    assert "<bool>" not in said
    assert "list[" not in said


def test_no_style_where_none_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in ferry("plan", "--help").stdout


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            ["plan", "flow.yaml"],
            "'flow.yaml' belongs to no option. Did you mean --config flow.yaml?",
        ),
        (["run", "a->b"], "'a->b' belongs to no option. Did you mean --flow 'a->b'?"),
        (["lag", "orders"], "Did you mean --topics orders?"),
        (
            ["plan", "--topics", "orders,", "payments"],
            "'payments' belongs to no option. Did you mean --topics orders,payments?",
        ),
        (["certificate", "list", "3"], "'3' belongs to no option."),
        (
            ["failover", "--group", "billing", "shipping"],
            "Did you mean --group billing --group shipping?",
        ),
        (
            ["backfill", "--since", "2026-11-21", "06:00", "--until", "2026-11-22"],
            "'06:00' belongs to no option. Did you mean --since 2026-11-21T06:00?",
        ),
        (
            ["init", "a-1:9092", "b-1:9092", "b-2:9092"],
            "Did you mean b-1:9092,b-2:9092, as brokers of one cluster?",
        ),
        (["plan", "--timeout", "5", "m"], "'m' belongs to no option.\n"),
        (
            ["run", "--flow", "a->b", "--flow=b->a"],
            "--flow is given twice, and only one value can count: call the command once for each.",
        ),
        (
            ["certificate", "show", "abc"],
            "from 1 on, and not 'abc'; ferry certificate list shows them",
        ),
        (["certificate", "show", "0"], "from 1 on, and not '0'"),
        (
            ["backfill", "--since", "2026-02-30", "--until", "2026-03-01"],
            "--since 2026-02-30 is in no calendar.",
        ),
    ],
)
def test_an_argument_that_is_wrong_is_told_with_what_is_meant(call: list[str], said: str) -> None:
    done = ferry(*call)
    assert done.returncode == 9
    assert said in done.stderr


def test_a_run_that_does_not_exist_is_not_repeated(tmp_path: Path) -> None:
    file = write_flow(
        tmp_path, ProxyAddress("localhost:1"), ProxyAddress("localhost:2"), ["orders"]
    )
    for call in (
        ["run"],
        ["backfill", "--since", "2026-01-01", "--until", "2026-01-02"],
        ["verify"],
    ):
        done = ferry(*call, "--config", file, "--run-id", "nope")
        assert done.returncode == 9
        assert "has no run nope: there is none of that id in" in done.stderr
    assert sorted(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("call", ["plan", "run", "verify", "audit"])
def test_what_needs_spark_names_a_missing_java_before_it_does_anything(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", "/no/such")
    file = write_flow(
        tmp_path, ProxyAddress("localhost:1"), ProxyAddress("localhost:2"), ["orders"]
    )
    done = ferry(call, "--config", file)
    assert done.returncode == 9
    assert "JAVA_HOME=/no/such has no bin/java" in done.stderr
    assert sorted(tmp_path.iterdir()) == [file]


def test_a_run_is_repeated_for_the_time_that_it_was_for(tmp_path: Path) -> None:
    """An ordinary run in a backfill's name would call the backfill proved, and copy no more of it."""
    file = write_flow(
        tmp_path, ProxyAddress("localhost:1"), ProxyAddress("localhost:2"), ["orders"]
    )
    flow = load_flow(file)
    for name, window in (("usual", None), ("week", Window(0, 60_000))):
        plan = Plan(flow.name, name, 1, "A", "B", options=RunOptions(window=window))
        RunContext.of(flow, name).folder.save_plan(plan)
    span = ("--since", "1970-01-01T00:00Z", "--until", "1970-01-01T00:01Z")
    other = ("--since", "1970-01-01", "--until", "1970-01-02")
    way = f"ferry backfill {' '.join(span)} --run-id week continues it."
    for call, said in (
        (["run", "--run-id", "week"], way),
        (["backfill", *other, "--run-id", "week"], way),
        (["backfill", *other, "--run-id", "usual"], "The run usual is no backfill."),
        (["backfill", *span, "--run-id", "week", "--timeout", "1"], "cannot be reached"),
    ):
        done = ferry(*call, "--config", file)
        assert said in done.stderr


@pytest.mark.parametrize(
    "call",
    [
        ["plan"],
        ["run"],
        ["backfill", "--since", "2026-01-01", "--until", "2026-01-02"],
        ["where", "--topic", "orders", "--partition", "0", "--offset", "1"],
        ["verify"],
        ["certificate", "list"],
        ["translate", "--group", "g"],
    ],
)
def test_a_cluster_that_does_not_answer_is_tried_as_long_as_asked(
    call: list[str], tmp_path: Path
) -> None:
    file = write_flow(
        tmp_path, ProxyAddress("localhost:1"), ProxyAddress("localhost:2"), ["orders"]
    )
    done = ferry(*call, "--config", file, "--timeout", "1")
    assert done.returncode == 3
    assert f".bootstrap.servers in {file}, and that its brokers run." in done.stderr
