"""What is done with each offset that a group has committed, and why. Pure.

Promises, whatever the order of runs, crashes and manual changes:

(a) an offset goes forward on the target only as far as is copied and verified, so that a consumer
    that begins there misses nothing that it had not read;
(b) it never goes back, unless the group was set back on the source since the last sync and the flow
    says ``on.source.group.reset: follow``;
(c) an offset that another client has committed further ahead on the target stays, unless it is MirrorMaker
    2's and a takeover has found that the records contradict it;
(d) a group that reads preserved and translated topics moves in all of its partitions or in none.

Not promised: that no other client commits between the read and the commit. Brokers offer no conditional
commit; they refuse the commit while a group has members.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import xxhash

from kafka_ferry.groups.moves import Action, GroupMove, PartitionMove
from kafka_ferry.model.cluster_state import LogBounds

if TYPE_CHECKING:
    from kafka_ferry.groups.routes import Route
    from kafka_ferry.ledger import SyncedOffset
    from kafka_ferry.model.groups import Committed, Group
    from kafka_ferry.model.ranges import TopicPartition

UNKNOWN: Final = "the ledger does not account for that offset."
FROM_TARGET: Final = (
    "the topic came from the target: only `ferry failover` and `ferry failback` move offsets home."
)
NOT_COPIED: Final = "nothing of it is copied and verified yet."
REPLACED: Final = "the source's log is no longer the one that was copied: what the group has read of it is unknown."
LOST: Final = "the target's log of {} has lost records that were copied."
DIVERGED: Final = (
    "the log of {} was truncated{}, below what was copied from it: the group has read records there that are gone, and "
    "none of those that came in their place."
)
NO_LOG: Final = "the start and end of its log on the target are not known."
NO_END: Final = 2**63 - 1
"""After every offset that a log can have."""
_DAY_MS: Final = 24 * 60 * 60 * 1000


def translate_move(
    source: TopicPartition,
    committed: Committed,
    route: Route,
    *,
    logs: tuple[LogBounds | None, LogBounds | None],
    home: bool = False,
) -> PartitionMove:
    """Translates a committed offset to the other cluster.

    Args:
        source: the partition that the group leaves.
        committed: what the group has committed there.
        route: the partition's route, as far as it may be translated.
        logs: the logs of that partition and of its counterpart, None where not known.
        home: whether the route is the opposite flow's, so that the offset returns to where it was
            copied from.
    """
    move = _move(source, committed, route.source if home else route.target, logs[0])
    move = replace(move, home=home)
    log = logs[1]
    if log is None:
        return replace(move, action="held", reason=NO_LOG)
    if move.action == "held":
        return move
    translate = route.map.reverse if home else route.map.translate
    translation = translate(committed.offset, log_start=log.start, log_end=log.end)
    if translation is None:
        return replace(move, action="held", reason=UNKNOWN, is_lost=True)
    move = replace(move, offset=translation.offset, kind=translation.kind)
    is_at_start = translation.kind == "clamped" and translation.offset == log.start
    here = readable(committed, logs[0])
    unread = max(committed.offset, here.start), here.end
    before = _count_missing(move, route, here, log, home) if is_at_start else 0
    expired = route.map.count_expired(*unread, log.start, home=home) if is_at_start else 0
    left_out = 0 if home else route.count_left_out(*unread)
    lost = 0 if home else route.map.count_lost(*unread)
    return replace(move, missing=max(before, left_out + expired) + lost)


def readable(committed: Committed, log: LogBounds | None) -> LogBounds:
    """What is left of a log for a group that leaves it: while it has no leader, all after its offset may be."""
    return log or LogBounds(committed.offset, NO_END)


def _count_missing(
    move: PartitionMove, route: Route, here: LogBounds, other_log: LogBounds, home: bool
) -> int:
    """How many offsets that a group has not read lie before what the start of the log there is a copy of."""
    assert move.committed is not None
    back = route.map.translate if home else route.map.reverse
    translation = back(other_log.start, log_start=here.start, log_end=here.end)
    reached = max(0 if home else route.map.start, translation.offset if translation else 0)
    return max(0, min(reached, here.end) - max(move.committed.offset, here.start))


def decide_without_copy(
    source: TopicPartition,
    committed: Committed,
    target: TopicPartition,
    *,
    logs: tuple[LogBounds | None, LogBounds | None],
    others_write: bool = False,
) -> PartitionMove:
    """The decision for a partition that was never copied.

    Where the log that the group leaves is empty, all future records go after the end on the other
    cluster. A group at the end continues there; one before it, whose next records have expired,
    continues at the start, as in a partition of which later records were copied.

    Args:
        source: the partition that the group leaves.
        committed: what the group has committed there.
        target: the partition on the other cluster.
        logs: both logs, None where not known.
        others_write: whether applications write to ``target`` too: the group has read none of their
            records.
    """
    here, other_log = logs
    move = _move(source, committed, target, here)
    if move.action == "held":
        return move
    if here and other_log and here.start == here.end:
        at_end = committed.offset == here.end and not others_write
        offset = other_log.end if at_end else other_log.start
        return replace(move, offset=offset, kind="clamped")
    return replace(move, action="held", reason=NOT_COPIED if other_log else NO_LOG)


def _move(
    source: TopicPartition, committed: Committed, target: TopicPartition, log: LogBounds | None
) -> PartitionMove:
    """The move without an answer; ``held`` if the offset is none of the log that the group leaves."""
    if log is None:
        return PartitionMove(source, committed, target=target)
    move = PartitionMove(source, committed, log.end, target, start=log.start)
    if committed.offset <= log.end:
        return move
    # The log was truncated or replaced: what comes there next has not been read.
    reason = f"it is after the end of the source's log, {log.end}."
    return replace(move, action="held", reason=reason)


def why_not(group: Group, target_group: Group, target: str) -> str:
    """Why no offset of a group may be committed on the target, "" where one may.

    Args:
        group: the group on the source.
        target_group: the group of that name on the target, as it is now.
        target: the target's alias.
    """
    if target_group.state == "Dead":
        return ""
    if (group.type == "share") != (target_group.type == "share"):
        kinds = f"on {target} it is a {target_group.type} group, not a {group.type} group"
        return f"{kinds}: delete or rename one of them."
    if not target_group.idle:
        return f"it is in use on {target} (state {target_group.state or 'unknown'})."
    return ""


def decide(
    group: GroupMove,
    committed: Mapping[TopicPartition, Committed],
    last: Mapping[TopicPartition, SyncedOffset],
    *,
    follow: bool,
    preserved: Collection[str] = (),
) -> GroupMove:
    """The group with the decisions: its partitions are ``written``, ``unchanged`` or ``held``.

    Args:
        group: the group, translated.
        committed: what it has committed on the target, by *target* partition.
        last: what the last sync has committed there for it, by *target* partition.
        follow: whether offsets are set back on the target where the group was on the source.
        preserved: the source topics whose records keep their offsets.
    """

    def with_action(move: PartitionMove) -> PartitionMove:
        if move.target is None or move.offset is None:
            return move
        action, reason = _decide(move, committed.get(move.target), last.get(move.target), follow)
        return replace(move, action=action, reason=" ".join(filter(None, (move.reason, reason))))

    moves = tuple(map(with_action, group.partitions))
    group = replace(group, partitions=moves)
    stuck = _why_stuck(moves, preserved)
    return left_alone(group, stuck) if stuck else group


def left_alone(group: GroupMove, reason: str) -> GroupMove:
    """The group, held as a whole; partitions that were held before keep their own reasons."""
    moves = (
        move if move.action == "held" else replace(move, action="held", reason=reason)
        for move in group.partitions
    )
    return replace(group, partitions=tuple(moves), reason=reason)


def _decide(
    move: PartitionMove, existing: Committed | None, last: SyncedOffset | None, follow: bool
) -> tuple[Action, str]:
    assert move.offset is not None and move.committed is not None
    if existing is None or existing.offset < move.offset:
        return "written", ""
    if existing.offset == move.offset:
        return ("unchanged" if existing.metadata == move.committed.metadata else "written"), ""
    if last is not None and last.refuted and existing.offset == last.target:
        return "written", (
            f"MirrorMaker 2 had committed {last.target} on the target, as if that were {last.source} on the source; "
            f"by the records, {move.committed.offset} is {move.offset}."
        )
    return _decide_on_return(move.offset, move.committed.offset, existing.offset, last, follow)


def _decide_on_return(
    offset: int, committed: int, current: int, last: SyncedOffset | None, follow: bool
) -> tuple[Action, str]:
    if last is None or last.source < 0 or current > last.target:
        return "held", (
            f"its offset on the target is {current} already, further ahead, and this flow has not committed it."
        )
    if committed >= last.source:
        return "held", (
            f"it would go back from {current} to {offset}, although the group did not go back on the "
            "source: a log was truncated there or on the target."
        )
    back = f"the group was set back on the source from {last.source} to {committed}"
    if follow:
        return "written", f"{back}."
    return "held", f"{back}; on.source.group.reset: keep leaves {current} on the target."


def _why_stuck(moves: Collection[PartitionMove], preserved: Collection[str]) -> str:
    """Why a group that reads both kinds of topics is held as a whole, "" where it is not."""
    # Whatever happens to the others, a run leaves these where they are.
    moves = [move for move in moves if move.reason != FROM_TARGET]
    kinds = {move.source.topic in preserved for move in moves}
    stuck = [move for move in moves if move.action == "held"]
    if len(kinds) < 2 or not stuck:
        return ""
    and_more = f" and {len(stuck) - 1} more" if len(stuck) > 1 else ""
    return (
        f"a group that reads preserved and translated topics moves as one, and {stuck[0].source}"
        f"{and_more} is held."
    )


def is_renewal_due(group: str, *, since: int, now: int) -> bool:
    """Whether to commit a group's unchanged offsets again: its time of the day lies between the last run and now.

    A broker deletes the offsets of a group without members after ``offsets.retention.minutes``, 7 days
    by default, however active the group is on the source. Each group has its own time of day, so that
    not all are committed in one run.

    Args:
        group: its name.
        since: when the last run began, 0 if there was none; in milliseconds since 1970.
        now: in milliseconds since 1970.
    """
    slot = xxhash.xxh3_64_intdigest(group.encode()) % _DAY_MS
    return (now - slot) // _DAY_MS > (since - slot) // _DAY_MS
