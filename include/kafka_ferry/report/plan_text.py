"""A plan as lines of text: what the command line, the DAG's plan task and its approval show. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Final, Literal, TypeVar

from kafka_ferry.model.changes import (
    AclChange,
    Difference,
    QuotaChange,
    UserChange,
    amount,
    placement_text,
)
from kafka_ferry.model.plan import (
    AdvisedAcl,
    Creation,
    Estimate,
    Plan,
)
from kafka_ferry.model.remarks import Refusal, Risk, Skipped
from kafka_ferry.printable import one_line
from kafka_ferry.verify.counts import and_heartbeats, count

Tone = Literal["plain", "warning", "refusal", "aside"]

_T = TypeVar("_T")
_NAMES_SHOWN: Final = 10
_RISKS_TOLD: Final = 3
_TOPICS_SHOWN: Final = 50
_UNITS: Final = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")
_DIFFERENCES: Final[Mapping[Difference, str]] = {
    Difference.TOPICS_TO_CREATE: "topics to create",
    Difference.TOPICS_TO_GROW: "topics to grow",
    Difference.CONFIGS_TO_CHANGE: "configs to change",
    Difference.TOPICS_TO_DELETE: "topics to delete",
    Difference.ACLS_TO_CHANGE: "ACLs to change",
    Difference.QUOTAS_TO_CHANGE: "quotas to change",
    Difference.USERS_TO_CHANGE: "users to change",
    Difference.SCHEMAS_TO_REGISTER: "schemas to register",
    Difference.SETTINGS_OF_SUBJECTS_TO_CHANGE: "settings of subjects to change",
    Difference.TRANSFORM_RULES_TO_CHANGE: "transform rules to change",
    Difference.GROUPS_TO_DELETE_OFFSETS_OF: "groups to delete offsets of",
    Difference.REFUSED: "refused",
}


@dataclass(frozen=True, slots=True)
class Line:
    """A line and its severity; a name with line breaks does not end it."""

    text: str
    tone: Tone = "plain"

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", one_line(self.text))


def plan_text(plan: Plan, *, verbose: bool = False) -> Iterator[Line]:
    """A whole plan, the most important lines first and last.

    Args:
        plan: the plan.
        verbose: whether to list each partition, and the name of each topic that is left out.
    """
    yield Line(f"{plan.flow}: {summary(plan)}")
    yield from _lines(_partitions(plan) if verbose else _topics(plan))
    yield from _lines(_choices(plan))
    yield from _lines(map(str, plan.rules))
    yield from _lines(changes_on_target(plan))
    yield from _lines((f"APPROVAL {excess}" for excess in plan.removals.excesses), "warning")
    yield from _lines(map(str, plan.schemas.translated_ids), "aside")
    yield from _lines(_advice(plan.access.advised_acls), "aside")
    yield from _lines(_skipped_lines(plan.remarks.skipped, verbose=verbose), "aside")
    drifts = (*plan.topics.drifts, *plan.topics.misplacements)
    yield from _lines((f"DRIFT {drift}" for drift in drifts), "warning")
    yield from _lines(risk_lines(plan.remarks.risks, verbose=verbose), "warning")
    yield from _lines((f"NOTE {note}" for note in plan.remarks.notes), "warning")
    refused = plan.remarks.refused
    yield from _lines(
        (f"REFUSED {refusal}" for refusal in refused) if verbose else refused_lines(refused),
        "refusal",
    )
    yield from _lines((f"NOT APPLIED {sentence}" for sentence in plan.remarks.unapplied), "refusal")


def summary(plan: Plan) -> str:
    """A plan in one line: how much there is to copy, and how many changes of each kind."""
    if plan.options.window:
        return f"backfill of {plan.options.window}: {_summary(plan)}"
    return _summary(plan)


def _summary(plan: Plan) -> str:
    counts = dict(plan.differences)
    if not counts and any(note.of_deleted for note in plan.remarks.notes):
        return "nothing left that can be copied"
    if not counts:
        return "nothing to do"
    partitions = counts.pop(Difference.PARTITIONS_TO_COPY, 0)
    where = f"in {count(partitions, 'partition')}{_returned_text(plan)}"
    copied = f"about {_all_amounts(plan)} {where}"
    if plan.options.window:
        # Which of them are of the window, and were not copied before, only their timestamps say.
        copied = f"looks at about {_all_amounts(plan)} {where}, and copies those of the time that the target lacks"
    changes = [f"{_DIFFERENCES[kind]}: {count:,}" for kind, count in counts.items()]
    return "; ".join([copied, *changes] if partitions else changes)


def _returned_text(plan: Plan) -> str:
    """A sentence where the plan leaves out records that came from the target."""
    if not any(range_.is_work and range_.returned_since >= 0 for range_ in plan.ranges):
        return ""
    return f", less those that came from {plan.flow.partition('->')[2]}"


def _lines(texts: Iterable[str], tone: Tone = "plain") -> Iterator[Line]:
    return (Line(text, tone) for text in texts)


def _topics(plan: Plan) -> Iterator[str]:
    """What there is to copy, summed by topic."""
    estimates = {estimate.source: estimate for estimate in plan.estimates}
    rows = [("topic", "becomes", "partitions", "offsets", "records", "bytes")]
    work = sorted(range_ for range_ in plan.ranges if range_.is_work)
    for (topic, remote), group in groupby(work, attrgetter("topic", "remote_topic")):
        ranges = list(group)
        matching = [estimates[r.source] for r in ranges if r.source in estimates]
        offsets = sum(map(len, ranges))
        rows.append((topic, remote, f"{len(ranges):,}", f"{offsets:,}", *_about(matching)))
    return table(rows, "<<>>>>")


def _partitions(plan: Plan) -> Iterator[str]:
    """What there is to copy, partition by partition."""
    estimates = {estimate.source: estimate for estimate in plan.estimates}
    rows = [("topic", "partition", "becomes", "start", "end", "offsets", "records", "bytes")]
    for range_ in sorted(range_ for range_ in plan.ranges if range_.is_work):
        numbers = (str(range_.start), str(range_.end), f"{len(range_):,}")
        matching = [estimates[range_.source]] if range_.source in estimates else []
        where = (range_.topic, str(range_.partition), range_.remote_topic)
        rows.append((*where, *numbers, *_about(matching)))
    return table(rows, "<><>>>>>")


def _about(estimates: Sequence[Estimate]) -> tuple[str, str]:
    """Records and bytes, each marked as approximate."""
    size = _size(estimates)
    records = sum(estimate.records for estimate in estimates)
    return f"~{records:,}", f"~{size}" if size else "-"


def _amount(estimates: Sequence[Estimate]) -> str:
    size = _size(estimates)
    records = count(sum(estimate.records for estimate in estimates), "record")
    return f"{records} ({size})" if size else records


def _all_amounts(plan: Plan) -> str:
    beats = [entry for entry in plan.estimates if entry.source.topic in plan.heartbeats]
    rest = [entry for entry in plan.estimates if entry.source.topic not in plan.heartbeats]
    return _amount(rest) + and_heartbeats(sum(estimate.records for estimate in beats))


def _size(estimates: Sequence[Estimate]) -> str:
    """The bytes of all of them, "" where one of them is not known."""
    known = [estimate.bytes for estimate in estimates if estimate.bytes is not None]
    return bytes_text(sum(known)) if len(known) == len(estimates) else ""


def bytes_text(count: float) -> str:
    """A number of bytes as people write it, such as ``1.5 GiB``."""
    size, unit = float(count), 0
    while size >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:,.1f} {_UNITS[unit]}" if unit else f"{size:,.0f} {_UNITS[unit]}"


def _choices(plan: Plan) -> Iterator[str]:
    """How offsets are kept and why, where that is not the same for all topics; and how long
    filling those without a record takes."""
    rows = [("topic", "offsets", "gaps", "filled in", "why")]
    for choice in plan.choices:
        if choice.is_plain:
            continue
        kept = "preserved" if choice.preserved else "translated"
        costs = (f"{choice.gaps:,}", f"{choice.fill_ms / 1000:,.1f} s")
        rows.append((choice.topic, kept, *(costs if choice.preserved else ("", "")), choice.reason))
    return table(rows, "<<>><")


def changes_on_target(plan: Plan) -> Iterator[str]:
    """What a run changes on the target other than records, each in a line."""
    return map(one_line, _changes(plan))


def _changes(plan: Plan) -> Iterator[str]:
    yield from map(_creation, plan.topics.creations)
    for growth in plan.topics.growths:
        racks = _racks(growth.placement)
        yield f"grow {growth.remote_topic} to {growth.partitions} partitions{racks}"
    for change in plan.topics.config_changes:
        yield f"alter {change}"
    yield from deletions(plan)
    for retirement in plan.topics.retirements:
        if not retirement.is_due(plan.at):
            yield f"retire {retirement}"
    yield from map(_acl, plan.access.acl_changes)
    yield from map(_quota, plan.access.quota_changes)
    yield from map(_user, plan.access.user_changes)
    yield from map(str, plan.removals.offset_deletions)
    yield from map(str, (*plan.schemas.schema_registrations, *plan.schemas.subject_settings))


def deletions(plan: Plan) -> Iterator[str]:
    """Each remote topic that a run deletes, with the reason."""
    for retirement in plan.topics.retirements:
        if retirement.is_due(plan.at):
            yield f"delete {retirement}"


def rule_changes(plan: Plan) -> Iterator[str]:
    """Each topic whose records go through another rule than those that were copied: a mask may be gone."""
    return (str(change) for change in plan.rules if change.before is not None)


def _creation(creation: Creation) -> str:
    configs = "".join(f", {name}={value}" for name, value in creation.configs.items())
    copies = "" if creation.replication_factor < 0 else f" x {creation.replication_factor} replicas"
    placed = f"{copies}{_racks(creation.placement)}{configs}"
    return f"create {creation.remote_topic}: {creation.partitions} partitions{placed}"


def _racks(placement: Mapping[str, int]) -> str:
    return f" on racks ({placement_text(placement)})" if placement else ""


def _acl(change: AclChange) -> str:
    return f"{change.change} {change.acl}"


def _quota(change: QuotaChange) -> str:
    whom = ", ".join(
        f"the default {kind}" if name is None else f"{kind} {name}" for kind, name in change.entity
    )
    was = "" if change.before is None else f" (it was {amount(change.before)})"
    if change.value is None:
        return f"unset the quota {change.key} of {whom}{was}"
    return f"set the quota {change.key}={amount(change.value)} of {whom}{was}"


def _user(change: UserChange) -> str:
    return (
        f"{change.change} the SCRAM user {change.user} "
        f"({change.mechanism}, {change.iterations} iterations)"
    )


def _advice(acls: Sequence[AdvisedAcl]) -> Iterator[str]:
    for (permission, topic, principal), group in groupby(
        acls, attrgetter("permission", "remote_topic", "principal")
    ):
        operations = ", ".join(acl.operation for acl in group)
        yield f"advised: {permission} {operations} on {topic} to {principal}"


def _skipped_lines(skipped: Iterable[Skipped], *, verbose: bool) -> Iterator[str]:
    by_reason = sorted(skipped, key=attrgetter("reason", "topic"))
    for reason, same in groupby(by_reason, attrgetter("reason")):
        names = [skip.topic for skip in same]
        yield f"skip {', '.join(names) if verbose else _some(names)}: {reason}"


def risk_lines(risks: Iterable[Risk], *, verbose: bool = False) -> Iterator[str]:
    """A line for each topic; of many for which the same can be done, the worst in words and the others by name."""
    by_advice = sorted(risks, key=lambda risk: (risk.advice, -risk.offsets))
    for _, same in groupby(by_advice, attrgetter("advice")):
        alike = list(same)
        detailed = alike if verbose or len(alike) <= _RISKS_TOLD else alike[:1]
        yield from (f"RISK {risk}" for risk in detailed)
        if topics := [risk.topic for risk in alike[len(detailed) :]]:
            yield f"RISK The same, with offsets of their own: {_some(topics)}"


def refused_lines(refused: Iterable[Refusal]) -> Iterator[str]:
    """A line for each reason, with the topics and partitions that are refused for it."""
    same: dict[tuple[str, str], list[str]] = {}
    for one in refused:
        same.setdefault((one.reason, one.advice), []).append(one.where)
    for (reason, advice), places in same.items():
        where = f"{_some(places)}: " if places[0] else ""
        yield f"REFUSED {where}{reason} {advice}".rstrip()


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return f"{', '.join(names[:_NAMES_SHOWN])}{more}"


def topics_table(
    heading: tuple[str, ...],
    topics: Mapping[str, _T],
    size: Callable[[_T], int],
    row: Callable[[str, Sequence[_T]], tuple[str, ...]],
) -> Iterator[str]:
    """A table of topics: those with the most bytes first, all others as one row, and the total.

    Args:
        heading: the columns' headings, of which the first is the topic.
        topics: the values of each topic.
        size: the bytes of one.
        row: the row of one topic, or of several together, under a name.
    """
    largest = sorted(topics, key=lambda topic: (-size(topics[topic]), topic))
    rows = [heading, *(row(topic, [topics[topic]]) for topic in largest[:_TOPICS_SHOWN])]
    if rest := [topics[topic] for topic in largest[_TOPICS_SHOWN:]]:
        rows.append(row(f"{len(rest):,} others", rest))
    if len(topics) > 1:
        rows.append(row("together", list(topics.values())))
    return table(rows, "<" + ">" * (len(heading) - 1))


def table(rows: Sequence[tuple[str, ...]], alignment: str) -> Iterator[str]:
    """Rows under their heading as lines; none if there are no rows.

    Args:
        rows: the heading and the rows.
        alignment: for each column ``<`` or ``>``.
    """
    if len(rows) == 1:
        return
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = zip(row, alignment, widths, strict=True)
        yield "".join(f"  {cell:{side}{width}}" for cell, side, width in cells).rstrip()
