"""How the offsets of each topic are kept on the target, translated or preserved, and why.

(a) A remote topic keeps the mode that it was begun with for as long as it exists; an option that
    says otherwise is refused.
(b) Preserved offsets begin only in a topic that was never written to.
(c) Filling offsets without a record takes time: what would take too long is refused, or
    translated where (a) allows it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from kafka_ferry.model.plan import OffsetsChoice, Origin
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.model.remarks import Refusal
from kafka_ferry.model.rights import Right, how_to_grant
from kafka_ferry.plan.offsets.start_offsets import rest_of
from kafka_ferry.plan.retention import Retention, retention_of

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.model.cluster_state import ClusterState, TargetState
    from kafka_ferry.model.topic_pair import Pair

_MOSTLY: Final = 0.5
_ANOTHER: Final = (
    "How offsets are kept never changes within a topic: {advice} docs/preserved-offsets.md says how "
    "to switch."
)
_COMMITTED_ONLY: Final = "preserved offsets go with isolation.level: read_committed only"


def choose_offsets(flow: Flow, pair: Pair, state: ClusterState) -> OffsetsChoice | Refusal:
    """How the offsets of ``pair`` are kept, or why that is unknown.

    Args:
        flow: the flow.
        pair: a topic that is on the source.
        state: the state of both clusters.
    """
    if _contradicts_itself(pair):
        return Refusal(
            pair.topic,
            f"some positions in {pair.remote_topic} are of preserved offsets, but its mark or other "
            "positions are of translated ones.",
            f"`ferry repair --topic {pair.remote_topic}` shows what is lost if it is given up.",
        )
    choice = _mode_so_far(flow, pair) or _choose(flow, pair, state)
    if isinstance(choice, Refusal) or not choice.preserved:
        return choice
    if flow.isolation_level != "read_committed":
        advice = f"Set that, or offsets: translated for {pair.topic}."
        return Refusal(pair.topic, f"{_COMMITTED_ONLY}.", advice)
    return choice


def with_costs(
    flow: Flow, pair: Pair, state: ClusterState, choice: OffsetsChoice
) -> OffsetsChoice | Refusal:
    """The choice with what it costs, or what ``on.fill.limit`` makes of it."""
    if not choice.preserved:
        return choice
    costs = _costs(flow, pair, state)
    if costs.fill_ms <= flow.fill_max_ms:
        return replace(choice, gaps=costs.gaps, fill_ms=costs.fill_ms)
    reason = (
        f"filling {costs.offsets_to_fill} would take about {costs.fill_ms / 1000:,.1f} s, more than "
        "fill.max.ms allows."
    )
    begun = has_preserved_offsets(pair)
    if flow.on_fill_limit == "translate" and not begun:
        return _choice(pair, False, "fill.limit", reason)
    ways = ["fill.max.ms higher"]
    if costs.fill_ms_by_markers <= flow.fill_max_ms:
        ways.append("or fill: markers" if begun else "fill: markers")
    if not begun:
        ways.append("or on.fill.limit: translate")
    return Refusal(pair.topic, reason, f"Set {', '.join(ways)}.")


def has_preserved_offsets(pair: Pair) -> bool | None:
    """Whether the remote topic was begun with preserved offsets; None if it was not begun."""
    if pair.mark:
        return pair.mark.preserved
    # Without a mark, as after the ledger was lost, the positions tell.
    known = [position for position in pair.positions.values() if pair.is_of_remote(position)]
    return known[0].producer is not None if known else None


def may_be_preserved(flow: Flow, pair: Pair) -> bool:
    """Whether the offsets of ``pair`` are preserved, or could be, by its positions and mark."""
    before = has_preserved_offsets(pair)
    return flow.offsets.of(pair.topic) != "translated" if before is None else before


def is_to_be_sampled(flow: Flow, pair: Pair, target: TargetState) -> bool:
    """Whether the choice depends on how many of the source's offsets have a record."""
    begun = has_preserved_offsets(pair) is not None
    return may_be_preserved(flow, pair) and (begun or _has_records(pair, target) is False)


def _contradicts_itself(pair: Pair) -> bool:
    kinds = {
        position.producer is not None
        for position in pair.positions.values()
        if pair.is_of_remote(position)
    }
    return len(kinds | ({pair.mark.preserved} if pair.mark else set())) > 1


def _mode_so_far(flow: Flow, pair: Pair) -> OffsetsChoice | Refusal | None:
    """The mode that the remote topic was begun with; None if it was not begun."""
    preserved = has_preserved_offsets(pair)
    if preserved is None:
        return None
    kept = "preserved" if preserved else "translated"
    how = "is marked as" if pair.mark else "was copied before with offsets"
    explicit = flow.offsets.explicit_value(pair.topic)
    if explicit in ("preserved", "translated") and explicit != kept:
        advice = f"set offsets: {kept} for {pair.topic}, or mirror it to a new topic."
        return Refusal(
            pair.topic,
            f"{pair.remote_topic} {how} {kept}, and the flow says offsets: {explicit}.",
            _ANOTHER.format(advice=advice),
        )
    if not preserved and flow.offsets.of(pair.topic) == kept:
        return _choice(pair, False, "option", "offsets: translated.")
    return _choice(pair, preserved, "begun", f"{pair.remote_topic} {how} {kept}.")


def _choose(flow: Flow, pair: Pair, state: ClusterState) -> OffsetsChoice | Refusal:
    """The mode by the flow's option, for a topic that was not begun yet."""
    option = flow.offsets.of(pair.topic)
    if option == "translated":
        return _choice(pair, False, "option", "offsets: translated.")
    written = _has_records(pair, state.target)
    if written is None:
        reason = f"a partition of {pair.remote_topic} has no leader."
        return Refusal(pair.topic, reason, "Is one of the target's brokers down?")
    if option == "auto":
        return _choose_automatically(flow, pair, state, written)
    if not written:
        return _choice(pair, True, "option", "offsets: preserved.")
    advice = f"delete {pair.remote_topic}, or mirror {pair.topic} to a topic of another name."
    return Refusal(
        pair.topic,
        f"{pair.remote_topic} was written to before, so that offsets cannot be preserved in it.",
        _ANOTHER.format(advice=advice),
    )


def _has_records(pair: Pair, target: TargetState) -> bool | None:
    """Whether the remote topic was ever written to; None where a partition has no leader to tell."""
    if pair.remote is None:
        return False
    partitions = [TopicPartition(pair.remote_topic, n) for n in range(pair.remote.partitions)]
    bounds = [target.bounds.get(partition) for partition in partitions]
    if any(log and log.end for log in bounds):
        return True
    return None if None in bounds else False


def _choose_automatically(
    flow: Flow, pair: Pair, state: ClusterState, written: bool
) -> OffsetsChoice | Refusal:
    """What ``auto`` makes of the target's topic and the source's gaps."""
    costs = _costs(flow, pair, state)
    against = ""
    if written:
        against = f"{pair.remote_topic} was written to before"
    elif flow.isolation_level != "read_committed":
        against = _COMMITTED_ONLY
    elif not costs.offsets and pair.source and pair.source.is_compacted:
        against = "the source's topic is compacted"
    if against or not costs.offsets:
        return _choice(
            pair, not against, "auto", f"auto: {against or 'there is nothing to copy yet'}."
        )
    if costs.density is None:
        return Refusal(
            pair.topic,
            "how many of the source's offsets have a record is unknown: none could be read.",
            f"{how_to_grant(Right.topic('READ', pair.topic))} Or set offsets: preserved or translated "
            "for it.",
        )
    share = f"auto: about {costs.density:.0%} of the source's offsets have a record."
    return _choice(pair, costs.density >= _MOSTLY, "auto", share)


@dataclass(frozen=True, slots=True)
class _Costs:
    """The cost of preserving a topic's offsets.

    Attributes:
        offsets: how many are to be copied or filled, as far as the source has them.
        density: the share of them that has a record, None where unknown.
        gaps: how many have none, in all partitions.
        below: how many are before the logs' starts, in all partitions.
        fill_ms: how long filling them takes; partitions are filled in parallel, so that the slowest
            one counts.
        fill_ms_by_markers: how long with ``fill: markers``.
    """

    offsets: int
    density: float | None
    gaps: int
    below: int
    fill_ms: int
    fill_ms_by_markers: int

    @property
    def offsets_to_fill(self) -> str:
        """What is filled, in words."""
        parts = []
        if self.gaps:
            parts.append(f"about {self.gaps:,} offsets without a record")
        if self.below:
            parts.append(f"{self.below:,} offsets before the log's start")
        return " and ".join(parts)


def _costs(flow: Flow, pair: Pair, state: ClusterState) -> _Costs:
    parts = list(rest_of(flow, pair, state))
    densities = state.source.logs.densities
    sampled = [part for part in parts if part.source in densities and len(part)]
    records = sum(densities[part.source] * len(part) for part in sampled)
    density = records / sum(map(len, sampled)) if sampled else None
    # Partitions that could not be sampled are assumed to be like the others.
    each = {part: densities.get(part.source, density or 1.0) for part in parts}

    def slowest_ms(fill: str) -> int:
        return round(max((part.fill_ms(fill, each[part]) for part in parts), default=0))

    return _Costs(
        offsets=sum(map(len, parts)),
        density=density,
        gaps=sum(part.gaps(each[part]) for part in parts),
        below=sum(part.below for part in parts),
        fill_ms=slowest_ms(flow.fill),
        fill_ms_by_markers=slowest_ms("markers"),
    )


def _choice(pair: Pair, preserved: bool, origin: Origin, reason: str) -> OffsetsChoice:
    kept = retention_of(pair.source) if pair.source else Retention()
    return OffsetsChoice(
        pair.topic,
        pair.remote_topic,
        preserved,
        reason,
        origin,
        topic_id=pair.source.topic_id if pair.source else "",
        is_compacted=pair.source is not None and pair.source.is_compacted,
        kept_ms=kept.ms,
        kept_bytes=kept.bytes,
    )
