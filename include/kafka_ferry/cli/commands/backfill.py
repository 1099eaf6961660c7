"""``ferry backfill``: copies the records of a time window that the target does not have."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Final

import typer

from kafka_ferry.cli.commands.run import RunIdOption, require_known, run_flows
from kafka_ferry.cli.flows import flows_of
from kafka_ferry.cli.options import (
    ClustersOption,
    ConfigOption,
    DryRunOption,
    FlowOption,
    JsonOption,
    RateLimitOption,
    TimeoutOption,
    TopicsOption,
    run_options,
)
from kafka_ferry.clock import NoSuchDay, now_ms, read_moment
from kafka_ferry.config.types.first_start import read_ago
from kafka_ferry.errors import InputError
from kafka_ferry.model import Window

MOMENT_FORMS: Final = (
    "a day such as 2026-01-31, a moment such as 2026-01-31T06:00 (UTC) or 2026-01-31T06:00+01:00, or a time ago such "
    "as -7d"
)

SinceOption = Annotated[str, typer.Option("--since", help=f"The first moment: {MOMENT_FORMS}.")]
UntilOption = Annotated[str, typer.Option("--until", help="The first moment after the window.")]


def backfill(
    config: ConfigOption,
    since: SinceOption,
    until: UntilOption,
    flow: FlowOption = None,
    clusters: ClustersOption = None,
    topics: TopicsOption = None,
    run_id: RunIdOption = None,
    *,
    dry_run: DryRunOption = False,
    rate_limit: RateLimitOption = 0,
    timeout: TimeoutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Copy the records of a time window, by timestamp, that the target does not have; moves no position."""
    options = run_options(topics, dry_run=dry_run, rate_limit=rate_limit)
    options = replace(options, window=window_of(since, until))
    flows = flows_of(config, flow, clusters)
    require_known(flows, run_id, options.window)
    run_flows(flows, run_id, options, as_json=as_json, timeout=timeout)


def window_of(since: str, until: str, names: tuple[str, str] = ("--since", "--until")) -> Window:
    """The window from one moment to another, which are the values of two options.

    Raises:
        FerryError: one of them is not a moment, or the second is not after the first.
    """
    begin, end = names
    first, after = moment_ms(begin, since), moment_ms(end, until)
    if first >= after:
        raise InputError(
            f"{end} {until} is not after {begin} {since}.",
            advice=f"The window includes {begin} and excludes {end}.",
        )
    return Window(first, after)


def moment_ms(option: str, text: str) -> int:
    """The moment that an option names, in milliseconds since 1970.

    Raises:
        FerryError: it names none.
    """
    try:
        ago = read_ago(text.strip())
        return read_moment(text) if ago is None else now_ms() - ago
    except (ValueError, OverflowError) as error:
        why = " is in no calendar" if isinstance(error, NoSuchDay) else " is not a moment"
        raise InputError(f"{option} {text}{why}.", advice=f"Write {MOMENT_FORMS}.") from None
