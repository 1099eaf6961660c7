"""``ferry lag``: how far the target is behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, Final

import typer

from kafka_ferry.cli.flows import answer_each, flows_within
from kafka_ferry.cli.options import (
    ClustersOption,
    ConfigOption,
    FlowOption,
    JsonOption,
    TimeoutOption,
    TopicsOption,
    run_options,
)
from kafka_ferry.cli.terminal import out, show_table, warn
from kafka_ferry.clock import duration_text, now_ms, until_text
from kafka_ferry.config import Flow
from kafka_ferry.errors import FerryError, GroupsFailed
from kafka_ferry.model import RunOptions
from kafka_ferry.model.cluster_state import HANGING, HeldBack
from kafka_ferry.plan import policy_of
from kafka_ferry.verify.counts import and_heartbeats, count

if TYPE_CHECKING:
    from kafka_ferry.runs import Lag
    from kafka_ferry.runs.publish.copied_logs import Gone


GroupOption = Annotated[
    list[str] | None,
    typer.Option(
        "--group", help="A group of the source: show its own lag there instead; repeatable."
    ),
]


ShortOption = Annotated[
    bool, typer.Option("--short", help="Show the first line and the warnings, no partitions.")
]


def lag(
    config: ConfigOption,
    flow: FlowOption = None,
    clusters: ClustersOption = None,
    topics: TopicsOption = None,
    group: GroupOption = None,
    timeout: TimeoutOption = None,
    short: ShortOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show how far each partition of the target is behind its source, or groups behind their logs there."""
    from kafka_ferry.runs.state.step_time import step_time

    options = run_options(topics)
    flows = flows_within(timeout, config, flow, clusters)
    several = len(flows) > 1
    refused: list[FerryError] = []

    def answer(flow: Flow) -> object:
        if several and not as_json:
            out.print(flow.name, style="bold")
        with step_time(flow):
            if group:
                key, listed = "groups", _lag_of_groups(flow, group, options, show=not as_json)
            else:
                rows, errors = _lag_of_partitions(flow, options, show=not as_json, short=short)
                key, listed = "partitions", rows
                refused.extend(errors)
        # The rows of a single flow need not name it.
        return {"flow": flow.name, key: listed} if several else listed

    answer_each(flows, answer, as_json=as_json)
    for error in refused:
        raise error


def _lag_of_partitions(
    flow: Flow, options: RunOptions, *, show: bool, short: bool
) -> tuple[list[dict[str, object]], list[FerryError]]:
    from kafka_ferry.runs.publish.lag import readable_lag

    rows, refused, deleted, unknown = readable_lag(flow, options)
    if show and (rows or not refused):
        out.print(_age(flow, rows))
        if rows and not short:
            _show(rows)
    if deleted:
        warn(
            f"{flow.source.alias} does not have {', '.join(deleted)} any more, which the flow has copied: the next run "
            f"follows on.source.topic.deleted: {flow.on_source_topic_deleted}."
        )
    for sentence in unknown:
        warn(sentence)
    _warn_of_unproved(flow)
    _warn_of_gone(flow, rows)
    _warn_of_deleted(flow, rows)
    _warn_of_moved(flow, rows)
    _warn_of_held_back(rows)
    if remote := sum(row.remote for row in rows):
        warn(
            f"~{remote:,} of these offsets are read from the remote storage of {flow.source.alias}."
        )
    # The first one ends the command as its error.
    for error in list(refused.values())[1:]:
        warn(str(error))
    return [asdict(row) | {"lag": row.lag, "deleted": row.deleted} for row in rows], list(
        refused.values()
    )


def _lag_of_groups(
    flow: Flow, groups: Sequence[str], options: RunOptions, *, show: bool
) -> list[dict[str, object]]:
    """Rows of groups' positions on the source, by group, topic and partition."""
    from kafka_ferry.runs.sync_groups.translate import Translator

    wanted = options.topic_filter
    moves = Translator(flow).groups(groups)
    rows: list[dict[str, object]] = [
        {
            "group": of.group.name,
            "topic": move.source.topic,
            "partition": move.source.partition,
            "position": move.committed.offset if move.committed else None,
            "log_end": move.end,
            "lag": move.lag,
            "to_topic": move.target.topic if move.target else None,
            "to_offset": move.offset,
            "reason": move.reason,
        }
        for of, move in moves.partitions()
        if wanted is None or wanted.matches(move.source.topic)
    ]
    if show and rows:
        columns = ("PARTITION", "POSITION", "LOG-END", "LAG", "ON TARGET")
        names = ("group", "topic", "partition", "position", "log_end", "lag", "to_offset")
        cells = ([row[name] for name in names] for row in rows)
        show_table(("GROUP", "TOPIC", *columns), cells, numbers=columns)
    if moves.failures:
        raise GroupsFailed(moves.failures, transient=moves.transient)
    for name in sorted(set(groups) - {str(row["group"]) for row in rows}):
        note = f"{name} has committed nothing in a topic that is asked for."
        warn(note)
    return rows


def _age(flow: Flow, rows: Sequence[Lag]) -> str:
    """Until when the copy is proved complete, and how far it is behind now."""
    policy = policy_of(flow)
    if not rows:
        return f"{flow.source.alias} has no topic that {flow.name} copies."
    lags = [(row.topic, row.lag) for row in rows if row.lag is not None]
    beats = sum(lag for topic, lag in lags if policy.is_heartbeats_topic(topic))
    offsets = count(sum(lag for _, lag in lags) - beats, "offset")
    behind = f"{offsets}{and_heartbeats(beats)} behind"
    if unknown := len(rows) - len(lags):
        behind += f", and unknown in {count(unknown, 'partition')}"
    until = until_text([row.complete_until for row in rows if not row.is_untouched])
    if until:
        return f"Complete until {until}; {behind}."
    if any(row.proved_at for row in rows):
        # The ledger has proofs; that no run is stored here, as in another working directory, is no lack of them.
        return f"Until when the copy is complete is unknown: no run is stored in {flow.state_path}; {behind}."
    return f"Nothing is proved complete yet; {behind}."


def _show(rows: Sequence[Lag]) -> None:
    columns = ("PARTITION", "POSITION", "LOG-END", "LAG", "HELD BACK", "OLDEST PROOF")
    now = now_ms()
    cells = (
        (
            *(row.topic, row.partition, row.position, row.log_end, row.lag, row.held_back),
            None if row.proved_at is None else duration_text(max(0, now - row.proved_at) / 1000),
        )
        for row in rows
    )
    show_table(("TOPIC", *columns), cells, numbers=columns)


def _warn_of_unproved(flow: Flow) -> None:
    from kafka_ferry.runs.state.newest_verification import newest_verification

    verification = newest_verification(flow)
    if verification and verification.failures:
        warn(f"{verification.text} ferry repair --findings shows what to do.")


# By ``Lag.gone``; what each may name is in ``_warn_of_gone``.
_GONE: Final[Mapping[Gone, str]] = {
    "names changed": "The remote topic of {topic} on {target} is the copy of another topic, by the ledger: the flow's "
    "names have changed (topics.rename, or replication.policy.class). Its lag is all that {source} holds, and the next "
    "run refuses it: ferry plan says how to change them back.",
    "ledger gone": "{target} has no position of {topic}, of which the state folder has a proof: the ledger was deleted "
    "there, or {target} is another cluster. Its lag is all that {source} holds; ferry plan says what the next run "
    "does.",
    "given up": "The copy of {topic} on {target} was given up, and the next run copies it again: its lag is all that "
    "{source} holds.",
    "undeleted": "The copy of {topic} on {target} was given up, and still exists: the next run refuses it. ferry plan "
    "says how to delete it.",
    "copy gone": "The copy of {topic} on {target} was deleted, or deleted and recreated: its lag is all that {source} "
    "holds. The next run follows on.target.topic.lost: {flow.on_target_topic_lost}.",
    "copy truncated": "The copy of {topic} on {target} has lost records that were copied: its log was truncated. How "
    "many is unknown, so its lag is all that {source} holds, and the next run refuses it: ferry repair says more.",
    "source recreated": "{topic} was deleted on {source} and recreated since it was copied: its lag is all that "
    "{source} holds. The next run follows on.source.topic.recreated: {flow.on_source_topic_recreated}.",
    "source replaced": "The log of {topic} on {source} and its copy are not the same, and where they part is unknown: "
    "its lag is all that {source} holds, and the next run refuses it. ferry plan says what to do.",
    "source truncated": "The log of {topic} on {source} was truncated below what was copied, and may have grown again "
    "since: its lag counts from where the two part. The next run follows on.source.divergence: "
    "{flow.on_source_divergence}.",
}


def _warn_of_gone(flow: Flow, rows: Sequence[Lag]) -> None:
    """A warning for each topic whose position is of another one."""
    source, target = flow.source.alias, flow.target.alias
    for topic, gone in dict.fromkeys((row.topic, row.gone) for row in rows if row.gone):
        warn(_GONE[gone].format(topic=topic, source=source, target=target, flow=flow))


def _warn_of_deleted(flow: Flow, rows: Sequence[Lag]) -> None:
    """A warning where the source has deleted what was not copied, with the partition that has lost the most."""
    deleted = [row for row in rows if row.deleted]
    if deleted:
        worst = max(deleted, key=lambda row: row.deleted)
        does = (
            "refuses these partitions"
            if flow.on_source_truncation == "fail"
            else "goes on after them"
        )
        warn(
            f"{sum(row.deleted for row in deleted):,} of these offsets were deleted on {flow.source.alias} before they "
            f"were copied, in {count(len(deleted), 'partition')}, such as {worst.topic}-{worst.partition} "
            f"[{worst.position}, {worst.log_start}). The next run {does} "
            f"(on.source.truncation: {flow.on_source_truncation})."
        )


def _warn_of_moved(flow: Flow, rows: Sequence[Lag]) -> None:
    moved = [row for row in rows if row.moved_to is not None]
    if moved:
        first = moved[0]
        warn(
            f"The group of {flow.name} on {flow.target.alias} has other positions than the ledger, such as "
            f"{first.topic}-{first.partition} at {first.moved_to} ({len(moved):,} in all). The ledger's are shown; "
            "ferry plan says what to do."
        )


def _warn_of_held_back(rows: Sequence[Lag]) -> None:
    held = [
        (row.held_since, row.held_by, row)
        for row in rows
        if row.held_since is not None and row.held_by is not None
    ]
    if held:
        since, producer_id, row = min(held, key=itemgetter(0))
        text = HeldBack(row.held_back, since, producer_id).text(now_ms())
        warn(
            f"Open transactions ({len(held):,} in all), such as {row.topic}-{row.partition}: {text} {HANGING}"
        )
