"""What a DAG run asks of the library, by its form or by its interval."""
# Airflow reads its environment when it is imported.
# ruff: noqa: PLC0415

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_ferry.errors import FerryError, InputError
from kafka_ferry.model import RunOptions, Window
from tests.unit.plan.builders import a_flow

MIB = 1024 * 1024
TEN = datetime(2026, 11, 21, 10, tzinfo=UTC)
ELEVEN = datetime(2026, 11, 21, 11, tzinfo=UTC)
MS = {TEN: 1_795_255_200_000, ELEVEN: 1_795_258_800_000}


@pytest.fixture(autouse=True)
def _airflow_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))


def context_of(
    run_type: str = "manual",
    interval: tuple[datetime | None, datetime | None] = (TEN, ELEVEN),
    *,
    conf: dict[str, Any] | None = None,
    **params: Any,
) -> Any:
    """What Airflow tells the tasks of a run with this form."""
    from airflow.sdk.api.datamodels._generated import DagRun

    from kafka_ferry_airflow.dags.params import run_params

    run = DagRun(
        dag_id="mirror_left_to_right",
        run_id="a run",
        logical_date=interval[0],
        data_interval_start=interval[0],
        data_interval_end=interval[1],
        run_after=ELEVEN,
        start_date=ELEVEN,
        end_date=None,
        run_type=run_type,  # type: ignore[arg-type]
        state="running",  # type: ignore[arg-type]
        consumed_asset_events=[],
        partition_key=None,
        conf=conf,
    )
    form = {name: param.value for name, param in run_params().items()}
    told = {**form, **(conf or {}), **params}
    return {"params": told, "dag_run": run, "dag": SimpleNamespace(params=run_params())}


def asked(*run: Any, **form: Any) -> RunOptions:
    """What a run with this form asks of the library."""
    from kafka_ferry_airflow.dags.params import options_of

    return options_of(context_of(*run, **form))


@pytest.mark.parametrize("run_type", ["scheduled", "manual", "asset_triggered"])
def test_a_run_asks_for_nothing_in_particular_whatever_its_interval(run_type: str) -> None:
    assert asked(run_type) == RunOptions()
    assert asked(run_type, (None, None)) == RunOptions()


def test_a_backfills_run_asks_for_the_records_of_its_interval() -> None:
    assert asked("backfill") == RunOptions(window=Window(MS[TEN], MS[ELEVEN]))
    assert asked("backfill", dry_run=True, topics=["a"]).dry_run


def test_a_form_asks_for_what_it_is_filled_with() -> None:
    assert asked(
        topics=["orders", "pay.*"],
        dry_run=True,
        verify_all=True,
        approve_removals=True,
        rate_limit="10MiB",
    ) == RunOptions(
        topics=("orders", "pay.*"),
        dry_run=True,
        verify_all=True,
        max_bytes_per_s=10 * MIB,
        approve_removals=True,
    )


@pytest.mark.parametrize(
    ("since", "until"),
    [
        ("2026-11-21T10:00:00Z", "2026-11-21T11:00:00Z"),
        ("2026-11-21T11:00:00+01:00", "2026-11-21T11:00:00.000Z"),
        ("2026-11-21T10:00", "2026-11-21T12:00+01:00"),
    ],
)
def test_a_backfill_may_be_asked_for_by_hand(since: str, until: str) -> None:
    assert asked(since=since, until=until).window == Window(MS[TEN], MS[ELEVEN])


def test_a_rate_with_too_many_digits_is_refused_by_name() -> None:
    with pytest.raises(InputError, match="rate_limit must be a number of bytes"):
        asked(rate_limit="9" * 300)


@pytest.mark.parametrize(
    ("run_type", "interval", "params", "reason"),
    [
        ("manual", (TEN, ELEVEN), {"since": "2026-11-21T10:00Z"}, "Only one of since and until"),
        ("manual", (TEN, ELEVEN), {"until": "2026-11-21T10:00Z"}, "Only one of since and until"),
        (
            "manual",
            (TEN, ELEVEN),
            {"since": "2026-11-21T10:00Z", "until": "2026-11-21T11:00+01:00"},
            "is not before until",
        ),
        (
            "manual",
            (TEN, ELEVEN),
            {"since": "yesterday", "until": "2026-11-21T10:00Z"},
            "since: 'yesterday' is not a date with a time",
        ),
        (
            "backfill",
            (TEN, ELEVEN),
            {"since": "2026-11-21T10:00Z", "until": "2026-11-21T11:00Z"},
            "copies the intervals of its runs",
        ),
        ("backfill", (None, None), {}, "has no data interval"),
        ("backfill", (TEN, TEN), {}, "has no data interval"),
    ],
)
def test_a_span_that_is_none_is_refused(
    run_type: str,
    interval: tuple[datetime | None, datetime | None],
    params: dict[str, str],
    reason: str,
) -> None:
    with pytest.raises(FerryError, match=reason):
        asked(run_type, interval, **params)


@pytest.mark.parametrize(
    ("conf", "reason"),
    [
        ({"untl": "2026-11-21"}, r"has 'untl', which its form has not\. Did you mean 'until'\?"),
        ({"TOPICS": ["a"]}, r"has 'TOPICS', .* It has topics, dry_run, verify_all"),
    ],
)
def test_what_a_form_has_not_is_refused_by_name(conf: dict[str, Any], reason: str) -> None:
    assert asked(conf={"topics": ["a"], "dry_run": True}).topics == ("a",)
    with pytest.raises(InputError, match=reason):
        asked(conf=conf)


def test_why_a_run_was_refused_is_left_for_its_page(tmp_path: Path) -> None:
    from kafka_ferry.runs import Run
    from kafka_ferry_airflow.dags.steps import planned_run

    run = Run(a_flow(state_dir=str(tmp_path)), "a run")
    context = context_of(conf={"untl": "2026-11-21"})
    # The DAG that only shows a plan has no page.
    for save, left in ((False, "None"), (True, "which its form has not")):
        with pytest.raises(InputError):
            planned_run(run, context, save=save)
        assert left in str(run.failure("plan"))


def test_a_failover_is_of_no_group_that_the_flows_file_leaves_out() -> None:
    from kafka_ferry_airflow.dags.failover import named_groups

    flow = a_flow(groups=("bill.*",), groups_exclude=("billing-b",))
    for groups in (None, [], ["billing"], ["bills", "billing"]):
        assert named_groups(flow, {"groups": groups}) == (groups or ())
    for other in ("billing-b", "shipping", "ferry.a->b", ""):
        with pytest.raises(InputError, match="leaves the group"):
            named_groups(flow, {"groups": ["billing", other]})
