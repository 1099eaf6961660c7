"""``ferry lag``: how far the target is behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.table import Table

from kafka_ferry.cli.flows import flows_of, for_each
from kafka_ferry.cli.options import ClustersOption, ConfigOption, FlowOption, JsonOption
from kafka_ferry.cli.terminal import messages, out, show_json
from kafka_ferry.config import Flow

if TYPE_CHECKING:
    from kafka_ferry.runs import Lag


def lag(
    config: ConfigOption,
    flow: FlowOption = None,
    clusters: ClustersOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show how far each partition of the target is behind its source."""
    from kafka_ferry.runs import lag as lag_of

    flows = flows_of(config, flow, clusters)

    several = len(flows) > 1

    def told(flow: Flow) -> object:
        rows = lag_of(flow)
        if not as_json:
            if several:
                out.print(flow.name, style="bold", markup=False)
            _show(rows)
        _warn_of_moved(flow, rows)
        listed = [asdict(row) | {"lag": row.lag} for row in rows]
        # The rows of a single flow need not name it.
        return {"flow": flow.name, "partitions": listed} if several else listed

    attempts = for_each(flows, told)
    if as_json:
        show_json(attempts.results, several=several)
    attempts.raise_failures()


def _show(rows: Sequence[Lag]) -> None:
    table = Table("TOPIC", box=None, pad_edge=False)
    for column in ("PARTITION", "POSITION", "LOG-END", "LAG"):
        table.add_column(column, justify="right")
    for row in rows:
        position = "-" if row.position is None else str(row.position)
        table.add_row(row.topic, str(row.partition), position, str(row.log_end), str(row.lag))
    out.print(table)


def _warn_of_moved(flow: Flow, rows: Sequence[Lag]) -> None:
    moved = [row for row in rows if row.moved_to is not None]
    if moved:
        first = moved[0]
        messages.print(
            f"The group of {flow.name} on {flow.target.alias} has other positions than the ledger in "
            f"{len(moved)} partition(s), {first.topic}-{first.partition} at {first.moved_to} for one. "
            "The ledger's are shown; ferry plan says what to do.",
            style="yellow",
            markup=False,
            highlight=False,
        )
