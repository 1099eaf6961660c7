"""The form of a manual run, and the options that a DAG run passes to the library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import Param
from airflow.sdk.definitions.param import ParamsDict

from kafka_ferry.clock import ms_of, read_moment
from kafka_ferry.config.types.problems import did_you_mean
from kafka_ferry.config.types.values import read_bytes
from kafka_ferry.errors import FerryError, InputError
from kafka_ferry.model.run_options import RunOptions, Window

if TYPE_CHECKING:
    from airflow.sdk import DAG, Context

_BACKFILL: Final = "Manual backfill"
_BACKFILL_RUN: Final = "backfill"
# Airflow shows it to a user who writes something else: it says no more than which units there are.
_RATE: Final = "^[0-9]+ ?(|B|KiB|MiB|GiB)$"


def run_params() -> ParamsDict:
    """The options that a person can give to one run; a run of the timetable has none."""
    return ParamsDict(_form())


def plan_params() -> ParamsDict:
    """The options of a run that its plan depends on."""
    form = _form()
    return ParamsDict({name: form[name] for name in ("topics", "since", "until")})


def show_form(dag: DAG, form: ParamsDict) -> None:
    """Gives a DAG whose tasks are made the form of its manual runs.

    Not in its constructor, nor by setting the attribute: each task would copy the form and each DAG
    check its schemas again, which would take longer than everything else for 200 flows.
    """
    object.__setattr__(dag, "params", form)


def _form() -> dict[str, Param]:
    moment: dict[str, Any] = {
        "type": ["null", "string"],
        "format": "date-time",
        "section": _BACKFILL,
    }
    return {
        "topics": Param(
            [],
            type=["null", "array"],
            items={"type": "string"},
            title="Topics",
            description="Names or Java regular expressions, one a line: only the flow's topics that "
            "match. All topics if empty.",
        ),
        "dry_run": Param(
            False,
            type=["null", "boolean"],
            title="Dry run",
            description="Only plan: the log of the task plan says what a run would do. If this DAG is paused, "
            "trigger plan_… instead: Unpause starts the scheduled run too.",
        ),
        "verify_all": Param(
            False,
            type=["null", "boolean"],
            title="Verify everything",
            description="Verify again everything that the flow ever copied, not only what is new.",
        ),
        "approve_removals": Param(
            False,
            type=["null", "boolean"],
            title="Approve removals",
            description="Take away on the target what the source lacks, even if that is more than removals.max "
            "allows. Look at a dry run first.",
        ),
        "rate_limit": Param(
            None,
            type=["null", "string"],
            pattern=_RATE,
            title="Rate limit",
            description="The most bytes that this run sends to the target in a second, such as 10MiB or 500KiB "
            "(not 10 MB/s). Empty or 0: no limit but the flow's own.",
        ),
        "since": Param(
            None,
            title="Since",
            description="With Until: copy only the records of this time window that the target does not "
            "have. Both are in the time zone that this page of Airflow shows (UTC, unless you choose another).",
            **moment,
        ),
        "until": Param(
            None,
            title="Until",
            description="The first moment after the window. Airflow's own Backfill is not the same: see "
            "docs/backfill.md.",
            **moment,
        ),
    }


def options_of(context: Context) -> RunOptions:
    """The options that a task's DAG run passes to the library: its form's values, or a backfill's interval.

    Raises:
        InputError: the run's configuration has a key that the form has not, or a rate that is none.
        FerryError: since and until are not a span of time, or a backfill's run has none.
    """
    require_known(context)
    params: Mapping[str, Any] = context["params"]
    return RunOptions(
        topics=tuple(params.get("topics") or ()),
        dry_run=bool(params.get("dry_run")),
        verify_all=bool(params.get("verify_all")),
        max_bytes_per_s=_rate(params.get("rate_limit")),
        approve_removals=bool(params.get("approve_removals")),
        window=_window(context["dag_run"], params.get("since"), params.get("until")),
    )


def _rate(text: str | None) -> int:
    try:
        return read_bytes(text) if text else 0
    except ValueError as error:
        # The form's pattern knows no largest number.
        raise InputError(f"rate_limit {error}.") from None


def require_known(context: Context) -> None:
    """Check that a DAG run was configured with nothing that its form lacks: it would silently have no effect.

    Raises:
        InputError: it has such a key.
    """
    conf = getattr(context["dag_run"], "conf", None) or {}
    known = [*context["dag"].params] if conf else []
    for key in conf:
        if key not in known:
            raise InputError(
                f"The run's configuration has {key!r}, which its form has not.",
                advice=did_you_mean(key, known) or f"It has {', '.join(known)}.",
            )


def _window(dag_run: Any, since: str | None, until: str | None) -> Window | None:
    if str(getattr(dag_run.run_type, "value", dag_run.run_type)) != _BACKFILL_RUN:
        return _by_hand(since, until)
    if since or until:
        raise FerryError(
            "A backfill copies the intervals of its runs: since and until are for other runs.",
            advice="Leave them out of the backfill's configuration.",
        )
    start, end = dag_run.data_interval_start, dag_run.data_interval_end
    if start is None or end is None or start >= end:
        raise FerryError(
            f"The backfill's run {dag_run.run_id} has no data interval.",
            advice="Trigger a run with since and until.",
        )
    return Window(ms_of(start), ms_of(end))


def _by_hand(since: str | None, until: str | None) -> Window | None:
    if not since and not until:
        return None
    if not since or not until:
        raise FerryError("Only one of since and until is set.", advice="Set both, or none.")
    window = _moment("since", since), _moment("until", until)
    if window[0] >= window[1]:
        raise FerryError(
            f"since ({since}) is not before until ({until}).",
            advice="Trigger the DAG again, with the earlier one as since.",
        )
    return Window(*window)


def _moment(name: str, text: str) -> int:
    try:
        return read_moment(text)
    except ValueError:
        raise FerryError(f"{name}: {text!r} is not a date with a time.") from None
